// Performs what ShardLifecycle (Core) decides: at the start, when the store may be lost, and when the site has become the primary. Each
// step may be cut short by a crash: the next start finds where it was.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Lifecycle;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Feeding;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private const long SlowMicroseconds = 1_000_000;

    /// <summary>What the shard does next. The control task; until Attach, the caller of StartAsync.</summary>
    protected ShardLifecycle _life = null!;

    /// <summary>The world-lines, as the metadata had them at the last recovery.</summary>
    protected IReadOnlyList<WorldLineRecord> _lines = [];

    private readonly StageTimes _stages = new();
    private string _ownerSeen = "";
    private long _resolvingSince;

    // The store's start; one at a time, also when an attempt to recover has failed meanwhile.
    private Task _starting = Task.CompletedTask;
    private Task _entering = Task.CompletedTask;

    private void BeginLife() => _life = new ShardLifecycle(
        new LifecycleOptions
        {
            Shard = _options.Shard,
            HasPeers = _seat.HasPeers,
            Store = _store.Name,
            Log = KeptName,
            IsSupervised = _store.IsSupervised,
            MaySeed = MaySeed,
            Seed = _options.Seed switch
            {
                SeedSource.FromRedis => SeedChoice.FromRedis,
                SeedSource.FromLog => SeedChoice.FromLog,
                _ => SeedChoice.None,
            },
        },
        _seat.WorldLineAtStart);

    // Performs a sequence to its end.
    private async Task LiveAsync(CancellationToken stop)
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
        IsAttached = _isAttached,
        IsLeft = _isLeft,
        IsSuspected = _door.IsSuspected,
        IsStopping = _isStopping,
        AreStreamsOpen = _site.State.Streams.All(s => s.IsOpen),
        UntilVersionUs = UntilNextVersionUs(),
        NowUs = MonotonicMicroseconds(),
    };

    private long UntilNextVersionUs()
    {
        lock (_machineLock)
        {
            return _machine is { } machine ? machine.Grid.StartOf(machine.LastBoundary.Version.Next) - Now().Microseconds : 0;
        }
    }

    private async Task PerformAsync(LifecycleStep step, CancellationToken stop)
    {
        switch (step.Kind)
        {
            case LifecycleStepKind.TakeSuspicion:
                _taken = _door.Take();
                break;
            case LifecycleStepKind.CompareStore:
                _life.Compared(await IsSameStoreAsync(stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.AbandonStore:
                lock (_machineLock)
                {
                    _machine?.StoreLost();
                    _machine?.Tick(Now(), busy: false, _effects);
                    Perform();
                }
                break;
            case LifecycleStepKind.LoseStore:
                await LoseStoreAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.StartStore:
                bool hasEnded = _store.HasEnded;
                if (_starting.IsCompleted && (!step.OnlyIfEnded || hasEnded)) { _starting = _store.EnsureRunningAsync(stop); }
                _life.StoreStarting(hasEnded);
                break;
            case LifecycleStepKind.AwaitStore:
                await _starting.ConfigureAwait(false);
                break;
            case LifecycleStepKind.SuspendAdmission:
                await _membership.SuspendAdmissionAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.AllowAdmission:
                await _membership.AllowAdmissionAsync(step.At.Version, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.LookAtMetadata:
                _life.Looked(Seen(await _seat.LookAsync(stop).ConfigureAwait(false)));
                _stages.Passed("metadata");
                break;
            case LifecycleStepKind.CloseFrontEnd:
                await CloseFrontEndAsync().ConfigureAwait(false);
                break;
            case LifecycleStepKind.BeginEntering:
                _stages.Passed("clients");
                _entering = _seat.EnterAsync(step.WorldLine, stop);
                break;
            case LifecycleStepKind.AwaitEntered:
                await _entering.ConfigureAwait(false);
                _stages.Passed("entry");
                break;
            case LifecycleStepKind.LookAtStore:
                (StoreSituation situation, string text) = await LookAsync(
                    atStart: _loop is null, step.WorldLine, stop).ConfigureAwait(false);
                _life.Found(situation, text, KeyCount);
                break;
            case LifecycleStepKind.ReadLog:
                (Boundary? last, Boundary? belowBranch) = Proved(step.WorldLine);
                _life.Proved(last, belowBranch, _loop is null ? _restored.Find(last, _options.Redis?.ToString() ?? "", StoreRun) : null);
                _stages.Passed("look");
                break;
            case LifecycleStepKind.WaitForStore:
                if (step.Text is { } trouble) { _report.Warn($"{trouble} Waiting."); }
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Refuse:
                throw new RecoveryRefusedException(step.Text + RefusalNote);
            case LifecycleStepKind.GiveWay:
                throw new RecoveryRefusedException(Deposed(_ownerSeen));
            case LifecycleStepKind.RequireBase:
                RequireBase(step.At.Version, step.WorldLine);
                break;
            case LifecycleStepKind.Locate:
                _life.Located(BoundaryOf(step.At.Version, step.WorldLine));
                break;
            case LifecycleStepKind.BeginWorldLine:
                _life.WorldLineBegun(await BeginWorldLineAsync(step, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.Continue:
                _life.Performed(await ContinueAsync(step.At, step.Recorded, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.BeginLog:
                bool goesOn = step.Content == LogContent.SameHistory;
                bool hasBegun = await BeginAsync(step.At.Point, step.Recorded, TextOf(step.Content), goesOn, stop).ConfigureAwait(false);
                if (hasBegun && step.Content == LogContent.NothingYet) { FailPoint.Pass(FailPoint.JoinBegun); }
                _life.Performed(hasBegun);
                break;
            case LifecycleStepKind.LookAgain:
                await LookAgainAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Restore:
                _life.Performed(await RestoreAsync(step, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.NoteGoingOn:
                _restored.NoteGoingOn(step.WorldLine);
                break;
            case LifecycleStepKind.BeginWith:
                _life.Performed(await BeginWithAsync(step.At, step.Branch, step.WorldLine, _restored.Feed, stop).ConfigureAwait(false));
                break;
            case LifecycleStepKind.ForgetGoingOn:
                FailPoint.Pass(FailPoint.OlderVersionKept);
                _restored.Forget();
                _report.Warn($"shard {_options.Shard}: goes on from version {step.At.Version}, as slogger restore --keep has asked: its "
                    + $"content is version {step.Branch.Version} of world-line {step.Branch.WorldLine} now, and what was done "
                    + "after it is undone");
                break;
            case LifecycleStepKind.ForgetVersions:
                lock (_machineLock) { _machine = null; }
                break;
            case LifecycleStepKind.BeginTrail:
                BeginTrail(step.IsAtBranch);
                break;
            case LifecycleStepKind.LearnWorldLines:
                _lines = await _seat.LinesUpToAsync(step.WorldLine, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.LookAtPeers:
                (WorldLine current, IReadOnlyList<ShardId> outside) = await _seat.OutsideAsync(step.WorldLine, stop).ConfigureAwait(false);
                _life.PeersSeen(current, outside);
                _stages.Passed("others");
                break;
            case LifecycleStepKind.StartWorkers:
                StartOnce();
                break;
            case LifecycleStepKind.WarnOfPeers:
                _report.Warn($"shard {_options.Shard}: shards {string.Join(", ", step.Shards!)} have not entered world-line {step.WorldLine} in "
                    + $"{LifecycleOptions.PeersUsDefault / 1_000_000} s and are taken for dead: this shard serves without them, and "
                    + "nothing is committed until they are back");
                break;
            case LifecycleStepKind.WarnNotJoined:
                _report.Warn($"shard {_options.Shard}: has not joined cluster \"{_options.Cluster}\" in {LifecycleOptions.PeersUsDefault / 1_000_000} s, "
                    + $"and goes on trying. Nobody else may write to {_store.Name} meanwhile");
                break;
            case LifecycleStepKind.LeaveWorldLine:
                _isLeft = true;
                Suspect($"world-line {step.WorldLine} has begun");
                break;
            case LifecycleStepKind.Rest:
                await Task.Delay(TimeSpan.FromMicroseconds(step.WaitUs), stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.AwaitVersion:
                await AwaitVersionAsync(step.WaitUs, stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.OpenMoves:
                if (_moves is not null) { await _moves.OpenAsync(step.WorldLine, stop).ConfigureAwait(false); }
                break;
            case LifecycleStepKind.EndLost:
                await EndLostAsync(stop).ConfigureAwait(false);
                break;
            case LifecycleStepKind.Open:
                Reopen(step.RolledBack);
                break;
            default:
                throw new UnreachableException($"{step.Kind}");
        }
    }

    // What the metadata says, as the lifecycle takes it; the rest is kept here.
    private MetadataView Seen(ClusterView view)
    {
        _lines = view.Lines;
        _ownerSeen = view.Record.Owner;
        _batches.NoteCut(view.Cut);
        return new()
        {
            IsDeposed = view.Record.Epoch != _seat.Epoch,
            State = view.Record.State,
            Cut = view.Cut.Of(_options.Shard),
            Claim = view.Record.Durable,
        };
    }

    private string TextOf(LogContent content) => content switch
    {
        LogContent.Nothing => EmptyStoreName,
        LogContent.NothingYet => $"{EmptyStoreName}, to join the cluster",
        LogContent.SameHistory => "the same history, by a fresh checkpoint",
        _ => "the data it held",
    };

    private async Task LoseStoreAsync(CancellationToken stop)
    {
        _resolvingSince = Stopwatch.GetTimestamp();
        _stages.Begin();
        _state = "recovering";
        _report.Warn($"shard {_options.Shard}: {(_isLeft ? "another shard's recovery" : $"{_store.Name} was lost")} ({_door.LastReason})");
        _isAttached = _isLeft = false;
        lock (_machineLock) { _machine?.StoreLost(); }
        if (_moves is not null) { await _moves.CloseAsync().ConfigureAwait(false); }
        await DetachAsync(stop).ConfigureAwait(false);
    }

    private async Task<Version?> BeginWorldLineAsync(LifecycleStep step, CancellationToken stop)
    {
        WorldPoint point = step.At.Point;
        DurableClaim claim = new(point, 1, point.Version);
        if (!step.IsAdoption)
        {
            lock (_machineLock) { claim = _machine?.ClaimOf(point) ?? claim; }
        }
        Version? branch = await _seat.BeginWorldLineAsync(claim, step.IsAdoption ? null : RowForBranch(claim), stop).ConfigureAwait(false);
        if (branch is null) { return null; }
        _coordination?.Link.SayBegun();
        FailPoint.Pass(FailPoint.WorldLineRecorded);
        return branch;
    }

    private async Task<bool> RestoreAsync(LifecycleStep step, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        bool isDone = await RestoreAsync(step.WorldLine, step.At, step.Recorded.WorldLine, stop).ConfigureAwait(false);
        _stages.Passed("store");
        if (isDone)
        {
            _report.Info($"shard {_options.Shard}: restored to version {step.At.Version} (offset {step.At.Offset}) in "
                + $"{(long)Stopwatch.GetElapsedTime(began).TotalMilliseconds} ms; world-line {step.WorldLine} begins");
        }
        return isDone;
    }

    // The clock may be corrected meanwhile, so that the time left is looked at again and again.
    private async Task AwaitVersionAsync(long waitUs, CancellationToken stop)
    {
        if (waitUs > SlowMicroseconds)
        {
            _report.Info($"shard {_options.Shard}: waits for the end of version {_seat.Grid.VersionAt(Now().Microseconds + waitUs).Previous}, in {waitUs / 1e6:0.0} s");
        }
        for (long leftUs = waitUs; leftUs > 0 && !_door.IsSuspected; leftUs = UntilNextVersionUs())
        {
            await Task.Delay(TimeSpan.FromMicroseconds(Math.Clamp(leftUs, 1000, SlowMicroseconds)), stop).ConfigureAwait(false);
        }
        _stages.Passed("version");
    }

    /// <summary>Whether a stream is one with which a start has filled the store, to go on from an older version.</summary>
    protected bool IsRestoredFeed(string replicationId) => _restored.IsFeed(replicationId);

    // ---- The machine ----

    /// <summary>The store is attached: the machine goes on, or begins.</summary>
    /// <param name="start">The last boundary: of a new world-line, its branch.</param>
    /// <param name="recorded">The recorded cut.</param>
    /// <param name="streamOffset">Where the stream continues; 0 without one.</param>
    /// <param name="storeOffset">Where the store stood when it was attached.</param>
    /// <param name="isRestarted">Whether what is kept began again from a checkpoint: some of the stream was not read.</param>
    protected void Run(Boundary start, WorldPoint recorded, long streamOffset = 0, long storeOffset = 0, bool isRestarted = false)
    {
        lock (_machineLock)
        {
            if (_machine is null)
            {
                GridView grid = _seat.GridView;
                _machine = new ShardMachine(
                    MachineOptions, new ShardStart(grid.Grid, start, recorded, _life.Cut, Now()) { IsClean = _membership.IsJoining,
                        GridValidUntilUs = grid.ValidUntilUs });
                RecordedCut = new(start.WorldLine, _life.Cut.Version);
                PublishCut();
            }
            else if (start.WorldLine > _machine.WorldLine)
            {
                _machine.WorldLineStarted(start.WorldLine, start, _effects);
                Perform();
            }
            else if (isRestarted)
            {
                _machine.StreamRestarted(streamOffset);
            }
            _machine.Attached(streamOffset, storeOffset);
            Perform();
        }
        _isAttached = true;
    }
}
