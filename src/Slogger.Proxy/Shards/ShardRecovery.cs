// Performs what ShardLifecycle (Core) decides: at the start, when the store may be lost, and when the site has become the primary. Each
// step may be cut short by a crash: the next start finds where it was.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Lifecycle;
using Slogger.Core.Recovery;
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

/// <summary>The recovery of a shard. The control task, and until Attach the caller of StartAsync, if nothing else is said.</summary>
/// <param name="shard">Whose; its store performs the steps that concern a store.</param>
/// <param name="options">The shard's.</param>
/// <param name="store">Where the store runs.</param>
/// <param name="report">For people.</param>
internal sealed class ShardRecovery(VersionedShard shard, ServeOptions options, IStore store, ILogger report)
{
    /// <summary>How long it waits before it tries again.</summary>
    public static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(50);

    private const long SlowMicroseconds = 1_000_000;
    private readonly RestoredStart _restored = new(options.DataDirectory);
    private readonly StageTimes _stages = new();
    private ShardLifecycle _life = null!;
    private string _ownerSeen = "";
    private long _resolvingSince;
    private volatile bool _isLeft;

    // The store's start; one at a time, also when an attempt to recover has failed meanwhile.
    private Task _starting = Task.CompletedTask;
    private Task _hasBegun = Task.CompletedTask;        // the reign that the node leads: a majority has its record
    private Task _entering = Task.CompletedTask;

    /// <summary>Takes the shard in the metadata, when its node leads.</summary>
    public LeaderTaking Taking { get; } = new(shard, report);

    /// <summary>The world-lines, as the metadata had them at the last recovery.</summary>
    public IReadOnlyList<WorldLineRecord> Lines { get; private set; } = [];

    /// <summary>The world-line to which a version of the history belongs.</summary>
    public WorldLine LineOf(VersionNumber version) => Lines.Where(l => l.BranchOf(options.Shard) < version).Select(l => l.WorldLine)
        .DefaultIfEmpty(WorldLine.First).Max();

    /// <summary>The recorded cut, as the last recovery has found it.</summary>
    public WorldPoint Cut => _life.Cut;

    /// <summary>Whether the shard has yet to join its cluster, and what it may do until then. Any thread.</summary>
    public Joiner Joiner => _life.Joiner;

    /// <summary>Whether the shard of a site that takes over recovers: what can be done when it serves is done then.</summary>
    public bool IsTakingOver => _life.IsTakingOver;

    /// <summary>Completes when nobody starts the store any more.</summary>
    public Task StoreStarting => _starting;

    /// <summary>Whether a stream is one with which a start has filled the store, to go on from an older version.</summary>
    public bool IsRestoredFeed(string replicationId) => _restored.IsFeed(replicationId);

    /// <summary>What the store holds is a primary's from here on.</summary>
    public void ForgetRestored() => _restored.ForgetAny();

    /// <summary>The cluster has left the world-line that this shard is in: it has to go back to where another one branches off. Any
    /// thread.</summary>
    public void LeaveWorldLine(WorldLine current)
    {
        _isLeft = true;
        shard.Lifetime.Suspect($"world-line {current} has begun");
    }

    // ---- The sequences ----

    /// <summary>The shard is this process's.</summary>
    public void Begin() => _life = new ShardLifecycle(
        new LifecycleOptions
        {
            Shard = options.Shard,
            HasPeers = shard.Seat.HasPeers,
            Store = store.Name,
            Log = shard.KeptName,
            IsSupervised = store.IsSupervised,
            MaySeed = shard.MaySeed,
            Seed = options.Seed switch
            {
                SeedSource.FromRedis => SeedChoice.FromRedis,
                SeedSource.FromLog => SeedChoice.FromLog,
                _ => SeedChoice.None,
            },
        },
        shard.Seat.WorldLineAtStart);

    /// <summary>Finds or starts the store, and recovers it if need be.</summary>
    public Task StartAsync(CancellationToken stop)
    {
        _life.BeginStart();
        return PerformAllAsync(stop);
    }

    /// <summary>The front end is there: opens it.</summary>
    public Task OpenAsync(CancellationToken stop)
    {
        // Only now, so that shards that are started one after the other do not wait for each other.
        _life.BeginOpening();
        return PerformAllAsync(stop);
    }

