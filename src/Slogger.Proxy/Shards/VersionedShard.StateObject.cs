// What a shard asks of its store: what the design and the DPR paper (section 3) call a state object, with its three operations Op, Commit
// and Restore. A store is a class that overrides what is here: nothing else differs between stores. The laws that it has to keep are in
// docs/internals/STORES.md, and tested by the conformance suite. A store that commits whole states has most of it from KeptVersions; one
// that is a Redis from RedisShard.
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Resp;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    // ---- What it is, for people ----

    /// <summary>The word of --commit.</summary>
    protected abstract string ModeName { get; }

    /// <summary>What makes versions durable, for messages.</summary>
    protected abstract string KeptName { get; }

    /// <summary>A store of this kind without a key, for messages.</summary>
    protected abstract string EmptyStoreName { get; }

    /// <summary>Whether --seed is for it.</summary>
    protected virtual bool MaySeed => true;

    /// <summary>What a refusal's text, which speaks of the log, needs to be understood.</summary>
    protected virtual string RefusalNote => "";

    /// <summary>The lines about what is kept.</summary>
    protected abstract IEnumerable<(string Name, long Value)> KeptStatus();

    // ---- Op ----

    /// <summary>How the front end reaches the store, where it is now.</summary>
    public abstract IStoreConnector Connector { get; }

    /// <summary>The store's reply to COMMAND: which commands there are, and where their keys stand.</summary>
    protected abstract Task<byte[]> CommandsAsync(CancellationToken stop);

    /// <summary>Where keys that move are copied from and to, and messages published; null: the store does neither.</summary>
    protected internal abstract RedisEndpoint? Endpoint { get; }

    /// <summary>Returns when nothing is executed any more of what connections carried that were lost (<see cref="CarrierLost"/>): before
    /// the front end opens again.</summary>
    protected virtual Task EndLostAsync(CancellationToken stop) => Task.CompletedTask;

    // ---- Commit: under the machine's lock, if nothing else is said ----

    /// <summary>Settings of the machine.</summary>
    protected abstract ShardOptions MachineOptions { get; }

    /// <summary>How long nothing can be closed, in microseconds; null if a version can be.</summary>
    protected abstract long? MicrosecondsHeld(ShardMachine machine);

    /// <summary>Whether a version may be closed now.</summary>
    protected abstract bool MayClose { get; }

    /// <summary>Whether what was executed since the last version's end can have changed anything. No: the version passes empty.</summary>
    protected virtual bool MayHaveChanged => true;

    /// <summary>The command that closes a version: at its place among all others the version ends.</summary>
    protected abstract MarkerToSend ToSend(in Marker marker);

    /// <summary>The channel of markers in a replication stream; empty without one.</summary>
    public abstract string MarkerChannel { get; }

    /// <inheritdoc />
    public CommandCounts OwnCommands { get; } = new();

    /// <summary>Keeps a boundary, or a run of empty versions.</summary>
    protected abstract void Append(in ShardEffect effect);

    /// <summary>Has what was kept made durable. When it is, <see cref="OnDurable"/> says so, and never before.</summary>
    protected abstract void RequestSync();

    /// <summary>A point was committed: what no recovery can need any more may be deleted.</summary>
    protected virtual void OnCommitted(WorldPoint point)
    {
    }

    /// <summary>Starts what makes versions durable.</summary>
    protected abstract void StartWorkers();

    /// <summary>Ends it; <see cref="_ending"/> is cancelled already.</summary>
    protected abstract Task EndWorkersAsync();

    /// <summary>What is to be done at least every second. The control task.</summary>
    protected virtual Task MaintainAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>What is kept cannot be written, or not be used.</summary>
    protected virtual void OnLogFailure(LogException e) => Fail(ProxyExit.Failed($"{KeptName} cannot be used: {e.Message}", ""));

    // ---- Restore: the control task; until Attach, the caller of StartAsync ----

    /// <summary>The shard is this process's, by the metadata; nothing has touched the store yet.</summary>
    protected abstract void OnTaken();

    /// <summary>Opens what is kept. Returns when its last version was closed.</summary>
    /// <exception cref="LogException">It cannot be used.</exception>
    protected abstract HybridTimestamp? OpenKept();

    /// <summary>Whether the store that is there now has lost nothing since it was attached.</summary>
    protected internal abstract Task<bool> IsSameStoreAsync(CancellationToken stop);

    /// <summary>The store was lost, and the machine knows: nothing of it is followed any more.</summary>
    protected abstract Task DetachAsync(CancellationToken stop);

    /// <summary>Which run of the store's program it was when it was last looked at; empty: not known.</summary>
    protected virtual string StoreRun => "";

    /// <summary>How the store looks next to what is kept; and if it cannot be reached, why.</summary>
    protected abstract Task<(StoreSituation Situation, string Text)> LookAsync(bool atStart, WorldLine current, CancellationToken stop);

    /// <summary>A store that had ended runs again, and is about to be restored.</summary>
    protected virtual Task LookAgainAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>How many keys it held when it was looked at last, as far as it can be asked.</summary>
    protected abstract long KeyCount { get; }

    /// <summary>The last boundary that is proved, durably; and if that is of an older world-line, the last that is not void.</summary>
    protected abstract (Boundary? Last, Boundary? BelowBranch) Proved(WorldLine current);

    /// <summary>What a restore to a version of a world-line begins with is there.</summary>
    /// <exception cref="RecoveryRefusedException">It is not; the text says what is missing.</exception>
    protected abstract void RequireBase(Version version, WorldLine of);

    /// <summary>Where a version of a world-line ends; null if that is not known.</summary>
    protected abstract Boundary? BoundaryOf(Version version, WorldLine of);

    /// <summary>Goes on with a store that has lost nothing. False: look again.</summary>
    protected abstract Task<bool> ContinueAsync(Boundary last, WorldPoint recorded, CancellationToken stop);

    /// <summary>Begins with what the store holds, as the state at the end of a version. What is recorded may lie below it: the
    /// rest is committed when it is recorded, not before. False: look again.</summary>
    /// <param name="at">The version, in its world-line.</param>
    /// <param name="recorded">What is recorded of this shard.</param>
    /// <param name="what">What the store holds, for a message.</param>
    /// <param name="goesOn">The store is on the history that is kept, and has lost nothing: what is kept stays restorable.</param>
    /// <param name="stop">Gives up.</param>
    protected abstract Task<bool> BeginAsync(WorldPoint at, WorldPoint recorded, string what, bool goesOn, CancellationToken stop);

    /// <summary>Restores the store to a boundary, where a world-line begins. The front end is closed. False: look again.</summary>
    protected abstract Task<bool> RestoreAsync(WorldLine line, Boundary branch, WorldLine current, CancellationToken stop);

    /// <summary>Brings the store to the content of an older version, and has what is kept begin anew with it. No other version is void.
    /// False: look again.</summary>
    /// <param name="content">The older version.</param>
    /// <param name="at">What its content stands for: the branch of a world-line.</param>
    /// <param name="current">The world-line by which the older version was found.</param>
    /// <param name="feed">A fresh identity for the stream that fills the store, noted already.</param>
    /// <param name="stop">Gives up.</param>
    protected abstract Task<bool> BeginWithAsync(Boundary content, WorldPoint at, WorldLine current, string feed, CancellationToken stop);

    // ---- The end ----

    /// <summary>How long a stop waits for the last version.</summary>
    protected abstract TimeSpan StopLimit { get; }

    /// <summary>The last version is committed: what is worth doing for the next start.</summary>
    protected virtual Task BeforeEndAsync() => Task.CompletedTask;

    /// <summary>Closes what is kept.</summary>
    protected virtual void CloseKept()
    {
    }
}
