// How the log fails. Each message says what happened, in which file, and what to do next.
namespace Slogger.Log.Format;

/// <summary>Base of all failures of the version log that are not mistakes of the caller.</summary>
public abstract class LogException(string message, Exception? inner = null) : Exception(message, inner);

/// <summary>A byte that was once durable is not what was written. Nothing is repaired automatically: cutting here would
/// lose committed versions.</summary>
public sealed class LogCorruptException : LogException
{
    /// <summary>In a file.</summary>
    public LogCorruptException(string file, long position, string problem) : base(
        $"The version log is corrupt: {problem} (file {file}, byte {position}). Do not delete the file: versions at or after " +
        "this point may be committed. Restore the file from a copy of this disk, or re-seed this shard from its store or its " +
        "backup, which starts a new history.") => (File, Position) = (file, position);

    /// <summary>In a segment that has several files, none of which has what is missing.</summary>
    internal LogCorruptException(IReadOnlyList<string> files, long position, string problem) : base(
        $"The version log is corrupt: {problem} (files {string.Join(" and ", files)}, position {position} in the segment). Do not delete " +
        "the files: versions at or after this point may be committed. Restore all of them from a copy of these disks, or re-seed this " +
        "shard from its store or its backup, which starts a new history.") => (File, Position) = (files[0], position);

    /// <summary>Path of the file; of a segment that has several, and lacks a block, the first.</summary>
    public string File { get; }

    /// <summary>Byte position in the file at which the problem was found; of such a segment the position in it.</summary>
    public long Position { get; }
}

/// <summary>The disk refused an operation.</summary>
public sealed class LogIOException : LogException
{
    private const int DiskFullErrno = 28;

    internal LogIOException(string operation, string file, bool isFatal, Exception? inner)
        : base(Describe(operation, file, isFatal, inner), inner)
    {
        IsFatal = isFatal;
        IsDiskFull = inner is IOException io && (io.HResult & 0xFFFF) is DiskFullErrno or 112 or 39;
    }

    /// <summary>Whether the log must be reopened: what was not durable may be lost. If false, nothing was lost, and the
    /// same call may be repeated once the cause is gone.</summary>
    public bool IsFatal { get; }

    /// <summary>Whether the cause is a full disk.</summary>
    public bool IsDiskFull { get; }

    private static string Describe(string operation, string file, bool isFatal, Exception? inner) =>
        $"The version log could not {operation} {file}: {inner?.Message ?? "it failed before"} " + (isFatal
            ? "What was durable before is intact and readable; nothing more can be committed until the log is reopened. " +
              "Check the disk, then restart this shard."
            : "Nothing was lost. Free space or repair the device.");
}

/// <summary>Another owner holds the log: a running process, or one with a newer fencing epoch.</summary>
public sealed class LogFencedException(string message) : LogException(message)
{
    /// <summary>The epoch under which the log was written, if that is newer than this process's; 0: another process has it open.</summary>
    public long NewestEpoch { get; init; }
}

/// <summary>A directory of the log is missing, or is not this log's.</summary>
public sealed class LogDirectoriesException(string message) : LogException(message);

/// <summary>What a reader was reading is no longer part of the current history: it was trimmed, or a new world-line
/// started. Open a new reader.</summary>
public sealed class LogHistoryChangedException(string message) : LogException(message);
