// Rows of the metadata as their readers see them, and the outcomes of the writes that compare before they set.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Resets;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata;

/// <summary>Who owns a shard that has left.</summary>
public static class Nobody
{
    /// <summary>Stands where owners stand.</summary>
    public const string Name = "nobody: it has left";
}

/// <summary>What became of a change of a site.</summary>
/// <param name="Site">The site after it, or as it is if it was refused.</param>
/// <param name="Error">For a person; null: done.</param>
public readonly record struct SiteAnswer(SiteState Site, string? Error);

/// <summary>A shard as the metadata knows it.</summary>
/// <param name="Shard">Its number.</param>
/// <param name="Address">Where clients reach it; empty before it registered.</param>
/// <param name="StoreKind">Its kind of store, such as <see cref="RedisStore"/>; empty before it registered.</param>
/// <param name="Claim">The current world-line, and what the shard is known to have durable in it: what it recorded, or the
/// branch cut if it has not recorded anything in this world-line yet.</param>
/// <param name="Epoch">Its newest epoch; 0 before anyone owned it.</param>
/// <param name="Owner">Who took that epoch; empty before anyone owned it.</param>
/// <param name="Entered">The last world-line that the shard has entered: nothing of the one before is read or written there any more.
/// Its store may still be on the way to the branch; until it is there the shard serves nobody.</param>
public sealed record ShardRecord(
    ShardId Shard, string Address, string StoreKind, DurableClaim Claim, long Epoch, string Owner, WorldLine Entered)
{
    /// <summary>The kind of a shard whose store is a Redis.</summary>
    public const string RedisStore = "redis";

    /// <summary>The kind of a shard with an embedded FASTER store.</summary>
    public const string FasterStore = "faster";

    /// <summary>Whether it counts.</summary>
    public MemberState State { get; init; }

    /// <summary>Where a reset may have written something in the shard.</summary>
    public ResetMark Reset { get; init; }

    /// <summary>The cluster's current world-line, and the version up to which the shard is known to be durable in it.</summary>
    public WorldPoint Durable => Claim.Point;

    /// <summary>The cluster's current world-line.</summary>
    public WorldLine WorldLine => Claim.Point.WorldLine;
}

/// <summary>What became of a request to change the members of a cluster.</summary>
/// <param name="State">Where the shard stands now; null if it was refused.</param>
/// <param name="Error">For a person: why it was refused.</param>
public readonly record struct MemberAnswer(MemberState? State, string? Error);

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
public sealed record WorldLineRecord(WorldLine WorldLine, VersionNumber BranchCut, long StartedByEpoch, DateTimeOffset StartedAt)
{
    /// <summary>Where each shard branched off, if not all did at <see cref="BranchCut"/>, which is then the lowest.</summary>
    public Cut? ByShard { get; init; }

    /// <summary>Where a shard branched off.</summary>
    public VersionNumber BranchOf(ShardId shard) => ByShard?.Of(shard) ?? BranchCut;
}

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
/// <param name="Cut">The cluster's current world-line and what is committed of this shard, whatever fails.</param>
public readonly record struct DurableResult(DurableOutcome Outcome, WorldPoint Cut);

/// <summary>The recorded cut of a cluster, and whether somebody waits for it.</summary>
/// <param name="Cut">The current world-line, and the version up to which everything is committed.</param>
/// <param name="AwaitedUntil">While their open version is not above this, shards should hurry: somewhere in the cluster somebody
/// waits for a commit.</param>
public readonly record struct ClusterCut(WorldPoint Cut, VersionNumber AwaitedUntil)
{
    /// <summary>The version of each shard, if they are not all that of <see cref="Cut"/>, which is then the lowest.</summary>
    public Cut? ByShard { get; init; }

    /// <summary>What is committed at a shard.</summary>
    public WorldPoint Of(ShardId shard) => ByShard is { } cut ? new(cut.WorldLine, cut.Of(shard)) : Cut;

    /// <summary>The version of each shard of a cluster.</summary>
    public Cut Whole(int shardCount) => ByShard ?? Slogger.Core.Cuts.Cut.Uniform(Cut.WorldLine, shardCount, Cut.Version);
}

/// <summary>What taking over takes at a site; zero where nothing is known.</summary>
/// <param name="Drill">What the last drill has estimated.</param>
/// <param name="Failover">What the last failover took.</param>
/// <param name="FailoverDrill">What the last drill before that failover had estimated.</param>
public readonly record struct TakeoverTimes(TimeSpan Drill, TimeSpan Failover, TimeSpan FailoverDrill)
{
    /// <summary>An estimate, corrected by how far the failover was from its own.</summary>
    public TimeSpan Correct(TimeSpan estimate) =>
        Failover == TimeSpan.Zero ? estimate
        : FailoverDrill == TimeSpan.Zero ? (estimate > Failover ? estimate : Failover)
        : estimate + Failover - FailoverDrill is var corrected && corrected > TimeSpan.Zero ? corrected : Failover;
}

