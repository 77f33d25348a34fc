namespace Slogger.Redis.Reduction;

/// <summary>How large a window and what is written of it may become.</summary>
public sealed record ReductionLimits
{
    /// <summary>Bytes of a window. Default: 64 MB, a segment of the log. What is noted of a window takes as much memory again for commands
    /// of 100 bytes, and ten times as much for the smallest. A version that is larger is a window of its own.</summary>
    public int WindowBytesMax { get; init; } = 64 << 20;

    /// <summary>Commands of a window. Default: a million. The version that passes it is the last of its window.</summary>
    public int WindowCommandsMax { get; init; } = 1 << 20;

    /// <summary>Bytes of the arguments of a merged command. Default: 64 KB: Redis executes it without holding others up.</summary>
    public int MergedBytesMax { get; init; } = 64 << 10;

    /// <summary>Arguments of a merged command behind its key. Default: 1,024, for the same reason.</summary>
    public int MergedArgumentsMax { get; init; } = 1024;
}

/// <summary>What a window was and has become.</summary>
/// <param name="CommandsBefore">Commands that change data.</param>
/// <param name="CommandsAfter">How many are left.</param>
/// <param name="BytesBefore">Bytes of all commands.</param>
/// <param name="BytesAfter">Bytes that were written.</param>
/// <param name="Database">The database selected behind it, in both forms.</param>
public readonly record struct ReducedWindow(
    long CommandsBefore, long CommandsAfter, long BytesBefore, long BytesAfter, int Database);
