// A shard with --commit log: performs what the ShardMachine decides. The machine is called by four parties: the front end's
// loop (ticks, answers to markers), the replication link's thread (markers read), the log's syncing thread (what is
// durable) and the recorder (what SQL holds). One lock serialises them; it is taken at the rate of versions, not of commands.
using System.Diagnostics;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : IVersionedShard, IStreamSink, IDisposable
{
    private const long BusyPollMicroseconds = 250;
    private readonly ServeOptions _options;
    private readonly ILogSink _report;
    private readonly IStore _store;
    private readonly MarkerCodec _markers;
    private readonly object _machineLock = new();
    private readonly ShardEffects _effects = new();
    private readonly HybridClock _clock = new(MonotonicMicroseconds(), WallMicroseconds());
    private ShardMachine? _machine;
    private FrontEndLoop? _loop;
    private Marker _pendingMarker;
    private byte[] _markerCommand = [];
    private long _committed;
    private long _worldLine;
    private int _streamed;
    private volatile bool _isOpen;

    private static long MonotonicMicroseconds() => (long)(Stopwatch.GetTimestamp() * (1_000_000.0 / Stopwatch.Frequency));

    private static long WallMicroseconds() => (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;

    // ---- What the front end asks (the loop's thread) ----

    public bool IsVersioned => true;

    public bool IsOpen => _isOpen;

    public long WorldLine => Volatile.Read(ref _worldLine);

    public long CommittedVersion => Volatile.Read(ref _committed);

    public string MarkerChannel => _markers.Channel;

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
            if (_machine is not { } machine || machine.Mode is not (ShardMode.Running or ShardMode.Stopping) || _unlogged != 0) { return 100_000; }
            if (machine.MarkerInFlight) { return BusyPollMicroseconds; }
            if (machine.Mode == ShardMode.Stopping) { return 0; }
            long due = _seat.Grid.StartOf(machine.OpenVersion.Next) - Now().Microseconds;
            return Math.Max(due, 0);
        }
    }

    public MarkerToSend? Tick(bool busy)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine || _unlogged != 0) { return null; }
            busy |= Interlocked.Exchange(ref _streamed, 0) != 0;
            machine.CommitAwaited(_loop is { AnybodyWaits: true }, _effects);
            machine.Tick(Now(), busy, _effects);
            return Perform() ? new MarkerToSend(_markerCommand, _pendingMarker.Next.Number) : null;
        }
    }

    public void MarkerAnswered(bool counts)
    {
        lock (_machineLock)
        {
            _machine?.MarkerAnswered(_pendingMarker, counts, _effects);
            Perform();
            if (_machine is { MarkerInFlight: true }) { _link?.Hurry(); }
        }
    }

    public void MarkerLost()
    {
        lock (_machineLock)
        {
            _machine?.MarkerLost(_pendingMarker, _effects);
            Perform();
        }
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

    // Performs what the machine has decided. True when a marker is to be sent, which only the caller of Tick can do.
    private bool Perform()
    {
        bool marker = false;
        foreach (ref readonly ShardEffect effect in _effects.Items)
        {
            switch (effect.Kind)
            {
                case ShardEffectKind.SendMarker:
                    _pendingMarker = effect.Marker;
                    _markerCommand = MarkerCommand(effect.Marker);
                    marker = true;
                    break;
                case ShardEffectKind.AppendBoundary:
                    AppendToLog(effect);
                    break;
                case ShardEffectKind.AppendEmptyRun:
                    AppendToLog(effect);
                    break;
                case ShardEffectKind.RequestSync:
                    _syncWanted.Set();
                    break;
                case ShardEffectKind.RecordCut:
                    _cuts.Record(effect.Point);
                    break;
                case ShardEffectKind.Committed:
                    Volatile.Write(ref _worldLine, effect.Point.WorldLine.Number);
                    Volatile.Write(ref _committed, effect.Point.Version.Number);
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

    private void AppendToLog(in ShardEffect effect)
    {
        if (_failure.Task.IsCompleted) { return; }
        try
        {
            lock (_logLock)
            {
                if (effect.Kind == ShardEffectKind.AppendBoundary) { _log.AppendBoundary(effect.Boundary); }
                else { _log.AppendEmptyRun(effect.Boundary.Version, effect.Boundary.Time); }
            }
        }
        catch (LogIOException e)
        {
            // The version is never durable, so never committed.
            OnLogFailure(e);
        }
    }

    // Nothing can be promised any more: better no process than one that commits wrongly.
    private void Fatal(string what)
    {
        _report.Error($"{what} The proxy stops at once, so that nothing is reported as committed that may not be; start it again, and report this.");
        Environment.Exit(70);
    }

    private byte[] MarkerCommand(in Marker marker)
    {
        Span<byte> payload = stackalloc byte[Marker.PayloadBytesMax];
        int length = marker.Format(payload);
        string text = System.Text.Encoding.ASCII.GetString(payload[..length]);
        return System.Text.Encoding.ASCII.GetBytes(
            $"*3\r\n$8\r\nSPUBLISH\r\n${_markers.Channel.Length}\r\n{_markers.Channel}\r\n${text.Length}\r\n{text}\r\n");
    }
}
