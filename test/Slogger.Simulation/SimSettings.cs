// What one simulated case is made from, and the ways in which a rule of the cluster can be switched off to prove that the
// checks would notice. A case is determined by its settings alone: the same settings give the same case, step by step.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Lifecycle;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Recovery;
using Slogger.Core.Replication;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation;

/// <summary>How far the machines' clocks are apart.</summary>
internal enum ClockKind
{
    /// <summary>By no more than the bound that the gate knows: order in real time is checked.</summary>
    WithinBound,

    /// <summary>By several versions, with jumps in both directions.</summary>
    BeyondBound,
}

/// <summary>Settings of a case.</summary>
internal sealed record SimSettings
{
    public required int Seed { get; init; }

    public FinderKind Finder { get; init; }

    /// <summary>How many shards; null: 2 to 5, by the seed.</summary>
    public int? Shards { get; init; }

    public int Steps { get; init; } = 900;

    /// <summary>Whether slots move; null: by the seed, with the approximate finder.</summary>
    public bool? Moves { get; init; }

    /// <summary>Whether shards join and leave; null: by the seed, where slots move.</summary>
    public bool? Members { get; init; }

    /// <summary>Whether stores that are alive go back in place; null: by the seed.</summary>
    public bool? InPlace { get; init; }

    /// <summary>Whether there is a backup site; null: by the seed, with the approximate finder.</summary>
    public bool? Backup { get; init; }

    /// <summary>Whether the backup falls far behind now and then, and is sent windows.</summary>
    public bool Windows { get; init; }

    /// <summary>What befalls the primary, if there is a backup; null: by the seed.</summary>
    public Disaster? Disaster { get; init; }

    /// <summary>How far the clocks are apart; null: by the seed.</summary>
    public ClockKind? Clocks { get; init; }

    /// <summary>By how much at most, within the bound, in microseconds; null: by the seed.</summary>
    public long? ClockErrorUs { get; init; }

    /// <summary>False: nothing goes wrong but what a scenario does itself.</summary>
    public bool Faults { get; init; } = true;

    /// <summary>A scenario file decides what happens: the dice decide only in which order the processes take their turns, and all clocks
    /// show the same until the file sets one.</summary>
    public bool Scripted { get; init; }

    /// <summary>Whether what happens is written down, for people.</summary>
    public bool Trace { get; init; }

    /// <summary>Mutants have to be caught by what they make wrong, not by getting stuck.</summary>
    public bool ChecksProgress { get; init; } = true;

    public SimMutation Mutation { get; init; }

    public ShardMutation Shard { get; init; }

    public ClientMutation Client { get; init; }

    public RecorderMutation Recorder { get; init; }

    public LifecycleMutation Lifecycle { get; init; }

    public RollbackMutation Rollback { get; init; }

    public GateMutation Gate { get; init; }

    public VersionGateMutation Boundary { get; init; }

    public SessionMutation Session { get; init; }

    public FinderMutation FinderFault { get; init; }

    public LeaseMutation Lease { get; init; }

    public MoveMutation Move { get; init; }

    public MemberMutation Member { get; init; }

    public GridMutation Grid { get; init; }

    public ShipMutation Ship { get; init; }
}

/// <summary>Deliberate faults of those who drive the machines: each switches off one rule of the cluster.</summary>
internal enum SimMutation
{
    None,

    /// <summary>SQL records one version more than the claims allow.</summary>
    CutOneTooFar,

    /// <summary>SQL takes claims of an abandoned world-line for those of the current one.</summary>
    WorldLineNotCompared,

    /// <summary>SQL takes claims of a deposed owner.</summary>
    EpochNotCompared,

    /// <summary>Whoever begins a world-line works out the branch before the transaction, from what it has read earlier.</summary>
    BranchBeforeTransaction,

    /// <summary>A coordinator's cut is recorded whatever was recorded since, by whom, and in which world-line.</summary>
    CutNotCompared,

    /// <summary>A coordinator's cut is recorded although a shard has changed hands since it looked, and it hears deposed owners.</summary>
    OwnersNotCompared,

    /// <summary>A process does not continue the clock of the one before it: a wall clock that was set back opens versions again.</summary>
    ClockForgotten,

    /// <summary>A version that is opened ahead of the clock does not move the clock: the next process opens earlier ones again.</summary>
    ClockStaysBehind,

    /// <summary>A taker does not shut its predecessor out of the store.</summary>
    StoreNotFenced,

    /// <summary>A marker whose connection broke may be executed behind what was forwarded on the next one.</summary>
    LostMarkerLivesOn,

    /// <summary>A log that begins again from a checkpoint forgets at once what it held before.</summary>
    GapForgetsLog,

    /// <summary>SQL takes every version of a shard for one that it can be restored to.</summary>
    StrideIgnored,

    /// <summary>SQL begins a world-line without a look at which is current.</summary>
    BeginNotCompared,

    /// <summary>Versions follow the wall clock.</summary>
    WallClockTaken,

    /// <summary>The two clocks of a machine are taken to have been read at once.</summary>
    SpreadIgnored,

    /// <summary>The machine of shard 0 is never told that the interval may change, or has.</summary>
    GridNotLearned,

    /// <summary>What a shard's report of a range of versions depends on is left out.</summary>
    DependenciesForgotten,

    /// <summary>SQL takes steps of moves from processes that were replaced.</summary>
    MoveOfDeposedCounts,

    /// <summary>A world-line begins with the owners of before, wherever it branches.</summary>
    LandingOutlivesRecovery,

    /// <summary>The old owner does not wait until its stream has told of all that has changed.</summary>
    StreamNotAwaited,

    /// <summary>The new owner's copy does not make the version that it is in worth a marker.</summary>
    CopyNotNoted,

    /// <summary>While the new owner's loop rests the version that was open before counts for what is copied.</summary>
    RestTaken,

    /// <summary>The new owner's copy is not in its replication stream, and so not in its log.</summary>
    CopyPastTheLog,

    /// <summary>What a move's connection that was given up still holds may be executed while the next attempt is under way.</summary>
    GivenUpNotKilled,

    /// <summary>A leaver counts no more as soon as it hears that it is to leave, whatever it has durable.</summary>
    LeavesAtOnce,

    /// <summary>A dead leaver is removed, and no world-line is begun.</summary>
    DeadLeavesQuietly,

    /// <summary>What has been forwarded is awaited before the front end has come to know that slots are withheld.</summary>
    WithheldUntold,

    /// <summary>A step of a move of which it is not known whether it was made is forgotten when the store is suspected.</summary>
    StepForgotten,
}
