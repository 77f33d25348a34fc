// The steps of a shard's life, as ShardLifecycle gives them out, and what it is told in return.
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Lifecycle;

/// <summary>What is to be done next.</summary>
public enum LifecycleStepKind
{
    /// <summary>Note that the suspicion is being looked into. What is suspected from now on needs another look.</summary>
    TakeSuspicion,

    /// <summary>Find out whether the store has lost nothing since it was attached, and report
    /// <see cref="ShardLifecycle.Compared"/>.</summary>
    CompareStore,

    /// <summary>The process ends and its store may be lost: no version can be closed any more.</summary>
    AbandonStore,

    /// <summary>Take the store for lost: nothing of it is followed any more, and no move goes on.</summary>
    LoseStore,

    /// <summary>Begin to start the store unless it runs, and report <see cref="ShardLifecycle.StoreStarting"/>. With
    /// <see cref="LifecycleStep.OnlyIfEnded"/>: only if its process has ended.</summary>
    StartStore,

    /// <summary>Wait until the store runs.</summary>
    AwaitStore,

    /// <summary>Ask for no admission to the cluster until <see cref="AllowAdmission"/>.</summary>
    SuspendAdmission,

    /// <summary>Have SQL find the cut, read it with the world-lines and the shard's row, and report
    /// <see cref="ShardLifecycle.Looked"/>.</summary>
    LookAtMetadata,

    /// <summary>End all connections of clients to the store, and wait until nothing of theirs is on its way.</summary>
    CloseFrontEnd,

    /// <summary>Begin to note in SQL that this shard has left all world-lines before <see cref="LifecycleStep.WorldLine"/>.</summary>
    BeginEntering,

    /// <summary>Wait until SQL holds what <see cref="BeginEntering"/> notes.</summary>
    AwaitEntered,

    /// <summary>See how the store looks next to the log in <see cref="LifecycleStep.WorldLine"/>, and report
    /// <see cref="ShardLifecycle.Found"/>.</summary>
    LookAtStore,

    /// <summary>Read what the log proves in <see cref="LifecycleStep.WorldLine"/>, and report
    /// <see cref="ShardLifecycle.Proved"/>.</summary>
    ReadLog,

    /// <summary>Wait a moment: the store does not answer. A person is told <see cref="LifecycleStep.Text"/>, if there is one.</summary>
    WaitForStore,

    /// <summary>Stop, and tell the operator <see cref="LifecycleStep.Text"/>.</summary>
    Refuse,

    /// <summary>Stop: another process has taken the shard.</summary>
    GiveWay,

    /// <summary>Refuse to go on unless a restore to <see cref="LifecycleStep.At"/> has what it begins with.</summary>
    RequireBase,

    /// <summary>Find where the version of <see cref="LifecycleStep.At"/> ends, and report <see cref="ShardLifecycle.Located"/>.</summary>
    Locate,

    /// <summary>Begin the next world-line in SQL, with <see cref="LifecycleStep.At"/> as what this shard has durable, and report
    /// <see cref="ShardLifecycle.WorldLineBegun"/>.</summary>
    BeginWorldLine,

    /// <summary>Attach to a store that has lost nothing, where the log ends: <see cref="LifecycleStep.At"/>. Report
    /// <see cref="ShardLifecycle.Performed"/>.</summary>
    Continue,

    /// <summary>Begin the log, or begin it anew, with what the store holds as the state at <see cref="LifecycleStep.At"/>. Report
    /// <see cref="ShardLifecycle.Performed"/>.</summary>
    BeginLog,

    /// <summary>Look at a store again that was started meanwhile.</summary>
    LookAgain,

    /// <summary>Bring the store back to <see cref="LifecycleStep.At"/>, where <see cref="LifecycleStep.WorldLine"/> begins. Report
    /// <see cref="ShardLifecycle.Performed"/>.</summary>
    Restore,

    /// <summary>Note durably that the shard is about to go on from an older version in <see cref="LifecycleStep.WorldLine"/>.</summary>
    NoteGoingOn,

    /// <summary>Fill the store with the content of <see cref="LifecycleStep.At"/>, and begin the log with it as the state at
    /// <see cref="LifecycleStep.Branch"/>. Report <see cref="ShardLifecycle.Performed"/>.</summary>
    BeginWith,

    /// <summary>The shard goes on from the older version: forget that note.</summary>
    ForgetGoingOn,

    /// <summary>Forget the versions of an attempt to join. Nobody knows of any.</summary>
    ForgetVersions,

    /// <summary>From now on the shard may ask to be admitted with versions from <see cref="LifecycleStep.At"/> on.</summary>
    AllowAdmission,

    /// <summary>Begin anew to collect what versions depend on. What is in the store above the cut was executed by others, unless the store
    /// stands at a branch (<see cref="LifecycleStep.IsAtBranch"/>).</summary>
    BeginTrail,

    /// <summary>Read the world-lines up to <see cref="LifecycleStep.WorldLine"/>: it is newer than those that were looked at.</summary>
    LearnWorldLines,

    /// <summary>Read who has entered <see cref="LifecycleStep.WorldLine"/>, and report <see cref="ShardLifecycle.PeersSeen"/>.</summary>
    LookAtPeers,

    /// <summary>Have the other shards see that this one lives: begin to beat, and to record.</summary>
    StartWorkers,

    /// <summary>Tell a person that the shards of <see cref="LifecycleStep.Shards"/> are taken for dead.</summary>
    WarnOfPeers,

