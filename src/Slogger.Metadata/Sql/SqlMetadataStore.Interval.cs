// How the interval changes while shards run: each step reads the proposal, applies what Core's IntervalProposal says, and writes the
// result, under the cluster's lock. Without a proposal nobody is bound to anything: while SQL is away versions go on.
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Versions;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<GridState?> GridAsync(string cluster, ShardId shard, long agreedUs, long expectedEpoch,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        ArgumentOutOfRangeException.ThrowIfNegative(agreedUs);
        return connection.RunAsync(
            async session =>
            {
                GridState? state = null;
                if (agreedUs == 0)
                {
                    // Nothing is changed.
                    state = StateOf(await ProposalAsync(session, cluster, cancellation));
                    return (await ShardAsync(session, cluster, shard, cancellation)).Epoch == expectedEpoch ? state : null;
                }

                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        if ((await ShardAsync(session, cluster, shard, cancellation)).Epoch != expectedEpoch)
                        {
                            return false;
                        }

                        IntervalProposal proposal = await ProposalAsync(session, cluster, cancellation);
                        state = StateOf(proposal);
                        if (!proposal.Takes(agreedUs))
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
                        IntervalProposal before = await ProposalAsync(session, cluster, cancellation);
                        state = StateOf(before);
                        long lastUs = (await session.QueryAsync(
                            "SELECT COALESCE(MAX(agreed_us), 0) FROM slogger_shards WHERE cluster = @cluster",
                            r => r.GetInt64(0),
                            cancellation,
                            ("@cluster", cluster)))[0];
                        if (before.Propose(intervalMicroseconds, fromMicroseconds, lastUs) is not { } proposed)
                        {
                            return false;
                        }

                        state = StateOf(proposed);
                        await WriteProposalAsync(session, cluster, proposed, cancellation);
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
                        IntervalProposal before = await ProposalAsync(session, cluster, cancellation);
                        if (before.ChangeUs != changeUs)
                        {
                            return false;
                        }

                        // Those who have agreed need not be read.
                        missing = [.. (await session.QueryAsync(
                            "SELECT shard, state, epoch, agreed_us FROM slogger_shards WHERE cluster = @cluster AND agreed_us <> @change "
                                + "ORDER BY shard",
                            r => (Shard: new ShardId((int)r.GetInt64(0)), Misses: before.Misses(
                                (MemberState)r.GetInt64(1), r.GetInt64(2), r.GetInt64(3))),
                            cancellation,
                            ("@cluster", cluster),
                            ("@change", changeUs))).Where(s => s.Misses).Select(s => s.Shard)];
                        if (before.Settle(changeUs, missing.Count == 0, giveUp) is not { } settled)
                        {
                            return false;
                        }

                        if (settled.Grid != before.Grid)
                        {
                            await session.ExecuteAllAsync([InsertGrid(cluster, settled.Grid.Stretches[^1])], cancellation);
                        }

                        await WriteProposalAsync(session, cluster, settled, cancellation);
                        return true;
                    },
                    cancellation);
                return missing;
            },
            cancellation);
    }

    private static Task<int> WriteProposalAsync(SqlSession session, string cluster, IntervalProposal proposal,
        CancellationToken cancellation) =>
        session.ExecuteAsync(
            "UPDATE slogger_clusters SET change_us = @change, change_interval_us = @interval WHERE cluster = @cluster",
            cancellation,
            ("@change", proposal.ChangeUs),
            ("@interval", proposal.IntervalUs),
            ("@cluster", cluster));

    private static async Task<IntervalProposal> ProposalAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        // The proposal first: if it is settled meanwhile, the stretch that it has made is read, too.
        List<(long ChangeUs, long IntervalUs)> change = await session.QueryAsync(
            "SELECT change_us, change_interval_us FROM slogger_clusters WHERE cluster = @cluster",
            r => (r.GetInt64(0), r.GetInt64(1)),
            cancellation,
            ("@cluster", cluster));
        return change.Count == 0
            ? throw UnknownCluster(cluster)
            : new(new(await GridAsync(session, cluster, cancellation)), change[0].ChangeUs, change[0].IntervalUs);
    }

    private static GridState StateOf(IntervalProposal proposal) => new(proposal.Grid.Stretches, proposal.ChangeUs);
}
