// What the store says of itself.
namespace Slogger.Faster;

/// <summary>The state of a store at about one moment.</summary>
public sealed record FasterStatistics
{
    /// <summary>How many keys there are, expired ones that nobody has removed among them. Exact while nobody writes.</summary>
    public required long Keys { get; init; }

    /// <summary>Bytes of the log that their records take.</summary>
    public required long LiveBytes { get; init; }

    /// <summary>Bytes of the log in memory, dead records among them.</summary>
    public required long LogBytes { get; init; }

    /// <summary>How far that may grow.</summary>
    public required long LogBytesMax { get; init; }

    /// <summary>Bytes of the log on disk.</summary>
    public required long DiskBytes { get; init; }

    /// <summary>How many commits are kept.</summary>
    public required int Commits { get; init; }

    /// <summary>From the end of its last version until it was durable: the last commit.</summary>
    public required TimeSpan LastCommit { get; init; }

    /// <summary>Bytes of the log that a rollback under way takes back.</summary>
    public required long UndoneBytes { get; init; }

    /// <summary>Bytes of the log that compaction has gone through since the start.</summary>
    public required long CompactedBytes { get; init; }
}
