// Shards: who owns them, and what they have recorded.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Resets;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    private const string ShardColumns =
        "shard, address, store_kind, owner, epoch, world_line, cut_version, stride, floor_version, entered, state, reset_line";

    // Where a column stands that follows these.
    private static readonly int s_shardColumns = ShardColumns.Split(',').Length;

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
                // The cut first: claims may be of a later moment, never of an earlier one.
                ClusterCut cut = (await HeadAsync(session, cluster, cancellation)).Cut;
                return [.. (await ShardRowsAsync(session, cluster, cancellation)).Select(s => Raised(s, cut))];
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
                        await LockClusterAsync(session, cluster, cancellation);
                        epoch = await TakeLockedAsync(session, cluster, shard, owner, cancellation);
                        return true;
                    },
                    cancellation);
                return epoch;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<(long Epoch, Reign Reign)> LeadShardAsync(string cluster, ShardId shard, string address, string storeKind, string owner,
        Reign reign, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        Checked(address, SqlSchema.AddressLength, nameof(address));
        Checked(storeKind, SqlSchema.StoreKindLength, nameof(storeKind));
        Checked(owner, SqlSchema.OwnerLength, nameof(owner));
        return connection.RunAsync(
            async session =>
            {
                (long Epoch, Reign Reign) result = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        int rows = await session.ExecuteAsync(
                            "UPDATE slogger_shards SET reign = @reign, address = @address, store_kind = @store_kind "
                                + "WHERE cluster = @cluster AND shard = @shard AND reign <= @reign",
                            cancellation,
                            ("@reign", reign.Number),
                            ("@address", address),
                            ("@store_kind", storeKind),
                            ("@cluster", cluster),
                            ("@shard", (long)shard.Number));
                        result = rows == 1
                            ? (await TakeLockedAsync(session, cluster, shard, owner, cancellation), reign)
                            : (0, await ReignAsync(session, cluster, shard, cancellation));
                        return true;
                    },
                    cancellation);
                return result;
            },
            cancellation);
    }

    private static async Task<Reign> ReignAsync(SqlSession session, string cluster, ShardId shard, CancellationToken cancellation)
    {
        List<long> found = await session.QueryAsync(
            "SELECT reign FROM slogger_shards WHERE cluster = @cluster AND shard = @shard",
            r => r.GetInt64(0),
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)shard.Number));
        return found.Count == 1 ? new(found[0]) : throw UnknownShard(cluster, shard);
    }

    // Under the cluster's lock. Epochs of all shards come from one counter, so that an epoch names its shard and owner.
    private static async Task<long> TakeLockedAsync(SqlSession session, string cluster, ShardId shard, string owner,
        CancellationToken cancellation)
    {
        await RequirePrimaryAsync(session, cluster, cancellation);
        long epoch = 1 + (await session.QueryAsync(
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
            // What the owner before has agreed to binds nobody now.
            "UPDATE slogger_shards SET epoch = @epoch, owner = @owner, agreed_us = 0 WHERE cluster = @cluster AND shard = @shard",
            cancellation,
            ("@epoch", epoch),
            ("@owner", owner),
            ("@cluster", cluster),
            ("@shard", (long)shard.Number));
        return rows == 1 ? epoch : throw UnknownShard(cluster, shard);
    }

    /// <inheritdoc />
    public Task<DurableResult> RecordDurableAsync(
        string cluster, ShardId shard, DurableClaim durable, long expectedShardEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        CheckClaim(durable);
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedShardEpoch, 1);
        return connection.RunAsync(
            session => RecordAsync(session, cluster, shard, durable, expectedShardEpoch, cancellation), cancellation);
    }

    /// <inheritdoc />
    public Task AwaitCommitAsync(string cluster, VersionNumber until, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            session => session.ExecuteAsync(
                "UPDATE slogger_clusters SET awaited_version = @version WHERE cluster = @cluster AND awaited_version < @version",
                cancellation,
                ("@version", until.Number),
                ("@cluster", cluster)),
            cancellation);
    }

    /// <inheritdoc />
    public Task EnterWorldLineAsync(
        string cluster, ShardId shard, WorldLine entered, long expectedShardEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return connection.RunAsync(
            async session =>
            {
                await session.ExecuteAsync(
                    "UPDATE slogger_shards SET entered = @entered WHERE cluster = @cluster AND shard = @shard "
                    + "AND epoch = @epoch AND world_line = @entered",
                    cancellation,
                    ("@entered", entered.Number),
                    ("@cluster", cluster),
                    ("@shard", (long)shard.Number),
                    ("@epoch", expectedShardEpoch));
                return true;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<bool> MarkResetAsync(string cluster, ShardId shard, ResetMark mark, long expectedEpoch,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedEpoch, 1);
        return connection.RunAsync(
            async session => await session.ExecuteAsync(
                "UPDATE slogger_shards SET reset_line = @line WHERE cluster = @cluster AND shard = @shard AND epoch = @epoch "
                + "AND world_line = @line",
                cancellation,
                ("@line", mark.Line.Number),
                ("@cluster", cluster),
                ("@shard", (long)shard.Number),
                ("@epoch", expectedEpoch)) == 1,
            cancellation);
    }

    private static async Task<DurableResult> RecordAsync(
        SqlSession session, string cluster, ShardId shard, DurableClaim durable, long epoch, CancellationToken cancellation)
    {
        while (true)
        {
            int rows = await session.ExecuteAsync(
                "UPDATE slogger_shards SET cut_version = @version, stride = @stride, floor_version = @floor "
                + "WHERE cluster = @cluster AND shard = @shard "
                + "AND epoch = @epoch AND world_line = @world_line AND cut_version <= @version",
                cancellation,
                ("@version", durable.Point.Version.Number),
                ("@stride", durable.Stride),
                ("@floor", durable.Floor.Number),
                ("@cluster", cluster),
                ("@shard", (long)shard.Number),
                ("@epoch", epoch),
                ("@world_line", durable.Point.WorldLine.Number));
            if (rows == 1)
            {
                return new(DurableOutcome.Recorded, (await AdvanceCutAsync(session, cluster, cancellation)).Of(shard));
            }

            if (WhyRefused(cluster, await ShardAsync(session, cluster, shard, cancellation), durable.Point, epoch) is { } refusal)
            {
                return new(refusal, (await HeadAsync(session, cluster, cancellation)).Cut.Of(shard));
            }
        }
    }

    private const string ShardRowsSql = $"SELECT {ShardColumns} FROM slogger_shards WHERE cluster = @cluster ORDER BY shard";

    private static async Task<List<ShardRecord>> ShardRowsAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        List<ShardRecord> rows = await session.QueryAsync(ShardRowsSql, ShardOf, cancellation, ("@cluster", cluster));
        return rows.Count > 0 ? rows : throw UnknownCluster(cluster);
    }

    // A coordinator is told of versions sooner than the rows of the shards: whatever is in the cut is durable there.
    private static ShardRecord Raised(ShardRecord shard, ClusterCut cut)
    {
        WorldPoint committed = cut.Of(shard.Shard);
        bool isBehind = shard.WorldLine == committed.WorldLine && shard.Durable.Version < committed.Version;
        return isBehind ? shard with { Claim = new(committed, 1, committed.Version) } : shard;
    }

    // Of the shards that count. A database gives rows in any order.
    private static Task<List<(ShardId Shard, DurableClaim Claim)>> ClaimsAsync(SqlSession session, string cluster,
        CancellationToken cancellation) =>
        session.QueryAsync(
            "SELECT world_line, cut_version, stride, floor_version, shard FROM slogger_shards WHERE cluster = @cluster AND state IN "
                + "(@member, @leaving)",
            r => (new ShardId((int)r.GetInt64(4)), ClaimOf(r, 0)),
            cancellation,
            ("@cluster", cluster),
            ("@member", (long)MemberState.Member),
            ("@leaving", (long)MemberState.Leaving));

    // Null when nothing speaks against it: the row changed between the update and the query, to the world-line or epoch that
    // was expected. As both only grow, this can be seen once for each at most.
    private static DurableOutcome? WhyRefused(string cluster, ShardRecord now, WorldPoint durable, long epoch)
    {
        if (now.Epoch < epoch || now.WorldLine < durable.WorldLine)
        {
            throw SetBack(
                cluster, $"shard {now.Shard} is in world-line {durable.WorldLine} with epoch {epoch}, but it records world-line "
                + $"{now.WorldLine} and epoch {now.Epoch}");
        }

        return now.Epoch != epoch ? DurableOutcome.Deposed
            : now.WorldLine != durable.WorldLine ? DurableOutcome.StaleWorldLine
            : now.Durable > durable ? DurableOutcome.NotMonotone
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
        new((int)row.GetInt64(0)), row.GetString(1), row.GetString(2), ClaimOf(row, 5), row.GetInt64(4), row.GetString(3),
            new(row.GetInt64(9)))
    {
        State = (MemberState)row.GetInt64(10),
        Reset = new(new(row.GetInt64(11))),
    };

    private static DurableClaim ClaimOf(System.Data.Common.DbDataReader row, int first) =>
        new(PointOf(row, first), row.GetInt64(first + 2), new(row.GetInt64(first + 3)));

    private static void CheckClaim(in DurableClaim claim)
    {
        CheckPoint(claim.Point);
        if (claim.Stride < 1 || (claim.Stride & (claim.Stride - 1)) != 0)
        {
            throw new ArgumentException($"A stride is a power of two, not {claim.Stride}.", nameof(claim));
        }

        if (claim.Floor.Number < 0 || claim.Floor > claim.Point.Version)
        {
            throw new ArgumentException($"The floor {claim.Floor} is not at or below version {claim.Point.Version}.", nameof(claim));
        }
    }
}