/// <summary>What became of recording a cut that a coordinator has found.</summary>
public enum CutOutcome
{
    /// <summary>The metadata holds it: committed.</summary>
    Recorded,

    /// <summary>Another process coordinates now: this one has to stop.</summary>
    Deposed,

    /// <summary>A shard, or the role, changed hands since the coordinator looked: what it was told by the process before must not
    /// count any more. It has to look again.</summary>
    OwnersChanged,

    /// <summary>The cluster is in a later world-line: the coordinator has to look again.</summary>
    StaleWorldLine,

    /// <summary>It is below the recorded one at some shard, which stays: the coordinator has to look again.</summary>
    NotMonotone,
}

/// <summary>What a coordinator starts from, and looks at now and then: all of one moment.</summary>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Owners">Changes whenever a shard or the role of the coordinator is taken.</param>
/// <param name="Shards">All shards, by number.</param>
/// <param name="Rows">The precedence graph's rows above the cut, if the finder is the exact one.</param>
public sealed record CoordinatorView(ClusterCut Cut, long Owners, IReadOnlyList<ShardRecord> Shards, IReadOnlyList<PrecedenceRow> Rows);

/// <summary>What a proxy looks at all the time: as much of it however many shards there are.</summary>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Coordinator">The lease of the role that finds cuts.</param>
/// <param name="CoordinatorAddress">Where its holder can be reached; empty if nobody ever held it.</param>
/// <param name="ChangeUs">The change of the interval that is proposed, as in <see cref="GridState"/>; 0: none.</param>
/// <param name="Owners">Changes whenever a shard joins, leaves, or is taken.</param>
/// <param name="Own">The proxy's shard.</param>
public sealed record ClusterBeat(ClusterCut Cut, LeaseState Coordinator, string CoordinatorAddress, long ChangeUs, long Owners,
    ShardRecord Own);

/// <summary>Who is alive, as far as leases tell: what every proxy looks at now and then.</summary>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Coordinator">The lease of the role that finds cuts.</param>
/// <param name="CoordinatorAddress">Where its holder can be reached; empty if nobody ever held it.</param>
/// <param name="Shards">All shards, by number.</param>
/// <param name="Leases">Their leases, by number.</param>
/// <param name="ChangeUs">The change of the interval that is proposed, as in <see cref="GridState"/>; 0: none.</param>
/// <param name="Owners">Changes whenever a shard joins, leaves, or is taken.</param>
public sealed record ClusterWatch(
    ClusterCut Cut, LeaseState Coordinator, string CoordinatorAddress,
    IReadOnlyList<ShardRecord> Shards, IReadOnlyList<LeaseState> Leases, long ChangeUs, long Owners)
{
    /// <summary>As much of it as concerns a shard.</summary>
    public ClusterBeat BeatOf(ShardId shard) => new(Cut, Coordinator, CoordinatorAddress, ChangeUs, Owners, Shards[shard.Number]);
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

    /// <summary>The caller's shard has less than it had recorded as durable.</summary>
    BelowRecorded,
}

/// <summary>The outcome of starting a world-line, and where the cluster is after it.</summary>
/// <param name="Outcome">What happened.</param>
/// <param name="Current">The current world-line and its recorded cut at the caller's shard: if it was started, the branch.</param>
public readonly record struct WorldLineResult(WorldLineOutcome Outcome, WorldPoint Current);

/// <summary>The streams of a shard that a process has taken.</summary>
/// <param name="Site">The site since then.</param>
/// <param name="Owner">The process's epoch; 0: the site serves, and nothing was taken.</param>
public readonly record struct TakenStreams(SiteState Site, long Owner);

/// <summary>The clock grid, and the change of the interval that is proposed.</summary>
/// <param name="Stretches">The grid.</param>
/// <param name="ChangeUs">When the interval is to change, in microseconds since 1970-01-01 UTC: what names the proposal. 0: none is
/// open.</param>
public sealed record GridState(IReadOnlyList<GridStretch> Stretches, long ChangeUs);

/// <summary>What a shard goes by that takes its place in the current world-line.</summary>
/// <param name="Shards">All shards, by number.</param>
/// <param name="Cut">The recorded cut.</param>
/// <param name="Lines">All world-lines, the current one last.</param>
/// <param name="Grid">The clock grid.</param>
public sealed record ClusterSnapshot(IReadOnlyList<ShardRecord> Shards, ClusterCut Cut, IReadOnlyList<WorldLineRecord> Lines,
    GridState Grid);
