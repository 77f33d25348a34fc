// Rows of the metadata as their readers see them, and the outcomes of the writes that compare before they set.
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Metadata;

/// <summary>A shard as the metadata knows it.</summary>
/// <param name="Shard">Its number.</param>
/// <param name="Address">Where clients reach it; empty before it registered.</param>
/// <param name="StoreKind">Its kind of store, such as <c>redis</c>; empty before it registered.</param>
/// <param name="Claim">The current world-line, and what the shard is known to have durable in it: what it recorded, or the
/// branch cut if it has not recorded anything in this world-line yet.</param>
/// <param name="Epoch">Its newest epoch; 0 before anyone owned it.</param>
/// <param name="Owner">Who took that epoch; empty before anyone owned it.</param>
/// <param name="Entered">The last world-line that the shard has entered: whose branch its store has been brought to.</param>
public sealed record ShardRecord(
    ShardId Shard, string Address, string StoreKind, DurableClaim Claim, long Epoch, string Owner, WorldLine Entered)
{
    /// <summary>The cluster's current world-line, and the version up to which the shard is known to be durable in it.</summary>
    public WorldPoint Durable => Claim.Point;

    /// <summary>The cluster's current world-line.</summary>
    public WorldLine WorldLine => Claim.Point.WorldLine;
}

/// <summary>Who owns which hash slot, as of a revision.</summary>
/// <param name="Map">The owners.</param>
/// <param name="Revision">Every change makes the next.</param>
public sealed record SlotOwners(SlotMap Map, MapRevision Revision);

/// <summary>What became of planning a move.</summary>
/// <param name="Move">Its name; null if it was refused.</param>
/// <param name="Error">For a person: why.</param>
public sealed record MovePlan(MoveId? Move, string? Error);

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

/// <summary>What became of recording what a shard has durable.</summary>
public enum DurableOutcome
{
    /// <summary>The metadata holds it: committed as soon as the cut covers it.</summary>
    Recorded,

    /// <summary>The cluster is in a later world-line: the shard has to recover into it.</summary>
    StaleWorldLine,

    /// <summary>Another process took the shard: this one has to stop serving it.</summary>
    Deposed,

    /// <summary>A later version is recorded already. It stays.</summary>
    NotMonotone,
}

/// <summary>The outcome of recording what a shard has durable, and the cut after it.</summary>
/// <param name="Outcome">What happened.</param>
/// <param name="Cut">The cluster's current world-line and its recorded cut: committed, whatever fails.</param>
public readonly record struct DurableResult(DurableOutcome Outcome, WorldPoint Cut);

/// <summary>The recorded cut of a cluster, and whether somebody waits for it.</summary>
/// <param name="Cut">The current world-line, and the version up to which everything is committed.</param>
/// <param name="AwaitedUntil">While their open version is not above this, shards should hurry: somewhere in the cluster somebody
/// waits for a commit.</param>
public readonly record struct ClusterCut(WorldPoint Cut, Version AwaitedUntil);

/// <summary>What became of starting a world-line.</summary>
public enum WorldLineOutcome
{
    /// <summary>It is the current one now.</summary>
    Started,

    /// <summary>It does not follow the current one: another recovery came first.</summary>
    StaleWorldLine,

    /// <summary>The caller's epoch is no longer the newest of any shard.</summary>
    Deposed,

    /// <summary>The caller's shard has less than it had recorded as durable.</summary>
    BelowRecorded,
}

/// <summary>The outcome of starting a world-line, and where the cluster is after it.</summary>
/// <param name="Outcome">What happened.</param>
/// <param name="Current">The current world-line and the cluster's recorded cut: if it was started, the branch.</param>
public readonly record struct WorldLineResult(WorldLineOutcome Outcome, WorldPoint Current);
