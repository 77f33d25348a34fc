// Rows of the metadata as their readers see them, and the outcomes of the writes that compare before they set.
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Metadata;

/// <summary>A shard as the metadata knows it.</summary>
/// <param name="Shard">Its number.</param>
/// <param name="Address">Where clients reach it; empty before it registered.</param>
/// <param name="StoreKind">Its kind of store, such as <c>redis</c>; empty before it registered.</param>
/// <param name="RecordedCut">The current world-line, and the version up to which the shard is known to be durable in it:
/// what it recorded, or the branch cut if it has not recorded anything in this world-line yet.</param>
/// <param name="Epoch">Its newest epoch; 0 before anyone owned it.</param>
/// <param name="Owner">Who took that epoch; empty before anyone owned it.</param>
public sealed record ShardRecord(
    ShardId Shard, string Address, string StoreKind, WorldPoint RecordedCut, long Epoch, string Owner)
{
    /// <summary>The cluster's current world-line.</summary>
    public WorldLine WorldLine => RecordedCut.WorldLine;
}

/// <summary>A world-line and where it began.</summary>
/// <param name="WorldLine">Its number.</param>
/// <param name="BranchCut">The last version of the world-line before that is part of this one; 0 for the first.</param>
/// <param name="StartedByEpoch">The epoch of who started it; 0 for the first.</param>
/// <param name="StartedAt">By the clock of who started it; for people only.</param>
public sealed record WorldLineRecord(WorldLine WorldLine, Version BranchCut, long StartedByEpoch, DateTimeOffset StartedAt);

/// <summary>A place in a replication stream and the point of history it stands for.</summary>
/// <param name="Shard">The shard.</param>
/// <param name="ReplicationId">40 hexadecimal digits.</param>
/// <param name="Offset">Bytes of history before the place.</param>
/// <param name="Point">The point of history.</param>
public sealed record StreamOriginRecord(ShardId Shard, string ReplicationId, long Offset, WorldPoint Point);

/// <summary>What became of recording a cut.</summary>
public enum CutRecordResult
{
    /// <summary>Durable in the metadata: the version is committed.</summary>
    Recorded,

    /// <summary>The cluster is in a later world-line: the shard has to recover into it.</summary>
    StaleWorldLine,

    /// <summary>Another process took the shard: this one has to stop serving it.</summary>
    Deposed,

    /// <summary>A later version is recorded already. The recorded cut stays.</summary>
    NotMonotone,
}

/// <summary>What became of starting a world-line.</summary>
public enum WorldLineOutcome
{
    /// <summary>It is the current one now.</summary>
    Started,

    /// <summary>It does not follow the current one: another recovery came first.</summary>
    StaleWorldLine,

    /// <summary>The caller's epoch is no longer the newest of any shard.</summary>
    Deposed,

    /// <summary>The branch cut is below what is recorded as committed.</summary>
    BelowRecordedCut,
}

/// <summary>The outcome of starting a world-line, and where the cluster is after it.</summary>
/// <param name="Outcome">What happened.</param>
/// <param name="Current">The current world-line and the cluster's recorded cut (the least of its shards').</param>
public readonly record struct WorldLineResult(WorldLineOutcome Outcome, WorldPoint Current);
