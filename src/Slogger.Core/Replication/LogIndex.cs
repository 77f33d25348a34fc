// Positions in a shard's version log, as shipper and receiver speak of them (the paper's log indexes, section 5.1). What a log holds up to
// an index is fixed: its bytes below the offset, and the ends of its versions up to the one closed. So a piece of a log is named by two of
// them, and neither machine ever touches a byte.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>A stretch of a log in which one process writes, and nothing is made void: it begins with the record of a reign, or of a
/// world-line. Later ones are greater.</summary>
/// <param name="Reign">The last reign whose record the log has; <see cref="Reign.None"/>: none, as of a shard without a cohort.</param>
/// <param name="WorldLine">The timeline that the log is in.</param>
public readonly record struct LogLine(Reign Reign, WorldLine WorldLine) : IComparable<LogLine>
{
    /// <inheritdoc />
    public int CompareTo(LogLine other)
    {
        int byReign = Reign.CompareTo(other.Reign);
        return byReign != 0 ? byReign : WorldLine.CompareTo(other.WorldLine);
    }

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(LogLine a, LogLine b) => a.CompareTo(b) < 0;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(LogLine a, LogLine b) => a.CompareTo(b) > 0;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(LogLine a, LogLine b) => a.CompareTo(b) <= 0;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(LogLine a, LogLine b) => a.CompareTo(b) >= 0;

    /// <summary>The world-line, behind the reign if there is one: <c>5/2</c>.</summary>
    public override string ToString() => (Reign == Reign.None ? "" : $"{Reign}/") + $"{WorldLine}";
}

/// <summary>How far a log goes: all bytes of the stream below an offset are there, and all versions up to one are closed there. Indexes of
/// one history are ordered: neither goes back within a world-line, and a new one is later, although it keeps less. So is a new
/// reign.</summary>
/// <param name="WorldLine">The timeline that the log is in.</param>
/// <param name="Offset">Bytes of history below it.</param>
/// <param name="Closed">The last version closed.</param>
public readonly record struct LogIndex(WorldLine WorldLine, long Offset, VersionNumber Closed) : IComparable<LogIndex>
{
    /// <summary>The last reign whose record the log has; <see cref="Reign.None"/>: none, as of a shard without a cohort.</summary>
    public Reign Reign { get; init; }

    /// <summary>The line that the log is in.</summary>
    public LogLine Line => new(Reign, WorldLine);

    /// <summary>The last version closed, as a point of history.</summary>
    public WorldPoint Point => new(WorldLine, Closed);

    /// <inheritdoc />
    public int CompareTo(LogIndex other)
    {
        int byLine = Line.CompareTo(other.Line);
        if (byLine != 0) return byLine;
        int byOffset = Offset.CompareTo(other.Offset);
        return byOffset != 0 ? byOffset : Closed.CompareTo(other.Closed);
    }

    /// <summary>The earlier of two.</summary>
    public static LogIndex Min(LogIndex a, LogIndex b) => a <= b ? a : b;

    /// <summary>The later of two.</summary>
    public static LogIndex Max(LogIndex a, LogIndex b) => a >= b ? a : b;

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(LogIndex a, LogIndex b) => a.CompareTo(b) < 0;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(LogIndex a, LogIndex b) => a.CompareTo(b) > 0;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(LogIndex a, LogIndex b) => a.CompareTo(b) <= 0;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(LogIndex a, LogIndex b) => a.CompareTo(b) >= 0;

    /// <summary>World-line, version and offset: <c>2:17@4711</c>; behind the reign, if there is one: <c>5/2:17@4711</c>.</summary>
    public override string ToString() => $"{Line}:{Closed}@{Offset}";
}

/// <summary>Where a world-line, or a reign, begins in a shard's log: what lies above, of those before, is void.</summary>
/// <param name="WorldLine">The one that begins.</param>
/// <param name="Version">The last version that it keeps.</param>
/// <param name="Offset">Bytes of history that it keeps.</param>
public readonly record struct LogBranch(WorldLine WorldLine, VersionNumber Version, long Offset)
{
    /// <summary>How many a log remembers at most, the newest: of what lies before them it cannot say what was kept.</summary>
    public const int KeptMax = 64;

    /// <summary>The reign in which it begins.</summary>
    public Reign Reign { get; init; }

    /// <summary>The line that begins.</summary>
    public LogLine Line => new(Reign, WorldLine);

    /// <summary>The log's index when it has just begun.</summary>
    public LogIndex Index => new(WorldLine, Offset, Version) { Reign = Reign };

    /// <summary>Whether what a log had at an offset in one of its lines is not void.</summary>
    /// <param name="branches">The lines that have begun since the log's first one.</param>
    /// <param name="line">The line in which it was written.</param>
    /// <param name="offset">Where it ends.</param>
    public static bool Keep(IEnumerable<LogBranch> branches, LogLine line, long offset) => branches.All(b => b.Line <= line || offset <= b.Offset);

    /// <summary>Whether another line, if it is later, has not made void where this one begins.</summary>
    public bool IsKeptBy(in LogBranch other) => other.Line <= Line || (other.Version >= Version && other.Offset >= Offset);
}

/// <summary>Names a shard's history: two logs with the same name hold parts of one stream. A log that begins anew has another one, and so
/// has one whose stream went on with a gap: what is missing is in a checkpoint only, so a backup has to be seeded.</summary>
/// <param name="ReplicationId">Identity of the stream: 1 to 40 printable ASCII characters.</param>
/// <param name="Offset">Where it began, or where it went on after its last gap: bytes of history before.</param>
public readonly record struct StreamHistory(string ReplicationId, long Offset);

/// <summary>What a shipper asks of its shard's log; the driver answers from memory or from the files.</summary>
public interface IShippedLog
{
    /// <summary>Where the next piece ends that is worth a message of its own.</summary>
    /// <param name="from">Its beginning, in the world-line of the limit.</param>
    /// <param name="limit">It ends here at the latest.</param>
    /// <param name="bytesMax">And holds no more bytes than that; a version's end may be at any place of it.</param>
    /// <returns>An index the log has passed through; <paramref name="from"/> if it holds nothing between the two; null if the log no longer
    /// reaches back so far.</returns>
    LogIndex? EndOfPiece(LogIndex from, LogIndex limit, int bytesMax);
}
