// How the interval changes while shards run. Versions must mean the same time everywhere, so nobody may go by the old grid when another
// goes by the new one. A change is proposed for a time; a shard that agrees ends no version beyond that time until it has read how it came
// out; and only if all have agreed there is another stretch. All three steps hold the cluster's lock, so nobody agrees to what is over.
// Without a proposal nobody is bound to anything: while SQL is away versions go on.
using Slogger.Core.Membership;
using Slogger.Core.Shards;
using Slogger.Core.Versions;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<GridState?> GridAsync(string cluster, ShardId shard, long agreedUs, long expectedEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        ArgumentOutOfRangeException.ThrowIfNegative(agreedUs);
        return connection.RunAsync(
            async session =>
            {
                GridState? state = null;
                await session.InTransactionAsync(
                    async () =>
                    {
                        if (agreedUs > 0)
                        {
                            await LockClusterAsync(session, cluster, cancellation);
                        }

                        if ((await ShardAsync(session, cluster, shard, cancellation)).Epoch != expectedEpoch)
                        {
                            return false;
                        }

                        state = await GridStateAsync(session, cluster, cancellation);
                        if (agreedUs == 0 || state.ChangeUs != agreedUs)
                        {
                            return false;
                        }

                        await session.ExecuteAsync(
                            "UPDATE slogger_shards SET agreed_us = @agreed WHERE cluster = @cluster AND shard = @shard",
                            cancellation,
                            ("@agreed", agreedUs),
                            ("@cluster", cluster),
                            ("@shard", (long)shard.Number));
                        return true;
                    },
                    cancellation);
                return state;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<GridState> ProposeIntervalAsync(
        string cluster, long intervalMicroseconds, long fromMicroseconds, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentOutOfRangeException.ThrowIfLessThan(intervalMicroseconds, VersionGrid.IntervalMinUs);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(intervalMicroseconds, VersionGrid.IntervalMaxUs);
        ArgumentOutOfRangeException.ThrowIfLessThan(fromMicroseconds, 1);
        return connection.RunAsync(
            async session =>
            {
                GridState state = null!;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        state = await GridStateAsync(session, cluster, cancellation);
                        if (state.ChangeUs > 0 || state.Stretches[^1].IntervalUs == intervalMicroseconds)
                        {
                            return false;
                        }

                        // No two proposals have one name: an agreement is to one of them.
                        long lastUs = (await session.QueryAsync(
                            "SELECT COALESCE(MAX(agreed_us), 0) FROM slogger_shards WHERE cluster = @cluster",
                            r => r.GetInt64(0),
                            cancellation,
                            ("@cluster", cluster)))[0];
                        state = state with { ChangeUs = Math.Max(fromMicroseconds, lastUs + 1) };
                        await ProposeAsync(session, cluster, state.ChangeUs, intervalMicroseconds, cancellation);
                        return true;
                    },
                    cancellation);
                return state;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyList<ShardId>> SettleIntervalAsync(
        string cluster, long changeUs, bool giveUp, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentOutOfRangeException.ThrowIfLessThan(changeUs, 1);
        return connection.RunAsync<IReadOnlyList<ShardId>>(
            async session =>
            {
                IReadOnlyList<ShardId> missing = [];
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        GridState state = await GridStateAsync(session, cluster, cancellation);
                        if (state.ChangeUs != changeUs)
                        {
                            return false;
                        }

                        // Who has never run reads the grid when it starts.
                        missing = await session.QueryAsync(
                            "SELECT shard FROM slogger_shards WHERE cluster = @cluster AND state <> @left AND epoch > 0 AND agreed_us <> @change ORDER BY shard",
                            r => new ShardId((int)r.GetInt64(0)),
                            cancellation,
                            ("@cluster", cluster),
                            ("@left", (long)MemberState.Left),
                            ("@change", changeUs));
                        if (missing.Count > 0 && !giveUp)
                        {
                            return false;
                        }

                        if (missing.Count == 0)
                        {
                            long interval = (await session.QueryAsync(
                                "SELECT change_interval_us FROM slogger_clusters WHERE cluster = @cluster", r => r.GetInt64(0), cancellation, ("@cluster", cluster)))[0];
                            await InsertGridAsync(session, cluster, state.Stretches[^1].Successor(interval, changeUs), cancellation);
                        }

                        await ProposeAsync(session, cluster, 0, 0, cancellation);
                        return true;
                    },
                    cancellation);
                return missing;
            },
            cancellation);
    }

    private static Task<int> ProposeAsync(SqlSession session, string cluster, long changeUs, long intervalUs, CancellationToken cancellation) =>
        session.ExecuteAsync(
            "UPDATE slogger_clusters SET change_us = @change, change_interval_us = @interval WHERE cluster = @cluster",
            cancellation,
            ("@change", changeUs),
            ("@interval", intervalUs),
            ("@cluster", cluster));

    private static async Task<GridState> GridStateAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        // The proposal first: if it is settled meanwhile, the stretch that it has made is read, too.
        List<long> change = await session.QueryAsync(
            "SELECT change_us FROM slogger_clusters WHERE cluster = @cluster", r => r.GetInt64(0), cancellation, ("@cluster", cluster));
        return change.Count == 0 ? throw UnknownCluster(cluster) : new(await GridAsync(session, cluster, cancellation), change[0]);
    }
}
