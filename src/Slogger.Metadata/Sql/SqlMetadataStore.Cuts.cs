// The recorded cut: a row of its own, since what was once reported as committed must not depend on what the shards claim later.
// With the approximate finder any shard that records its claim moves it on, and so may a coordinator; with the others a
// coordinator alone. Either way it is one update of one row, which compares all that it must not overlook.
using System.Data.Common;
using System.Globalization;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <summary>The cluster's row, but for its settings.</summary>
    private readonly record struct ClusterHead(int ShardCount, FinderKind Finder, ClusterCut Cut, long EpochLast, LeaseRow Coordinator,
        long ChangeUs);

    // The cut that a coordinator in this process has recorded last. Under the connection's turn.
    private RecordedCut? recorded;

    private sealed record RecordedCut(string Cluster, Cut Cut)
    {
        public ClusterCut Seen { get; } = new(new(Cut.WorldLine, TextOf(Cut).Lowest), default) { ByShard = TextOf(Cut).Versions.Length > 0
            ? Cut : null };
    }

    private readonly record struct LeaseRow(long Epoch, long Renewals, string Address, string Secret);

    /// <inheritdoc />
    public Task<DurableResult> RecordDurableRowAsync(
        string cluster, DurableClaim durable, PrecedenceRow row, long expectedShardEpoch, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        CheckShard(row.Shard);
        CheckClaim(durable);
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedShardEpoch, 1);
        if (row.Through != durable.Point || row.After > row.Through.Version)
        {
            throw new ArgumentException($"The row ({row.After}, {row.Through}] does not end where the claim does, {durable.Point}.",
                nameof(row));
        }

        return connection.RunAsync(
            async session =>
            {
                DurableResult result = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        result = await RecordAsync(session, cluster, row.Shard, durable, expectedShardEpoch, cancellation);
                        if (result.Outcome != DurableOutcome.Recorded)
                        {
                            return false;
                        }

                        await ReplaceRowAsync(session, cluster, row, result.Cut.Version, cancellation);
                        return true;
                    },
                    cancellation);
                return result;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<ClusterCut> AdvanceCutAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(session => AdvanceCutAsync(session, cluster, cancellation), cancellation);
    }

    /// <inheritdoc />
    public Task<CutOutcome> RecordCutAsync(
        string cluster, Cut cut, long expectedEpoch, long expectedOwners, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentOutOfRangeException.ThrowIfLessThan(expectedEpoch, 1);
        return connection.RunAsync(
            async session =>
            {
                // Nearly always nobody has changed anything since: then nothing need be read.
                if (recorded is { } last && last.Cluster == cluster && last.Cut.WorldLine == cut.WorldLine
                    && last.Cut.ShardCount == cut.ShardCount && cut.IsAtLeast(last.Cut)
                    && await WriteCutAsync(session, cluster, last.Seen, expectedEpoch, expectedOwners, cut, cancellation))
                {
                    recorded = new(cluster, cut);
                    return CutOutcome.Recorded;
                }

                recorded = null;
                while (true)
                {
                    ClusterHead head = await HeadAsync(session, cluster, cancellation);
                    CutOutcome? refusal = head.Coordinator.Epoch != expectedEpoch ? CutOutcome.Deposed
                        : head.EpochLast != expectedOwners ? CutOutcome.OwnersChanged
                        : head.Cut.Cut.WorldLine != cut.WorldLine ? CutOutcome.StaleWorldLine
                        : !cut.IsAtLeast(head.Cut.Whole(cut.ShardCount)) ? CutOutcome.NotMonotone
                        : null;
                    if (refusal is { } outcome)
                    {
                        return outcome;
                    }

                    // Shards that cannot reach the coordinator move the cut on too: then it is compared again.
                    if (await WriteCutAsync(session, cluster, head, cut, cancellation))
                    {
                        recorded = new(cluster, cut);
                        return CutOutcome.Recorded;
                    }
                }
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<CoordinatorView> CoordinatorViewAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                while (true)
                {
                    ClusterHead head = await HeadAsync(session, cluster, cancellation);
                    List<ShardRecord> shards = await ShardRowsAsync(session, cluster, cancellation);
                    List<PrecedenceRow> rows = head.Finder.RecordsRows ? await RowsAsync(session, cluster, cancellation) : [];
                    ClusterHead after = await HeadAsync(session, cluster, cancellation);
                    // Of one moment in what must not be mixed: owners and world-line. Claims and rows may be newer than the cut.
                    if (after.EpochLast == head.EpochLast && after.Cut.Cut.WorldLine == head.Cut.Cut.WorldLine)
                    {
                        return new CoordinatorView(head.Cut, head.EpochLast, shards, rows);
                    }
                }
            },
            cancellation);
    }

    private static async Task<ClusterCut> AdvanceCutAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        while (true)
        {
            ClusterHead head = await HeadAsync(session, cluster, cancellation);
            // With the exact finder a version may depend on a larger one: only the coordinator knows.
            if (head.Finder.RecordsRows && head.ShardCount > 1)
            {
                return head.Cut;
            }

            List<(ShardId Shard, DurableClaim Claim)> claims = await ClaimsAsync(session, cluster, cancellation);
            if (head.ShardCount == 1)
            {
                // A shard alone: its claim, which never goes back, is the cut, and needs no second write.
                return head.Cut with { Cut = GridCut.Advance(head.Cut.Cut, [.. claims.Select(c => c.Claim)]) };
            }

            if (GridOver(head, claims) is not { } next)
            {
                return head.Cut;
            }

            if (await WriteCutAsync(session, cluster, head, next, cancellation))
            {
                (VersionNumber lowest, string versions) = TextOf(next);
                return head.Cut with { Cut = new(next.WorldLine, lowest), ByShard = versions.Length == 0 ? null : next };
            }
        }
    }

    // What the claims allow beyond the recorded cut by the grid, which is also what the hybrid finder falls back on; null if nothing.
    private static Cut? GridOver(in ClusterHead head, List<(ShardId Shard, DurableClaim Claim)> claims)
    {
        WorldPoint cut = head.Cut.Cut;
        if (head.Finder.HasGridCuts)
        {
            WorldPoint next = GridCut.Advance(cut, [.. claims.Select(c => c.Claim)]);
            return next == cut ? null : Cut.Uniform(cut.WorldLine, head.ShardCount, next.Version);
        }

        ApproximateFinder grid = new(head.Cut.Whole(claims.Count));
        foreach ((ShardId shard, DurableClaim claim) in claims)
        {
            grid.Report(VersionReport.Of(shard, claim, claim.Point.Version, DependencySet.Empty));
        }

        return grid.Advance() ? grid.Current : null;
    }

    // Only in the place of the cut that was seen: of several who move it on, one does.
    private static Task<bool> WriteCutAsync(SqlSession session, string cluster, ClusterHead seen, Cut next,
        CancellationToken cancellation) =>
        WriteCutAsync(session, cluster, seen.Cut, seen.Coordinator.Epoch, seen.EpochLast, next, cancellation);

    private static async Task<bool> WriteCutAsync(SqlSession session, string cluster, ClusterCut seen, long epoch, long owners, Cut next,
        CancellationToken cancellation)
    {
        (VersionNumber lowest, string versions) = TextOf(next);
        return await session.ExecuteAsync(
            "UPDATE slogger_clusters SET cut_version = @version, cut_versions = @versions_list WHERE cluster = @cluster "
            + "AND world_line = @world_line AND cut_version = @seen AND cut_versions = @seen_list "
            + "AND coordinator_epoch = @epoch AND epoch_last = @owners",
            cancellation,
            ("@version", lowest.Number),
            ("@versions_list", versions),
            ("@cluster", cluster),
            ("@world_line", next.WorldLine.Number),
            ("@seen", seen.Cut.Version.Number),
            ("@seen_list", seen.ByShard is { } byShard ? TextOf(byShard).Versions : string.Empty),
            ("@epoch", epoch),
            ("@owners", owners)) == 1;
    }

    private const string HeadSql =
        "SELECT shard_count, finder, world_line, cut_version, cut_versions, awaited_version, epoch_last, coordinator_epoch, "
        + "coordinator_renewals, coordinator_address, secret, change_us FROM slogger_clusters WHERE cluster = @cluster";

    private static async Task<ClusterHead> HeadAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        List<ClusterHead> heads = await session.QueryAsync(HeadSql, HeadOf, cancellation, ("@cluster", cluster));
        return heads.Count == 1 ? heads[0] : throw UnknownCluster(cluster);
    }

    private static ClusterHead HeadOf(DbDataReader row)
    {
        WorldPoint cut = PointOf(row, 2);
        return new(
            (int)row.GetInt64(0),
            FinderOf(row.GetString(1)),
            new ClusterCut(cut, new(row.GetInt64(5))) { ByShard = CutOf(cut.WorldLine, row.GetString(4)) },
            row.GetInt64(6),
            new(row.GetInt64(7), row.GetInt64(8), row.GetString(9), row.GetString(10)),
            row.GetInt64(11));
    }

    // ---- Rows of the precedence graph ----

    private static async Task ReplaceRowAsync(
        SqlSession session, string cluster, PrecedenceRow row, VersionNumber committed, CancellationToken cancellation)
    {
        await session.ExecuteAsync(
            "DELETE FROM slogger_precedence WHERE cluster = @cluster AND shard = @shard "
            + "AND (through_version <= @committed OR through_version > @after)",
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)row.Shard.Number),
            ("@committed", committed.Number),
            ("@after", row.After.Number));
        if (row.Through.Version <= committed || row.After == row.Through.Version)
        {
            return;
        }

        await session.ExecuteAsync(
            "INSERT INTO slogger_precedence (cluster, shard, through_version, after_version, world_line, dependencies) "
            + "VALUES (@cluster, @shard, @through, @after, @world_line, @dependencies_list)",
            cancellation,
            ("@cluster", cluster),
            ("@shard", (long)row.Shard.Number),
            ("@through", row.Through.Version.Number),
            ("@after", row.After.Number),
            ("@world_line", row.Through.WorldLine.Number),
            ("@dependencies_list", TextOf(row.Dependencies)));
    }

    private static Task<List<PrecedenceRow>> RowsAsync(SqlSession session, string cluster, CancellationToken cancellation) =>
        session.QueryAsync(
            "SELECT shard, world_line, through_version, after_version, dependencies FROM slogger_precedence WHERE cluster = @cluster",
            r => new PrecedenceRow(new((int)r.GetInt64(0)), PointOf(r, 1), new(r.GetInt64(3)), DependenciesOf(r.GetString(4))),
            cancellation,
            ("@cluster", cluster));

    // ---- Lists as text ----

    private static string TextOf(DependencySet dependencies)
    {
        List<string> items = [];
        foreach (Dependency d in dependencies.Items)
        {
            items.Add(string.Create(CultureInfo.InvariantCulture, $"{d.Shard.Number}:{d.Version.Number}"));
        }

        return string.Join(' ', items);
    }

    private static DependencySet DependenciesOf(string text)
    {
        if (text.Length == 0)
        {
            return DependencySet.Empty;
        }

        List<Dependency> items = [];
        foreach (string item in text.Split(' '))
        {
            string[] parts = item.Split(':');
            items.Add(new(new(int.Parse(parts[0], CultureInfo.InvariantCulture)), new(long.Parse(parts[1], CultureInfo.InvariantCulture))));
        }

        return DependencySet.Of([.. items]);
    }

    // Empty where one version says it all.
    private static (VersionNumber Lowest, string Versions) TextOf(Cut cut)
    {
        VersionNumber[] versions = cut.Versions.ToArray();
        VersionNumber lowest = versions.Min();
        return (lowest, versions.All(v => v == lowest) ? string.Empty
            : string.Join(' ', versions.Select(v => v.Number.ToString(CultureInfo.InvariantCulture))));
    }

    private static Cut? CutOf(WorldLine worldLine, string versions) => versions.Length == 0
        ? null
        : new(worldLine, [.. versions.Split(' ').Select(v => new VersionNumber(long.Parse(v, CultureInfo.InvariantCulture)))]);

    private static FinderKind FinderOf(string name) => FinderRules.Find(name)
        ?? throw new MetadataException(
            $"The metadata names a finder \"{name}\", which this program does not know. Start the newer program that made the cluster.");
}