    /// <summary>Tell a person that the shard has not joined its cluster yet.</summary>
    WarnNotJoined,

    /// <summary>The cluster is in <see cref="LifecycleStep.WorldLine"/> by now: suspect the store.</summary>
    LeaveWorldLine,

    /// <summary>Wait for <see cref="LifecycleStep.WaitUs"/> microseconds.</summary>
    Rest,

    /// <summary>Wait for <see cref="LifecycleStep.WaitUs"/> microseconds, until a version begins.</summary>
    AwaitVersion,

    /// <summary>Let moves of slots go on in <see cref="LifecycleStep.WorldLine"/>.</summary>
    OpenMoves,

    /// <summary>End in the store what lost connections may still have under way.</summary>
    EndLost,

    /// <summary>Tell clients of the branch <see cref="LifecycleStep.RolledBack"/>, if there is one, and let them in unless something was
    /// suspected since <see cref="TakeSuspicion"/>.</summary>
    Open,
}

/// <summary>What a log that begins is begun with.</summary>
public enum LogContent
{
    /// <summary>A store without a key.</summary>
    Nothing,

    /// <summary>A store without a key, of a shard that joins.</summary>
    NothingYet,

    /// <summary>What the store holds, declared to be the truth.</summary>
    WhatItHolds,

    /// <summary>The same history, of which the log has missed a part. The old log stays restorable.</summary>
    SameHistory,
}

/// <summary>A step, and what it is done with.</summary>
/// <param name="Kind">What is done.</param>
public readonly record struct LifecycleStep(LifecycleStepKind Kind)
{
    /// <summary>A world-line.</summary>
    public WorldLine WorldLine { get; init; }

    /// <summary>The end of a version.</summary>
    public Boundary At { get; init; }

    /// <summary>BeginWith: what the content stands for.</summary>
    public WorldPoint Branch { get; init; }

    /// <summary>Continue, BeginLog, Restore: what SQL had recorded of this shard. The rest is committed when it is recorded, not
    /// before.</summary>
    public WorldPoint Recorded { get; init; }

    /// <summary>BeginLog: what it begins with.</summary>
    public LogContent Content { get; init; }

    /// <summary>BeginWorldLine: the store's data is declared to be the truth; no version of the log proves it.</summary>
    public bool IsAdoption { get; init; }

    /// <summary>StartStore: not one that only does not answer.</summary>
    public bool OnlyIfEnded { get; init; }

    /// <summary>BeginTrail: the store stands at a branch.</summary>
    public bool IsAtBranch { get; init; }

    /// <summary>Open: where a world-line has begun since clients were let in last.</summary>
    public Boundary? RolledBack { get; init; }

    /// <summary>For a person.</summary>
    public string? Text { get; init; }

    /// <summary>Other shards.</summary>
    public IReadOnlyList<ShardId>? Shards { get; init; }

    /// <summary>How long, in microseconds.</summary>
    public long WaitUs { get; init; }
}

/// <summary>What SQL says of a shard, all of one world-line.</summary>
public sealed record MetadataView
{
    /// <summary>Another process has taken the shard.</summary>
    public bool IsDeposed { get; init; }

    /// <summary>The shard's membership.</summary>
    public MemberState State { get; init; }

    /// <summary>The recorded cut, of this shard.</summary>
    public required WorldPoint Cut { get; init; }

    /// <summary>What is recorded as durable of this shard.</summary>
    public required WorldPoint Claim { get; init; }
}

/// <summary>How the shard is when a step is chosen.</summary>
public readonly record struct LifecycleView
{
    /// <summary>The machine follows the store.</summary>
    public bool IsAttached { get; init; }

    /// <summary>The cluster has left the world-line that this shard is in.</summary>
    public bool IsLeft { get; init; }

    /// <summary>Something is suspected that nobody has looked into.</summary>
    public bool IsSuspected { get; init; }

    /// <summary>An ordered end has begun.</summary>
    public bool IsStopping { get; init; }

    /// <summary>A failover has opened all streams of the site.</summary>
    public bool AreStreamsOpen { get; init; }

    /// <summary>Until the version after the last closed one begins by the clock, in microseconds. Zero or less: it has begun.</summary>
    public long UntilVersionUs { get; init; }

    /// <summary>A clock that never goes back, in microseconds.</summary>
    public long NowUs { get; init; }
}

/// <summary>What a shard is, as far as its life depends on it.</summary>
public sealed record LifecycleOptions
{
    /// <summary>Which shard.</summary>
    public required ShardId Shard { get; init; }

    /// <summary>Whether it has others beside it.</summary>
    public required bool HasPeers { get; init; }

    /// <summary>How a person knows the store.</summary>
    public string Store { get; init; } = "the Redis";

    /// <summary>How a person knows what makes its versions durable.</summary>
    public string Log { get; init; } = "the version log";

    /// <summary>Whether this process starts and stops the store.</summary>
    public bool IsSupervised { get; init; }

    /// <inheritdoc cref="RecoveryFacts.MaySeed"/>
    public bool MaySeed { get; init; } = true;

    /// <inheritdoc cref="RecoveryFacts.Seed"/>
    public SeedChoice Seed { get; init; }

    /// <summary>How long others are waited for, in microseconds.</summary>
    public const long PeersUsDefault = 10_000_000;

    /// <inheritdoc cref="PeersUsDefault" />
    public long PeersUs { get; init; } = PeersUsDefault;

    /// <summary>How often it is looked whether they have come, in microseconds.</summary>
    public long PeersPeriodUs { get; init; } = 5000;
}