    /// <summary>The store may be lost: looks, and recovers it if it is.</summary>
    public async Task ResolveAsync(CancellationToken stop)
    {
        _resolvingSince = 0;
        _life.BeginResolving();
        await PerformAllAsync(stop).ConfigureAwait(false);
        if (_resolvingSince == 0) { return; }
        report.Info($"shard {options.Shard}: serves in world-line {shard.WorldLine}, "
            + $"{(long)Stopwatch.GetElapsedTime(_resolvingSince).TotalMilliseconds} ms after that ({_stages})");
    }

    /// <summary>The shard's node leads, and its log may lack what clients were told: a world-line begins where the log ends, or below,
    /// where the other shards have it.</summary>
    /// <param name="enter">Has the log begin a world-line at the end of a version.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RecoveryRefusedException">The metadata, or the log, does not allow it.</exception>
    public async Task BeginWorldLineAsync(Action<Boundary> enter, CancellationToken stop)
    {
        shard.JoinCluster();
        await Taking.TakeAsync(stop).ConfigureAwait(false);
        while (true)
        {
            MetadataView view = Seen(await shard.Seat.LookAsync(stop).ConfigureAwait(false));
            WorldLine current = view.Claim.WorldLine;
            (Boundary? last, Boundary? belowBranch) = shard.Proved(current);
            // Others have begun one, or a leader before this one has, and its record did not come here.
            bool isLeft = last!.Value.WorldLine < current;
            if ((isLeft ? belowBranch : last) is not { } start || start.Version < view.Claim.Version)
            {
                throw new BrokenInvariantException($"R2: shard {options.Shard} has committed {view.Claim}, and the log of who leads it ends at "
                    + $"{belowBranch ?? last}.");
            }
            start = start with { WorldLine = current };
            if (isLeft) { enter(start); }
            if (await BeginWorldLineAsync(start, isAdoption: false, view.Cut, stop).ConfigureAwait(false) is not { } branch) { continue; }
            WorldLine next = current.Next;
            enter(BranchAt(branch, current, next) with { WorldLine = next });
            await shard.Seat.EnterAsync(next, stop).ConfigureAwait(false);
            report.Info($"shard {options.Shard}: world-line {next} begins at version {branch} (of {start}): what clients were told beyond that may be lost");
            return;
        }
    }

    private Boundary BranchAt(VersionNumber branch, WorldLine current, WorldLine next) => shard.BoundaryOf(branch, current)
        ?? throw new RecoveryRefusedException($"shard {options.Shard}: world-line {next} branches at version {branch}, which "
            + $"{shard.KeptName} cannot be restored to.");

    /// <summary>The site has taken over: what follows goes on as a primary's.</summary>
    /// <param name="final">Where the log ends.</param>
    /// <param name="site">What the site is.</param>
    /// <param name="stop">Gives up.</param>
    public async Task TakeOverAsync(Boundary final, SiteState site, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        _stages.Begin();
        // What others ask of a primary's shard is there as soon as it is one.
        if (shard.Cuts is null) { shard.JoinCluster(); }
        bool founds = final == default, leads = shard.CohortShard is not null;
        // Of several shards only the metadata knows which slots are whose, and the newest world-line; and whether another site has taken
        // over. Of a founder's store it is asked as at a first start.
        bool asksFirst = leads && (Taking.IsTaken || founds || shard.Seat.HasPeers || !options.Site.Backups.IsEmpty);
        if (asksFirst) { await Taking.TakeAsync(stop).ConfigureAwait(false); }
        ClusterView? view = leads && !asksFirst
            ? await shard.Seat.LeadAsync(final.WorldLine, stop).ConfigureAwait(false)
            : await shard.Seat.TakeOverAsync(stop).ConfigureAwait(false);
        if (view is null)
        {
            shard.Membership.OnDeposed("");
            await Task.Delay(Timeout.Infinite, stop).ConfigureAwait(false);
            return;
        }
        _stages.Passed("metadata");
        if (founds) { _life.Founded(); }
        else
        {
            // What the log has, and the store with it, may not be committed before.
            if (leads) { _hasBegun = shard.CohortShard!.Lead!.HasBegun; }
            shard.Versions.TakeOver(final);
            _life.TakenOver(final, Seen(view), isWithSite: !leads);
        }
        if (!asksFirst) { shard.Site.TakenOver(site); }
        FailPoint.Pass(FailPoint.SiteTaken);
        while (true)
        {
            try
            {
                _life.BeginTakeOver();
                await PerformAllAsync(stop).ConfigureAwait(false);
                shard.Lifetime.Wake();
                break;
            }
            catch (Exception e) when (e is RedisException or MetadataUnavailableException or IOException)
            {
                report.Error($"shard {options.Shard}: {e.Message}; trying again");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            }
        }
        double tookMs = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        report.Info(leads
            ? $"shard {options.Shard}: serves, {tookMs:0.0} ms after its store was made a leader's ({_stages})"
            : $"shard {options.Shard}: is the primary's from version {final.Version} on, in world-line {final.WorldLine}, "
                + $"{tookMs:0.0} ms after the last shard of the site was open ({_stages})");
        if (leads && !asksFirst) { _ = shard.Lifetime.Work("the taking of the shard in the metadata", Taking.TakeAsync); }
    }

