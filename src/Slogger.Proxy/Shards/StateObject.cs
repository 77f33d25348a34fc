// What a shard asks of its store: what the design and the DPR paper (section 3) call a state object, with its three operations Op, Commit
// and Restore. A store is a class that overrides what is here: nothing else differs between stores. The laws that it has to keep are in
// docs/internals/STORES.md, and tested by the conformance suite. A store that commits whole states has most of it from KeptVersions; one
// that is a Redis from RedisShard. VersionedShard, between this and the stores, is what asks.
using Slogger.Core.Identities;
using Slogger.Core.Recovery;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Peers;
using Slogger.Proxy.Ports;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;
using Slogger.Resp;

namespace Slogger.Proxy.Shards;

/// <summary>A store, as a shard sees it. It has no state of the shard's.</summary>
internal abstract class StateObject
{
    // ---- What it is, for people ----

    /// <summary>The store's name, for messages.</summary>
    internal abstract string StoreName { get; }

    /// <summary>The word of --commit.</summary>
    internal abstract string ModeName { get; }

    /// <summary>What makes versions durable, for messages.</summary>
    internal abstract string KeptName { get; }

    /// <summary>A store of this kind without a key, for messages.</summary>
    internal abstract string EmptyStoreName { get; }

    /// <summary>Whether --seed is for it.</summary>
    internal virtual bool MaySeed => true;

    /// <summary>What a refusal's text, which speaks of the log, needs to be understood.</summary>
    internal virtual string RefusalNote => "";

    /// <summary>The lines about what is kept.</summary>
    internal abstract IEnumerable<(string Name, long Value)> KeptStatus();

    // ---- Op ----

    /// <summary>How the front end reaches the store, where it is now.</summary>
    public abstract IStoreConnector Connector { get; }

    /// <summary>The store's reply to COMMAND: which commands there are, and where their keys stand.</summary>
    internal abstract Task<byte[]> CommandsAsync(CancellationToken stop);

    /// <summary>Where keys that move are copied from and to, and messages published; null: the store does neither.</summary>
    internal abstract RedisEndpoint? Endpoint { get; }

    /// <summary>Why its slots do not move; null: they do.</summary>
    public virtual string? KeepsSlots => null;

    /// <summary>Completes when all that the store has executed until now has been read in its replication stream.</summary>
    internal virtual Task StreamReadAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>Completes when any node that may lead next has the log up to the end of a version. At once, if there are no others. Who
    /// leads no more ends before that.</summary>
    internal virtual Task AwaitMajorityAsync(WorldPoint end, CancellationToken stop) => Task.CompletedTask;

    /// <summary>Publishes at this shard's store what another proxy sends, until it hangs up.</summary>
    internal virtual Task DeliverAsync(PeerChannel peer, CancellationToken stop) =>
        PeerMessages.DeliverAsync(peer, () => Endpoint, stop);

    /// <summary>Ends commands that wait in the store, of these connections.</summary>
    internal virtual void EndBlocked(IReadOnlyList<(long Id, string Address)> connections, CancellationToken stop)
    {
    }

    /// <summary>See <see cref="IBatchPort.LastDone"/>; without a stream nothing is known.</summary>
    internal virtual (SequenceNumber Last, long Version)? LastDone(SessionId session) => null;

    /// <summary>Returns when nothing is executed any more of what connections carried that were lost (<see cref="CarrierLost"/>): before
    /// the front end opens again.</summary>
    internal virtual Task EndLostAsync(CancellationToken stop) => Task.CompletedTask;

    // ---- Commit: under the machine's lock, if nothing else is said ----

    /// <summary>Settings of the machine.</summary>
    internal abstract ShardOptions MachineOptions { get; }

    /// <summary>How long nothing can be closed, in microseconds; null if a version can be.</summary>
    internal abstract long? MicrosecondsHeld(ShardMachine machine);

    /// <summary>Whether a version may be closed now.</summary>
    internal abstract bool MayClose { get; }

    /// <summary>Whether empty versions may pass unseen for a while.</summary>
    internal virtual bool MayRest => true;

    /// <summary>Nothing that begins later than then, in microseconds of the monotonic clock, may be in the open version. Only among other
    /// shards.</summary>
    internal virtual void OnBoundaryAwaited(long monotonicUs)
    {
    }

    /// <summary>Has the machine tick: before, it is to be known whether the open version is empty.</summary>
    internal abstract void Tick(ShardMachine machine, bool hasChanged);

