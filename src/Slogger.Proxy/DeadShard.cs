// The entry point of `slogger recover`: has a cluster leave the state that a dead shard cannot commit any more. The shard is taken,
// which shuts its old proxy out (invariant I6), and a world-line is begun in its name by the same transaction as in any other
// recovery: at the newest cut that the rows prove, never below the recorded one (I3). The other proxies find it and follow.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Membership;
using Slogger.Core.WorldLines;
using Slogger.Metadata;
using Slogger.Metadata.Sql;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Coordination;

namespace Slogger.Proxy;

/// <summary>Recovers a cluster from a shard that is dead.</summary>
public static class DeadShard
{
    private static readonly TimeSpan WatchLimit = TimeSpan.FromMinutes(1);

    /// <summary>Recovers and returns. Expected failures are returned, not thrown.</summary>
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
            if (await WhyNotAsync(metadata, options, stop).ConfigureAwait(false) is { } refusal) { return refusal; }
            log.Info($"watching the lease of shard {options.Shard} for {ClusterPulse.Term.TotalSeconds} s");
            if (await IsAliveAsync(metadata, options, stop).ConfigureAwait(false) is not { } isAlive)
            {
                return ProxyExit.Failed($"the metadata could not be asked often enough in {WatchLimit.TotalSeconds} s to tell "
                    + $"whether shard {options.Shard} lives; nothing was changed", "run the command again when the metadata answers");
            }
            if (isAlive)
            {
                return ProxyExit.Failed($"shard {options.Shard} lives: its lease was renewed while this command watched; "
                    + "nothing was changed", "a shard that lives recovers by itself; if it has to go, stop its proxy first");
            }
            await LeaveAsync(metadata, options, "slogger recover", log, stop).ConfigureAwait(false);
            log.Warn($"nothing further is committed until shard {options.Shard} is back: start its proxy with its data directory");
            return ProxyExit.Done;
        }
        catch (OperationCanceledException) when (stop.IsCancellationRequested)
        {
            return ProxyExit.Failed("stopped before it was done", "run the command again");
        }
        catch (MetadataException e)
        {
            return ProxyExit.Failed($"the metadata cannot be used: {e.Message}",
                "check --metadata, and run the command again: what it has done already does no harm");
        }
    }

    private static async Task<ProxyExit?> WhyNotAsync(IMetadataStore metadata, RecoverOptions options, CancellationToken stop)
    {
        if (await metadata.FindClusterAsync(options.Cluster, stop).ConfigureAwait(false) is not { } settings)
        {
            return ProxyExit.Failed($"the metadata knows no cluster \"{options.Cluster}\"", "check --cluster and --metadata");
        }
        if (options.Shard.Number >= settings.ShardCount)
        {
            return ProxyExit.Failed($"cluster \"{options.Cluster}\" has {settings.ShardCount} shards, 0 to {settings.ShardCount - 1}: "
                + $"there is no shard {options.Shard}", "check --shard");
        }
        if (settings.ShardCount == 1)
        {
            return ProxyExit.Failed($"cluster \"{options.Cluster}\" has one shard, and nobody waits for it",
                "start its proxy: it recovers by itself");
        }
        ShardRecord shard = (await metadata.ShardsAsync(options.Cluster, stop).ConfigureAwait(false))[options.Shard.Number];
        if (!Members.Counts(shard.State))
        {
            return ProxyExit.Failed($"shard {options.Shard} {(shard.State == MemberState.Left ? "has left" : "has not joined")} cluster "
                + $"\"{options.Cluster}\"{(shard.State == MemberState.Left ? "" : " yet")}, and nobody waits for it", "");
        }
        return shard.Epoch == 0
            ? ProxyExit.Failed($"shard {options.Shard} of cluster \"{options.Cluster}\" has never run: there is nothing to recover",
            "start its proxy")
            : null;
    }

    // Null: it cannot be told.
    private static async Task<bool?> IsAliveAsync(IMetadataStore metadata, RecoverOptions options, CancellationToken stop)
    {
        var lease = new LeaseWatch((long)ClusterPulse.Term.TotalMicroseconds);
        LeaseState? first = null;
        long began = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(began) < WatchLimit)
        {
            try
            {
                long asked = Microseconds();
                LeaseState state = (await metadata.WatchAsync(options.Cluster, stop).ConfigureAwait(false)).Leases[options.Shard.Number];
                first ??= state;
                if (state != first) { return true; }
                if (lease.Look(state, asked, Microseconds())) { return false; }
            }
            catch (MetadataUnavailableException)
            {
                lease.Missed();
            }
            await Task.Delay(ClusterPulse.Period, stop).ConfigureAwait(false);
        }
        return null;
    }

    /// <summary>Takes a dead shard, and begins a world-line in its name.</summary>
    /// <returns>The epoch with which it was taken.</returns>
    internal static async Task<long> LeaveAsync(IMetadataStore metadata, RecoverOptions options, string command, ILogger log,
        CancellationToken stop)
    {
        long epoch = await metadata.TakeShardEpochAsync(
            options.Cluster, options.Shard, $"{command} on {Environment.MachineName}", stop).ConfigureAwait(false);
        while (true)
        {
            ShardRecord dead = (await metadata.ShardsAsync(options.Cluster, stop).ConfigureAwait(false))[options.Shard.Number];
            DurableClaim claim = dead.Claim;
            WorldLine next = claim.Point.WorldLine.Next;
            WorldLineResult begun = await metadata.BeginWorldLineAsync(
                options.Cluster, options.Shard, next, claim, epoch, null, stop).ConfigureAwait(false);
            // Another shard's recovery may come between; then the dead one is left behind all the same.
            if (begun.Outcome == WorldLineOutcome.StaleWorldLine) { continue; }
            if (begun.Outcome != WorldLineOutcome.Started)
            {
                throw new MetadataException(
                    $"world-line {next} was refused ({begun.Outcome}): the proxy of shard {options.Shard} seems to have come "
                        + "back meanwhile");
            }
            // Its store is out of everybody's reach until a proxy takes the shard, which brings it to the branch first.
            await metadata.EnterWorldLineAsync(options.Cluster, options.Shard, next, epoch, stop).ConfigureAwait(false);
            log.Info($"world-line {next} begins at version {begun.Current.Version} of shard {options.Shard}: what was committed is kept, "
                + "and the other shards go on from there");
            return epoch;
        }
    }

    private static long Microseconds() => (long)Stopwatch.GetElapsedTime(0).TotalMicroseconds;
}
