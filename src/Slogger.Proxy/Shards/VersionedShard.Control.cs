// How a shard starts, notices that its store may be lost, and stops. One task does it; everything slow happens there, nothing of
// it blocks the loop.
using System.Diagnostics;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    protected static readonly TimeSpan RetryDelay = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan ControlPeriod = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan MetadataRetryDelay = TimeSpan.FromMilliseconds(500);
    protected readonly CancellationTokenSource _ending = new();
    protected readonly StoreDoor _door = new();
    private readonly SemaphoreSlim _attention = new(0, 1);
    private readonly TaskCompletionSource<ProxyExit> _failure = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private Task _control = Task.CompletedTask;
    private Task _recorder = Task.CompletedTask;
    private Task _beating = Task.CompletedTask;
    private bool _hasStarted;
    private Task _watching = Task.CompletedTask;
    private protected SlotWatch? _slots;
    protected long _taken;
    private volatile bool _isStopping;
    protected volatile string _state = "starting";

    private readonly TaskCompletionSource _serving = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Completes when the shard first serves, and not as a backup's.</summary>
    public Task Serving => _serving.Task;

    /// <summary>Completes when the shard can leave its cluster, as it is to: then it is stopped.</summary>
    public Task MayLeave => _membership.MayLeave;

    /// <summary>Whether the machine follows the store: from <see cref="Run"/> until the store is lost.</summary>
    protected volatile bool _isAttached;

    // ---- The start ----

    /// <summary>Takes the shard in the metadata, opens what is kept, finds or starts the store, and recovers it if need be. A
    /// failure is returned.</summary>
    public async Task<ProxyExit?> StartAsync(CancellationToken stop)
    {
        bool hasStarted = false;
        try
        {
            ProxyExit? failed = await TakeAndRecoverAsync(stop).ConfigureAwait(false);
            hasStarted = failed is null;
            return failed;
        }
        finally
        {
            if (!hasStarted) { await GiveUpStartAsync().ConfigureAwait(false); }
        }
    }

    /// <summary>The start has failed, or was stopped: what it has opened is closed, since the process may go on.</summary>
    protected virtual Task GiveUpStartAsync() => Task.CompletedTask;

    private const string OtherMetadataRemedy =
        "start with the metadata that this data directory was used with. If its file is gone for good, bring it back from a copy; without "
        + "one move the data directory away, and start with an empty one: with --seed from-redis what Redis holds goes on, else the "
        + "shard begins empty";

    private async Task<ProxyExit?> TakeAndRecoverAsync(CancellationToken stop)
    {
        try
        {
            _seat = await TakeSeatAsync(stop).ConfigureAwait(false);
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message} The proxy does not start",
                "put that right, or check --metadata, and start again: nothing that was committed is lost");
        }
        catch (OtherMetadataException e)
        {
            return ProxyExit.Failed(e.Message, OtherMetadataRemedy);
        }
        catch (Exception e) when (e is IOException or InvalidDataException or UnauthorizedAccessException)
        {
            return ProxyExit.Failed(e.Message, "");
        }
        BeginLife();
        OnTaken();
        bool follows = _seat.FollowedSite is not null;
        if (!follows) { JoinCluster(); }
        try
        {
            if (OpenKept() is { } last) { _clock.Resume(last); }
            // What is kept has passed the test of its epochs.
            _seat.NoteIdentity(_options.DataDirectory);
            _clock.ResumeNoted();
            NoteClock();
            Volatile.Write(ref _worldLine, _seat.WorldLineAtStart.Number);
            if (follows)
            {
                await FollowAsync(stop).ConfigureAwait(false);
                if (_seat.HasPeers) { await StartMovesAsync(stop).ConfigureAwait(false); }
                return null;
            }
            _life.BeginStart();
            await LiveAsync(stop).ConfigureAwait(false);
            if (_seat.HasPeers) { await StartMovesAsync(stop).ConfigureAwait(false); }
        }
        catch (LogFencedException e) when (e.NewestEpoch > 0)
        {
            // It has just been given its epoch, above all that the metadata knows of: unless another process was faster, the metadata is
            // not what the log was written with.
            return ProxyExit.Failed(
                $"{KeptName} was written under epoch {e.NewestEpoch}, and {_options.Metadata} gave this process only epoch {_seat.Epoch}: the metadata was deleted, or replaced by another or an older one, or another process has just taken the shard",
                OtherMetadataRemedy);
        }
        catch (LogException e)
        {
            return ProxyExit.Failed($"{KeptName} cannot be used: {e.Message}", "");
        }
        catch (Exception e) when (e is RecoveryRefusedException or RedisException or MetadataException or IOException
            or InvalidDataException or UnauthorizedAccessException)
        {
            // What is given up half-way says so.
            stop.ThrowIfCancellationRequested();
            return HasFailed ? await Failure.ConfigureAwait(false) : ProxyExit.Failed(e.Message, "");
        }
        StartOnce();
        return null;
    }

    // Not before the store is there: what they ask of the metadata a recovery would wait for.
    private void StartOnce()
    {
        if (_hasStarted) { return; }
        _hasStarted = true;
        StartWorkers();
        _recorder = Work("the recorder of cuts", _cuts.RunAsync);
        _beating = _coordination?.RunAsync() ?? Task.CompletedTask;
    }

    // Nobody would miss a task that ends by a mistake of this program: commits would cease without a word. So the proxy ends.
    internal Task Work(string what, Func<CancellationToken, Task> work) => Task.Run(
        async () =>
        {
            try
            {
                await work(_ending.Token).ConfigureAwait(false);
            }
            catch (Exception e) when (!_ending.IsCancellationRequested)
            {
                Fail(ProxyExit.Failed($"shard {_options.Shard}: {what} failed: {e}", "start it again, and report this"));
            }
        },
        CancellationToken.None);

    private async Task<ClusterSeat> TakeSeatAsync(CancellationToken stop)
    {
        bool told = false;
        while (true)
        {
            try
            {
                return await ClusterSeat.TakeAsync(OpenMetadata(), _options, _report, follows: Intake is not null,
                    stop).ConfigureAwait(false);
            }
            catch (MetadataUnavailableException e) when (_options.Metadata.Kind != MetadataKind.Sqlite)
            {
                // A server comes back. Of a file that cannot be used somebody has to be told.
                if (!told)
                {
                    _report.Warn($"shard {_options.Shard}: the start waits for the metadata: {e.Message} If it is elsewhere, "
                        + "correct --metadata");
                }
                told = true;
                await Task.Delay(MetadataRetryDelay, stop).ConfigureAwait(false);
            }
        }
    }

    /// <summary>The site's metadata. Does no I/O.</summary>
    private protected virtual IMetadataStore OpenMetadata() => MetadataStoreFactory.Create(_options.Metadata.Text);

    /// <summary>The front end is there: from now on its loop is told what happens.</summary>
    public void Attach(FrontEndLoop loop)
    {
        _loop = loop;
        _moves?.Attach(loop);
        _control = Work("the control of the shard", stop => _seat.FollowedSite is null ? OpenAndControlAsync(stop)
            : FollowAndControlAsync(stop));
    }

    private async Task OpenAndControlAsync(CancellationToken stop)
    {
        if (_slots is not null) { _watching = Task.WhenAll(_slots.RunAsync(stop), _messages!.RunAsync(stop)); }
        try
        {
            // Only now, so that shards that are started one after the other do not wait for each other.
            _life.BeginOpening();
            await LiveAsync(stop).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            return;
        }
        catch (MetadataException e)
        {
            Fail(ProxyExit.Failed($"the metadata failed: {e.Message}", ""));
            return;
        }
        await ControlAsync(stop).ConfigureAwait(false);
    }

    /// <summary>Completes when the shard cannot go on.</summary>
    public Task<ProxyExit> Failure => _failure.Task;

    internal bool HasFailed => _failure.Task.IsCompleted;

    /// <summary>The shard cannot go on. False if that was known already. Any thread.</summary>
    internal bool Fail(ProxyExit exit)
    {
        // For good: a recovery under way must not open it again.
        _door.Shut();
        return _failure.TrySetResult(exit);
    }

    /// <summary>Nobody is let in any more. Any thread.</summary>
    internal void ShutForGood()
    {
        _door.Shut();
        OnClosing();
    }

    // ---- Losing the store ----

    /// <inheritdoc />
    public bool IsOwnConnection(string address) => OwnConnections.Contains(address);

    /// <summary>A connection to the store broke. Nothing is forwarded before it is known that the store is the same.</summary>
    public void StoreUnreachable(string reason) => Suspect(reason);

    public virtual void CarrierLost(ClientLine? connection)
    {
    }

    /// <summary>The store may be lost. Any thread.</summary>
    protected void Suspect(string reason)
    {
        if (_ending.IsCancellationRequested) { return; }
        _door.Suspect(reason);
        Wake();
    }

    /// <summary>Has the control task look at what there is to do. Any thread.</summary>
    internal void Wake()
    {
        try
        {
            _attention.Release();
        }
        catch (SemaphoreFullException)
        {
            // Already awake.
        }
    }

    /// <summary>Returns when there may be something to do, and after a second at the latest. The control task.</summary>
    internal Task AttentionAsync(CancellationToken stop) => _attention.WaitAsync(ControlPeriod, stop);

    private async Task ControlAsync(CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            try
            {
                await AttentionAsync(stop).ConfigureAwait(false);
                if (_door.IsSuspected) { await ResolveSuspicionAsync(stop).ConfigureAwait(false); }
                NoteClock();
                await MaintainAsync(stop).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (stop.IsCancellationRequested)
            {
                return;
            }
            catch (RecoveryRefusedException e)
            {
                Fail(ProxyExit.Failed(e.Message, ""));
                return;
            }
            catch (LogException e)
            {
                OnLogFailure(e);
                return;
            }
            catch (Exception e) when (e is RedisException or MetadataException or IOException)
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                await Task.Delay(RetryDelay, CancellationToken.None).ConfigureAwait(false);
                if (!_door.IsOpen) { Suspect(e.Message); }
            }
            catch (Exception e)
            {
                // Nobody else would open the door again.
                Fail(ProxyExit.Failed($"shard {_options.Shard}: watching over {_store.Name} failed: {e}", "report this"));
                return;
            }
        }
    }

    // The control task looks about as often when nothing happens.
    private void NoteClock()
    {
        lock (_machineLock) { _clock.NoteIfDue(); }
    }

    private async Task ResolveSuspicionAsync(CancellationToken stop)
    {
        _resolvingSince = 0;
        _life.BeginResolving();
        await LiveAsync(stop).ConfigureAwait(false);
        if (_resolvingSince == 0) { return; }
        _report.Info($"shard {_options.Shard}: serves in world-line {WorldLine}, {(long)Stopwatch.GetElapsedTime(_resolvingSince).TotalMilliseconds} ms after that ({_stages})");
    }

    // Nothing of the old world-line may still be on its way when the store is overwritten.
    protected async Task CloseFrontEndAsync()
    {
        OnClosing();
        if (_loop is not { } loop) { return; }
        var closed = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);
        loop.Post(() =>
        {
            loop.CloseStore("the store was lost");
            closed.SetResult();
        });
        await closed.Task.ConfigureAwait(false);
    }

    /// <summary>The store serves. The loop's thread.</summary>
    protected virtual void OnOpened()
    {
    }

    /// <summary>Nobody may use the store any more, by whatever way there is past the front end. Any thread.</summary>
    protected virtual void OnClosing()
    {
    }

    // Opens the front end. After a rollback every client learns of it first.
    protected void Reopen(Boundary? rolledBack)
    {
        if (_loop is not { } loop) { return; }
        _batches.Publish(_lines);
        IStoreConnector connector = Connector;
        long taken = _taken;
        string run = StoreRun;
        if (!_isStopping && !IsFollowing) { _state = "serving"; }
        loop.Post(() =>
        {
            loop.Store = connector;
            if (rolledBack is { } branch)
            {
                loop.OnRolledBack(branch.WorldLine, branch.Version);
                FailPoint.Pass(FailPoint.ClientsTold);
            }
            // The store may be lost again already: nothing is forwarded to what was not restored. Who ends forwards nothing either.
            if (!_door.TryOpen(taken) && !IsEnding) { return; }
            loop.OpenStore(run);
            OnOpened();
            if (!IsFollowing) { _serving.TrySetResult(); }
        });
    }

    // ---- The end ----

    /// <summary>Commits what was done, and stops.</summary>
    public async Task StopAsync()
    {
        _isStopping = true;
        _state = "stopping";
        // Nothing may be forwarded behind the last boundary: its reply would promise what the stop loses.
        _door.Shut();
        OnClosing();
        if (_loop is { } loop) { await loop.SeenAsync().ConfigureAwait(false); }
        lock (_machineLock) { _machine?.Stopping(); }
        // The open version ends now, not at its time: whoever ends this process by force has lost nothing.
        _loop?.Post(_loop.Boundary.OnFastForward);
        // Where no front end has come, nobody has done anything.
        if (_isAttached && !HasFailed && _loop is not null)
        {
            await Task.WhenAny(_stopped.Task, _failure.Task, Task.Delay(StopLimit)).ConfigureAwait(false);
            if (!_stopped.Task.IsCompleted) { _report.Warn("the last version could not be committed in time"); }
        }
        if (_stopped.Task.IsCompleted)
        {
            await _membership.EndAsync().ConfigureAwait(false);
            await BeforeEndAsync().ConfigureAwait(false);
        }
        if (_moves is not null) { await _moves.CloseAsync().ConfigureAwait(false); }
        await _ending.CancelAsync().ConfigureAwait(false);
        await EndWorkersAsync().ConfigureAwait(false);
        try
        {
            await Task.WhenAll(_control, _recorder, _watching, _beating, _membership.Leaving).ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            // As asked.
        }
        // One that is being started is stopped, too.
        await _starting.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        await _store.StopAsync().ConfigureAwait(false);
        CloseKept();
        await _seat.DisposeAsync().ConfigureAwait(false);
    }

    public virtual void Dispose()
    {
        _coordination?.Dispose();
        _ending.Dispose();
        _cuts?.Dispose();
        _attention.Dispose();
        _checkpointing.Dispose();
        _membership.Dispose();
    }
}
