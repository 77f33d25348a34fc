// A shard with versions: performs what the ShardMachine decides. Here is the skeleton that all stores share: the machine and its
// lock, its effects, the place in the metadata, the recorder, the door to the store. VersionedShard.Control starts, watches and
// stops, VersionedShard.Recovery performs what ShardLifecycle decides. VersionedShard.StateObject is what is asked of a store: LogShard,
// BgsaveShard and FasterShard answer it. RedisShard is what it takes that the store is a Redis, KeptVersions what it takes that a commit is
// a whole state.
//
// What has a state of its own is a part, beside it: ShardClock; RestoredStart, what slogger restore has left; ShardMembership, joining and
// leaving; ShardCoordination, the others in the cluster, with PeerConnections; ShardBatches and DependencyNotes, what sessions ask;
// PrimarySite and ShardFollower, two sites.
//
// Threads. The machine is called by the front end's loop (ticks, answers to markers), by the recorder (what SQL holds), by the
// control task, and by those that make versions durable (LogShard: the replication link's thread and the syncing thread;
// BgsaveShard: the saving task; FasterShard: whoever ends a checkpoint). _machineLock serialises them; it also guards the clock, the
// effects and what is said to be under it. It is taken at the rate of versions, not of commands. Recovery and upkeep belong to the control
// task; until Attach, to the caller of StartAsync.
// Order of locks: _machineLock first, then the log's; the door's own is held while nothing else is called.
using Slogger.Core.Cuts;
using Slogger.Core.Lifecycle;
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IShardPort, ICutListener, IDisposable
{
    /// <summary>When nothing can be closed: how long until it is looked at again, in microseconds.</summary>
    protected const long IdleMicroseconds = 100_000;

    protected readonly ServeOptions _options;
    protected readonly ILogger _report;
    protected readonly IStore _store;
    protected readonly Lock _machineLock = new();
    protected readonly ShardEffects _effects = new();
    protected ShardMachine? _machine;
    protected ClusterSeat _seat = null!;
    private readonly ShardClock _clock;                 // under _machineLock
    private readonly RestoredStart _restored;
    private readonly ShardMembership _membership;
    private readonly ShardBatches _batches;
    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private CutRecorder _cuts = null!;
    protected FrontEndLoop? _loop;
    private Marker _pendingMarker;
    private readonly Lock _cutLock = new();
    private WorldPoint _recordedCut;
    protected long _committed;
    protected long _worldLine;
    private int _changedElsewhere;
    private Version _peersWaitUntil;

    protected VersionedShard(ServeOptions options, ILogger report, IStore store)
    {
        _options = options;
        _report = report;
        _store = store;
        _clock = new ShardClock(options.DataDirectory, options.Time);
        _restored = new RestoredStart(options.DataDirectory);
        _site = new PrimarySite(this, report);
        _membership = new ShardMembership(this, report);
        _peers = new PeerConnections(this, report);
        _follower = new ShardFollower(this, store, _checkpointing, report);
        _batches = new ShardBatches(this, options.ClockError);
    }

    protected long MonotonicMicroseconds() => ShardClock.MonotonicUs(_options.Time);

    /// <summary>The site's metadata.</summary>
    public IMetadataStore Metadata => _seat.Metadata;

    // ---- What its parts ask ----

    /// <summary>Guards the machine.</summary>
    internal Lock MachineLock => _machineLock;

    /// <summary>The machine, once the shard runs. Under its lock.</summary>
    internal ShardMachine? Machine => _machine;

    /// <summary>The store's, for messages.</summary>
    internal string StoreName => _store.Name;

    /// <summary>What it does, for people.</summary>
    internal string State
    {
        get => _state;
        set => _state = value;
    }

    /// <summary>Whether the store may be lost.</summary>
    internal bool IsSuspected => _door.IsSuspected;

    /// <summary>The shard's place in the metadata.</summary>
    internal ClusterSeat Seat => _seat;

    /// <summary>The front end's, once it is there.</summary>
    internal FrontEndLoop? Loop => _loop;

    /// <summary>Whether the shard has yet to join its cluster, and what it may do until then.</summary>
    internal Joiner Joiner => _life.Joiner;

    /// <summary>Cancelled when the shard ends.</summary>
    internal CancellationToken End => _ending.Token;

    // ---- What the front end asks (the loop's thread) ----

    public bool IsVersioned => true;

    public bool IsPunctual => _seat.HasPeers;

    public bool IsOpen => _door.IsOpen;

    public bool IsEnding => (_isStopping || _membership.IsLeaving) && !_ending.IsCancellationRequested && _isAttached && !_door.IsSuspected;

    public long WorldLine => Volatile.Read(ref _worldLine);

    public long CommittedVersion => Volatile.Read(ref _committed);

    /// <summary>The recorded cut. Any thread.</summary>
    public WorldPoint RecordedCut
    {
        get
        {
            lock (_cutLock) { return _recordedCut; }
        }

        protected set
        {
            lock (_cutLock) { _recordedCut = value; }
        }
    }

    /// <inheritdoc />
    public virtual bool MayTell => !_isBroken;

    private volatile bool _isBroken;

    // Under the machine's lock.
    private void PublishCut()
    {
        WorldPoint cut = RecordedCut;
        Volatile.Write(ref _worldLine, cut.WorldLine.Number);
        Volatile.Write(ref _committed, cut.Version.Number);
    }

    public virtual WorldPoint? Watermark => null;

    public virtual bool IsFenced => false;

    public virtual void ProveOwnership(Action proved) => proved();

    public bool KeepsClients => _options.OnRollback == RollbackAction.Error;

    public long OpenVersion
    {
        get
        {
            lock (_machineLock) { return _machine?.OpenVersion.Number ?? 0; }
        }
    }

    public long MicrosecondsToNextTick()
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine || machine.Mode is not (ShardMode.Running or ShardMode.Stopping)) { return IdleMicroseconds; }
            if (machine.Mode == ShardMode.Stopping && IsPunctual) { return MicrosecondsHeld(machine) ?? 0; }
            if (IsPunctual)
            {
                ClockReading reading = _clock.Read();
                HybridTimestamp now = _clock.Now(reading);
                long wait = machine.NextBoundaryUs(now) - now.Microseconds;
                OnBoundaryAwaited(reading.MonotonicUs + wait);
                return wait;
            }
            if (MicrosecondsHeld(machine) is { } held) { return held; }
            // A fast-forward does not wait for the clock.
            if (machine.Mode == ShardMode.Stopping || machine.BoundaryDue(Now())) { return 0; }
            // Only every stride-th version can be closed: earlier ticks would close nothing.
            long stride = machine.Stride;
            long closable = (machine.OpenVersion.Number + stride - 1) / stride * stride;
            return Math.Max(_seat.Grid.StartOf(new Version(closable + 1)) - Now().Microseconds, 0);
        }
    }

    public bool NeedsMarker
    {
        get
        {
            lock (_machineLock) { return _machine is { NeedsMarker: true }; }
        }
    }

    public long MicrosecondsToReplies()
    {
        if (!_seat.HasPeers) { return 0; }
        lock (_machineLock)
        {
            return _machine is { } machine ? _batches.HoldReplyUntil(machine.OpenVersion).Microseconds - Now().Microseconds : 0;
        }
    }

    public MarkerToSend? Tick(bool busy, bool inFlight)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine || !MayClose) { return null; }
            bool hasChanged = Interlocked.Exchange(ref _changedElsewhere, 0) != 0 || (busy && (inFlight || MayHaveChanged));
            if (busy) { machine.Forwarded(); }
            bool isAwaited = IsCommitAwaited || machine.Committed.Version < _peersWaitUntil || _membership.IsJoining
                || _membership.IsLeaving;
            machine.CommitAwaited(isAwaited, _effects, Version.Max(AwaitedVersion, _peersWaitUntil));
            Tick(machine, hasChanged);
            return Perform() ? ToSend(_pendingMarker) : null;
        }
    }

    /// <summary>Nothing that begins later than then, in microseconds of the monotonic clock, may be in the open version. Only among other
    /// shards.</summary>
    protected virtual void OnBoundaryAwaited(long monotonicUs)
    {
    }

    /// <summary>Has the machine tick: before, it is to be known whether the open version is empty. Under the machine's lock.</summary>
    protected virtual void Tick(ShardMachine machine, bool hasChanged) => machine.Tick(Now(), hasChanged, _effects);

    public virtual void MarkerAnswered(bool counts)
    {
        lock (_machineLock)
        {
            _machine?.MarkerAnswered(_pendingMarker, counts, _effects);
            Perform();
        }
    }

    public virtual void MarkerLost()
    {
        lock (_machineLock)
        {
            _machine?.MarkerLost(_pendingMarker, _effects);
            Perform();
        }
    }

    /// <inheritdoc />
    public IBatchPort Batches => _batches;

    /// <summary>See <see cref="IBatchPort.LastDone"/>; without a stream nothing is known.</summary>
    protected internal virtual (Sequence Last, long Version)? LastDone(SessionId session) => null;

    /// <summary>See <see cref="IBatchPort.FastForward"/>.</summary>
    internal void FastForward(Version atLeast)
    {
        HybridTimestamp opens = HybridTimestamp.Of(_seat.Grid.StartOf(atLeast), 0);
        lock (_machineLock)
        {
            // The clock goes along, and so does the next process's: it must not open earlier versions again. One that is too far behind
            // waits, and its clients are refused in the end.
            if (_machine is not { } machine || !_clock.TryObserve(opens)) { return; }
            machine.FastForward(atLeast);
        }
    }

    /// <summary>Opens a version ahead of the clock, on the loop's thread. Any thread.</summary>
    protected void FastForwardSoon(Version atLeast)
    {
        if (_loop is not { } loop) { return; }
        loop.Post(() =>
        {
            FastForward(atLeast);
            loop.Boundary.OnFastForward();
        });
    }

    public void OnCommitAwaited()
    {
        lock (_machineLock)
        {
            _machine?.CommitAwaited(true, _effects, AwaitedVersion);
            Perform();
        }
        if (_seat.HasPeers) { _cuts.Wake(); }
    }

    public virtual void BeforeUnloggedChange()
    {
    }

    public virtual void AfterUnloggedChange(Action settled) => settled();

    public void Warn(string message) => _report.Warn(message);

    /// <summary>Less is held than before. Any thread.</summary>
    internal void OnHoldEnded()
    {
        if (_loop is { } loop) { loop.Post(loop.OnHoldEnded); }
    }

    /// <summary>Has the front end's loop do something.</summary>
    internal void PostToLoop(Action action) => _loop?.Post(action);

    /// <summary>The store was written to by others than the front end: the version is not empty. Any thread.</summary>
    protected void MarkChanged() => Volatile.Write(ref _changedElsewhere, 1);

    /// <summary>The clock. For a tick it is read after the receive: the loop ticks after it has read its clients.</summary>
    internal HybridTimestamp Now()
    {
        lock (_machineLock) { return _clock.Now(); }
    }

    // ---- Effects, in order, under the machine's lock ----

    /// <summary>Performs what the machine has decided. True when a marker (or save) is to be sent, which only a tick decides.</summary>
    protected bool Perform()
    {
        bool marker = false;
        foreach (ref readonly ShardEffect effect in _effects.Items)
        {
            switch (effect.Kind)
            {
                case ShardEffectKind.SendMarker or ShardEffectKind.StartSave:
                    _pendingMarker = effect.Marker;
                    marker = true;
                    break;
                case ShardEffectKind.AppendBoundary or ShardEffectKind.AppendEmptyRun:
                    Append(effect);
                    _moves?.OnBoundary(effect.Boundary.Point);
                    break;
                case ShardEffectKind.RequestSync:
                    RequestSync();
                    break;
                case ShardEffectKind.RecordDurable:
                    _cuts.Record(effect.Claim);
                    break;
                case ShardEffectKind.Committed:
                    RecordedCut = effect.Point;
                    PublishCut();
                    OnCommitted(effect.Point);
                    _moves?.OnCut(effect.Point);
                    if (_loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
                    break;
                case ShardEffectKind.Stopped:
                    _stopped.TrySetResult();
                    break;
                case ShardEffectKind.Violation:
                    Fatal(effect.Text ?? "an invariant does not hold");
                    break;
            }
        }
        _effects.Clear();
        return marker;
    }

    // Nothing can be promised any more: better no process than one that commits wrongly.
    protected void Fatal(string what)
    {
        if (_options.IsRehearsal)
        {
            Fail(ProxyExit.Failed(what, "report this"));
            return;
        }
        _report.Error($"{what} The proxy stops at once, so that nothing is reported as committed that may not be; start it again, "
            + "and report this.");
        // The end of the process waits for the log, whose reader may be slow. Clients do not hear anything meanwhile.
        _isBroken = true;
        _loop?.Halt();
        Environment.Exit(70);
    }

    /// <summary>What is kept can restore everything up to this point.</summary>
    protected void OnDurable(WorldPoint point)
    {
        lock (_machineLock)
        {
            _machine?.LogDurable(point, _effects);
            Perform();
        }
    }

    /// <summary>The save that a marker has begun is over: if it is kept, its version is durable. Under the machine's lock.</summary>
    protected void OnSaveEnded(in Marker marker, bool isKept)
    {
        _machine?.SaveCompleted(marker, isKept, _effects);
        Perform();
        // Not one that was given up meanwhile, since the world-line was left.
        WorldPoint point = new(marker.WorldLine, marker.Closed);
        if (isKept && _machine?.LastBoundary.Point == point) { OnDurable(point); }
    }

    // ---- What the metadata says (the recorder's task) ----

    bool ICutListener.IsCommitAwaited => IsCommitAwaited;

    Version ICutListener.AwaitedVersion => AwaitedVersion;

    private Version AwaitedVersion => _site.HoldsAll ? new(OpenVersion) : new(_loop?.AwaitedVersion ?? 0);

    // Others than clients wait for a commit, too.
    private bool IsCommitAwaited => _site.HoldsAll || _loop?.AwaitedVersion > CommittedVersion;

    bool ICutListener.IsJoining => _membership.IsJoining;

    Task<DurableClaim?> ICutListener.AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop) =>
        _membership.AskToJoinAsync(recorded, cut, stop);

    Version ICutListener.OpenVersion => new(OpenVersion);

    void ICutListener.OnRecorded(WorldPoint point, DurableResult? result)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            switch (result?.Outcome)
            {
                case null:
                    machine.RecordUnavailable(point);
                    break;
                case DurableOutcome.Recorded:
                    machine.DurableRecorded(point, _membership.IsJoining ? machine.Committed : result.Value.Cut, _effects);
                    break;
                case DurableOutcome.StaleWorldLine:
                    LeaveWorldLine(machine, point, result.Value.Cut.WorldLine);
                    break;
                case DurableOutcome.Deposed:
                    OnDeposed("");
                    break;
                default:
                    machine.RecordRefused(point, $"the metadata answered {result.Value.Outcome}", _effects);
                    break;
            }
            Perform();
        }
    }

    void ICutListener.OnMetadataFailed(ProxyExit exit) => Fail(exit);

    // Another shard's recovery has begun a world-line: this one's store has to go back to its branch. While this shard is in a
    // recovery of its own, that finds out by itself.
    private void LeaveWorldLine(ShardMachine machine, WorldPoint point, WorldLine current)
    {
        bool isNews = current > machine.WorldLine && _isAttached && machine.Mode != ShardMode.StoreLost;
        machine.WorldLineLeft(point);
        if (!isNews) { return; }
        _isLeft = true;
        Suspect($"world-line {current} has begun");
    }

    /// <summary>The cluster has left the world-line that this shard is in.</summary>
    private volatile bool _isLeft;
}
