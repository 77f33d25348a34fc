// A shard's part in the cluster's cuts: the recorder of what is durable here, what versions depend on, and, among others, the link to who
// finds cuts (ShardCoordination). Made when the shard is a primary's: one that follows has none of it.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

/// <summary>The cuts, as one shard records and learns them. Any thread; the recorder's task calls what ICutListener has.</summary>
internal sealed class ShardCuts : ICutListener, IDisposable
{
    private readonly VersionedShard _shard;
    private Task _recording = Task.CompletedTask;
    private Task _beating = Task.CompletedTask;

    /// <summary>Makes the parts; nothing runs yet.</summary>
    public ShardCuts(VersionedShard shard, ServeOptions options, ILogger report)
    {
        _shard = shard;
        if (shard.Seat.HasPeers)
        {
            Coordination = new ShardCoordination(shard, this, options.ClockError, report);
            if (!shard.HasGridCuts) { Dependencies = new DependencyNotes(shard.Seat.Shard, shard.Seat.ShardCount); }
        }
        Recorder = new CutRecorder(shard.Seat, report, this, Coordination?.Link, options.Time);
    }

    /// <summary>The shard among others; null for one alone.</summary>
    public ShardCoordination? Coordination { get; }

    /// <summary>What versions depend on, for the exact and the hybrid finder; null: nobody asks.</summary>
    public DependencyNotes? Dependencies { get; }

    /// <summary>Records what is durable here.</summary>
    public CutRecorder Recorder { get; }

    /// <summary>Records, and beats, until the shard ends. Once.</summary>
    public void Start()
    {
        _recording = _shard.Lifetime.Work("the recorder of cuts", Recorder.RunAsync);
        _beating = Coordination?.RunAsync() ?? Task.CompletedTask;
    }

    /// <summary>What was started has ended.</summary>
    public Task Ended => Task.WhenAll(_recording, _beating);

    /// <summary>The recorded cut: from SQL, or from the coordinator.</summary>
    public void OnCut(ClusterCut cut, WorldPoint own)
    {
        _shard.SessionBatches.NoteCut(cut);
        Dependencies?.Committed(own);
        _shard.Versions.OnCut(cut, own);
    }

    // ---- What versions depend on ----

    /// <summary>A recovery has ended, and nobody has been let in since: what is in the store above the cut was executed by
    /// others.</summary>
    public void BeginTrail(bool isAtBranch)
    {
        if (Dependencies is not { } dependencies) { return; }
        WorldPoint cut;
        VersionNumber executed;
        lock (_shard.Versions.Lock)
        {
            cut = _shard.Versions.Machine!.Committed;
            executed = isAtBranch ? cut.Version : _shard.Versions.Machine.OpenVersion;
        }
        dependencies.Begin(cut, executed);
    }

    /// <summary>Of what this shard proves when it begins a world-line; null where SQL does not ask.</summary>
    /// <param name="claim">What it proves.</param>
    /// <param name="cut">The recorded cut.</param>
    public PrecedenceRow? RowForBranch(in DurableClaim claim, VersionNumber cut) =>
        _shard.Seat.Finder.RecordsRows ? Dependencies?.RowForBranch(claim.Point, cut) : null;

    PrecedenceRow? ICutListener.RowFor(WorldPoint through, bool startsOver) => Dependencies?.RowFor(through, startsOver);

    DurableClaim ICutListener.StepOf(in DurableClaim claim) => Dependencies?.StepOf(claim) ?? claim;

    // ---- What the recorder asks, and tells ----

    bool ICutListener.IsCommitAwaited => _shard.Versions.Awaited.IsAwaitedHere;

    VersionNumber ICutListener.AwaitedVersion => _shard.Versions.Awaited.AwaitedHere;

    bool ICutListener.IsStopping => _shard.Lifetime.IsStopping;

    bool ICutListener.IsJoining => _shard.Membership.IsJoining;

    Task<DurableClaim?> ICutListener.AskToJoinAsync(WorldPoint recorded, WorldPoint cut, CancellationToken stop) =>
        _shard.Membership.AskToJoinAsync(recorded, cut, stop);

    void ICutListener.OnRecorded(WorldPoint point, DurableResult? result) => _shard.Versions.OnRecorded(point, result);

    void ICutListener.OnSaid(WorldPoint point) => _shard.Versions.OnSaid(point);

    void ICutListener.OnCut(ClusterCut cut) => OnCut(cut, cut.Of(_shard.Seat.Shard));

    void ICutListener.OnMetadataFailed(ProxyExit exit) => _shard.Lifetime.Fail(exit);

    public void Dispose()
    {
        Coordination?.Dispose();
        Recorder.Dispose();
    }
}
