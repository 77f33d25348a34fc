// A shard with versions: the parts of it, put together, and what the front end and the stores see of them. VersionedShard.Control starts,
// watches and stops it. What is asked of a store is in StateObject: LogShard, BgsaveShard and FasterShard answer it.
//
// Each part owns its state, and says which thread or lock owns what:
// - ShardVersions: the machine and its lock, the clock, the published cut.
// - ShardRecovery: what the lifecycle decides is performed step by step.
// - StoreAccess, ShardLifetime: who is let in to the store; whether the shard goes on.
// - ShardCuts, ShardCoordination, PeerConnections: cuts, and the others in the cluster. ShardMembership: joining and leaving it.
// - ShardMoves: slots, and messages. ShardBatches: what sessions ask. ShardInfo: what people ask.
// - PrimarySite, ShardFollower: two sites.
// The parts live as long as the shard, but for Seat, which is taken in the metadata at the start, and Cuts, which a primary's shard has.
using System.Net.Sockets;
using Slogger.Core.Cuts;
using Slogger.Core.Resets;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : StateObject, IShardPort, IDisposable
{
    // Where versions end is asked for again and again; for their bytes there are the files.
    protected const int FollowedTailBytes = 4096;
    protected readonly ServeOptions _options;
    protected readonly ILogger _report;
    protected readonly IStore _store;
    private readonly ShardInfo _info;
    private readonly PeerConnections _peers;

    /// <summary>Held by who deletes what a store can begin from, or needs that it stays.</summary>
    protected readonly SemaphoreSlim _checkpointing = new(1, 1);

    protected VersionedShard(ServeOptions options, ILogger report, IStore store)
    {
        _options = options;
        _report = report;
        _store = store;
        Versions = new ShardVersions(this, options.DataDirectory, options.Time);
        Access = new StoreAccess(this);
        Lifetime = new ShardLifetime(options, Access, report);
        Recovery = new ShardRecovery(this, options, store, report);
        Membership = new ShardMembership(this, report);
        SessionBatches = new ShardBatches(this, options.ClockError);
        Moves = new ShardMoves(this, report);
        Site = new PrimarySite(this, report);
        Follower = new ShardFollower(this, store, _checkpointing, report);
        _peers = new PeerConnections(this, report);
        _info = new ShardInfo(this, options);
    }

    // ---- The parts ----

    internal ShardVersions Versions { get; }

    internal StoreAccess Access { get; }

    internal ShardLifetime Lifetime { get; }

    internal ShardRecovery Recovery { get; }

    internal ShardMembership Membership { get; }

    internal ShardBatches SessionBatches { get; }

    internal ShardMoves Moves { get; }

    internal PrimarySite Site { get; }

    internal ShardFollower Follower { get; }

    /// <summary>The shard's part in a reset of the cluster. Changed under the machine's lock.</summary>
    internal ResetHold Reset { get; } = new();

    /// <summary>The shard's place in the metadata; not before the start.</summary>
    internal ClusterSeat Seat { get; private set; } = null!;

    /// <summary>Its cuts; null until it is a primary's.</summary>
    internal ShardCuts? Cuts { get; private set; }

    /// <summary>Receives the primary's stream, if the site is a backup. Null: it must be none.</summary>
    public IStreamIntake? Intake { get; init; }

    /// <summary>The shard is a primary's: the cluster's other shards, and the recorder of cuts.</summary>
    internal void JoinCluster() => Cuts = new ShardCuts(this, _options, _report);

    /// <summary>Whether cuts are found by the clock grid alone.</summary>
    internal bool HasGridCuts => Seat.Finder.HasGridCuts || !Seat.HasPeers;

    // ---- What the process asks ----

    /// <summary>The site's metadata.</summary>
    public IMetadataStore Metadata => Seat.Metadata;

    /// <summary>Completes when the shard can leave its cluster, as it is to: then it is stopped.</summary>
    public Task MayLeave => Membership.MayLeave;

    /// <summary>Completes when the shard cannot go on.</summary>
    public Task<ProxyExit> Failure => Lifetime.Failure;

    // ---- What the front end asks (the loop's thread) ----

    public bool IsVersioned => true;

    public bool IsPunctual => Seat.HasPeers;

    public bool IsOpen => Access.IsOpen;

    public bool IsEnding =>
        (Lifetime.IsStopping || Membership.IsLeaving) && !Lifetime.Ending.IsCancellationRequested && Versions.IsAttached
            && !Access.IsSuspected;

    /// <inheritdoc />
    public bool IsFollowing => Seat.FollowedSite is not null;

    ICohortPort? IShardPort.Cohort => CohortPort;

    /// <summary>The cohort, as clients are told of it; null: there is none.</summary>
    internal virtual ICohortPort? CohortPort => null;

    public long WorldLine => Versions.Published.WorldLine;

    public long OpenVersion => Versions.OpenVersion;

    public long CommittedVersion => Versions.Published.CommittedVersion;

    /// <inheritdoc />
    public bool HoldsReplies => _options.Replies == ReplyTiming.Committed;

    /// <inheritdoc />
    public bool HoldsReads => _options.Cohort is { StrongReads: StrongReads.Quorum };

    /// <summary>What a shard alone has durable it keeps. Among others it goes back with them to a recorded cut. A store that follows shows
    /// what is durable.</summary>
    public long SettledVersion => IsFollowing ? long.MaxValue : Seat.HasPeers ? CommittedVersion : Versions.Published.DurableVersion;

    /// <inheritdoc />
    public virtual bool MaySpeak => true;

    /// <summary>The recorded cut. Any thread.</summary>
    public WorldPoint RecordedCut => Versions.Published.RecordedCut;

    /// <inheritdoc />
    public virtual bool MayTell => !Lifetime.IsBroken;

    public virtual bool IsFenced => false;

    public virtual void ProveOwnership(Action proved) => proved();

    public bool KeepsClients => _options.OnRollback == RollbackAction.Error;

    /// <summary>Whether all operations are held until what was done is committed.</summary>
    internal bool HoldsAll => Site.HoldsAll || Reset.IsHeld;

    public Hold Hold => HoldsAll || IsHandingOver ? Hold.All : HoldsWrites ? Hold.Writes : Hold.None;

    /// <inheritdoc />
    public IBatchPort Batches => SessionBatches;

    /// <inheritdoc />
    public virtual IKeyVersions? Keys => null;

    /// <inheritdoc />
    public virtual IPastReads? Past => null;

    /// <inheritdoc />
    public virtual string? PastProblem => null;

    public long MicrosecondsToNextTick() => Versions.MicrosecondsToNextTick();

    public bool NeedsMarker => Versions.NeedsMarker;

    /// <inheritdoc />
    bool IVersionSource.MayRest => Versions.MayRest;

    public long MicrosecondsToReplies() => Versions.MicrosecondsToReplies();

    public MarkerToSend? Tick(bool busy, bool inFlight) => Versions.Tick(busy, inFlight);

    /// <inheritdoc />
    MarkerToSend? IVersionSource.Pass() => Versions.Pass();

    public virtual void MarkerAnswered(bool counts) => Versions.MarkerAnswered(counts);

    public virtual void MarkerLost() => Versions.MarkerLost();

    public void OnCommitAwaited()
    {
        Versions.OnCommitAwaited();
        if (Seat.HasPeers) { Cuts?.Recorder.Wake(); }
    }

    /// <summary>Has a version committed soon: others than clients of the store wait for it. Any thread.</summary>
    internal void AwaitCommitOf(VersionNumber version)
    {
        Versions.AwaitCommitOf(version);
        OnCommitAwaited();
    }

    /// <inheritdoc />
    public void OnReplyAwaited()
    {
        if (Seat.HasPeers) { OnCommitAwaited(); } else { Versions.OnReplyAwaited(); }
    }

    public virtual void BeforeUnloggedChange()
    {
    }

    public virtual void AfterUnloggedChange(Action settled) => settled();

    /// <inheritdoc />
    public bool IsOwnConnection(string address) => OwnConnections.Contains(address);

    /// <summary>A connection to the store broke. Nothing is forwarded before it is known that the store is the same.</summary>
    public void StoreUnreachable(string reason) => Lifetime.Suspect(reason);

    public virtual void CarrierLost(ClientLine? connection)
    {
    }

    /// <inheritdoc />
    public Action<Socket>? ReadPeer(IReadOnlyList<byte[]> words, out string refusal) => _peers.Read(words, out refusal);

    /// <inheritdoc />
    public string InfoText(FrontEndLoop loop) => _info.Text(loop);

    public void Warn(string message) => _report.Warn(message);

    // ---- What parts and stores ask. Any thread ----

    /// <summary>The shard cannot go on. False if that was known already.</summary>
    internal bool Fail(ProxyExit exit) => Lifetime.Fail(exit);

    internal bool HasFailed => Lifetime.HasFailed;

    /// <inheritdoc cref="ShardVersions.Now"/>
    internal HybridTimestamp Now() => Versions.Clock.Now();

    /// <summary>What a session has seen elsewhere is noted in a version that is open, and only if the shard is in its world-line.</summary>
    /// <returns>Whether it is.</returns>
    protected bool NoteDependencies(WorldLine line, ReadOnlySpan<Dependency> dependencies, Func<VersionNumber> open) =>
        Cuts?.Dependencies is not { } notes || dependencies.IsEmpty || notes.Add(line, dependencies, open);

    /// <summary>Follows from now on, with what the store has.</summary>
    /// <param name="followed">What follows.</param>
    /// <param name="isPrimarys">Whether the store is a primary's already.</param>
    /// <param name="stop">Gives up.</param>
    protected Task FollowAsync(IFollowedStore followed, bool isPrimarys, CancellationToken stop)
    {
        Recovery.ForgetRestored();
        return Follower.BeginAsync(followed, isPrimarys, stop);
    }

    // ---- What a store does, if it does nothing else ----

    internal override string StoreName => _store.Name;

    internal override void Tick(ShardMachine machine, bool hasChanged) => machine.Tick(Now(), hasChanged, Versions.Effects);

    internal override void OnLogFailure(LogException e) => Fail(ProxyExit.Failed($"{KeptName} cannot be used: {e.Message}", ""));

    internal override Task EndFollowingAsync() => Follower.EndAsync();
}
