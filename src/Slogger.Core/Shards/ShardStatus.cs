using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>How far a stage of the commit has come.</summary>
/// <param name="Version">The last version that passed it.</param>
/// <param name="At">The clock at the tick before it did; zero if none has yet.</param>
public readonly record struct ShardStage(VersionNumber Version, HybridTimestamp At);

/// <summary>A picture of a shard for status displays and metrics. A lag is the time since the version after the stage's
/// opened: 0 to 1 interval is "up to date". An idle shard's durable and recorded stages lag by up to the empty-run interval.</summary>
public readonly record struct ShardStatus
{
    /// <summary>What it is doing.</summary>
    public ShardMode Mode { get; init; }

    /// <summary>Its timeline.</summary>
    public WorldLine WorldLine { get; init; }

    /// <summary>The version of what is forwarded now.</summary>
    public VersionNumber OpenVersion { get; init; }

    /// <summary>Every how many versions one is closed (1 in mode Log).</summary>
    public long Stride { get; init; }

    /// <summary>Whether a marker (or save) is on its way, and since when.</summary>
    public HybridTimestamp? MarkerSentAt { get; init; }

    /// <summary>Markers refused or lost since the start.</summary>
    public long MarkersFailed { get; init; }

    /// <summary>Last version closed at the store's end: by a marker's answer, or idle.</summary>
    public ShardStage Answered { get; init; }

    /// <summary>Last version whose boundary was read in the stream (or saved), or idle.</summary>
    public ShardStage Read { get; init; }

    /// <summary>Last version durable in the log.</summary>
    public ShardStage Durable { get; init; }

    /// <summary>Last version of the shard that the metadata holds as durable.</summary>
    public ShardStage Recorded { get; init; }

    /// <summary>Last version in the recorded cut: committed.</summary>
    public ShardStage Committed { get; init; }

    /// <summary>Lag of the answers, in microseconds.</summary>
    public long AnsweredLagUs { get; init; }

    /// <summary>Lag of the stream, in microseconds.</summary>
    public long ReadLagUs { get; init; }

    /// <summary>Lag of the log's syncs, in microseconds.</summary>
    public long DurableLagUs { get; init; }

    /// <summary>Lag of the shard's record in the metadata, in microseconds.</summary>
    public long RecordedLagUs { get; init; }

    /// <summary>Lag of the recorded cut, in microseconds: what a client that waits for commit sees.</summary>
    public long CommittedLagUs { get; init; }
}
