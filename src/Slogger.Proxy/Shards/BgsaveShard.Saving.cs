// From a BGSAVE that was started to a version that is durable: wait for its end, make sure that the file is its own, keep and
// check it. One task does this; it also extends the newest snapshot over versions in which nothing was done, and deletes old ones.
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Proxy.Shards;

internal sealed partial class BgsaveShard
{
    private const int KeptAtCut = 2;
    private static readonly TimeSpan PollMin = TimeSpan.FromMilliseconds(5);
    private static readonly TimeSpan PollMax = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan NotReadyPeriod = TimeSpan.FromMilliseconds(50);
    private static readonly TimeSpan IdlePeriod = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan FailurePauseMin = TimeSpan.FromMilliseconds(200);
    private static readonly TimeSpan FailurePauseMax = TimeSpan.FromSeconds(10);
    private readonly SemaphoreSlim _savesWanted = new(0, 1);

    // Under the machine's lock.
    private SaveBase? _ready;              // a BGSAVE may be sent; what Redis said of its saving before it
    private StartedSave? _sent;            // the BGSAVE on its way, or the last one
    private StartedSave? _started;         // Redis has begun to save

    private string _replicationId = "";
    private long _savesFailed;
    private long _refusedSince;
    private bool _refusalTold;
    private TimeSpan _failurePause = FailurePauseMin;
    private Task _saving = Task.CompletedTask;

    /// <summary>A BGSAVE, and what Redis said of its saving before.</summary>
    private sealed record StartedSave(Marker Marker, SaveBase Before);

