// A shard with --commit bgsave: D-Redis as in the DPR paper, section 6. The boundary of a version is the BGSAVE itself, sent
// where in mode log the marker is sent: Redis forks at that place, so the file holds exactly what came before it. The version is
// durable when that file is kept, and committed when the cut is recorded. Here is what the front end asks and what the machine
// decides; BgsaveShard.Saving follows the saves, BgsaveShard.Control starts and recovers.
//
// The machine is called by the front end's loop, the saving task and the recorder. One lock serialises them.
using System.Diagnostics;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;
using Slogger.Redis.Connections;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal sealed partial class BgsaveShard : IVersionedShard, IDisposable
{
    private const long NotReadyMicroseconds = 20_000;
    private static readonly byte[] SaveCommand = "*1\r\n$6\r\nBGSAVE\r\n"u8.ToArray();
    private readonly ServeOptions _options;
    private readonly ILogSink _report;
    private readonly IStore _store;
    private readonly Func<RedisEndpoint, IStoreConnector> _connectors;
    private readonly Lock _machineLock = new();
    private readonly ShardEffects _effects = new();
    private readonly HybridClock _clock = new(MonotonicMicroseconds(), WallMicroseconds());
    private readonly StoreDoor _door = new();
    private readonly CancellationTokenSource _ending = new();
    private readonly TaskCompletionSource _stopped = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly TaskCompletionSource<ProxyExit> _failure = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly OperationRate _rate = new();
    private SnapshotStore _snapshots = null!;
    private ClusterSeat _seat = null!;
    private CutRecorder _cuts = null!;
    private ShardMachine? _machine;
    private FrontEndLoop? _loop;
    private Marker _pendingMarker;
    private long _committed;
    private long _worldLine;

    public BgsaveShard(ServeOptions options, ILogSink report, IStore store, Func<RedisEndpoint, IStoreConnector> connectors)
    {
        _options = options;
        _report = report;
        _store = store;
        _connectors = connectors;
        _undoFile = Path.Combine(options.DataDirectory, "restore-undo.json");
        _attachUndoFile = Path.Combine(options.DataDirectory, "attach-undo.json");
    }

    private static long MonotonicMicroseconds() => (long)(Stopwatch.GetTimestamp() * (1_000_000.0 / Stopwatch.Frequency));

    private static long WallMicroseconds() => (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;

    // ---- What the front end asks (the loop's thread) ----

    public bool IsVersioned => true;

    public bool IsOpen => _door.IsOpen;

    public long WorldLine => Volatile.Read(ref _worldLine);

    public long CommittedVersion => Volatile.Read(ref _committed);

    /// <summary>There are no markers in the stream.</summary>
    public string MarkerChannel => "";

    public bool KeepsClients => _options.OnRollback == RollbackAction.Error;

    public Task<ProxyExit> Failure => _failure.Task;

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
            if (_machine is not { } machine || machine.Mode is not (ShardMode.Running or ShardMode.Stopping)) { return 100_000; }
            // While a save runs, or would be refused, there is nothing to decide: the saving task ticks.
            if (machine.MarkerInFlight || _ready is null) { return NotReadyMicroseconds; }
            if (machine.Mode == ShardMode.Stopping) { return 0; }
            // Only every stride-th version can be closed: earlier ticks would close nothing.
            long stride = machine.StatusAt(Now()).Stride;
            long open = machine.OpenVersion.Number;
            long closable = (open + stride - 1) / stride * stride;
            return Math.Max(_seat.Grid.StartOf(new Version(closable + 1)) - Now().Microseconds, 0);
        }
    }

    public MarkerToSend? Tick(bool busy)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine || _ready is null) { return null; }
            busy |= Interlocked.Exchange(ref _changed, 0) != 0;
            machine.CommitAwaited(_loop is { AnybodyWaits: true }, _effects);
            machine.Tick(Now(), busy, _effects);
            if (!Perform()) { return null; }
            // What is read of Redis from here on is compared with what was read last before this BGSAVE.
            _before = _ready;
            _ready = null;
            return new MarkerToSend(SaveCommand, _pendingMarker.Next.Number) { Accepts = (byte)'+' };
        }
    }

    public void MarkerAnswered(bool counts)
    {
        lock (_machineLock)
        {
            _machine?.MarkerAnswered(_pendingMarker, counts, _effects);
            Perform();
            if (counts && _before is { } before) { _started = new StartedSave(_pendingMarker, before); }
        }
        if (!counts) { OnRefused(); }
        Wake();
    }

    public void MarkerLost()
    {
        lock (_machineLock)
        {
            _machine?.MarkerLost(_pendingMarker, _effects);
            Perform();
        }
        Wake();
    }

    public void OnCommitAwaited()
    {
        lock (_machineLock)
        {
            _machine?.CommitAwaited(true, _effects);
            Perform();
        }
    }

    public void Warn(string message) => _report.Warn(message);

    // Read after the receive: the loop ticks after it has read its clients.
    private HybridTimestamp Now() => _clock.Now(MonotonicMicroseconds(), WallMicroseconds());

    // ---- Effects, in order, under the machine's lock ----

    // Performs what the machine has decided. True when a save is to be started, which only the caller of Tick can do.
    private bool Perform()
    {
        bool save = false;
        foreach (ref readonly ShardEffect effect in _effects.Items)
        {
            switch (effect.Kind)
            {
                case ShardEffectKind.StartSave:
                    _pendingMarker = effect.Marker;
                    save = true;
                    break;
                case ShardEffectKind.AppendBoundary:
                    // The snapshot is kept already: that was the condition.
                    break;
                case ShardEffectKind.AppendEmptyRun:
                    _emptyRun = effect.Boundary;
                    break;
                case ShardEffectKind.RequestSync:
                    Wake();
                    break;
                case ShardEffectKind.RecordCut:
                    _cuts.Record(effect.Point);
                    break;
                case ShardEffectKind.Committed:
                    Volatile.Write(ref _worldLine, effect.Point.WorldLine.Number);
                    Volatile.Write(ref _committed, effect.Point.Version.Number);
                    _prune = effect.Point;
                    Wake();
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
        return save;
    }

    // Nothing can be promised any more: better no process than one that commits wrongly.
    private void Fatal(string what)
    {
        _report.Error($"{what} The proxy stops at once, so that nothing is reported as committed that may not be; start it again, and report this.");
        Environment.Exit(70);
    }

    private void OnRecordAnswered(WorldPoint point, CutRecordResult? result)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            CutRecorder.Tell(machine, point, result, _effects);
            Perform();
        }
    }

    public void Dispose()
    {
        _ending.Dispose();
        _attention.Dispose();
        _savesWanted.Dispose();
    }
}
