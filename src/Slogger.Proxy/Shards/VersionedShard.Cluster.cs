// What a shard has to do with others: what it is told of cuts, and what its versions depend on. Its part in the cluster is
// ShardCoordination.
using System.Net.Sockets;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Peers;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private readonly PeerConnections _peers;
    private ShardCoordination? _coordination;
    private DependencyNotes? _dependencies;          // exact and hybrid

    /// <summary>Whether cuts are found by the clock grid alone.</summary>
    internal bool HasGridCuts => _seat.Finder.HasGridCuts || !_seat.HasPeers;

    /// <summary>The shard among others; null for one alone, and while it follows.</summary>
    internal ShardCoordination? Coordination => _coordination;

    /// <summary>The recorder.</summary>
    internal CutRecorder Cuts => _cuts;

    /// <inheritdoc />
    public Action<Socket>? ReadPeer(IReadOnlyList<byte[]> words, out string refusal) => _peers.Read(words, out refusal);

    /// <summary>Publishes at this shard's store what another proxy sends, until it hangs up.</summary>
    protected internal virtual Task DeliverAsync(PeerChannel peer, CancellationToken stop) =>
        PeerMessages.DeliverAsync(peer, () => Endpoint, stop);

    // The cluster's other shards, and the recorder of cuts.
    private void JoinCluster()
    {
        if (_seat.HasPeers)
        {
            _coordination = new ShardCoordination(this, _options.ClockError, _report);
            if (!HasGridCuts) { _dependencies = new DependencyNotes(_seat.Shard, _seat.ShardCount); }
        }
        _cuts = new CutRecorder(_seat, _report, this, _coordination?.Link, _options.Time);
    }

    // ---- What versions depend on ----

    /// <summary>What versions depend on; null: nobody asks.</summary>
    internal DependencyNotes? Dependencies => _dependencies;

    /// <summary>A recovery has ended, and nobody has been let in since: what is in the store above the cut was executed by
    /// others.</summary>
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

    /// <summary>What a session has seen elsewhere is noted in a version that is open, and only if the shard is in its world-line. Any
    /// thread.</summary>
    /// <returns>Whether it is.</returns>
    protected bool NoteDependencies(WorldLine line, ReadOnlySpan<Dependency> dependencies, Func<Version> open) =>
        _dependencies is not { } notes || dependencies.IsEmpty || notes.Add(line, dependencies, open);

    // ---- What the cut is ----

    /// <summary>The recorded cut: from SQL, or from the coordinator.</summary>
    internal void OnClusterCut(ClusterCut cut, WorldPoint own)
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
    /// <summary>Whether the store is there.</summary>
    internal bool HasStore => _isAttached && (_door.IsOpen || _membership.IsJoining || _membership.IsLeaving);

    /// <summary>Who is in the cluster was looked at. The pulse's task.</summary>
    internal void OnMembers()
    {
        _messages?.Follow(_seat.Members);
        _membership.OnMembers();
    }

    // Nothing may be promised any more, and nothing that was is broken.
    internal void OnDeposed(string owner)
    {
        // One that has left, and has nothing more to promise, is nobody's by its own doing.
        if (_membership.IsLeaving && _stopped.Task.IsCompleted) { return; }
        lock (_machineLock) { _machine?.Deposed(); }
        Fail(owner == Nobody.Name
            ? ProxyExit.Failed($"shard {_options.Shard} has been removed from cluster \"{_options.Cluster}\" by slogger leave: "
            + "its proxy ends", "to have it join anew give --join, the next number, an empty Redis and an empty --data")
            : ProxyExit.Failed(Deposed(owner), "give each proxy a shard of its own, or stop one of the two"));
    }

    private string Deposed(string owner) =>
        $"shard {_options.Shard} of cluster \"{_options.Cluster}\" has been taken by another proxy{(owner.Length > 0 ? $" ({owner})" : "")}: this one stops";
}
