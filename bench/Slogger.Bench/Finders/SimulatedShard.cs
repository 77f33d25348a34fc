// A shard without a store: a version becomes durable some time after its end, and depends on what sessions had seen elsewhere. All
// that it does about it is the product's: recorder, link, coordinator, pulse, over a seat of its own in the metadata.
using System.Diagnostics;
using Microsoft.Extensions.Logging;
using Slogger.Bench.Load;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Slogger.Proxy.Shards;

namespace Slogger.Bench.Finders;

internal sealed class SimulatedShard : ICutListener, ICoordinatorListener, IPulseListener, IDisposable
{
    private readonly ClusterSeat _seat;
    private readonly CoordinatorLink _link;
    private readonly ClusterPulse _pulse;
    private readonly CutRecorder _recorder;
    private readonly DependencyTrail? _trail;
    private readonly Lock _lock = new();
    private readonly LatencyHistogram _latency = new();
    private VersionNumber _durable, _committed, _claimed;
    private bool _isClaiming;
    private bool _measures;

    public ClusterSeat Seat => _seat;

    public SimulatedShard(ClusterSeat seat)
    {
        _seat = seat;
        Quiet report = new();
        _link = new(seat, report, this);
        Coordinator = new(seat, report);
        _pulse = new(seat, this, _link, Coordinator);
        _recorder = new(seat, report, this, _link, TimeProvider.System);
        _committed = _claimed = _durable = seat.Grid.VersionAt(NowUs()).Previous;
        if (seat.Finder == FinderKind.Approximate) return;
        _trail = new(seat.Shard, seat.ShardCount);
        _trail.Begin(new(WorldLine.First, VersionNumber.Zero), _durable);
    }

    public CutCoordinator Coordinator { get; }

    public Slogger.Core.Versions.VersionGrid Grid => _seat.Grid;

    /// <summary>Of versions, from their end to the commit, while measuring.</summary>
    public LatencyHistogram Latency => _latency;

    public bool IsLinked => _link.IsConnected;

    /// <summary>How many durable versions are not in the cut.</summary>
    public long Behind
    {
        get
        {
            lock (_lock) return _durable.Number - _committed.Number;
        }
    }

    public Task RunAsync(CancellationToken stop) => Task.WhenAll(_recorder.RunAsync(stop), _link.RunAsync(stop), _pulse.RunAsync(stop));

    public void Measure(bool isOn)
    {
        lock (_lock) _measures = isOn;
    }

    /// <summary>Versions up to one are durable; the last depends on others.</summary>
    public void Close(VersionNumber through, ReadOnlySpan<Dependency> on)
    {
        lock (_lock)
        {
            if (through <= _durable) return;
            _trail?.Add(on, through);
            _durable = through;
            Claim();
        }
    }

    // As the shard's machine does: one at a time, the newest next.
    private void Claim()
    {
        if (_isClaiming || _durable <= _claimed) return;
        _isClaiming = true;
        _claimed = _durable;
        _recorder.Record(DurableClaim.Of(new(WorldLine.First, _durable)));
    }

    private void Answered(bool isClaimed)
    {
        lock (_lock)
        {
            _isClaiming = false;
            if (!isClaimed) _claimed = _committed;
            Claim();
        }
    }

    private void Commit(VersionNumber version)
    {
        lock (_lock)
        {
            if (version <= _committed) return;
            long now = NowUs();
            for (VersionNumber v = _committed.Next; _measures && v <= version; v = v.Next)
                _latency.Record(Math.Max(0, now - _seat.Grid.StartOf(v.Next)) * 1000);
            _committed = version;
            _trail?.Committed(new(WorldLine.First, version));
        }
    }

    bool ICutListener.IsCommitAwaited => true;

    VersionNumber ICutListener.AwaitedVersion => _seat.Grid.VersionAt(NowUs());

    bool ICutListener.IsStopping => false;

    PrecedenceRow? ICutListener.RowFor(WorldPoint through, bool startsOver)
    {
        lock (_lock) return _trail?.RowFor(through, startsOver);
    }

    DurableClaim ICutListener.StepOf(in DurableClaim claim)
    {
        lock (_lock) return _trail?.StepOf(claim) ?? claim;
    }

    void ICutListener.OnRecorded(WorldPoint point, DurableResult? result) => Answered(result is { Outcome: DurableOutcome.Recorded });

    void ICutListener.OnSaid(WorldPoint point) => Answered(true);

    void ICutListener.OnCut(ClusterCut cut) => Commit(cut.Of(_seat.Shard).Version);

    void ICutListener.OnMetadataFailed(ProxyExit exit) => throw new BenchException(exit.Problem ?? "");

    void ICoordinatorListener.OnTold(ClusterCut cut, VersionNumber own) => Commit(own);

    void ICoordinatorListener.OnAskedAgain() => _recorder.AskedAgain();

    void ICoordinatorListener.OnLost() => _recorder.Wake();

    bool IPulseListener.HasStore => true;

    void IPulseListener.OnCut(ClusterCut cut) => Commit(cut.Of(_seat.Shard).Version);

    bool ICutListener.IsJoining => false;

    Task<DurableClaim?> ICutListener.AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop) =>
        Task.FromResult<DurableClaim?>(null);

    long IPulseListener.NowUs => NowUs();

    void IPulseListener.OnGrid(GridView grid)
    {
    }

    void IPulseListener.OnMembers()
    {
    }

    void IPulseListener.OnDeposed(string owner) => throw new BenchException($"shard {_seat.Shard} was taken by {owner}");

    void IPulseListener.OnMetadataFailed(ProxyExit exit) => throw new BenchException(exit.Problem ?? "");

    public static long NowUs() => (DateTime.UtcNow - DateTime.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;

    public void Dispose()
    {
        _link.Dispose();
        Coordinator.Dispose();
        _recorder.Dispose();
        _seat.DisposeAsync().AsTask().Wait();
    }

    private sealed class Quiet() : LineLogger(LogLevel.Error)
    {
        protected override void Write(LogLevel level, string message) => Console.Error.WriteLine(message);
    }
}
