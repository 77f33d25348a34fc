// A shard's part in what the shards of a cluster do together: the link to the coordinator of cuts, that role itself, and the pulse that
// says who is alive. None of it exists for a shard alone.
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;

namespace Slogger.Proxy.Shards;

/// <summary>The shard among others.</summary>
internal sealed class ShardCoordination : ICoordinatorListener, IPulseListener, IDisposable
{
    private readonly VersionedShard _shard;
    private readonly ShardCuts _cuts;
    private readonly ClusterSeat _seat;
    private readonly TimeSpan _clockError;
    private readonly ILogger _report;
    private readonly ClusterPulse _pulse;

    /// <summary>Makes the parts; nothing runs yet.</summary>
    public ShardCoordination(VersionedShard shard, ShardCuts cuts, TimeSpan clockError, ILogger report)
    {
        (_shard, _cuts, _seat, _clockError, _report) = (shard, cuts, shard.Seat, clockError, report);
        Link = new CoordinatorLink(_seat, report, this);
        Coordinator = new CutCoordinator(_seat, report);
        _pulse = new ClusterPulse(_seat, this, Link, Coordinator);
    }

    /// <summary>To who finds the cuts.</summary>
    public CoordinatorLink Link { get; }

    /// <summary>That role, which this process may have.</summary>
    public CutCoordinator Coordinator { get; }

    /// <summary>Beats, and keeps connected, until the shard ends.</summary>
    public Task RunAsync() =>
        Task.WhenAll(_shard.Lifetime.Work("the pulse", _pulse.RunAsync),
            _shard.Lifetime.Work("the connection to the coordinator", Link.RunAsync));

    /// <summary>The lines of the status.</summary>
    public void AppendShards(Action<string, object> line)
    {
        line("partitions", _seat.Partitions.Kind == PartitionKind.Hash ? "hash"
            : FormattableString.Invariant($"range,{_seat.Partitions.Count}"));
        line("finder", _seat.Finder.Name);
        line("coordinator", Coordinator.IsActive ? "here" : Link.IsConnected ? "connected" : "none");
        foreach (ShardPulse shard in _pulse.Shards)
        {
            string quiet = shard.Life == ShardLife.Down ? FormattableString.Invariant($",since_s={(long)shard.QuietFor.TotalSeconds}") : "";
            line($"shard{shard.Shard}", $"{shard.Life.ToString().ToLowerInvariant()}{quiet},address={shard.Address}");
        }
    }

    public void Dispose()
    {
        Link.Dispose();
        Coordinator.Dispose();
    }

    // ---- What the coordinator says (the link's task) ----

    void ICoordinatorListener.OnTold(ClusterCut cut, VersionNumber own) => _cuts.OnCut(cut, new WorldPoint(cut.Cut.WorldLine, own));

    void ICoordinatorListener.OnAskedAgain() => _cuts.Recorder.AskedAgain();

    void ICoordinatorListener.OnLost() => _cuts.Recorder.Wake();

    // ---- What the pulse sees (its task) ----

    // One that joins or leaves has it, and lets nobody in.
    bool IPulseListener.HasStore =>
        _shard.Versions.IsAttached && (_shard.IsOpen || _shard.Membership.IsJoining || _shard.Membership.IsLeaving);

    long IPulseListener.NowUs => _shard.Now().Microseconds;

    void IPulseListener.OnCut(ClusterCut cut) => _cuts.OnCut(cut, cut.Of(_seat.Shard));

    void IPulseListener.OnMembers()
    {
        _shard.Moves.OnMembers();
        _shard.Membership.OnMembers();
    }

    void IPulseListener.OnDeposed(string owner) => _shard.Membership.OnDeposed(owner);

    void IPulseListener.OnMetadataFailed(ProxyExit exit) => _shard.Fail(exit);

    void IPulseListener.OnGrid(GridView grid)
    {
        lock (_shard.Versions.Lock)
        {
            if (_shard.Versions.Machine is not { } machine) { return; }
            bool isNews = !ReferenceEquals(machine.Grid, grid.Grid);
            machine.GridChanged(grid.Grid, grid.ValidUntilUs);
            if (!isNews) { return; }
        }
        long interval = grid.Grid.Stretches[^1].IntervalUs;
        _report.Info($"shard {_seat.Shard}: versions are of {interval / 1000.0} ms from version {grid.Grid.Stretches[^1].FirstVersion} on");
        if (_clockError.TotalMicroseconds > interval / 2.0)
        {
            _report.Warn($"shard {_seat.Shard}: --clock-error of {_clockError.TotalMilliseconds} ms is more than half of a version: most "
                + "replies wait. Lengthen versions again, or keep the clocks closer together");
        }
    }
}
