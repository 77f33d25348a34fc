// A shard of a backup: an intake appends the primary's stream to the log and says to which version the store goes; readers are let in between versions. What serves afterwards as the
// shard of a primary is the same: log, checkpoints, store, front end.
//
// _feeding is held by whoever changes where the store stands: the intake, or the control task when the store was lost.
using System.Globalization;
using System.Text;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Following;
using Slogger.Proxy.FrontEnd;
using Slogger.Redis.Connections;
using Slogger.Redis.Replication;

namespace Slogger.Proxy.Shards;

internal sealed partial class LogShard : IFollowingShard
{
    // Where versions end is asked for again and again; for their bytes there are the files.
    private const int FollowedTailBytes = 4096;

    private readonly SemaphoreSlim _feeding = new(1, 1);
    private readonly TaskCompletionSource<SiteState> _takenOver = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private FollowedStore? _followed;
    private Boundary? _stands;                  // the end of a version, which readers see; under _feeding
    private WorldPoint _applied;
    private bool _isPromoting;
    private readonly Lock _trialLock = new();
    private CancellationTokenSource? _trial;    // a drill that is restoring; under _trialLock
    private int _trialsBarred;                  // under _trialLock

    /// <summary>Receives the primary's stream, if the site is a backup. Null: it must be none.</summary>
    public IStreamIntake? Intake { get; init; }

    protected override bool MayFollow => Intake is not null;

    ClusterSeat IFollowingShard.Seat => _seat;

    VersionLog IFollowingShard.Log => _log;

    CheckpointStore IFollowingShard.Checkpoints => _checkpoints;

    WorldPoint IFollowingStore.Applied => _applied;

    // ---- The start ----

    protected override async Task FollowAsync(CancellationToken stop)
    {
        await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _fence.ShutOutAsync(stop).ConfigureAwait(false);
        ProbeResult probe = await ProbeAsync(stop).ConfigureAwait(false);
        if (probe.Facts is not { } facts || (!probe.IsUsable && probe.Problem != RedisProblem.NotMaster)) { throw new RecoveryRefusedException($"{probe.Message} {probe.Problem.Remedy()}"); }
        RefuseForeign(facts);
        _followed = new FollowedStore(_log, _checkpoints, () => _fence.Endpoint, _restoreUndoFile, Intake!.WithLogAsync);
        bool mayBePromoted = _seat.FollowedSite!.Role == SiteRole.FailingOver;
        if (await _followed.ResumeAsync(mayBePromoted, stop).ConfigureAwait(false) && _followed.Offset is { } offset && FollowedStore.EndAtOrBelow(_log, offset) is var (end, isExact))
        {
            _applied = end.Point;
            if (isExact) { Stands(end); }
            _isPromoting = facts.IsMaster;
        }
        await TrialRedis.ClearAsync(_options, stop).ConfigureAwait(false);
        _state = "following";
        _report.Info($"shard {_options.Shard}: follows the primary, as a backup in site epoch {_seat.FollowedSite.Epoch}{(_applied == default ? "" : $", from version {_applied} on")}");
        await Intake.StartAsync(this, stop).ConfigureAwait(false);
    }

