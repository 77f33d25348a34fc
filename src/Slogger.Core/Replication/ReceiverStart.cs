// What is known of a stream when its receiver begins: what its log holds, and what SQL does.
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>What a receiver begins with.</summary>
public sealed record ReceiverStart
{
    /// <summary>The primary's shard.</summary>
    public required ShardId Stream { get; init; }

    /// <summary>Which life of the stream, as SQL has it.</summary>
    public required long Generation { get; init; }

    /// <summary>This process's epoch as the stream's receiver, by SQL.</summary>
    public required long Owner { get; init; }

    /// <summary>The history of the log; null: there is no log, it has to be seeded.</summary>
    public StreamHistory? History { get; init; }

    /// <summary>Up to where the log goes; all of it is durable, since it was opened.</summary>
    public LogIndex Log { get; init; }

    /// <summary>The last cut that is noted in the log; nothing (the default) if none is.</summary>
    public WorldPoint Held { get; init; }

    /// <summary>A seeded log can be brought to no version before this one: that is the first whose end lies behind the seed.</summary>
    public WorldPoint Floor { get; init; }

    /// <summary>What the log knows of windows; none is open.</summary>
    public LogWindows Windows { get; init; }

    /// <summary>Whether windows can be taken: the stream is followed as a whole, by what needs no more than the state behind each.
    /// </summary>
    public bool TakesWindows { get; init; }

    /// <summary>The offset at which a seeded log begins.</summary>
    public long Base { get; init; }

    /// <summary>Whether SQL has noted that the stream counts; false since its seeding began.</summary>
    public bool Counts { get; init; }

    /// <summary>Where the store is.</summary>
    public WorldPoint Applied { get; init; }

    /// <summary>The newest sender, as SQL has it.</summary>
    public Sender Newest { get; init; }

    /// <summary>The site epoch, as SQL has it.</summary>
    public SiteEpoch Site { get; init; }

    /// <summary>Whether a failover has taken that epoch here: nothing is received any more.</summary>
    public bool IsFrozen { get; init; }

    /// <summary>Without a log: what there is on the disk of a copy that the stream is being seeded with.</summary>
    public SeedPart Copy { get; init; }

    /// <summary>A copy that came whole, and was not what it should be; null: none. It is not taken again.</summary>
    public string? BadCopy { get; init; }

    /// <summary>How much of a copy may be lost by a crash, and has to come again. Bytes.</summary>
    public long CopySyncBytes { get; init; } = 4L << 20;

    /// <summary>How much may wait in memory, in bytes; no less than what a shipper may have under way.</summary>
    public long StagedBytesMax { get; init; } = 16L << 20;

    /// <summary>How often the watermark service is told again, in microseconds: what it is told first may get lost.</summary>
    public long ReportUs { get; init; } = 100_000;

    /// <summary>While a sync is under way, an answer goes after so many pieces of the log: the primary may wait for room. Fewer are
    /// answered with the sync.</summary>
    public int UnansweredPiecesMax { get; init; } = 4;

    /// <summary>And after so many bytes of them.</summary>
    public long UnansweredBytesMax { get; init; } = 64 * 1024;
}