    /// <summary>Whether what was executed since the last version's end can have changed anything. No: the version passes empty.</summary>
    internal virtual bool MayHaveChanged => true;

    /// <summary>The command that closes a version: at its place among all others the version ends.</summary>
    internal abstract MarkerToSend ToSend(in Marker marker);

    /// <summary>The channel of markers in a replication stream; empty without one.</summary>
    public abstract string MarkerChannel { get; }

    /// <summary>What the shard itself has had the store do.</summary>
    public CommandCounts OwnCommands { get; } = new();

    /// <summary>Keeps a boundary, or a run of empty versions.</summary>
    internal abstract void Append(in ShardEffect effect);

    /// <summary>Has what was kept made durable. When it is, <see cref="ShardVersions.OnDurable"/> is told, and never
    /// before.</summary>
    internal abstract void RequestSync();

    /// <summary>A point was committed: what no recovery can need any more may be deleted.</summary>
    internal virtual void OnCommitted(WorldPoint point)
    {
    }

    /// <summary>Starts what makes versions durable.</summary>
    internal abstract void StartWorkers();

    /// <summary>Ends it; <see cref="ShardLifetime.End"/> is cancelled already.</summary>
    internal abstract Task EndWorkersAsync();

    /// <summary>What is to be done at least every second. The control task.</summary>
    internal virtual Task MaintainAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>What is kept cannot be written, or not be used.</summary>
    internal abstract void OnLogFailure(LogException e);

    // ---- Restore: the control task; until Attach, the caller of StartAsync ----

    /// <summary>The shard is this process's, by the metadata; nothing has touched the store yet.</summary>
    internal abstract void OnTaken();

    /// <summary>Opens what is kept. Returns when its last version was closed.</summary>
    /// <exception cref="LogException">It cannot be used.</exception>
    internal abstract HybridTimestamp? OpenKept();

    /// <summary>Whether the store that is there now has lost nothing since it was attached.</summary>
    internal abstract Task<bool> IsSameStoreAsync(CancellationToken stop);

    /// <summary>The store was lost, and the machine knows: nothing of it is followed any more.</summary>
    internal abstract Task DetachAsync(CancellationToken stop);

    /// <summary>Which run of the store's program it was when it was last looked at; empty: not known.</summary>
    internal virtual string StoreRun => "";