    // Performs a sequence to its end.
    private async Task PerformAllAsync(CancellationToken stop)
    {
        try
        {
            while (_life.Next(LifeNow(), out LifecycleStep step))
            {
                stop.ThrowIfCancellationRequested();
                await PerformAsync(step, stop).ConfigureAwait(false);
            }
        }
        finally
        {
            // One that failed is begun again by the next recovery.
            await _entering.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
    }

    private LifecycleView LifeNow() => new()
    {
        IsAttached = shard.Versions.IsAttached,
        IsLeft = _isLeft,
        IsSuspected = shard.Access.IsSuspected,
        IsStopping = shard.Lifetime.IsStopping,
        AreStreamsOpen = shard.Site.State.Streams.All(s => s.IsOpen),
        UntilVersionUs = shard.Versions.UntilNextVersionUs(),
        NowUs = shard.Versions.Clock.MonotonicMicroseconds(),
    };

    private async Task PerformAsync(LifecycleStep step, CancellationToken stop)
    {
        switch (step.Kind)
        {
            case LifecycleStepKind.TakeSuspicion:
                shard.Access.TakeSuspicion();
                break;
            case LifecycleStepKind.CompareStore:
                _life.Compared(await shard.IsSameStoreAsync(stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.AbandonStore:
                shard.Versions.AbandonStore();
                break;
            case LifecycleStepKind.LoseStore:
                await LoseStoreAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.StartStore:
                bool hasEnded = store.HasEnded;
                if (_starting.IsCompleted && (!step.OnlyIfEnded || hasEnded)) { _starting = store.EnsureRunningAsync(stop); }
                _life.StoreStarting(hasEnded);
                break;
            case LifecycleStepKind.AwaitStore:
                await _starting.ConfigureAwait(false);
                break;
            case LifecycleStepKind.SuspendAdmission:
                await shard.Membership.SuspendAdmissionAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.AllowAdmission:
                await shard.Membership.AllowAdmissionAsync(step.At.Version, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.LookAtMetadata:
                _life.Looked(Seen(await shard.Seat.LookAsync(stop).ConfigureAwait(false)));
                _stages.Passed("metadata");
                break;
            case LifecycleStepKind.CloseFrontEnd:
                await shard.Access.CloseAsync().ConfigureAwait(false);
                break;
            case LifecycleStepKind.BeginEntering:
                _stages.Passed("clients");
                _entering = shard.Seat.EnterAsync(step.WorldLine, stop);
                break;
            case LifecycleStepKind.AwaitEntered:
                await _entering.ConfigureAwait(false);
                _stages.Passed("entry");
                break;
            case LifecycleStepKind.LookAtStore:
                (StoreSituation situation, string text) = await shard.LookAsync(
                    atStart: shard.Access.Loop is null, step.WorldLine, stop).ConfigureAwait(false);
                _life.Found(situation, text, shard.KeyCount);
                break;
            case LifecycleStepKind.ReadLog:
                (Boundary? last, Boundary? belowBranch) = shard.Proved(step.WorldLine);
                _life.Proved(last, belowBranch, shard.Access.Loop is null
                    ? _restored.Find(last, options.Redis?.ToString() ?? "", shard.StoreRun) : null);
                _stages.Passed("look");
                break;
            case LifecycleStepKind.WaitForStore:
                if (step.Text is { } trouble) { report.Warn($"{trouble} Waiting."); }
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Refuse:
                throw new RecoveryRefusedException(step.Text + shard.RefusalNote);
            case LifecycleStepKind.GiveWay:
                if (shard.StepsDown(later: null)) { await Task.Delay(Timeout.Infinite, stop).ConfigureAwait(false); }
                throw new RecoveryRefusedException(shard.Membership.DeposedText(_ownerSeen));
            case LifecycleStepKind.RequireBase:
                shard.RequireBase(step.At.Version, step.WorldLine);
                break;
            case LifecycleStepKind.Locate:
                _life.Located(shard.BoundaryOf(step.At.Version, step.WorldLine));
                break;
            case LifecycleStepKind.BeginWorldLine:
                _life.WorldLineBegun(await BeginWorldLineAsync(step.At, step.IsAdoption, Cut, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.Continue:
                _life.Performed(await shard.ContinueAsync(step.At, step.Recorded, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.BeginLog:
                bool goesOn = step.Content == LogContent.SameHistory;
                bool hasBegun = await shard.BeginAsync(
                    step.At.Point, step.Recorded, TextOf(step.Content), goesOn, stop).ConfigureAwait(false);
                if (hasBegun && step.Content == LogContent.NothingYet) { FailPoint.Pass(FailPoint.JoinBegun); }
                _life.Performed(hasBegun);
                break;
            case LifecycleStepKind.LookAgain:
                await shard.LookAgainAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Restore:
                _life.Performed(await RestoreAsync(step, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.NoteGoingOn:
                _restored.NoteGoingOn(step.WorldLine);
                break;
            case LifecycleStepKind.BeginWith:
                _life.Performed(await shard.BeginWithAsync(
                    step.At, step.Branch, step.WorldLine, _restored.Feed, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.ForgetGoingOn:
                FailPoint.Pass(FailPoint.OlderVersionKept);
                _restored.Forget();
                report.Warn($"shard {options.Shard}: goes on from version {step.At.Version}, as slogger restore --keep has asked: its "
                    + $"content is version {step.Branch.Version} of world-line {step.Branch.WorldLine} now, and what was done "
                    + "after it is undone");
                break;
            case LifecycleStepKind.ForgetVersions:
                shard.Versions.Forget();
                break;
            case LifecycleStepKind.BeginTrail:
                shard.Cuts!.BeginTrail(step.IsAtBranch);
                break;
            case LifecycleStepKind.LearnWorldLines:
                Lines = await shard.Seat.LinesUpToAsync(step.WorldLine, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.LookAtPeers:
                (WorldLine current, IReadOnlyList<ShardId> outside) = await shard.Seat.OutsideAsync(
                    step.WorldLine, stop).ConfigureAwait(false);
                _life.PeersSeen(current, outside);
                _stages.Passed("others");
                break;
            case LifecycleStepKind.StartWorkers:
                // They claim the log's end.
                await _hasBegun.WaitAsync(stop).ConfigureAwait(false);
                shard.StartOnce();
                break;
            case LifecycleStepKind.WarnOfPeers:
                report.Warn($"shard {options.Shard}: shards {string.Join(", ", step.Shards!)} have not entered world-line "
                    + $"{step.WorldLine} in {LifecycleOptions.PeersUsDefault / 1_000_000} s and are taken for dead: this shard serves "
                    + "without them, and nothing is committed until they are back");
                break;
            case LifecycleStepKind.WarnNotJoined:
                report.Warn($"shard {options.Shard}: has not joined cluster \"{options.Cluster}\" in "
                    + $"{LifecycleOptions.PeersUsDefault / 1_000_000} s, and goes on trying. Nobody else may write to "
                    + $"{store.Name} meanwhile");
                break;
            case LifecycleStepKind.LeaveWorldLine:
                LeaveWorldLine(step.WorldLine);
                break;
            case LifecycleStepKind.Rest:
                await Task.Delay(TimeSpan.FromMicroseconds(step.WaitUs), stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.AwaitVersion:
                await AwaitVersionAsync(step.WaitUs, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.OpenMoves:
                await shard.Moves.OpenAsync(step.WorldLine, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.EndLost:
                await shard.EndLostAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Open:
                await _hasBegun.WaitAsync(stop).ConfigureAwait(false);
                shard.Access.Open(step.RolledBack);
                break;
            default:
                throw new UnreachableException($"{step.Kind}");
        }
    }

    // What the metadata says, as the lifecycle takes it; the rest is kept here.
    private MetadataView Seen(ClusterView view)
    {
        Lines = view.Lines;
        _ownerSeen = view.Record.Owner;
        shard.SessionBatches.NoteCut(view.Cut);
        return new()
        {
            IsDeposed = view.Record.Epoch != shard.Seat.Epoch,
            State = view.Record.State,
            Cut = view.Cut.Of(options.Shard),
            Claim = view.Record.Durable,
        };
    }

    private string TextOf(LogContent content) => content switch
    {
        LogContent.Nothing => shard.EmptyStoreName,
        LogContent.NothingYet => $"{shard.EmptyStoreName}, to join the cluster",
        LogContent.SameHistory => "the same history, by a fresh checkpoint",
        _ => "the data it held",
    };

    private async Task LoseStoreAsync(CancellationToken stop)
    {
        _resolvingSince = Stopwatch.GetTimestamp();
        _stages.Begin();
        shard.Lifetime.State = "recovering";
        report.Warn($"shard {options.Shard}: {(_isLeft ? "another shard's recovery" : $"{store.Name} was lost")} "
            + $"({shard.Access.LastReason})");
        _isLeft = false;
        shard.Versions.Detached();
        shard.Versions.StoreLost();
        await shard.EndResetAsync().ConfigureAwait(false);
        await shard.Moves.CloseAsync().ConfigureAwait(false);
        await shard.DetachAsync(stop).ConfigureAwait(false);
    }

    private async Task<VersionNumber?> BeginWorldLineAsync(Boundary at, bool isAdoption, WorldPoint cut, CancellationToken stop)
    {
        WorldPoint point = at.Point;
        // The metadata keeps for ever where a world-line has begun.
        await shard.AwaitMajorityAsync(point, stop).ConfigureAwait(false);
        DurableClaim claim = new(point, 1, point.Version);
        if (!isAdoption) { claim = shard.Versions.ClaimOf(point) ?? claim; }
        PrecedenceRow? row = isAdoption ? null : shard.Cuts!.RowForBranch(claim, cut.Version);
        VersionNumber? branch = await shard.Seat.BeginWorldLineAsync(claim, row, stop).ConfigureAwait(false);
        if (branch is null) { return null; }
        shard.Cuts!.Coordination?.Link.SayBegun();
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        return branch;
    }

    private async Task<bool> RestoreAsync(LifecycleStep step, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        bool isDone = await shard.RestoreAsync(step.WorldLine, step.At, step.Recorded.WorldLine, stop).ConfigureAwait(false);
        _stages.Passed("store");
        if (isDone)
        {
            report.Info($"shard {options.Shard}: restored to version {step.At.Version} (offset {step.At.Offset}) in "
                + $"{(long)Stopwatch.GetElapsedTime(began).TotalMilliseconds} ms; world-line {step.WorldLine} begins");
        }
        return isDone;
    }

    // The clock may be corrected meanwhile, so that the time left is looked at again and again.
    private async Task AwaitVersionAsync(long waitUs, CancellationToken stop)
    {
        if (waitUs > SlowMicroseconds)
        {
            VersionNumber ends = shard.Seat.Grid.VersionAt(shard.Now().Microseconds + waitUs).Previous;
            report.Info($"shard {options.Shard}: waits for the end of version {ends}, in {waitUs / 1e6:0.0} s");
        }
        for (long leftUs = waitUs; leftUs > 0 && !shard.Access.IsSuspected; leftUs = shard.Versions.UntilNextVersionUs())
        {
            await Task.Delay(TimeSpan.FromMicroseconds(Math.Clamp(leftUs, 1000, SlowMicroseconds)), stop).ConfigureAwait(false);
        }
        _stages.Passed("version");
    }
}
