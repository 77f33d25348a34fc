// A shard whose site is a backup: it has no machine and closes no versions; its store follows the primary's log (VersionedShard.Applying), and the front end serves reads. When the site
// has become the primary the same object goes on as a shard that was recovered, with what it has.
using System.Diagnostics;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard
{
    private const int Rehearsals = 8;

    /// <inheritdoc />
    public bool IsFollowing => _seat.FollowedSite is not null;

    /// <summary>Begins to follow; the front end is not there yet. Expected failures as of a recovery.</summary>
    protected virtual Task FollowAsync(CancellationToken stop) => throw FollowsNobody();

    /// <summary>Whether the shard of a site that takes over recovers: what can be done when it serves is done then.</summary>
    protected bool IsTakingOver => _life.IsTakingOver;

    private async Task FollowAndControlAsync(CancellationToken stop)
    {
        try
        {
            _moves?.Follow();
            if (_slots is not null) { _watching = Task.WhenAll(_slots.RunAsync(stop), _messages!.RunAsync(stop)); }
            Task rehearsing = RehearseAsync(stop);
            Boundary final = await FollowToEndAsync(stop).ConfigureAwait(false);
            await rehearsing.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            await TakeOverAsync(final, await _takenOver.Task.ConfigureAwait(false), stop).ConfigureAwait(false);
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

    // What a failover will ask of the metadata is asked before: nothing is compiled or prepared for the first time when it counts. Several times, since an answer may be there at once or be waited for,
    // and what goes on after waiting is compiled by itself.
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
                await _seat.Metadata.OpenStreamsAsync(_seat.Cluster, new(-1), [new(_seat.Shard, _seat.Epoch, ClusterSeat.Name)], stop).ConfigureAwait(false);
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
}