    /// <summary>How the store looks next to what is kept; and if it cannot be reached, why.</summary>
    internal abstract Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, WorldLine current, CancellationToken stop);

    /// <summary>A store that had ended runs again, and is about to be restored.</summary>
    internal virtual Task LookAgainAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>How many keys it held when it was looked at last, as far as it can be asked.</summary>
    internal abstract long KeyCount { get; }

    /// <summary>The last boundary that is proved, durably; and if that is of an older world-line, the last that is not void.</summary>
    internal abstract (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current);

    /// <summary>What a restore to a version of a world-line begins with is there.</summary>
    /// <exception cref="RecoveryRefusedException">It is not; the text says what is missing.</exception>
    internal abstract void RequireBase(VersionNumber version, WorldLine of);

    /// <summary>Where a version of a world-line ends; null if that is not known.</summary>
    internal abstract Boundary? BoundaryOf(VersionNumber version, WorldLine of);

    /// <summary>Goes on with a store that has lost nothing. False: look again.</summary>
    internal abstract Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop);

    /// <summary>Begins with what the store holds, as the state at the end of a version. What is recorded may lie below it: the
    /// rest is committed when it is recorded, not before. False: look again.</summary>
    /// <param name="at">The version, in its world-line.</param>
    /// <param name="recorded">What is recorded of this shard.</param>
    /// <param name="what">What the store holds, for a message.</param>
    /// <param name="goesOn">The store is on the history that is kept, and has lost nothing: what is kept stays restorable.</param>
    /// <param name="stop">Gives up.</param>
    internal abstract Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop);

    /// <summary>Restores the store to a boundary, where a world-line begins. The front end is closed. False: look again.</summary>
    internal abstract Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop);

    /// <summary>Brings the store to the content of an older version, and has what is kept begin anew with it. No other version is void.
    /// False: look again.</summary>
    /// <param name="content">The older version.</param>
    /// <param name="at">What its content stands for: the branch of a world-line.</param>
    /// <param name="current">The world-line by which the older version was found.</param>
    /// <param name="feed">A fresh identity for the stream that fills the store, noted already.</param>
    /// <param name="stop">Gives up.</param>
    internal abstract Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed, CancellationToken stop);

    /// <summary>The store serves. The loop's thread.</summary>
    internal virtual void OnOpened()
    {
    }

    /// <summary>Nobody may use the store any more, by whatever way there is past the front end. Any thread.</summary>
    internal virtual void OnClosing()
    {
    }

    // ---- A primary's, beside another site: any thread ----

    /// <summary>What the backup has durable as a whole; null: nothing is shipped.</summary>
    public virtual WorldPoint? Watermark => null;

    /// <summary>What the shipper is doing, for people.</summary>
    public virtual string ShippingState => "off";

    /// <summary>Ships again to a backup that was given up. Whether it ships now.</summary>
    internal virtual bool AttachBackup() => false;

    /// <summary>Whether writes of clients wait, since the backup does not keep up.</summary>
    internal virtual bool HoldsWrites => false;

    /// <summary>Whether all operations of clients are held: the shard is about to be another node's.</summary>
    internal virtual bool IsHandingOver => false;

    /// <summary>The store is lost, or goes back: nothing more of a reset is written, and nothing is held for it. The control task.</summary>
    internal virtual Task EndResetAsync() => Task.CompletedTask;

    /// <summary>The lines about another site.</summary>
    internal virtual void AppendSite(Action<string, object> line)
    {
    }

    // ---- A backup's ----

    /// <summary>Begins to follow; the front end is not there yet. Expected failures as of a recovery.</summary>
    internal virtual Task FollowAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>The log of what the store follows.</summary>
    internal virtual VersionLog StreamLog => throw FollowsNobody();

    /// <summary>What the log rests on.</summary>
    internal virtual CheckpointStore StreamCheckpoints => throw FollowsNobody();

    /// <inheritdoc cref="IFollowingShard.Guard"/>
    public virtual StreamGuard? Guard => null;

    /// <inheritdoc cref="IFollowingStore.BaseBelow"/>
    public virtual long? BaseBelow(long offset) => null;

    /// <inheritdoc cref="IFollowingStore.EnterAsync"/>
    public virtual Task EnterAsync(WorldLine line, CancellationToken stop) => Task.CompletedTask;

    /// <summary>Whether the store that is followed is the one of before.</summary>
    internal virtual Task LookAtFollowedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>The store was loaded.</summary>
    internal virtual Task OnLoadedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>What is worth doing now and then while it follows: less to be done by the next start, less on the disk.</summary>
    internal virtual Task KeepFollowedAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>By these grids the versions went that are followed. Any thread.</summary>
    internal virtual void OnFollowedGrid(VersionGrid grid)
    {
    }

    /// <summary>Restores the log into a store of its own, and compares.</summary>
    internal virtual Task<RestoreTrial> CompareAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>The shard serves, or ends: what was only for following is given back.</summary>
    internal abstract Task EndFollowingAsync();

    /// <summary>It was asked of a store that never does.</summary>
    protected InvalidOperationException FollowsNobody() => new($"{StoreName} follows nobody");

    // ---- A node's of a cohort ----

    /// <summary>The shard as its cohort's node sees it; null: it has no cohort.</summary>
    internal virtual ICohortShard? CohortShard => null;

    /// <summary>The store is lost: another node of the cohort leads from now on, if one could.</summary>
    /// <returns>Whether it does: this shard ends.</returns>
    internal virtual bool GivesWay() => false;

    /// <summary>Another process has taken the shard in the metadata.</summary>
    /// <param name="later">The reign that its node leads; null: it is not known.</param>
    /// <returns>Whether this one leads a cohort: it steps down, and follows.</returns>
    internal virtual bool StepsDown(Reign? later) => false;

    /// <summary>All that was done is committed, and the shard stops: a leader has another node of its cohort lead.</summary>
    internal virtual Task HandOverAsync() => Task.CompletedTask;

    // ---- The end ----

    /// <summary>The start has failed, or was stopped: what it has opened is closed, since the process may go on.</summary>
    internal virtual Task GiveUpStartAsync() => Task.CompletedTask;

    /// <summary>How long a stop waits for the last version.</summary>
    internal abstract TimeSpan StopLimit { get; }

    /// <summary>The last version is committed: what is worth doing for the next start.</summary>
    internal virtual Task BeforeEndAsync() => Task.CompletedTask;

    /// <summary>Closes what is kept.</summary>
    internal virtual void CloseKept()
    {
    }
}
