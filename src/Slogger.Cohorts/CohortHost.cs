// The entry point of `slogger serve` with --cohort: the process of one node. A shard lives from when it follows until its node has led and
// does so no more. Then another one begins, with the same Redis.
using Slogger.Core.Identities;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Stores;
using Slogger.Replication.Following;
using Slogger.Sites;
using Slogger.Sites.Access;

namespace Slogger.Cohorts;

/// <summary>Runs a node; without a cohort, a process of a primary.</summary>
internal static class CohortHost
{
    /// <summary>Serves until cancelled, then stops in order, as <see cref="PrimaryHost"/>.</summary>
    public static async Task<ProxyExit> RunAsync(ServeOptions options, LiveOptions live, ILogger log, CancellationToken stop)
    {
        if (options.Cohort is not { } cohort) { return await PrimaryHost.RunAsync(options, live, log, stop).ConfigureAwait(false); }
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(options.Site);
        if (failed is not null) { return failed; }
        using IDisposable changes = live.Add(again => credentials!.Renew(again.Site));
        failed = credentials!.OpenTo(cohort.Members.Select(m => m.Address));
        if (failed is not null) { return failed; }
        if (!Niceness.PutProcessAhead())
        {
            log.Warn($"the priority of this process cannot be raised: on a busy machine a leader may be deposed though it lives. Allow it "
                + $"(CAP_SYS_NICE), or give all nodes a longer --lease than {OptionText.FormatDuration(cohort.Lease)}");
        }
        // Nothing is compiled for the first time when a takeover waits for it.
        using var preparing = new CancellationTokenSource();
        Task ready = FailPoint.IsUnprepared ? Task.CompletedTask
            : Readiness.PrepareAsync(typeof(CohortHost).Assembly, isEmbedded: false, log, preparing.Token);
        using var ways = new ShipWays(options, credentials);
        int takeovers = 0;
        Reign highest = Reign.None;
        while (true)
        {
            await using var node = new CohortNode(options, credentials, log)
            {
                Takeovers = takeovers, Highest = highest,
                ServeSite = options.Site.Listen is { } listen ? (primary, metadata, starting) =>
                    PrimaryHost.ServeAsync(options, listen, credentials, primary, metadata, starting) : null,
            };
            ProxyExit exit = await ProxyHost.RunAsync(options, log, null, stop, site: new() { Intake = node, Backups = ways.All },
                live: live).ConfigureAwait(false);
            if (exit != ProxyExit.LeadsNoMore || stop.IsCancellationRequested)
            {
                await preparing.CancelAsync().ConfigureAwait(false);
                await ready.ConfigureAwait(false);
                return exit == ProxyExit.LeadsNoMore ? ProxyExit.Done : exit;
            }
            (takeovers, highest) = (node.Takeovers, node.Highest);
            log.Info($"shard {options.Shard}: node {cohort.Node} does not lead any more, and follows again");
        }
    }
}
