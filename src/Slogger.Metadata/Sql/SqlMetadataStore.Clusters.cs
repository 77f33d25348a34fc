// Clusters, their clock grid and the owners of their hash slots.
using System.Data.Common;
using System.Security.Cryptography;
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore
{
    /// <inheritdoc />
    public Task<ClusterSettings> GetOrCreateClusterAsync(
        string cluster, ClusterSettings proposal, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        proposal.Validate();
        return connection.RunAsync(
            async session =>
            {
                if (await SettingsAsync(session, cluster, cancellation) is { } settings)
                {
                    return settings;
                }

                try
                {
                    await CreateAsync(session, cluster, proposal, cancellation);
                }
                catch (DbException exception) when (dialect.IsDuplicateKey(exception))
                {
                    // Another proposal won, between the query and now.
                }

                return await SettingsAsync(session, cluster, cancellation) ?? throw UnknownCluster(cluster);
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<ClusterSettings?> FindClusterAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(session => SettingsAsync(session, cluster, cancellation), cancellation);
    }

    /// <inheritdoc />
    public Task<string> IdentityAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(
            async session =>
            {
                string found = await IdentityAsync(session, cluster, cancellation);
                if (found.Length > 0)
                {
                    return found;
                }

                await session.ExecuteAsync(
                    "UPDATE slogger_clusters SET cluster_identity = @identity WHERE cluster = @cluster AND cluster_identity = ''",
                    cancellation,
                    ("@identity", Convert.ToHexStringLower(RandomNumberGenerator.GetBytes(SqlSchema.IdentityLength / 2))),
                    ("@cluster", cluster));
                return await IdentityAsync(session, cluster, cancellation);
            },
            cancellation);
    }

    private static async Task<string> IdentityAsync(SqlSession session, string cluster, CancellationToken cancellation) =>
        await session.QueryAsync("SELECT cluster_identity FROM slogger_clusters WHERE cluster = @cluster", r => r.GetString(0),
            cancellation, ("@cluster", cluster)) is [var found]
            ? found
            : throw UnknownCluster(cluster);

    /// <inheritdoc />
    public Task<GridStretch> ChangeIntervalAsync(
        string cluster, long intervalMicroseconds, long notBeforeMicroseconds, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        ArgumentOutOfRangeException.ThrowIfLessThan(intervalMicroseconds, 1);
        ArgumentOutOfRangeException.ThrowIfNegative(notBeforeMicroseconds);
        return connection.RunAsync(
            async session =>
            {
                GridStretch result = default;
                await session.InTransactionAsync(
                    async () =>
                    {
                        await LockClusterAsync(session, cluster, cancellation);
                        result = (await GridAsync(session, cluster, cancellation))[^1];
                        if (result.IntervalUs == intervalMicroseconds)
                        {
                            return false;
                        }

                        result = result.Successor(intervalMicroseconds, notBeforeMicroseconds);
                        await session.ExecuteAllAsync([InsertGrid(cluster, result)], cancellation);
                        return true;
                    },
                    cancellation);
                return result;
            },
            cancellation);
    }

    /// <inheritdoc />
    public Task<SlotOwners> SlotsAsync(string cluster, CancellationToken cancellation = default)
    {
        CheckedCluster(cluster);
        return connection.RunAsync(session => SlotsAsync(session, cluster, cancellation), cancellation);
    }

    private static async Task<SlotOwners> SlotsAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        return OwnersOf(cluster, await session.QueryAsync(SlotsSql, SlotOf, cancellation, ("@cluster", cluster)));
    }

    // One statement, so the rows are of one revision.
    private const string SlotsSql =
        "SELECT s.first_slot, s.last_slot, s.shard, s.revision, c.partition_count, c.settled_version, "
        + "c.owners_known_from "
        + "FROM slogger_slots s INNER JOIN slogger_clusters c ON c.cluster = s.cluster WHERE s.cluster = @cluster";

    private static (SlotRow Row, long Revision, long Count, long Settled, long KnownFrom) SlotOf(DbDataReader row) =>
        (new SlotRow(new(new((int)row.GetInt64(0)), new((int)row.GetInt64(1))), new((int)row.GetInt64(2))), row.GetInt64(3),
            row.GetInt64(4), row.GetInt64(5), row.GetInt64(6));

    private static SlotOwners OwnersOf(string cluster, List<(SlotRow Row, long Revision, long Count, long Settled, long KnownFrom)> rows)
    {
        if (rows.Count == 0)
        {
            throw UnknownCluster(cluster);
        }

        SlotMap map = SlotMap.FromRows(rows.Select(r => r.Row), out string? error, (int)rows[0].Count)
            ?? throw new MetadataException($"The slots of cluster \"{cluster}\" in the metadata are not right: {error} Restore the table "
            + "slogger_slots from a backup.");
        return new SlotOwners(map, new(rows.Max(r => r.Revision)));
    }

    private Task CreateAsync(SqlSession session, string cluster, ClusterSettings settings, CancellationToken cancellation) =>
        session.InTransactionAsync(
            async () =>
            {
                await session.ExecuteAsync(
                    "INSERT INTO slogger_clusters (cluster, shard_count, made_with, finder, partitions, partition_count, secret, "
                    + "world_line, epoch_last, revision, created_us) VALUES (@cluster, @shard_count, @shard_count, @finder, @partitions, "
                    + "@partition_count, @secret, @world_line, 0, 0, @now)",
                    cancellation,
                    ("@cluster", cluster),
                    ("@shard_count", (long)settings.ShardCount),
                    ("@finder", settings.Finder.Name),
                    ("@partitions", settings.Partitions.ToString()),
                    ("@partition_count", (long)settings.Partitions.Count),
                    ("@secret", NewSecret()),
                    ("@world_line", WorldLine.First.Number),
                    ("@now", NowMicroseconds));
                await session.ExecuteAllAsync([InsertWorldLine(cluster, Cut.Uniform(WorldLine.First, settings.ShardCount, new(0)), 0)],
                    cancellation);
                foreach (GridStretch stretch in settings.Grid)
                {
                    await session.ExecuteAllAsync([InsertGrid(cluster, stretch)], cancellation);
                }

                // All rows from the start: a shard that never registered counts, as one that has nothing durable.
                for (long shard = 0; shard < settings.ShardCount; shard++)
                {
                    await session.ExecuteAsync(
                        "INSERT INTO slogger_shards (cluster, shard, address, store_kind, owner, epoch, world_line, cut_version) "
                        + "VALUES (@cluster, @shard, '', '', '', 0, @world_line, 0)",
                        cancellation,
                        ("@cluster", cluster),
                        ("@shard", shard),
                        ("@world_line", WorldLine.First.Number));
                }

                await InsertSlotsAsync(session, cluster, SlotMap.Even(settings.ShardCount, settings.Partitions.Count), MapRevision.First,
                    cancellation);
                return true;
            },
            cancellation);

    private static async Task<ClusterSettings?> SettingsAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        List<(long Shards, string Finder, long MadeWith, string Partitions, long Count)> rows = await session.QueryAsync(
            "SELECT shard_count, finder, made_with, partitions, partition_count FROM slogger_clusters WHERE cluster = @cluster",
            r => (r.GetInt64(0), r.GetString(1), r.GetInt64(2), r.GetString(3), r.GetInt64(4)),
            cancellation,
            ("@cluster", cluster));
        return rows.Count == 0
            ? null
            : new()
            {
                ShardCount = (int)rows[0].Shards,
                MadeWith = (int)rows[0].MadeWith,
                Finder = FinderOf(rows[0].Finder),
                Partitions = PartitionsOf(cluster, rows[0].Partitions, rows[0].Count),
                Grid = await GridAsync(session, cluster, cancellation),
            };
    }

    private static Partitioning PartitionsOf(string cluster, string text, long count)
    {
        bool isRight = Partitioning.TryParse(text, out Partitioning partitions, out string problem);
        if (isRight && partitions.Count == count) { return partitions; }
        throw new MetadataException(
            $"The partitions of cluster \"{cluster}\" in the metadata are not right: the text "
            + $"{(isRight ? $"says that there are {partitions.Count}, not {count}" : problem)}. "
            + "Restore the table slogger_clusters from a backup.");
    }

    private static Task<List<GridStretch>> GridAsync(SqlSession session, string cluster, CancellationToken cancellation) =>
        session.QueryAsync(GridSql, StretchOf, cancellation, ("@cluster", cluster));

    private const string GridSql =
        "SELECT first_version, start_us, interval_us FROM slogger_grid WHERE cluster = @cluster ORDER BY first_version";

    private static GridStretch StretchOf(DbDataReader row) => new(new(row.GetInt64(0)), row.GetInt64(1), row.GetInt64(2));

    private static SqlStatement InsertGrid(string cluster, GridStretch stretch) => new(
        "INSERT INTO slogger_grid (cluster, first_version, start_us, interval_us) VALUES (@cluster, @version, @start, @interval)",
        ("@cluster", cluster),
        ("@version", stretch.FirstVersion.Number),
        ("@start", stretch.StartUs),
        ("@interval", stretch.IntervalUs));
}
