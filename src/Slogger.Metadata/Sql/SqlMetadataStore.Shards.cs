// Shards: who owns them, and what they have recorded.
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    private const string ShardColumns = "shard, address, store_kind, owner, epoch, world_line, cut_version";

    /// <inheritdoc />
    public Task<ShardRecord> RegisterShardAsync(
        string cluster, ShardId shard, string address, string storeKind, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        Checked(address, SqlSchema.AddressLength, nameof(address));
        Checked(storeKind, SqlSchema.StoreKindLength, nameof(storeKind));
        return connection.RunAsync(
            async session =>
            {
                await session.ExecuteAsync(
                    "UPDATE slogger_shards SET address = @address, store_kind = @store_kind "
                    + "WHERE cluster = @cluster AND shard = @shard",
                    cancellation,
                    ("@address", address),
                    ("@store_kind", storeKind),
                    ("@cluster", cluster),
                    ("@shard", (long)shard.Number));
                return await ShardAsync(session, cluster, shard, cancellation);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyList<ShardRecord>> ShardsAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync<IReadOnlyList<ShardRecord>>(
            async session =>
            {
                List<ShardRecord> rows = await session.QueryAsync(
                    $"SELECT {ShardColumns} FROM slogger_shards WHERE cluster = @cluster ORDER BY shard",
                    ShardOf,
                    cancellation,
                    ("@cluster", cluster));
                return rows.Count > 0 ? rows : throw UnknownCluster(cluster);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<long> TakeShardEpochAsync(string cluster, ShardId shard, string owner, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        Checked(owner, SqlSchema.OwnerLength, nameof(owner));
        return connection.RunAsync(
            async session =>
            {
                long epoch = 0;
                await session.InTransactionAsync(
                    async () =>
                    {
                        // Epochs of all shards come from one counter, so that an epoch names its shard and owner.
                        await LockClusterAsync(session, cluster, cancellation);
                        epoch = 1 + (await session.QueryAsync(
                            "SELECT epoch_last FROM slogger_clusters WHERE cluster = @cluster",
                            r => r.GetInt64(0),
                            cancellation,
                            ("@cluster", cluster)))[0];
                        await session.ExecuteAsync(
                            "UPDATE slogger_clusters SET epoch_last = @epoch WHERE cluster = @cluster",
                            cancellation,
                            ("@epoch", epoch),
                            ("@cluster", cluster));
                        int rows = await session.ExecuteAsync(
                            "UPDATE slogger_shards SET epoch = @epoch, owner = @owner WHERE cluster = @cluster AND shard = @shard",
                            cancellation,
                            ("@epoch", epoch),
                            ("@owner", owner),
                            ("@cluster", cluster),
                            ("@shard", (long)shard.Number));
                        return rows == 1 ? true : throw UnknownShard(cluster, shard);
                    },
                    cancellation);
                return epoch;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<CutRecordResult> RecordCutAsync(
        string cluster, ShardId shard, WorldPoint durable, long expectedShardEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        CheckPoint(durable);
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedShardEpoch, 1);
        return connection.RunAsync(
            async session =>
            {
                while (true)
                {
                    int rows = await session.ExecuteAsync(
                        "UPDATE slogger_shards SET cut_version = @version WHERE cluster = @cluster AND shard = @shard "
                        + "AND epoch = @epoch AND world_line = @world_line AND cut_version <= @version",
                        cancellation,
                        ("@version", durable.Version.Number),
                        ("@cluster", cluster),
                        ("@shard", (long)shard.Number),
                        ("@epoch", expectedShardEpoch),
                        ("@world_line", durable.WorldLine.Number));
                    if (rows == 1)
                    {
                        return CutRecordResult.Recorded;
                    }

                    if (WhyRefused(cluster, await ShardAsync(session, cluster, shard, cancellation), durable, expectedShardEpoch)
                        is { } refusal)
                    {
                        return refusal;
                    }
                }
            },
            cancellation);
    }

    // Null when nothing speaks against it: the row changed between the update and the query, to the world-line or epoch that
    // was expected. As both only grow, this can be seen once for each at most.
    private static CutRecordResult? WhyRefused(string cluster, ShardRecord now, WorldPoint durable, long epoch)
    {
        if (now.Epoch < epoch || now.WorldLine < durable.WorldLine)
        {
            throw SetBack(
                cluster, $"shard {now.Shard} is in world-line {durable.WorldLine} with epoch {epoch}, but it records world-line "
                + $"{now.WorldLine} and epoch {now.Epoch}");
        }

        return now.Epoch != epoch ? CutRecordResult.Deposed
            : now.WorldLine != durable.WorldLine ? CutRecordResult.StaleWorldLine
            : now.RecordedCut > durable ? CutRecordResult.NotMonotone
            : null;
    }

    private static MetadataException SetBack(string cluster, string what) =>
        new($"The metadata of cluster \"{cluster}\" has been set back in time: {what}. Was the database restored from a backup? "
            + "Stop the cluster and bring back the newest metadata before it goes on.");

    private static async Task<ShardRecord> ShardAsync(
        SqlSession session, string cluster, ShardId shard, CancellationToken cancellation)
    {
        List<ShardRecord> rows = await session.QueryAsync(
            $"SELECT {ShardColumns} FROM slogger_shards WHERE cluster = @cluster AND shard = @shard",
            ShardOf,
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)shard.Number));
        return rows.Count == 1 ? rows[0] : throw UnknownShard(cluster, shard);
    }

    private static ShardRecord ShardOf(System.Data.Common.DbDataReader row) => new(
        new((int)row.GetInt64(0)), row.GetString(1), row.GetString(2), PointOf(row, 5), row.GetInt64(4), row.GetString(3));
}