    // What others have put there is not overwritten unasked.
    private void RefuseForeign(RedisFacts facts)
    {
        bool isOwn = !_log.IsEmpty && (facts.ReplicationId == _log.ReplicationId || facts.SecondReplicationId == _log.ReplicationId);
        if (facts.KeyCount == 0 || isOwn || _store.IsSupervised || File.Exists(_restoreUndoFile) || _options.Seed == SeedSource.FromLog) { return; }
        throw new RecoveryRefusedException(
            $"shard {_options.Shard}: {_store.Name} holds {facts.KeyCount} keys of unknown origin, and a backup's Redis is overwritten by what the primary has. Nothing was changed. Give it another Redis, empty this one (FLUSHALL), or give --seed from-log");
    }

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
    private async Task BringAsync(Boundary end, CancellationToken stop)
    {
        // Empty versions: what is read is the same.
        if (_stands is { } before && before.Offset == end.Offset && before.WorldLine == end.WorldLine && _door.IsOpen && _followed!.Follows)
        {
            Stands(end);
            return;
        }
        if (_loop is { } loop) { await loop.HoldAsync().WaitAsync(stop).ConfigureAwait(false); }
        if (!_followed!.Follows) { await BeginAnewAsync(end, stop).ConfigureAwait(false); }
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
            if (hasBegun) { (_stands, _applied) = (null, default); }
            return hasBegun;
        }
        finally
        {
            _checkpointing.Release();
            _feeding.Release();
        }
    }

    private void Stands(Boundary end)
    {
        (_stands, _applied) = (end, end.Point);
        Volatile.Write(ref _worldLine, end.WorldLine.Number);
        Volatile.Write(ref _committed, end.Version.Number);
        RecordedCut = end.Point;
    }

    private async Task BeginAnewAsync(Boundary end, CancellationToken stop)
    {
        _state = "loading";
        // Who waits for the first version has read nothing yet.
        if (_stands is not null || _door.IsOpen) { await ShutAsync($"{_store.Name} has to begin from a checkpoint").ConfigureAwait(false); }
        await _store.EnsureRunningAsync(stop).ConfigureAwait(false);
        await _followed!.BringToAsync(end, stop).ConfigureAwait(false);
        await ProbeAsync(stop).ConfigureAwait(false);
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

    protected override async Task<Boundary> FollowToEndAsync(CancellationToken stop)
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
            catch (Exception e) when (e is RedisException or MetadataException or IOException or LogHistoryChangedException or LogIOException { IsFatal: false } || (e is OperationCanceledException && !stop.IsCancellationRequested))
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
                Wake();
            }
        }
        await Intake!.EndAsync().ConfigureAwait(false);
        return _log.LastBoundary ?? Base;
    }

    protected override async Task EndFollowingAsync()
    {
        if (_followed is { } followed) { await followed.DisposeAsync().ConfigureAwait(false); }
    }

    private async Task LookAfterAsync(CancellationToken stop)
    {
        // The next one is somewhere else, and empty: nobody waits for this one any more.
        if (_store.HasEnded) { _followed!.Lose(); }
        await _fence.KeepAsync(stop).ConfigureAwait(false);
        bool isLost = _followed!.Lost is { IsCompleted: true };
        if ((_door.IsSuspected || isLost) && !_isPromoting) { await ResolveAsync(stop).ConfigureAwait(false); }
        if (_door.IsOpen && IsCheckpointDue()) { await TakeCheckpointAsync(stop).ConfigureAwait(false); }
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

    // Where the log has the database at an offset: a checkpoint may lie inside a version.
    private int DatabaseAt(long offset)
    {
        if (FollowedStore.EndAtOrBelow(_log, offset) is not var (end, _)) { return 0; }
        var scanner = new StreamScanner(end.Offset, end.Database);
        using LogReader reader = _log.OpenReader(end.Offset, offset);
        var buffer = new byte[1 << 20];
        while (scanner.Offset < offset)
        {
            int count = reader.Read(buffer.AsSpan(0, (int)Math.Min(buffer.Length, offset - scanner.Offset)));
            if (count == 0) { break; }
            int position = 0;
            while (position < count) { scanner.Next(buffer.AsSpan(0, count), ref position); }
        }
        return scanner.Database;
    }

    // ---- Drills ----

    // Nothing of what it restores from is deleted meanwhile. A stream that is seeded anew, and a failover, do not wait for it.
    public async Task<RestoreTrial> TryRestoreAsync(CancellationToken stop)
    {
        if (_options.RedisServerPath is null)
        {
            return RestoreTrial.Impossible("this process knows no redis-server program to restore into, since its Redis is run by others (--redis): restore from a copy of the data directory (slogger restore --redis-server), or have the process run its Redis (--redis-server)");
        }
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
            return await TrialRedis.CompareAsync(_options, _log, _checkpoints, TakeCopyAsync, trial.Token).ConfigureAwait(false);
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

    // What the store holds at the version at which it stands: nothing is applied until Redis has forked.
    private async Task<(Boundary? At, string Flaw)> TakeCopyAsync(string file, CancellationToken stop)
    {
        await using RedisConnection control = await RedisConnection.ConnectAsync(_fence.Endpoint, cancellation: stop).ConfigureAwait(false);
        await _feeding.WaitAsync(stop).ConfigureAwait(false);
        int isHeld = 1;
        void LetGo()
        {
            if (Interlocked.Exchange(ref isHeld, 0) == 1) { _feeding.Release(); }
        }
        try
        {
            if (_stands is not { } end || !_followed!.Follows) { return (null, $"{_store.Name} stands at no version: it is loaded, or seeded"); }
            CheckpointResult result = await QuickAttach.FetchAsync(control, file, _attachUndoFile, cancellation: stop, onTaken: LetGo).ConfigureAwait(false);
            stop.ThrowIfCancellationRequested();
            return result switch
            {
                CheckpointResult.Failed failed => (null, $"what {_store.Name} holds could not be read: {failed.Message}"),
                CheckpointResult.Fetched fetched when fetched.Offset != end.Offset => (null, $"{_store.Name} should stand at offset {end.Offset}, the end of version {end.Version}, and stands at {fetched.Offset}"),
                _ => (end, ""),
            };
        }
        finally
        {
            LetGo();
        }
    }

    // ---- For people ----

    protected override string? FollowingText(FrontEndLoop loop)
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
            Line("applied_age_ms", ((WallMicroseconds() - stands.Time.Microseconds) / 1000.0).ToString("0.###", CultureInfo.InvariantCulture));
        }
        foreach ((string name, object value) in Intake!.Status) { Line(name, value); }
        if (!_log.IsEmpty) { foreach ((string name, long value) in KeptStatus()) { Line(name, value); } }
        Line("clients", loop.Clients.Count);
        Line("store", _store.Name);
        Line("store_state", _door.IsOpen ? "serving reads" : _state);
        return text.ToString();
    }
}
