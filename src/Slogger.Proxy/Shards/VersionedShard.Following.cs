// A shard whose site is a backup: it has no machine and closes no versions; its store follows the primary's log (ShardFollower), and the
// front end serves reads. When the site has become the primary the same object goes on as a shard that was recovered, with what it has.
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Drills;
using Slogger.Proxy.Ports;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    // Where versions end is asked for again and again; for their bytes there are the files.
    protected const int FollowedTailBytes = 4096;
    private const int Rehearsals = 8;
    protected readonly ShardFollower _follower;

    /// <summary>Held by who deletes what a store can begin from, or needs that it stays.</summary>
    protected readonly SemaphoreSlim _checkpointing = new(1, 1);

    /// <summary>Receives the primary's stream, if the site is a backup. Null: it must be none.</summary>
    public IStreamIntake? Intake { get; init; }

    /// <inheritdoc />
    public bool IsFollowing => _seat.FollowedSite is not null;

    /// <summary>Begins to follow; the front end is not there yet. Expected failures as of a recovery.</summary>
    protected virtual Task FollowAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>Follows from now on, with what the store has.</summary>
    /// <param name="followed">What follows.</param>
    /// <param name="isPrimarys">Whether the store is a primary's already.</param>
    /// <param name="stop">Gives up.</param>
    protected Task FollowAsync(IFollowedStore followed, bool isPrimarys, CancellationToken stop)
    {
        // What the store holds is a primary's from here on.
        _restored.ForgetAny();
        return _follower.BeginAsync(followed, isPrimarys, stop);
    }

    /// <summary>The shard serves, or ends: see <see cref="ShardFollower.EndAsync"/>.</summary>
    protected virtual Task EndFollowingAsync() => _follower.EndAsync();

    // ---- What the follower asks of the store ----

    /// <summary>The log of what the store follows.</summary>
    protected internal virtual VersionLog StreamLog => throw FollowsNobody();

    /// <summary>What the log rests on.</summary>
    protected internal virtual CheckpointStore StreamCheckpoints => throw FollowsNobody();

    /// <inheritdoc cref="IFollowingShard.Guard"/>
    public virtual StreamGuard? Guard => null;

    /// <inheritdoc cref="IFollowingStore.BaseBelow"/>
    public virtual long? BaseBelow(long offset) => null;

    /// <inheritdoc cref="IFollowingStore.EnterAsync"/>
    public virtual Task EnterAsync(WorldLine line, CancellationToken stop) => Task.CompletedTask;

    /// <summary>Whether the store that is followed is the one of before.</summary>
    protected internal virtual Task LookAtFollowedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>The store was loaded.</summary>
    protected internal virtual Task OnLoadedAsync(CancellationToken stop) => Task.CompletedTask;

    /// <summary>What is worth doing now and then while it follows: less to be done by the next start, less on the disk.</summary>
    protected internal virtual Task KeepFollowedAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>Restores the log into a store of its own, and compares.</summary>
    protected internal virtual Task<RestoreTrial> CompareAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>It was asked of a store that never does.</summary>
    protected InvalidOperationException FollowsNobody() => new($"{_store.Name} follows nobody");

    // ---- What it asks of the shard ----

    /// <summary>The store stands at the end of this version, which readers see.</summary>
    internal void OnApplied(WorldPoint point)
    {
        Volatile.Write(ref _worldLine, point.WorldLine.Number);
        Volatile.Write(ref _committed, point.Version.Number);
        RecordedCut = point;
        if (_loop is { AnybodyWaits: true } loop) { loop.Post(loop.OnCommitted); }
    }

    /// <summary>Nobody reads from here on, until it is opened again.</summary>
    internal async Task ShutOutAsync(string why)
    {
        _door.Suspect(why);
        _taken = _door.Take();
        await CloseFrontEndAsync().ConfigureAwait(false);
    }

    /// <summary>Readers are let in.</summary>
    internal void OpenForReaders()
    {
        _taken = _door.Take();
        _state = "following";
        Reopen(rolledBack: null);
    }

    /// <summary>Whether the shard of a site that takes over recovers: what can be done when it serves is done then.</summary>
    protected bool IsTakingOver => _life.IsTakingOver;

    private async Task FollowAndControlAsync(CancellationToken stop)
    {
        try
        {
            _moves?.Follow();
            if (_slots is not null) { _watching = Task.WhenAll(_slots.RunAsync(stop), _messages!.RunAsync(stop)); }
            Task rehearsing = RehearseAsync(stop);
            (Boundary final, SiteState site) = await _follower.FollowToEndAsync(stop).ConfigureAwait(false);
            await rehearsing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await TakeOverAsync(final, site, stop).ConfigureAwait(false);
            await EndFollowingAsync().ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return;
        }
        catch (Exception e) when (e is MetadataException or RecoveryRefusedException)
        {
            Fail(ProxyExit.Failed(e.Message, ""));
            return;
        }
        catch (Exception e)
        {
            Fail(ProxyExit.Failed($"shard {_options.Shard}: following ended: {e}", "report this"));
            return;
        }
        await ControlAsync(stop).ConfigureAwait(false);
    }

    // What a failover will ask of the metadata is asked before: nothing is compiled or prepared for the first time when it counts. Several
    // times, since an answer may be there at once or be waited for, and what goes on after waiting is compiled by itself.
    private async Task RehearseAsync(CancellationToken stop)
    {
        try
        {
            for (int i = 0; i < Rehearsals; i++)
            {
                ClusterView view = await _seat.LookAsync(stop).ConfigureAwait(false);
                await _seat.LinesUpToAsync(view.Cut.Cut.WorldLine, stop).ConfigureAwait(false);
                await _seat.OutsideAsync(view.Cut.Cut.WorldLine, stop).ConfigureAwait(false);
                await _seat.Metadata.SnapshotAsync(_seat.Cluster, stop).ConfigureAwait(false);
                // Of an epoch that nobody ever takes: refused.
                await _seat.Metadata.OpenStreamsAsync(_seat.Cluster, new(-1), [new(_seat.Shard, _seat.Epoch, ClusterSeat.Name)],
                    stop).ConfigureAwait(false);
            }
        }
        catch (MetadataException)
        {
            // Then it is slower.
        }
    }

    private async Task TakeOverAsync(Boundary final, SiteState site, CancellationToken stop)
    {
        long began = Stopwatch.GetTimestamp();
        _stages.Begin();
        // What others ask of a primary's shard is there as soon as it is one.
        JoinCluster();
        ClusterView view = await _seat.TakeOverAsync(stop).ConfigureAwait(false);
        _stages.Passed("metadata");
        lock (_machineLock) { _clock.Resume(final.Time); }
        Volatile.Write(ref _worldLine, final.WorldLine.Number);
        _life.TakenOver(final, Seen(view));
        _site.TakenOver(site);
        FailPoint.Pass(FailPoint.SiteTaken);
        while (true)
        {
            try
            {
                _life.BeginTakeOver();
                await LiveAsync(stop).ConfigureAwait(false);
                Wake();
                break;
            }
            catch (Exception e) when (e is RedisException or MetadataUnavailableException or IOException)
            {
                _report.Error($"shard {_options.Shard}: {e.Message}; trying again");
                await Task.Delay(RetryDelay, stop).ConfigureAwait(false);
            }
        }
        _report.Info($"shard {_options.Shard}: is the primary's from version {final.Version} on, in world-line {final.WorldLine}, {Stopwatch.GetElapsedTime(began).TotalMilliseconds:0.0} ms after the last shard of the site was open ({_stages})");
    }

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
        Line("applied", _follower.Applied);
        if (_follower.Stands is { } stands && stands.Time.Microseconds > 0)
        {
            Line("applied_time_us", stands.Time.Microseconds);
            Line("applied_age_ms", ((ShardClock.WallUs(_options.Time) - stands.Time.Microseconds) / 1000.0).ToString(
                "0.###", CultureInfo.InvariantCulture));
        }
        foreach ((string name, object value) in Intake!.Status) { Line(name, value); }
        if (_follower.Problem is { } problem) { Line("store_problem", problem); }
        if (!StreamLog.IsEmpty) { foreach ((string name, long value) in KeptStatus()) { Line(name, value); } }
        Line("clients", loop.Clients.Count);
        Line("store", _store.Name);
        Line("store_state", _door.IsOpen ? "serving reads" : _state);
        return text.ToString();
    }
}
