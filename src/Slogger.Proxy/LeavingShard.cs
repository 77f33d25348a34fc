// The entry point of `slogger leave`: has a shard that owns nothing leave its cluster. The metadata decides whether it may, its proxy
// closes its last version and ends the membership. For a proxy that is dead a world-line is begun in its name first, as by
// `slogger recover`: what it had not said to be durable is committed by nobody.
using System.Diagnostics;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;

namespace Slogger.Proxy;

/// <summary>Has a shard leave.</summary>
public static class LeavingShard
{
    private static readonly TimeSpan Limit = TimeSpan.FromMinutes(2);

    /// <summary>Has it leave, and returns when it has. Expected failures are returned, not thrown.</summary>
    public static async Task<ProxyExit> RunAsync(RecoverOptions options, ILogger log, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(options);
        ArgumentNullException.ThrowIfNull(log);
        try
        {
            if (options.Metadata.Kind == MetadataKind.Sqlite && !File.Exists(options.Metadata.Target))
            {
                return ProxyExit.Failed($"the metadata {options.Metadata.Target} does not exist",
                    "give the --metadata that the cluster's proxies were started with");
            }
            await using IMetadataStore metadata = MetadataStoreFactory.Create(options.Metadata.Text);
            await metadata.InitializeAsync(stop).ConfigureAwait(false);
            MemberAnswer answer = await metadata.LeaveAsync(options.Cluster, options.Shard, stop).ConfigureAwait(false);
            if (answer.Error is { } error) { return ProxyExit.Failed(error, "nothing was changed"); }
            if (answer.State == MemberState.Leaving) { log.Info($"shard {options.Shard} owns nothing: its proxy closes its last version"); }
            if (answer.State != MemberState.Left && await WatchAsync(metadata, options, log, stop).ConfigureAwait(false) is { } failure)
            {
                return failure;
            }
            log.Info($"shard {options.Shard} has left cluster \"{options.Cluster}\": its data directory and its Redis are of "
                + "no use any more");
            return ProxyExit.Done;
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return ProxyExit.Failed("stopped before it was done", "run the command again");
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message}",
                "check --metadata and --cluster, and run the command again: what it has done already does no harm");
        }
    }

    // Until its proxy has done it, or is dead.
    private static async Task<ProxyExit?> WatchAsync(IMetadataStore metadata, RecoverOptions options, ILogger log, CancellationToken stop)
    {
        var lease = new LeaseWatch((long)ClusterPulse.Term.TotalMicroseconds);
        long began = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(began) < Limit)
        {
            try
            {
                long asked = Microseconds();
                ClusterWatch watch = await metadata.WatchAsync(options.Cluster, stop).ConfigureAwait(false);
                if (watch.Shards[options.Shard.Number].State == MemberState.Left) { return null; }
                if (lease.Look(watch.Leases[options.Shard.Number], asked, Microseconds()))
                {
                    log.Warn($"the proxy of shard {options.Shard} is dead, or cannot reach the metadata: the cluster goes on without it");
                    long epoch = await DeadShard.LeaveAsync(metadata, options, "slogger leave", log, stop).ConfigureAwait(false);
                    if (await metadata.EndMembershipAsync(options.Cluster, options.Shard, epoch, stop).ConfigureAwait(false))
                    {
                        return null;
                    }
                }
            }
            catch (MetadataUnavailableException)
            {
                lease.Missed();
            }
            await Task.Delay(ClusterPulse.Period / 2, stop).ConfigureAwait(false);
        }
        return ProxyExit.Failed($"shard {options.Shard} has not left in {Limit.TotalMinutes} minutes",
            "look at the log of its proxy; if the proxy cannot end, stop it and run the command again");
    }

    private static long Microseconds() => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
