// What a shard has among others: the link to the coordinator of cuts, that role itself, the pulse that says who is alive, and what its
// versions depend on. None of it exists for a shard alone.
using System.Globalization;
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
    private readonly Lock _trailLock = new();
    private CoordinatorLink? _link;
    private CutCoordinator? _coordinator;
    private ClusterPulse? _pulse;
    private DependencyTrail? _trail;                 // exact and hybrid; under _trailLock
    private volatile Cut? _clusterCut;               // exact and hybrid: as far as it was told here
    private Task _beating = Task.CompletedTask;

    private bool HasGridCuts => _seat.Finder.HasGridCuts || !_seat.HasPeers;

    // The cluster's other shards, and the recorder of cuts.
    private void JoinCluster()
    {
        if (_seat.HasPeers)
        {
            _link = new CoordinatorLink(_seat, _report, this);
            _coordinator = new CutCoordinator(_seat, _report);
            _pulse = new ClusterPulse(_seat, this, _link, _coordinator);
            if (!HasGridCuts) { _trail = new DependencyTrail(_seat.Shard, _seat.ShardCount); }
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

    /// <summary>A recovery has ended, and nobody has been let in since: what is in the store above the cut was executed by others.</summary>
    private void BeginTrail(bool isAtBranch)
    {
        if (_trail is null) { return; }
        WorldPoint cut;
        Version executed;
        lock (_machineLock)
        {
            cut = _machine!.Committed;
            executed = isAtBranch ? cut.Version : _machine.OpenVersion;
        }
        lock (_trailLock) { _trail.Begin(cut, executed); }
    }

    // Of what this shard proves when it begins a world-line; null where SQL does not ask.
    private PrecedenceRow? RowForBranch(in DurableClaim claim)
    {
        if (_trail is null || !_seat.Finder.RecordsRows) { return null; }
        lock (_trailLock) { return _trail.RowForBranch(claim.Point, _life.Cut.Version); }
    }

    PrecedenceRow? ICutListener.RowFor(WorldPoint through, bool startsOver)
    {
        if (_trail is null) { return null; }
        lock (_trailLock) { return _trail.RowFor(through, startsOver); }
    }

    DurableClaim ICutListener.StepOf(in DurableClaim claim)
    {
        if (_trail is null) { return claim; }
        lock (_trailLock) { return _trail.StepOf(claim); }
    }

    FinderKind IBatchPort.Finder => HasGridCuts ? FinderKind.Approximate : _seat.Finder;

    int IBatchPort.ShardCount => _seat.ShardCount;

    Partitioning IBatchPort.Partitions => _seat.Partitions;

    void IBatchPort.OnLetThrough(in BatchHeader header, Version open)
    {
        if (_trail is null || header.Dependencies.IsEmpty) { return; }
        lock (_trailLock) { _trail.Add(header.Dependencies.Span, open); }
    }

    /// <summary>As <see cref="IBatchPort.OnLetThrough"/>, from any thread: what a session has seen elsewhere is noted in a version that is open, and
    /// only if the shard is in its world-line.</summary>
    /// <returns>Whether it is.</returns>
    protected bool NoteDependencies(WorldLine line, ReadOnlySpan<Dependency> dependencies, Func<Version> open)
    {
        if (_trail is null || dependencies.IsEmpty) { return true; }
        lock (_trailLock)
        {
            if (_trail.WorldLine != line) { return false; }
            // One that has ended meanwhile may have its row already.
            for (Version now = default; now != open();) { _trail.Add(dependencies, now = open()); }
            return true;
        }
    }

    WorldPoint IBatchPort.CommittedEverywhere
    {
        get
        {
            WorldLine line = new(WorldLine);
            if (_clusterCut is { } cut && cut.WorldLine == line) { return new(line, Lowest(cut)); }
            // Of this world-line nothing was told yet but where it began.
            return new(line, _branchLines.FirstOrDefault(l => l.WorldLine == line)?.BranchCut ?? Version.Zero);
        }
    }

    string IBatchPort.CommittedByShard
    {
        get
        {
            Cut? cut = _clusterCut;
            return cut is null ? "" : string.Join(' ', [cut.WorldLine.Number, .. cut.Versions.ToArray().Select(v => v.Number)]);
        }
    }

    string IBatchPort.BranchesSince(WorldLine abandoned)
    {
        IReadOnlyList<WorldLineRecord> lines = _branchLines;
        // Without it a session would be told that all has survived.
        if (lines.All(l => l.WorldLine.Number != WorldLine)) { throw new BrokenInvariantException($"I1: shard {_options.Shard} is in world-line {WorldLine} and does not know where it began"); }
        return string.Join(',', Enumerable.Range(0, _seat.ShardCount)
            .Select(s => ClusterSeat.LastValid(new ShardId(s), abandoned, lines).Number.ToString(CultureInfo.InvariantCulture)));
    }

    private static Version Lowest(Cut cut)
    {
        Version lowest = cut.Versions[0];
        foreach (Version version in cut.Versions) { lowest = Version.Min(lowest, version); }
        return lowest;
    }

    // ---- What the cut is ----

    private void NoteClusterCut(ClusterCut cut)
    {
        if (HasGridCuts) { return; }
        Cut whole = cut.Whole(_seat.ShardCount);
        // They come by two ways, and late.
        if (_clusterCut is not { } known || (known.WorldLine == whole.WorldLine ? whole.IsAtLeast(known) : whole.WorldLine > known.WorldLine)) { _clusterCut = whole; }
    }

    /// <summary>The recorded cut: from SQL, or from the coordinator.</summary>
    private void OnClusterCut(ClusterCut cut, WorldPoint own)
    {
        NoteClusterCut(cut);
        if (_trail is not null)
        {
            lock (_trailLock) { _trail.Committed(own); }
        }
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
