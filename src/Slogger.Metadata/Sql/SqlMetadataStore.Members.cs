// Shards that join and leave. Every change of the members takes a new epoch from
// the cluster's counter, as if a shard had changed hands: a cut that was found for the members before is then refused.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<MemberAnswer> AddShardAsync(string cluster, ShardId shard, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return ChangeMembersAsync(
            cluster, shard, (_, head, members) => Task.FromResult(members.Add(shard, head.Finder)), cancellation);
    }

    /// <inheritdoc />
    public Task<bool> AdmitShardAsync(string cluster, ShardId shard, DurableClaim durable, long expectedEpoch,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        CheckClaim(durable);
        return connection.RunAsync(
            async session =>
            {
                bool counts = false;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        ShardRecord own = await ShardAsync(session, cluster, shard, cancellation);
                        ClusterHead head = await HeadAsync(session, cluster, cancellation);
                        counts = Members.Counts(own.State);

                        // The row does not do in the claim's place: a world-line's branch is written into it, too.
                        if (own.State != MemberState.Joining || own.Epoch != expectedEpoch || !Members.Admits(head.Cut.Of(shard), durable))
                        {
                            return false;
                        }

                        await session.ExecuteAsync(
                            "UPDATE slogger_shards SET cut_version = @version, stride = @stride, floor_version = @floor, entered "
                            + "= world_line WHERE cluster = @cluster AND shard = @shard",
                            cancellation,
                            ("@version", durable.Point.Version.Number),
                            ("@stride", durable.Stride),
                            ("@floor", durable.Floor.Number),
                            ("@cluster", cluster),
                            ("@shard", (long)shard.Number));
                        await SetStateAsync(session, cluster, shard, MemberState.Member, cancellation);
                        counts = true;
                        return true;
                    },
                    cancellation);
                return counts;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<MemberAnswer> LeaveAsync(string cluster, ShardId shard, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return ChangeMembersAsync(
            cluster, shard, async (session, _, members) => members.Leave(shard, (await TableAsync(session, cluster, cancellation)).Table),
                cancellation);
    }

    /// <inheritdoc />
    public Task<bool> EndMembershipAsync(string cluster, ShardId shard, long expectedEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return connection.RunAsync(
            async session =>
            {
                bool hasLeft = false;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        ShardRecord own = await ShardAsync(session, cluster, shard, cancellation);
                        hasLeft = own.State == MemberState.Left;
                        if (hasLeft || own.State != MemberState.Leaving || own.Epoch != expectedEpoch)
                        {
                            return false;
                        }

                        await SetStateAsync(session, cluster, shard, MemberState.Left, cancellation);
                        hasLeft = true;
                        return true;
                    },
                    cancellation);
                return hasLeft;
            },
            cancellation);
    }

    // What is asked for was checked: reads, applies, writes.
    private Task<MemberAnswer> ChangeMembersAsync(
        string cluster, ShardId shard, Func<SqlSession, ClusterHead, Members, Task<MemberChange>> change, CancellationToken cancellation) =>
        connection.RunAsync(
            async session =>
            {
                MemberAnswer answer = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        Members before = await MembersAsync(session, cluster, cancellation);
                        (Members? after, string? error) = await change(session, await HeadAsync(session, cluster, cancellation), before);
                        answer = new(after?.States[shard.Number], error is null ? null : $"Cluster \"{cluster}\": {error}.");
                        if (after is null || after.States.SequenceEqual(before.States))
                        {
                            return false;
                        }

                        if (after.States.Length > before.States.Length)
                        {
                            await InsertShardAsync(session, cluster, shard, cancellation);
                        }

                        await SetStateAsync(session, cluster, shard, after.States[shard.Number], cancellation);
                        return true;
                    },
                    cancellation);
                return answer;
            },
            cancellation);

    private static async Task<Members> MembersAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        long madeWith = (await session.QueryAsync(
            "SELECT made_with FROM slogger_clusters WHERE cluster = @cluster", r => r.GetInt64(0), cancellation, ("@cluster", cluster)))[0];
        return new((int)madeWith, [.. (await ShardRowsAsync(session, cluster, cancellation)).Select(s => s.State)]);
    }

    private static async Task InsertShardAsync(SqlSession session, string cluster, ShardId shard, CancellationToken cancellation)
    {
        await session.ExecuteAsync(
            "UPDATE slogger_clusters SET shard_count = shard_count + 1 WHERE cluster = @cluster", cancellation, ("@cluster", cluster));
        await session.ExecuteAsync(
            "INSERT INTO slogger_shards (cluster, shard, address, store_kind, owner, epoch, world_line, cut_version, state) "
            + "SELECT cluster, @shard, '', '', '', 0, world_line, cut_version, @state FROM slogger_clusters WHERE cluster = @cluster",
            cancellation,
            ("@shard", (long)shard.Number),
            ("@state", (long)MemberState.Joining),
            ("@cluster", cluster));
    }

    private static async Task SetStateAsync(SqlSession session, string cluster, ShardId shard, MemberState state,
        CancellationToken cancellation)
    {
        await session.ExecuteAsync(
            "UPDATE slogger_clusters SET epoch_last = epoch_last + 1 WHERE cluster = @cluster", cancellation, ("@cluster", cluster));
        await session.ExecuteAsync(
            "UPDATE slogger_shards SET state = @state WHERE cluster = @cluster AND shard = @shard",
            cancellation,
            ("@state", (long)state),
            ("@cluster", cluster),
            ("@shard", (long)shard.Number));
        if (state == MemberState.Left)
        {
            // Whoever still runs as that shard is deposed: the epoch is nobody's.
            await session.ExecuteAsync(
                "UPDATE slogger_shards SET epoch = (SELECT epoch_last FROM slogger_clusters WHERE slogger_clusters.cluster = "
                + $"slogger_shards.cluster), owner = '{Nobody.Name}' WHERE cluster = @cluster AND shard = @shard AND epoch > 0",
                cancellation,
                ("@cluster", cluster),
                ("@shard", (long)shard.Number));
        }
    }
}
