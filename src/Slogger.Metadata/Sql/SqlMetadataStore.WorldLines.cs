// World-lines, and the places in replication streams that stand for points of history.
using System.Data.Common;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<WorldLineResult> BeginWorldLineAsync(
        string cluster, ShardId shard, WorldLine next, DurableClaim durable, long expectedEpoch, PrecedenceRow? row = null,
        CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        CheckClaim(durable);
        ArgumentOutOfRangeException.ThrowIfNotEqual(durable.Point.WorldLine.Next, next, nameof(next));
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedEpoch, 1);
        return connection.RunAsync(
            async session =>
            {
                WorldLineResult result = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        result = await BeginLockedAsync(session, cluster, shard, durable, expectedEpoch, row, cancellation);
                        return result.Outcome == WorldLineOutcome.Started;
                    },
                    cancellation);
                return result;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyList<WorldLineRecord>> WorldLinesAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync<IReadOnlyList<WorldLineRecord>>(
            async session =>
            {
                List<WorldLineRecord> rows = await WorldLinesAsync(session, cluster, cancellation);
                return rows.Count > 0 ? rows : throw UnknownCluster(cluster);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<ClusterSnapshot> SnapshotAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                List<ClusterHead> heads = [];
                List<ShardRecord> shards = [];
                List<WorldLineRecord> lines = [];
                List<GridStretch> stretches = [];
                // The cut first, and what is proposed: claims, and the stretch that a proposal has made, may be of a later moment, never of
                // an earlier one.
                await session.QueryAllAsync(
                    [
                        new(HeadSql, r => heads.Add(HeadOf(r))),
                        new(ShardRowsSql, r => shards.Add(ShardOf(r))),
                        new(WorldLinesSql, r => lines.Add(WorldLineOf(r))),
                        new(GridSql, r => stretches.Add(StretchOf(r))),
                    ],
                    cancellation,
                    ("@cluster", cluster));
                return heads is [ClusterHead head] && shards.Count > 0 && lines.Count > 0
                    ? new ClusterSnapshot([.. shards.Select(s => Raised(s, head.Cut))], head.Cut, lines, new(stretches, head.ChangeUs))
                    : throw UnknownCluster(cluster);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task RecordOriginAsync(
        string cluster, ShardId shard, string replid, long offset, WorldPoint point, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        CheckReplicationId(replid);
        ArgumentOutOfRangeException.ThrowIfNegative(offset);
        CheckPoint(point);
        return connection.RunAsync(
            async session =>
            {
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        await ShardAsync(session, cluster, shard, cancellation);
                        return await InsertOriginAsync(session, cluster, new(shard, replid, offset, point), cancellation);
                    },
                    cancellation);
                return true;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<IReadOnlyList<StreamOriginRecord>> OriginsAsync(
        string cluster, ShardId shard, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(shard);
        return connection.RunAsync<IReadOnlyList<StreamOriginRecord>>(
            async session =>
            {
                await ShardAsync(session, cluster, shard, cancellation);
                return await session.QueryAsync(
                    "SELECT replid, stream_offset, world_line, version FROM slogger_origins "
                    + "WHERE cluster = @cluster AND shard = @shard ORDER BY world_line, version, recorded_us",
                    r => new StreamOriginRecord(shard, r.GetString(0), r.GetInt64(1), PointOf(r, 2)),
                    cancellation,
                    ("@cluster", cluster),
                    ("@shard", (long)shard.Number));
            },
            cancellation);
    }

    private async Task<WorldLineResult> BeginLockedAsync(
        SqlSession session, string cluster, ShardId shard, DurableClaim durable, long epoch, PrecedenceRow? row,
            CancellationToken cancellation)
    {
        WorldLine next = durable.Point.WorldLine.Next;
        await LockClusterAsync(session, cluster, cancellation);

        // Locks the shards' rows too, so that nothing is recorded between reading them and the commit. The new world-line is
        // written only if nothing speaks against it: the caller rolls back otherwise.
        await session.ExecuteAsync(
            "UPDATE slogger_shards SET world_line = world_line WHERE cluster = @cluster", cancellation, ("@cluster", cluster));
        ClusterHead head = await HeadAsync(session, cluster, cancellation);
        WorldPoint cut = head.Cut.Of(shard);
        ShardRecord own = await ShardAsync(session, cluster, shard, cancellation);
        if (cut.WorldLine >= next)
        {
            WorldLineRecord current = (await WorldLinesAsync(session, cluster, cancellation))[^1];
            bool same = current.WorldLine == next && current.StartedByEpoch == epoch;
            return same ? new(WorldLineOutcome.Started, new(next, current.BranchOf(shard))) : new(WorldLineOutcome.StaleWorldLine, cut);
        }

        if (cut.WorldLine != durable.Point.WorldLine || own.Epoch < epoch)
        {
            throw SetBack(
                cluster, $"shard {shard} starts world-line {next} with epoch {epoch}, but world-line {cut.WorldLine} and epoch "
                + $"{own.Epoch} are recorded");
        }

        if (own.Epoch != epoch || !Members.Counts(own.State))
        {
            return new(WorldLineOutcome.Deposed, cut);
        }

        if (durable.Point.Version < own.Durable.Version || durable.Point.Version < cut.Version)
        {
            return new(WorldLineOutcome.BelowRecorded, cut);
        }

        Cut branch = new(next, (await ProvedAsync(session, cluster, head, shard, durable, row, cancellation)).Versions);
        await session.ExecuteAllAsync([.. WriteBranch(cluster, branch), InsertWorldLine(cluster, branch, epoch)], cancellation);
        await RecoverOwnershipAsync(session, cluster, branch, cancellation);
        return new(WorldLineOutcome.Started, new(next, branch.Of(shard)));
    }

    // The newest cut that the rows allow, with what the caller has durable beyond its own.
    private static async Task<Cut> ProvedAsync(
        SqlSession session, string cluster, ClusterHead head, ShardId shard, DurableClaim durable, PrecedenceRow? row,
            CancellationToken cancellation)
    {
        List<ShardRecord> rows = await ShardRowsAsync(session, cluster, cancellation);
        (ShardId Shard, DurableClaim Claim)[] claims = [.. rows.Where(s => Members.Counts(s.State))
            .Select(s => (s.Shard, s.Shard == shard ? durable : s.Claim))];
        Cut recorded = head.Cut.Whole(rows.Count);
        if (head.Finder.RecordsRows && claims.Length > 1)
        {
            ExactFinder exact = new(recorded, await RowsAsync(session, cluster, cancellation));
            if (row is { } own)
            {
                exact.Report(VersionReport.Of(shard, durable, own.After, own.Dependencies));
            }

            exact.Advance();
            return exact.Current;
        }

        // What hybrid versions depend on was in the coordinator's memory: the grid is what is left.
        IDprFinder grid = new ApproximateFinder(recorded);
        if (head.Finder.HasGridCuts || claims.Length == 1)
        {
            return Cut.Uniform(recorded.WorldLine, rows.Count, GridCut.Advance(head.Cut.Cut, [.. claims.Select(c => c.Claim)]).Version);
        }

        foreach ((ShardId of, DurableClaim claim) in claims)
        {
            grid.Report(VersionReport.Of(of, claim, claim.Point.Version, DependencySet.Empty));
        }

        grid.Advance();
        return grid.Current;
    }

    private static IReadOnlyList<SqlStatement> WriteBranch(string cluster, Cut branch)
    {
        (VersionNumber lowest, string versions) = TextOf(branch);
        List<SqlStatement> statements =
        [
            new(
                "UPDATE slogger_shards SET world_line = @world_line, cut_version = @version, floor_version = @version WHERE "
                    + "cluster = @cluster",
                ("@world_line", branch.WorldLine.Number),
                ("@version", lowest.Number),
                ("@cluster", cluster)),
        ];
        for (int i = 0; versions.Length > 0 && i < branch.ShardCount; i++)
        {
            statements.Add(new(
                "UPDATE slogger_shards SET cut_version = @version, floor_version = @version WHERE cluster = @cluster AND shard = @shard",
                ("@version", branch.Versions[i].Number),
                ("@cluster", cluster),
                ("@shard", (long)i)));
        }

        statements.Add(new(
            "UPDATE slogger_clusters SET world_line = @world_line, cut_version = @version, cut_versions = @versions_list WHERE "
                + "cluster = @cluster",
            ("@world_line", branch.WorldLine.Number),
            ("@version", lowest.Number),
            ("@versions_list", versions),
            ("@cluster", cluster)));
        statements.Add(new("DELETE FROM slogger_precedence WHERE cluster = @cluster", ("@cluster", cluster)));
        return statements;
    }

    private SqlStatement InsertWorldLine(string cluster, Cut branch, long epoch)
    {
        (VersionNumber lowest, string versions) = TextOf(branch);
        return new(
            "INSERT INTO slogger_world_lines (cluster, world_line, branch_version, branch_versions, epoch, started_us) "
            + "VALUES (@cluster, @world_line, @version, @versions_list, @epoch, @now)",
            ("@cluster", cluster),
            ("@world_line", branch.WorldLine.Number),
            ("@version", lowest.Number),
            ("@versions_list", versions),
            ("@epoch", epoch),
            ("@now", NowMicroseconds));
    }

    private static Task<List<WorldLineRecord>> WorldLinesAsync(
        SqlSession session, string cluster, CancellationToken cancellation) =>
        session.QueryAsync(WorldLinesSql, WorldLineOf, cancellation, ("@cluster", cluster));

    private const string WorldLinesSql =
        "SELECT world_line, branch_version, epoch, started_us, branch_versions FROM slogger_world_lines "
        + "WHERE cluster = @cluster ORDER BY world_line";

    private static WorldLineRecord WorldLineOf(DbDataReader row) =>
        new(new(row.GetInt64(0)), new(row.GetInt64(1)), row.GetInt64(2),
            DateTimeOffset.UnixEpoch.AddTicks(row.GetInt64(3) * TimeSpan.TicksPerMicrosecond))
        {
            ByShard = CutOf(new(row.GetInt64(0)), row.GetString(4)),
        };

    // False when it is there already.
    private async Task<bool> InsertOriginAsync(
        SqlSession session, string cluster, StreamOriginRecord origin, CancellationToken cancellation)
    {
        List<WorldPoint> known = await session.QueryAsync(
            "SELECT world_line, version FROM slogger_origins "
            + "WHERE cluster = @cluster AND shard = @shard AND replid = @replid AND stream_offset = @stream_offset",
            r => PointOf(r, 0),
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)origin.Shard.Number),
            ("@replid", origin.ReplicationId),
            ("@stream_offset", origin.Offset));
        if (known.Count > 0)
        {
            return known[0] == origin.Point
                ? false
                : throw new MetadataException(
                    $"Shard {origin.Shard} of cluster \"{cluster}\": offset {origin.Offset} of stream {origin.ReplicationId} is "
                    + $"recorded as {known[0]} and cannot become {origin.Point}. A feed must have a replication id of its own.");
        }

        await session.ExecuteAsync(
            "INSERT INTO slogger_origins (cluster, shard, replid, stream_offset, world_line, version, recorded_us) "
            + "VALUES (@cluster, @shard, @replid, @stream_offset, @world_line, @version, @now)",
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)origin.Shard.Number),
            ("@replid", origin.ReplicationId),
            ("@stream_offset", origin.Offset),
            ("@world_line", origin.Point.WorldLine.Number),
            ("@version", origin.Point.Version.Number),
            ("@now", NowMicroseconds));
        return true;
    }

    private static void CheckReplicationId(string replid)
    {
        if (replid.Length != SqlSchema.ReplicationIdLength || replid.AsSpan().ContainsAnyExcept("0123456789abcdef"))
        {
            throw new ArgumentException("A replication id has 40 lower-case hexadecimal digits.", nameof(replid));
        }
    }
}
