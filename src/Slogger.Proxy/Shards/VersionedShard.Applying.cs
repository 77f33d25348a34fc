// What a shard does whose site is a backup: an intake appends the primary's stream to a log and says to which version the store goes; readers are let in between versions. What follows the log, and how it is
// loaded, kept and compared, is the store's (IFollowedStore).
//
// _feeding is held by whoever changes where the store stands: the intake, or the control task when the store was lost.
using System.Globalization;
using System.Text;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Ports;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IFollowingShard
{
    // Where versions end is asked for again and again; for their bytes there are the files.
    protected const int FollowedTailBytes = 4096;

    protected readonly SemaphoreSlim _feeding = new(1, 1);
    private readonly TaskCompletionSource<SiteState> _takenOver = new(TaskCreationOptions.RunContinuationsAsynchronously);
    protected Boundary? _stands;                // the end of a version, which readers see; under _feeding
    private WorldPoint _applied;
    private readonly Lock _trialLock = new();
    private CancellationTokenSource? _trial;    // a drill that is restoring; under _trialLock
    private int _trialsBarred;                  // under _trialLock

    /// <summary>What follows, while the site is a backup.</summary>
    protected IFollowedStore? _followed;

    /// <summary>Nobody is let in any more before the shard is a primary's.</summary>
    protected bool _isPromoting;

    /// <summary>Held by who deletes what a store can begin from, or needs that it stays.</summary>
    protected readonly SemaphoreSlim _checkpointing = new(1, 1);

    /// <summary>Receives the primary's stream, if the site is a backup. Null: it must be none.</summary>
    public IStreamIntake? Intake { get; init; }

    /// <summary>The log of what the store follows.</summary>
    protected virtual VersionLog StreamLog => throw FollowsNobody();

    /// <summary>What the log rests on.</summary>
    protected virtual CheckpointStore StreamCheckpoints => throw FollowsNobody();

    VersionLog IFollowingShard.Log => StreamLog;

    CheckpointStore IFollowingShard.Checkpoints => StreamCheckpoints;

    /// <inheritdoc cref="IFollowingShard.Guard"/>
    public virtual StreamGuard? Guard => null;

    WorldPoint IFollowingStore.Applied => _applied;

    string? IFollowingStore.Problem => _followed?.Problem;

    /// <inheritdoc cref="IFollowingStore.BaseBelow"/>
    public virtual long? BaseBelow(long offset) => null;

    /// <inheritdoc cref="IFollowingStore.EnterAsync"/>
    public virtual Task EnterAsync(WorldLine line, CancellationToken stop) => Task.CompletedTask;

    // ---- The start ----

    /// <summary>Goes on where the store stands, if it has followed before, and begins to receive.</summary>
    /// <param name="followed">What follows from now on.</param>
    /// <param name="isPrimarys">Whether the store is a primary's already.</param>
    /// <param name="stop">Gives up.</param>
    protected async Task FollowAsync(IFollowedStore followed, bool isPrimarys, CancellationToken stop)
    {
        _followed = followed;
        // What the store holds is a primary's from here on.
        _restored.ForgetAny();
        bool mayBePromoted = _seat.FollowedSite!.Role == SiteRole.FailingOver;
        if (await followed.ResumeAsync(mayBePromoted, stop).ConfigureAwait(false) && followed.Offset is { } offset && LogPlaces.EndAtOrBelow(StreamLog, offset) is var (end, isExact))
        {
            _applied = end.Point;
            if (isExact) { Stands(end); }
            _isPromoting = isPrimarys;
        }
        _state = "following";
        _report.Info($"shard {_options.Shard}: follows the primary, as a backup in site epoch {_seat.FollowedSite.Epoch}{(_applied == default ? "" : $", from version {_applied} on")}");
        await Intake!.StartAsync(this, stop).ConfigureAwait(false);
    }

    /// <summary>Whether the store that is followed is the one of before.</summary>
    protected virtual Task LookAtFollowedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>The store was loaded.</summary>
    protected virtual Task OnLoadedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>What is worth doing now and then while it follows: less to be done by the next start, less on the disk.</summary>
    protected virtual Task KeepFollowedAsync(CancellationToken stop) => throw FollowsNobody();

    // ---- Versions ----

    public async Task BringToAsync(Boundary end, CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            await BringAsync(end, stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    // Whoever reads waits until the store is there, however often that has to be tried.
    protected async Task BringAsync(Boundary end, CancellationToken stop)
    {
        // Empty versions: what is read is the same.
        if (_stands is { } before && before.Offset == end.Offset && before.WorldLine == end.WorldLine && _door.IsOpen && _followed!.Follows)
        {
            Stands(end);
            return;
        }
        await _followed!.RequireKnownAsync(end, stop).ConfigureAwait(false);
        if (_loop is { } loop) { await loop.HoldAsync().WaitAsync(stop).ConfigureAwait(false); }
        if (!_followed.Follows) { await BeginAnewAsync(end, stop).ConfigureAwait(false); }
        else { await _followed.BringToAsync(end, stop).ConfigureAwait(false); }
        Stands(end);
        _loop?.LetGo();
        if (!_door.IsOpen) { OpenForReaders(); }
    }

    public async Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop)
    {
        BarTrials();
        try
        {
            return await RenewNowAsync(begin, stop).ConfigureAwait(false);
        }
        finally
        {
            lock (_trialLock) { _trialsBarred--; }
        }
    }

    private async Task<bool> RenewNowAsync(Func<bool> begin, CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        // A checkpoint that is being taken is of the life before.
        await _checkpointing.WaitAsync(CancellationToken.None).ConfigureAwait(false);
        try
        {
            bool hasBegun = await Task.Run(begin, CancellationToken.None).ConfigureAwait(false);
            if (!hasBegun) { return false; }
            (_stands, _applied) = (null, default);
            _followed!.Renewed();
            await TellUnknownAsync(stop).ConfigureAwait(false);
            return true;
        }
        finally
        {
            _checkpointing.Release();
            _feeding.Release();
        }
    }

    // Of the copy it is known now, before there is a version to which it could be brought.
    private async Task TellUnknownAsync(CancellationToken stop)
    {
        try
        {
            await _followed!.RequireKnownAsync(LogPlaces.BaseOf(StreamLog), stop).ConfigureAwait(false);
        }
        catch (Exception e) when (e is UnknownToStoreException or IOException or RedisException)
        {
            _report.Error($"shard {_options.Shard}: {e.Message}");
        }
    }

    private void Stands(Boundary end)
    {
        (_stands, _applied) = (end, end.Point);
        Volatile.Write(ref _worldLine, end.WorldLine.Number);
        Volatile.Write(ref _committed, end.Version.Number);
        RecordedCut = end.Point;
        if (_loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
    }

    private async Task BeginAnewAsync(Boundary end, CancellationToken stop)
    {
        _state = "loading";
        // Who waits for the first version has read nothing yet.
        if (_stands is not null || _door.IsOpen) { await ShutAsync($"{_store.Name} has to begin from a checkpoint").ConfigureAwait(false); }
        await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _followed!.BringToAsync(end, stop).ConfigureAwait(false);
        await OnLoadedAsync(stop).ConfigureAwait(false);
        _report.Info($"shard {_options.Shard}: {_store.Name} was loaded from a checkpoint, and stands at version {end.Version}");
    }

    // Nobody reads from here on, until it is opened again.
    private async Task ShutAsync(string why)
    {
        _door.Suspect(why);
        _taken = _door.Take();
        await CloseFrontEndAsync().ConfigureAwait(false);
    }

    private void OpenForReaders()
    {
        if (_isPromoting) { return; }
        _taken = _door.Take();
        _state = "following";
        Reopen(rolledBack: null);
    }

    // ---- Taking over ----

    public async Task PromoteAsync(CancellationToken stop)
    {
        // For good: what follows is a primary's.
        BarTrials();
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            // A master takes writes, and nobody would log them yet.
            _isPromoting = true;
            await ShutAsync("the site takes over").ConfigureAwait(false);
            await _followed!.PromoteAsync(stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    public void TakeOver(SiteState site)
    {
        _takenOver.TrySetResult(site);
        Wake();
    }

    public void OnIntakeFailed(string why) =>
        Fail(ProxyExit.Failed($"shard {_options.Shard}: its stream cannot be received any more: {why}", "see to the cause, and start this process again"));

    private async Task<Boundary> FollowToEndAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        if (_stands is not null) { OpenForReaders(); }
        _feeding.Release();
        while (!_takenOver.Task.IsCompleted)
        {
            await AttentionAsync(stop).ConfigureAwait(false);
            if (_takenOver.Task.IsCompleted) { break; }
            try
            {
                await LookAfterAsync(stop).ConfigureAwait(false);
            }
            // Cancelled without our having stopped: one life of the stream has ended, and the next is about to begin.
            catch (Exception e) when (e is RedisException or UnknownToStoreException or MetadataException or IOException or LogHistoryChangedException or LogIOException { IsFatal: false } || (e is OperationCanceledException && !stop.IsCancellationRequested))
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                Wake();
            }
        }
        return StreamLog.LastBoundary ?? LogPlaces.BaseOf(StreamLog);
    }

    /// <summary>The shard serves, or ends: what was only for following is given back. What is frozen takes nothing, and appends nothing: nobody has to wait for its end. Also of a shard that never followed.</summary>
    protected virtual async Task EndFollowingAsync()
    {
        if (Intake is { } intake) { await intake.EndAsync().ConfigureAwait(false); }
        if (_followed is { } followed) { await followed.DisposeAsync().ConfigureAwait(false); }
    }

    /// <summary>It was asked of a store that never does.</summary>
    protected InvalidOperationException FollowsNobody() => new($"{_store.Name} follows nobody");

    private async Task LookAfterAsync(CancellationToken stop)
    {
        // The next one is somewhere else, and empty: nobody waits for this one any more.
        if (_store.HasEnded) { _followed!.Lose(); }
        await LookAtFollowedAsync(stop).ConfigureAwait(false);
        bool isLost = _followed!.Lost is { IsCompleted: true };
        if ((_door.IsSuspected || isLost) && !_isPromoting) { await ResolveAsync(stop).ConfigureAwait(false); }
        await KeepFollowedAsync(stop).ConfigureAwait(false);
    }

    // A connection of the front end broke, or Redis is not what it was.
    private async Task ResolveAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        try
        {
            // Before anything was applied there is nothing that it could have lost.
            if (_stands is not { } end || _isPromoting) { return; }
            if (_followed!.Follows && await IsSameStoreAsync(stop).ConfigureAwait(false))
            {
                if (_door.IsSuspected) { OpenForReaders(); }
                return;
            }
            if (_followed.Lost is { IsCompleted: true } lost) { _report.Warn($"shard {_options.Shard}: {await lost.ConfigureAwait(false)}"); }
            if (_followed.Follows) { throw new RedisException(RedisProblem.Unreachable, $"{_store.Name} cannot be reached"); }
            await BringAsync(end, stop).ConfigureAwait(false);
        }
        finally
        {
            _feeding.Release();
        }
    }

    // ---- Drills ----

    /// <summary>Restores the log into a store of its own, and compares.</summary>
    protected virtual Task<RestoreTrial> CompareAsync(CancellationToken stop) => throw FollowsNobody();

    // Nothing of what it restores from is deleted meanwhile. A stream that is seeded anew, and a failover, do not wait for it.
    public async Task<RestoreTrial> TryRestoreAsync(CancellationToken stop)
    {
        await _checkpointing.WaitAsync(stop).ConfigureAwait(false);
        using var trial = CancellationTokenSource.CreateLinkedTokenSource(stop);
        try
        {
            // Whoever bars trials may be waiting for this one's end, with the store held: from here on it either ends this one, or this one does not begin.
            lock (_trialLock)
            {
                if (_trialsBarred > 0) { return NoTrialNow(); }
                _trial = trial;
            }
            return await CompareAsync(trial.Token).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            return NoTrialNow();
        }
        finally
        {
            lock (_trialLock) { _trial = null; }
            _checkpointing.Release();
        }
    }

    private static RestoreTrial NoTrialNow() => RestoreTrial.Impossible("the stream is being seeded anew, or the site takes over: give the command again afterwards");

    private void BarTrials()
    {
        lock (_trialLock)
        {
            _trialsBarred++;
            _trial?.Cancel();
        }
    }

    /// <summary>Holds the store at the version at which it stands until what is returned is called, again: nothing. Null: it stands at none.</summary>
    protected async Task<(Boundary At, Action LetGo)?> HoldStandingAsync(CancellationToken stop)
    {
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        if (_stands is not { } end || !_followed!.Follows)
        {
            _feeding.Release();
            return null;
        }
        int isHeld = 1;
        return (end, () =>
        {
            if (Interlocked.Exchange(ref isHeld, 0) == 1) { _feeding.Release(); }
        });
    }

    // ---- For people ----

    private string? FollowingText(FrontEndLoop loop)
    {
        if (_seat.FollowedSite is not { } site) { return null; }
        var text = new StringBuilder(512);
        void Line(string name, object value) => text.Append(CultureInfo.InvariantCulture, $"{name}:{value}\r\n");
        Line("role", "backup");
        Line("mode", ModeName);
        Line("cluster", _options.Cluster);
        Line("shard", _options.Shard);
        Line("stream", _options.Shard);
        Line("site_epoch", site.Epoch);
        Line("worldline", WorldLine);
        Line("applied", _applied);
        if (_stands is { } stands && stands.Time.Microseconds > 0)
        {
            Line("applied_time_us", stands.Time.Microseconds);
            Line("applied_age_ms", ((ShardClock.WallUs() - stands.Time.Microseconds) / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        }
        foreach ((string name, object value) in Intake!.Status) { Line(name, value); }
        if (_followed?.Problem is { } problem) { Line("store_problem", problem); }
        if (!StreamLog.IsEmpty) { foreach ((string name, long value) in KeptStatus()) { Line(name, value); } }
        Line("clients", loop.Clients.Count);
        Line("store", _store.Name);
        Line("store_state", _door.IsOpen ? "serving reads" : _state);
        return text.ToString();
    }
}
