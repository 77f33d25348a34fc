// What follows from an election, in this order (design, replicated shards, 4.5): the reign's record is in the log, durably, and the log is
// shipped (CohortNode); the store is brought to the log's end, and made a primary's; the shard goes on with it, and serves when a majority
// has the record. Beside the node's thread, since it takes its time.
//
// With early replies the leader before may have told what this log lacks. Then a world-line begins where the log ends, so that sessions and
// other shards learn of it: after a majority has the reign's record, and so the log, and before the store goes there. The same if the
// leader before may have written a part of a reset (ResetMark, Core).
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Log;
using Slogger.Metadata;
using Slogger.Proxy.Ports;
using Slogger.Replication.Following;

namespace Slogger.Cohorts;

/// <summary>One node's way from its election to service. It ends when it is disposed.</summary>
/// <param name="node">Which.</param>
/// <param name="thread">Its thread.</param>
/// <param name="shard">Its shard.</param>
/// <param name="report">For people.</param>
internal sealed class Takeover(CohortNode node, NodeThread thread, IFollowingShard shard, ILogger report) : IAsyncDisposable
{
    private const int Attempts = 25;
    private static readonly TimeSpan Retry = TimeSpan.FromMilliseconds(20), SiteRetry = TimeSpan.FromSeconds(1);
    private Task _running = Task.CompletedTask;
    private IAsyncDisposable? _siteServer;

    /// <summary>Begins.</summary>
    /// <param name="reign">The node's.</param>
    /// <param name="life">What has followed until now.</param>
    /// <param name="losesNothing">See <see cref="Core.Cohorts.ElectionEffect.Begin"/>.</param>
    public void Begin(Reign reign, FollowedLife? life, bool losesNothing) =>
        _running = Task.Run(() => RunAsync(reign, life, losesNothing));

    public async ValueTask DisposeAsync()
    {
        await _running.ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        if (_siteServer is { } site) { await site.DisposeAsync().ConfigureAwait(false); }
    }

    private async Task RunAsync(Reign reign, FollowedLife? life, bool losesNothing)
    {
        CancellationToken stop = thread.Ending;
        if (life is not null) { await life.DisposeAsync().ConfigureAwait(false); }
        bool founds = shard.Log.IsEmpty;
        try
        {
            if (!founds)
            {
                if (await shard.Cohort!.BeginsWithWorldLineAsync(losesNothing, stop).ConfigureAwait(false))
                {
                    await shard.Cohort.Lead!.HasBegun.WaitAsync(stop).ConfigureAwait(false);
                    await shard.Cohort.BeginWorldLineAsync(stop).ConfigureAwait(false);
                }
                if (!await PromoteAsync(stop).ConfigureAwait(false)) { return; }
            }
            bool serves = await thread.DoAsync(() =>
            {
                if (!node.MayServe(reign, founds)) { return false; }
                shard.TakeOver(SiteState.Alone);
                return true;
            }).ConfigureAwait(false);
            if (serves && node.ServeSite is { } serve) { await ServeSiteAsync(serve, stop).ConfigureAwait(false); }
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            // The node ends.
        }
    }

    // False: another node is to lead.
    private async Task<bool> PromoteAsync(CancellationToken stop)
    {
        VersionLog log = shard.Log;
        for (int attempt = 1; ; attempt++)
        {
            try
            {
                await shard.BringToAsync(log.LastBoundary ?? LogPlaces.BaseOf(log), stop).ConfigureAwait(false);
                await shard.PromoteAsync(stop).ConfigureAwait(false);
                return true;
            }
            catch (Exception e) when (!stop.IsCancellationRequested)
            {
                report.Warn($"shard {shard.Seat.Shard}: the store cannot be made the leader's, and it is tried again: {e.Message}");
                // Its log is the newest; another node has it by now, and maybe a store.
                if (attempt >= Attempts && node.GiveWay()) { return false; }
                await Task.Delay(Retry, stop).ConfigureAwait(false);
            }
        }
    }

    private async Task ServeSiteAsync(Func<IPrimaryShard, IMetadataStore, CancellationToken, Task<IAsyncDisposable?>> serve,
        CancellationToken stop)
    {
        while (true)
        {
            try
            {
                _siteServer = await serve(shard.Primary!, shard.Seat.Metadata, stop).ConfigureAwait(false);
                return;
            }
            catch (SiteException e)
            {
                report.Warn($"shard {shard.Seat.Shard}: commands of two sites are not served yet, and it is tried again: {e.Message}");
                await Task.Delay(SiteRetry, stop).ConfigureAwait(false);
            }
        }
    }
}
