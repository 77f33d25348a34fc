// What a shard has among others: the link to the coordinator of cuts, that role itself, the pulse that says who is alive, and what its
// versions depend on. None of it exists for a shard alone.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : ICoordinatorListener, IPulseListener
{
    private CoordinatorLink? _link;
    private CutCoordinator? _coordinator;
    private ClusterPulse? _pulse;
    private DependencyNotes? _dependencies;          // exact and hybrid
    private Task _beating = Task.CompletedTask;

    /// <summary>Whether cuts are found by the clock grid alone.</summary>
    internal bool HasGridCuts => _seat.Finder.HasGridCuts || !_seat.HasPeers;

    // The cluster's other shards, and the recorder of cuts.
    private void JoinCluster()
    {
        if (_seat.HasPeers)
        {
            _link = new CoordinatorLink(_seat, _report, this);
            _coordinator = new CutCoordinator(_seat, _report);
            _pulse = new ClusterPulse(_seat, this, _link, _coordinator);
            if (!HasGridCuts) { _dependencies = new DependencyNotes(_seat.Shard, _seat.ShardCount); }
        }
        _cuts = new CutRecorder(_seat, _report, this, _link);
    }

    private void StartBeating()
    {
        if (_pulse is null) { return; }
        _beating = Task.WhenAll(Work("the pulse", _pulse.RunAsync), Work("the connection to the coordinator", _link!.RunAsync));
    }

    private void LeaveCluster()
    {
        _link?.Dispose();
        _coordinator?.Dispose();
    }

    // ---- What versions depend on ----

    /// <summary>What versions depend on; null: nobody asks.</summary>
    internal DependencyNotes? Dependencies => _dependencies;

    /// <summary>A recovery has ended, and nobody has been let in since: what is in the store above the cut was executed by others.</summary>
    private void BeginTrail(bool isAtBranch)
    {
        if (_dependencies is null) { return; }
        WorldPoint cut;
        Version executed;
        lock (_machineLock)
        {
            cut = _machine!.Committed;
            executed = isAtBranch ? cut.Version : _machine.OpenVersion;
        }
        _dependencies.Begin(cut, executed);
    }

    // Of what this shard proves when it begins a world-line; null where SQL does not ask.
    private PrecedenceRow? RowForBranch(in DurableClaim claim) =>
        _seat.Finder.RecordsRows ? _dependencies?.RowForBranch(claim.Point, _life.Cut.Version) : null;

    PrecedenceRow? ICutListener.RowFor(WorldPoint through, bool startsOver) => _dependencies?.RowFor(through, startsOver);

    DurableClaim ICutListener.StepOf(in DurableClaim claim) => _dependencies?.StepOf(claim) ?? claim;

    /// <summary>What a session has seen elsewhere is noted in a version that is open, and only if the shard is in its world-line. Any thread.</summary>
    /// <returns>Whether it is.</returns>
    protected bool NoteDependencies(WorldLine line, ReadOnlySpan<Dependency> dependencies, Func<Version> open) =>
        _dependencies is not { } notes || dependencies.IsEmpty || notes.Add(line, dependencies, open);

    // ---- What the cut is ----

    /// <summary>The recorded cut: from SQL, or from the coordinator.</summary>
    private void OnClusterCut(ClusterCut cut, WorldPoint own)
    {
        _batches.NoteCut(cut);
        _dependencies?.Committed(own);
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            _peersWaitUntil = Version.Max(_peersWaitUntil, cut.AwaitedUntil);
            if (own.WorldLine > machine.WorldLine) { LeaveWorldLine(machine, machine.Committed, own.WorldLine); }
            else if (!_membership.IsJoining) { machine.CutAdvanced(own, _effects); }
            Perform();
        }
    }

    void ICutListener.OnCut(ClusterCut cut) => OnClusterCut(cut, cut.Of(_seat.Shard));

    void IPulseListener.OnCut(ClusterCut cut) => OnClusterCut(cut, cut.Of(_seat.Shard));

    void ICoordinatorListener.OnTold(ClusterCut cut, Version own) => OnClusterCut(cut, new WorldPoint(cut.Cut.WorldLine, own));

    void ICoordinatorListener.OnAskedAgain() => _cuts.AskedAgain();

    void ICutListener.OnSaid(WorldPoint point)
    {
        lock (_machineLock)
        {
            _machine?.DurableRecorded(point, _machine.Committed, _effects);
            Perform();
        }
    }

    bool ICutListener.IsStopping => _isStopping;

    // ---- Who is alive ----

    // One that joins or leaves has it, and lets nobody in.
    bool IPulseListener.HasStore => _isAttached && (_door.IsOpen || _membership.IsJoining || _membership.IsLeaving);

    void IPulseListener.OnMembers()
    {
        _messages?.Follow(_seat.Members);
        _membership.OnMembers();
    }

    long IPulseListener.NowUs => Now().Microseconds;

    void IPulseListener.OnGrid(GridView grid)
    {
        lock (_machineLock)
        {
            if (_machine is not { } machine) { return; }
            bool isNews = !ReferenceEquals(machine.Grid, grid.Grid);
            machine.GridChanged(grid.Grid, grid.ValidUntilUs);
            if (!isNews) { return; }
        }
        long interval = grid.Grid.Stretches[^1].IntervalUs;
        _report.Info($"shard {_seat.Shard}: versions are of {interval / 1000.0} ms from version {grid.Grid.Stretches[^1].FirstVersion} on");
        if (_options.ClockError.TotalMicroseconds > interval / 2.0)
        {
            _report.Warn($"shard {_seat.Shard}: --clock-error of {_options.ClockError.TotalMilliseconds} ms is more than half of a version: most replies wait. Lengthen versions again, or keep the clocks closer together");
        }
    }

    void IPulseListener.OnDeposed(string owner) => OnDeposed(owner);

    void IPulseListener.OnMetadataFailed(ProxyExit exit) => Fail(exit);

    // Nothing may be promised any more, and nothing that was is broken.
    protected void OnDeposed(string owner)
    {
        // One that has left, and has nothing more to promise, is nobody's by its own doing.
        if (_membership.IsLeaving && _stopped.Task.IsCompleted) { return; }
        lock (_machineLock) { _machine?.Deposed(); }
        Fail(owner == Nobody.Name
            ? ProxyExit.Failed($"shard {_options.Shard} has been removed from cluster \"{_options.Cluster}\" by slogger leave: its proxy ends", "to have it join anew give --join, the next number, an empty Redis and an empty --data")
            : ProxyExit.Failed(Deposed(owner), "give each proxy a shard of its own, or stop one of the two"));
    }

    private string Deposed(string owner) =>
        $"shard {_options.Shard} of cluster \"{_options.Cluster}\" has been taken by another proxy{(owner.Length > 0 ? $" ({owner})" : "")}: this one stops";

    private void AppendShards(Action<string, object> line)
    {
        if (_pulse is null) { return; }
        line("partitions", _seat.Partitions.Kind == PartitionKind.Hash ? "hash" : FormattableString.Invariant($"range,{_seat.Partitions.Count}"));
        line("finder", _seat.Finder.Name);
        line("coordinator", _coordinator!.IsActive ? "here" : _link!.IsConnected ? "connected" : "none");
        foreach (ShardPulse shard in _pulse.Shards)
        {
            string quiet = shard.Life == ShardLife.Down ? FormattableString.Invariant($",since_s={(long)shard.QuietFor.TotalSeconds}") : "";
            line($"shard{shard.Shard}", $"{shard.Life.ToString().ToLowerInvariant()}{quiet},address={shard.Address}");
        }
    }
}
