// From a checkpoint that has begun to a version that is durable. One task, the keeper, does this; it also notes that the newest commit
// stands for versions in which nothing was done, deletes old commits, and removes expired keys.
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commands;
using Slogger.Faster.Commits;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Shards;

internal partial class FasterShard
{
    // More commits than are in the cut: they cost disk, and memory for what has been overwritten since. Then versions stay open.
    internal const int CommitsMax = 1000;

    // Keys with an expiry that are looked at in one period.
    private const int SweepBudget = 5_000;
    private static readonly TimeSpan KeeperPeriod = TimeSpan.FromMilliseconds(100);
    private readonly SemaphoreSlim _work = new(0, 1);

    // Under the machine's lock.
    private Marker _sent;                  // the end of a version that was sent last
    private StartedCommit? _started;       // its checkpoint

    // Of the commits on disk, those that only the past needs, or nobody: as of the keeper's last look.
    private volatile int _older;

    private readonly CommitPacing _pacing = new();
    private Task _keeper = Task.CompletedTask;
    private Task _frontEndClosed = Task.CompletedTask;

    /// <summary>A checkpoint that has begun, for the marker that ends its version.</summary>
    private sealed record StartedCommit(Marker Marker, Task<CommitRecord> Durable);

    private void WakeKeeper()
    {
        try
        {
            _work.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
        catch (ObjectDisposedException)
        {
            // The end.
        }
    }

    // Why no checkpoint can begin now; null if one can.
    private string? WhyNoCommit() => _faster is not { } faster ? "the store is not open"
        : _pacing.IsPaused ? "the last commit has failed"
        : faster.CommitCount - _older > CommitsMax
            ? $"{CommitsMax} commits are not in the recorded cut, since the metadata or another shard is away"
        : faster.CanBeginCommit ? null : "a commit or a rollback is under way";

    // The loop's thread, at the place of the command among all others.
    private void OnCommit(CommitCommand command)
    {
        command.Refusal = WhyNoCommit();
        if (command.Refusal is not null) { return; }
        Task<CommitRecord>? durable;
        try
        {
            durable = _faster!.BeginCommit(command.Line, command.Next, _sent.Next);
        }
        catch (Exception e)
        {
            // The store cannot commit any more. The loop goes on, so that the stop is one in order.
            command.Refusal = "the store cannot commit";
            Fail(ProxyExit.Failed($"shard {_options.Shard}: the embedded store cannot commit any more: {e.Message}",
                "start the proxy again"));
            return;
        }
        if (durable is null)
        {
            command.Refusal = "a commit or a rollback is under way";
            return;
        }
        lock (Versions.Lock) { _started = new StartedCommit(_sent, durable); }
        _ = durable.ContinueWith(_ => WakeKeeper(), CancellationToken.None, TaskContinuationOptions.ExecuteSynchronously,
            TaskScheduler.Default);
    }

    // What was begun goes on, and may be found by a recovery, but is claimed by nobody.
    public override void MarkerLost()
    {
        lock (Versions.Lock)
        {
            _started = null;
            base.MarkerLost();
        }
    }

    // No version is closed meanwhile, so nobody else would say so.
    private void WatchRefusals()
    {
        if (WhyNoCommit() is not { } why)
        {
            _pacing.OnPossible();
            return;
        }
        if (_pacing.OnRefused() is not { } since) { return; }
        _report.Warn($"shard {_options.Shard}: nothing has become durable for {since.TotalSeconds} s: {why}. Operations go on meanwhile");
    }

    // ---- The keeper ----

    internal override void StartWorkers()
    {
        _keeper = Task.Run(() => KeepAsync(Lifetime.End), CancellationToken.None);
        _past?.Start();
    }

    internal override async Task EndWorkersAsync()
    {
        if (_followedPast is { } past) { await past.EndAsync().ConfigureAwait(false); }
        await base.EndFollowingAsync().ConfigureAwait(false);
        await Site.EndAsync().ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _reset.StopAsync().ConfigureAwait(false);
        await _keeper.ConfigureAwait(false);
        await EndPastAsync().ConfigureAwait(false);
        // The store ends before the loop does, which must have no way to it then.
        _frontEndClosed = Access.CloseAsync();
        await Task.WhenAny(_frontEndClosed, Task.Delay(FrontEndLimit)).ConfigureAwait(false);
        await _rollbacks.Last.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
    }

    internal override async Task GiveUpStartAsync()
    {
        await Lifetime.Ending.CancelAsync().ConfigureAwait(false);
        await EndWorkersAsync().ConfigureAwait(false);
        CloseKept();
    }

    private async Task KeepAsync(CancellationToken stop)
    {
        try
        {
            while (!stop.IsCancellationRequested)
            {
                await _work.WaitAsync(KeeperPeriod, stop).ConfigureAwait(false);
                try
                {
                    Keep();
                }
                catch (Exception e) when (e is IOException or UnauthorizedAccessException)
                {
                    OnCommitFailed(e);
                    await Task.Delay(_pacing.Pause, stop).ConfigureAwait(false);
                }
            }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // As asked.
        }
        catch (Exception e)
        {
            Fail(ProxyExit.Failed($"shard {_options.Shard}: following the store's commits failed: {e}", "report this"));
        }
    }

    private void Keep()
    {
        if (!Versions.IsAttached) { return; }
        StartedCommit? started;
        lock (Versions.Lock) { started = _started; }
        if (started is { Durable.IsCompleted: true }) { Finish(started); }
        _kept.ExtendOverEmptyRun();
        _kept.PruneBelowCut();
        WatchRefusals();
        _statistics = _faster!.Statistics();
        // Of a version that is empty otherwise.
        if (_engine!.SweepExpired(SweepBudget) > 0) { Versions.MarkChanged(); }
    }

    private void Finish(StartedCommit started)
    {
        bool ok = started.Durable.IsCompletedSuccessfully;
        if (ok)
        {
            _pacing.OnSucceeded();
            // Versions that passed empty before it are said to be restorable: by the commit before.
            _kept.ExtendOverEmptyRun();
        }
        else
        {
            OnCommitFailed(started.Durable.Exception?.InnerException);
        }
        lock (Versions.Lock)
        {
            if (_started != started) { return; }
            _started = null;
            Versions.OnSaveEnded(started.Marker, ok);
        }
    }

    private void OnCommitFailed(Exception? why)
    {
        _pacing.OnFailed();
        _report.Warn($"shard {_options.Shard}: a commit failed: {why?.Message}. It is tried again; nothing is committed before one "
            + $"succeeds. Check the disk of {_fasterOptions.Directory}");
    }

    // ---- The commits, as what versions stand on ----

    Boundary? IKeptStates.Newest => _history.All is [.., var newest] ? BoundaryAt(newest.Last, newest.Line) : null;

    Boundary? IKeptStates.Latest(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost) =>
        _history.Latest(current, lastValid, atMost) is { } state ? BoundaryAt(state.Last, state.Line) : null;

    bool IKeptStates.Extend(Boundary last) => _history.Extend(last.WorldLine, last.Version);

    void IKeptStates.Prune(WorldPoint cut, Func<WorldLine, VersionNumber> lastValid)
    {
        // The history does not go on yet where the stream ended.
        if (_stream is not null && _options.Retention > TimeSpan.Zero) { return; }
        if (_history.OldestNeeded(cut, lastValid) is not { } oldest) { return; }
        _older = _faster!.Commits.Count(c => c.Point < oldest);
        _faster.Keep(_past?.OldestKept(_faster, oldest, _older) ?? oldest);
    }
}