    private void WakeSaving()
    {
        try
        {
            _savesWanted.Release();
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

    // Somebody else's save, or a rewrite of the append-only file, is under way.
    private void OnRefused()
    {
        long now = Versions.Clock.MonotonicMicroseconds();
        if (_refusedSince == 0) { _refusedSince = now; }
        if (!_refusalTold && now - _refusedSince > 10_000_000)
        {
            _refusalTold = true;
            _report.Warn($"shard {_options.Shard}: {_store.Name} has refused BGSAVE for 10 s, since it saves or rewrites its append-only "
                + "file all the time: nothing is committed meanwhile");
        }
    }

    internal override void StartWorkers() => _saving = Task.Run(() => SaveLoopAsync(Lifetime.End), CancellationToken.None);

    internal override Task EndWorkersAsync() => _saving;

    private async Task SaveLoopAsync(CancellationToken stop)
    {
        SaveWatch? watch = null;
        RedisEndpoint? watched = null;
        try
        {
            while (!stop.IsCancellationRequested)
            {
                await _savesWanted.WaitAsync(_ready is null ? NotReadyPeriod : IdlePeriod, stop).ConfigureAwait(false);
                try
                {
                    if (!Versions.IsAttached) { continue; }
                    if (watched != StoreAddress)
                    {
                        if (watch is not null) { await watch.DisposeAsync().ConfigureAwait(false); }
                        watched = StoreAddress;
                        watch = new SaveWatch(await RedisConnection.ConnectAsync(watched, cancellation: stop).ConfigureAwait(false));
                    }
                    await StepAsync(watch!, stop).ConfigureAwait(false);
                }
                catch (RedisException)
                {
                    // The front end notices by itself when the store is gone; else the next step succeeds.
                    watched = null;
                    await Task.Delay(NotReadyPeriod, stop).ConfigureAwait(false);
                }
                catch (Exception e) when (e is LogException or IOException or UnauthorizedAccessException)
                {
                    OnSaveFailed($"the snapshot could not be kept: {e.Message}");
                    EndSave(ok: false);
                    await Task.Delay(_failurePause, stop).ConfigureAwait(false);
                }
            }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // As asked.
        }
        catch (Exception e)
        {
            Fail(ProxyExit.Failed($"shard {_options.Shard}: following Redis's saves failed: {e.Message}"));
        }
        finally
        {
            if (watch is not null) { await watch.DisposeAsync().ConfigureAwait(false); }
        }
    }

    private async Task StepAsync(SaveWatch watch, CancellationToken stop)
    {
        StartedSave? started;
        lock (Versions.Lock) { started = _started; }
        if (started is not null) { await FollowAsync(watch, started, stop).ConfigureAwait(false); }
        _kept.ExtendOverEmptyRun();
        _kept.PruneBelowCut();
        bool isReady;
        lock (Versions.Lock)
        {
            isReady = _ready is not null;
            if (Versions.Machine is not { MarkerInFlight: false }) { return; }
        }
        SaveBase? fresh = await watch.BaseAsync(stop).ConfigureAwait(false);
        // What was written to Redis directly is no session's, yet belongs into a snapshot some day.
        if (fresh is { State.Changes: > 0 }) { Versions.MarkChanged(); }
        lock (Versions.Lock)
        {
            // Not while a BGSAVE is on its way: it would be compared with itself.
            if (Versions.Machine is not { MarkerInFlight: false } || (isReady && _ready is null)) { return; }
            _ready = fresh;
        }
        if (fresh is null) { OnRefused(); }
    }

    private async Task FollowAsync(SaveWatch watch, StartedSave started, CancellationToken stop)
    {
        _refusedSince = 0;
        _refusalTold = false;
        TimeSpan pause = PollMin;
        SaveState state;
        while ((state = await watch.LookAsync(stop).ConfigureAwait(false)).InProgress)
        {
            lock (Versions.Lock)
            {
                if (Versions.Machine is not { MarkerInFlight: true } machine) { break; }
                machine.Tick(Now(), busy: false, Versions.Effects);
                Versions.Perform();
            }
            await Task.Delay(pause, stop).ConfigureAwait(false);
            if (pause < PollMax) { pause *= 2; }
        }
        lock (Versions.Lock)
        {
            if (_started != started) { return; }
        }
        string file = _snapshots.NewTemporaryPath();
        string? problem = await watch.KeepAsync(started.Before, state, file, stop).ConfigureAwait(false);
        problem ??= Register(file, started.Marker);
        if (problem is not null)
        {
            File.Delete(file);
            OnSaveFailed(problem);
            EndSave(ok: false);
            await Task.Delay(_failurePause, stop).ConfigureAwait(false);
            if (_failurePause < FailurePauseMax) { _failurePause *= 2; }
            return;
        }
        _failurePause = FailurePauseMin;
        EndSave(ok: true);
    }

    // Checks the file and makes it a snapshot; null, or what is wrong with it.
    private string? Register(string file, in Marker marker)
    {
        if (CheckFile(file, out RdbInfo? info) is { } problem) { return problem; }
        // Versions that passed empty before this save are said to be restorable: by the snapshot before.
        _kept.ExtendOverEmptyRun();
        _snapshots.Add(file, Describe(info!, new Boundary(marker.WorldLine, marker.Closed, 0, 0, marker.Time)));
        return null;
    }

    private string? CheckFile(string file, out RdbInfo? info)
    {
        info = null;
        if (RdbFile.Verify(file) == RdbIntegrity.Broken) { return "the file is broken"; }
        info = RdbFile.Inspect(file);
        return info.ReplicationId is { } id && id != _replicationId
            ? "the file is another Redis's: the directory in which this one saves is not the one that is seen here" : null;
    }

    private static Snapshot Describe(RdbInfo info, in Boundary boundary) => new()
    {
        WorldLine = boundary.WorldLine.Number,
        Version = boundary.Version.Number,
        LastVersion = boundary.Version.Number,
        ClosedAt = boundary.Time.Bits,
        ReplicationId = info.ReplicationId,
        Offset = info.Offset ?? 0,
        CreatedAt = DateTimeOffset.UtcNow,
    };

    private void EndSave(bool ok)
    {
        lock (Versions.Lock)
        {
            if (_started is not { } started) { return; }
            _started = null;
            Versions.OnSaveEnded(started.Marker, ok);
        }
    }

    private void OnSaveFailed(string why)
    {
        _savesFailed++;
        _report.Warn($"shard {_options.Shard}: a BGSAVE did not count: {why}. It is tried again; nothing is committed before one succeeds");
    }

    // ---- The snapshots, as what versions stand on ----

    Boundary? IKeptStates.Newest => _snapshots.All is [.., var newest]
        ? BoundaryOf(new UsableSnapshot(newest, new VersionNumber(newest.LastVersion))) : null;

    Boundary? IKeptStates.Latest(WorldLine current, Func<WorldLine, VersionNumber> lastValid, VersionNumber atMost) =>
        _snapshots.Latest(current, lastValid, atMost) is { } usable ? BoundaryOf(usable) : null;

    bool IKeptStates.Extend(Boundary last)
    {
        if (_snapshots.All.LastOrDefault(s => s.WorldLine == last.WorldLine.Number && s.Version <= last.Version.Number) is not { } newest)
        {
            return false;
        }
        if (newest.LastVersion < last.Version.Number) { _snapshots.Extend(newest, last.Version, last.Time); }
        return true;
    }

    void IKeptStates.Prune(WorldPoint cut, Func<WorldLine, VersionNumber> lastValid) => _snapshots.Prune(KeptAtCut, cut, lastValid);

    private static Boundary BoundaryOf(in UsableSnapshot usable) =>
        new(new WorldLine(usable.Snapshot.WorldLine), usable.Last, 0, 0, usable.Snapshot.Time);
}
