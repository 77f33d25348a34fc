// Leases: counters that their holders raise, and that others see standing still. No clock of the database, or of another machine,
// is compared with anybody's: who may take a lease is for LeaseWatch (Core) to say, here the taking only compares and sets.
using System.Security.Cryptography;
using Slogger.Core.Identities;
using Slogger.Core.Leases;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<long?> TakeCoordinatorAsync(string cluster, LeaseState seen, string address, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        Checked(address, SqlSchema.AddressLength, nameof(address));
        return connection.RunAsync(
            async session =>
            {
                long? epoch = null;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        ClusterHead head = await HeadAsync(session, cluster, cancellation);
                        if (head.Coordinator.Epoch != seen.Epoch || head.Coordinator.Renewals != seen.Renewals)
                        {
                            return false;
                        }

                        epoch = head.EpochLast + 1;
                        await session.ExecuteAsync(
                            "UPDATE slogger_clusters SET epoch_last = @epoch, coordinator_epoch = @epoch, coordinator_renewals = 0, "
                            + "coordinator_address = @address WHERE cluster = @cluster",
                            cancellation,
                            ("@epoch", epoch.Value),
                            ("@address", address),
                            ("@cluster", cluster));
                        return true;
                    },
                    cancellation);
                return epoch;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<bool> RenewCoordinatorAsync(string cluster, long expectedEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session => await session.ExecuteAsync(
                "UPDATE slogger_clusters SET coordinator_renewals = coordinator_renewals + 1 WHERE cluster = @cluster AND "
                    + "coordinator_epoch = @epoch",
                cancellation,
                ("@cluster", cluster),
                ("@epoch", expectedEpoch)) == 1,
            cancellation);
    }

    /// <inheritdoc />
    public Task<bool> RenewShardAsync(string cluster, ShardId shard, long expectedEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return connection.RunAsync(
            async session => await session.ExecuteAsync(
                "UPDATE slogger_shards SET renewals = renewals + 1 WHERE cluster = @cluster AND shard = @shard AND epoch = @epoch",
                cancellation,
                ("@cluster", cluster),
                ("@shard", (long)shard.Number),
                ("@epoch", expectedEpoch)) == 1,
            cancellation);
    }

    /// <inheritdoc />
    public Task<ClusterWatch> WatchAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                ClusterHead head = await HeadAsync(session, cluster, cancellation);
                List<(ShardRecord Shard, long Renewals)> shards = await session.QueryAsync(
                    $"SELECT {ShardColumns}, renewals FROM slogger_shards WHERE cluster = @cluster ORDER BY shard",
                    r => (ShardOf(r), r.GetInt64(s_shardColumns)),
                    cancellation,
                    ("@cluster", cluster));
                return new ClusterWatch(
                    head.Cut,
                    new(head.Coordinator.Epoch, head.Coordinator.Renewals),
                    head.Coordinator.Address,
                    [.. shards.Select(s => Raised(s.Shard, head.Cut))],
                    [.. shards.Select(s => new LeaseState(s.Shard.Epoch, s.Renewals))],
                    head.ChangeUs,
                    head.EpochLast);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<ClusterBeat> BeatAsync(string cluster, ShardId shard, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return connection.RunAsync(
            async session =>
            {
                ClusterHead head = await HeadAsync(session, cluster, cancellation);
                ShardRecord own = await ShardAsync(session, cluster, shard, cancellation);
                return new ClusterBeat(
                    head.Cut, new(head.Coordinator.Epoch, head.Coordinator.Renewals), head.Coordinator.Address, head.ChangeUs,
                        head.EpochLast, Raised(own, head.Cut));
            },
            cancellation);
    }

    private static async Task<ClusterHead> HeadWithSecretAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        ClusterHead head = await HeadAsync(session, cluster, cancellation);
        if (head.Coordinator.Secret.Length > 0)
        {
            return head;
        }

        // A cluster that was made before there were secrets: the first to look gives it one.
        await session.ExecuteAsync(
            "UPDATE slogger_clusters SET secret = @secret WHERE cluster = @cluster AND secret = ''",
            cancellation,
            ("@secret", NewSecret()),
            ("@cluster", cluster));
        return await HeadAsync(session, cluster, cancellation);
    }

    private static string NewSecret() => Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(SqlSchema.SecretLength / 2));
}
