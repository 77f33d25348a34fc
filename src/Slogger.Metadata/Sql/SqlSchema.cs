// The tables, as a list of steps from one version to the next. A step is never edited once released: a change is a new step.
// All DDL is in transactions (all three databases can), so a crash leaves the old version or the new one.
namespace Slogger.Metadata.Sql;

/// <summary>One step: the version it leads to, and its statements for a dialect.</summary>
internal sealed record SchemaStep(long Version, Func<SqlDialect, IReadOnlyList<string>> Statements);

internal static partial class SqlSchema
{
    /// <summary>What to do when tables are not as they should be.</summary>
    public const string ShapeAdvice =
        "Its slogger_ tables are missing, or not as this program made them: restore them from a backup, "
        + "or name a database that holds no other tables of these names.";

    public const int ClusterLength = 200, AddressLength = 400, OwnerLength = 400, StoreKindLength = 100, ReplicationIdLength =
        40, FinderLength = 20, SecretLength = 64;

    private const string Product = "slogger-metadata";

    /// <summary>All steps, in order.</summary>
    public static readonly IReadOnlyList<SchemaStep> Steps =
        [new(1, First), new(2, Second), new(3, Third), new(4, Fourth), new(5, Moves), new(6, Partitions), new(7, Members), new(8, Sites),
            new(9, SiteAddresses), new(10, StreamLayouts), new(11, TakeoverTimes), new(12, Identity), new(13, Reigns),
            new(14, SettledVersion), new(15, PastMoves), new(16, Resets)];

    // Names and columns of the newest version, to find out early that someone changed them.
    private static readonly string[] Shape =
    [
        "SELECT cluster, shard_count, finder, world_line, cut_version, cut_versions, awaited_version, epoch_last, revision, created_us "
            + "FROM slogger_clusters WHERE 1 = 0",
        "SELECT coordinator_epoch, coordinator_renewals, coordinator_address, secret FROM slogger_clusters WHERE 1 = 0",
        "SELECT cluster, first_version, start_us, interval_us FROM slogger_grid WHERE 1 = 0",
        "SELECT cluster, shard, address, store_kind, owner, epoch, world_line, cut_version, stride, floor_version, entered, renewals FROM "
            + "slogger_shards WHERE 1 = 0",
        "SELECT cluster, world_line, branch_version, branch_versions, epoch, started_us FROM slogger_world_lines WHERE 1 = 0",
        "SELECT cluster, shard, through_version, after_version, world_line, dependencies FROM slogger_precedence WHERE 1 = 0",
        "SELECT cluster, shard, replid, stream_offset, world_line, version, recorded_us FROM slogger_origins WHERE 1 = 0",
        "SELECT cluster, first_slot, last_slot, shard, revision FROM slogger_slots WHERE 1 = 0",
    ];

    private static IReadOnlyList<string> First(SqlDialect dialect)
    {
        string cluster = $"cluster {dialect.TextType(ClusterLength)} NOT NULL";
        return
        [
            // revision is updated first in every transaction that concerns the whole cluster: that is its lock.
            $"""
            CREATE TABLE slogger_clusters (
                {cluster},
                shard_count BIGINT NOT NULL,
                world_line BIGINT NOT NULL,
                epoch_last BIGINT NOT NULL,
                revision BIGINT NOT NULL,
                created_us BIGINT NOT NULL,
                PRIMARY KEY (cluster))
            """,
            $"""
            CREATE TABLE slogger_grid (
                {cluster},
                first_version BIGINT NOT NULL,
                start_us BIGINT NOT NULL,
                interval_us BIGINT NOT NULL,
                PRIMARY KEY (cluster, first_version))
            """,

            // world_line repeats the cluster's current one, so that recording a cut compares and sets within one row.
            $"""
            CREATE TABLE slogger_shards (
                {cluster},
                shard BIGINT NOT NULL,
                address {dialect.TextType(AddressLength)} NOT NULL,
                store_kind {dialect.TextType(StoreKindLength)} NOT NULL,
                owner {dialect.TextType(OwnerLength)} NOT NULL,
                epoch BIGINT NOT NULL,
                world_line BIGINT NOT NULL,
                cut_version BIGINT NOT NULL,
                PRIMARY KEY (cluster, shard))
            """,
            $"""
            CREATE TABLE slogger_world_lines (
                {cluster},
                world_line BIGINT NOT NULL,
                branch_version BIGINT NOT NULL,
                epoch BIGINT NOT NULL,
                started_us BIGINT NOT NULL,
                PRIMARY KEY (cluster, world_line))
            """,
            $"""
            CREATE TABLE slogger_origins (
                {cluster},
                shard BIGINT NOT NULL,
                replid {dialect.TextType(ReplicationIdLength)} NOT NULL,
                stream_offset BIGINT NOT NULL,
                world_line BIGINT NOT NULL,
                version BIGINT NOT NULL,
                recorded_us BIGINT NOT NULL,
                PRIMARY KEY (cluster, shard, replid, stream_offset))
            """,
        ];
    }

    // Until here the cut of a cluster was its shards' least durable version: slogger_shards.cut_version. Now that is what each
    // shard claims, and the cut a column of the cluster.
    private static IReadOnlyList<string> Second(SqlDialect dialect) =>
    [
        "ALTER TABLE slogger_shards ADD stride BIGINT DEFAULT 1 NOT NULL",
        "ALTER TABLE slogger_shards ADD floor_version BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_shards ADD entered BIGINT DEFAULT 1 NOT NULL",
        "UPDATE slogger_shards SET entered = world_line",
        "ALTER TABLE slogger_clusters ADD cut_version BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_clusters ADD awaited_version BIGINT DEFAULT 0 NOT NULL",
        "UPDATE slogger_clusters SET cut_version = (SELECT MIN(cut_version) FROM slogger_shards WHERE slogger_shards.cluster = "
            + "slogger_clusters.cluster)",
    ];

    // Which shard owns which hash slots; all rows of a cluster have the map's revision. Clusters made before get the map that new
    // ones get, SlotMap.Even: a shard's slots begin at shard * 16384 / count, rounded.
    private static IReadOnlyList<string> Third(SqlDialect dialect) =>
    [
        $"""
        CREATE TABLE slogger_slots (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            first_slot BIGINT NOT NULL,
            last_slot BIGINT NOT NULL,
            shard BIGINT NOT NULL,
            revision BIGINT NOT NULL,
            PRIMARY KEY (cluster, first_slot))
        """,
        """
        INSERT INTO slogger_slots (cluster, first_slot, last_slot, shard, revision)
            SELECT c.cluster, (32768 * s.shard + c.shard_count) / (2 * c.shard_count),
                (32768 * (s.shard + 1) + c.shard_count) / (2 * c.shard_count) - 1, s.shard, 1
            FROM slogger_shards s INNER JOIN slogger_clusters c ON c.cluster = s.cluster
        """,
    ];

    // Finders whose cut has one version for each shard (cut_versions and branch_versions list them; empty where all are that of
    // cut_version and branch_version, which else is the lowest), the precedence graph of the exact one, and leases.
    private static IReadOnlyList<string> Fourth(SqlDialect dialect) =>
    [
        $"ALTER TABLE slogger_clusters ADD finder {dialect.TextType(FinderLength)} DEFAULT 'approximate' NOT NULL",
        $"ALTER TABLE slogger_clusters ADD cut_versions {dialect.LongTextType} DEFAULT '' NOT NULL",
        "ALTER TABLE slogger_clusters ADD coordinator_epoch BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_clusters ADD coordinator_renewals BIGINT DEFAULT 0 NOT NULL",
        $"ALTER TABLE slogger_clusters ADD coordinator_address {dialect.TextType(AddressLength)} DEFAULT '' NOT NULL",
        $"ALTER TABLE slogger_clusters ADD secret {dialect.TextType(SecretLength)} DEFAULT '' NOT NULL",
        "ALTER TABLE slogger_shards ADD renewals BIGINT DEFAULT 0 NOT NULL",
        $"ALTER TABLE slogger_world_lines ADD branch_versions {dialect.LongTextType} DEFAULT '' NOT NULL",
        $"""
        CREATE TABLE slogger_precedence (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            shard BIGINT NOT NULL,
            through_version BIGINT NOT NULL,
            after_version BIGINT NOT NULL,
            world_line BIGINT NOT NULL,
            dependencies {dialect.LongTextType} NOT NULL,
            PRIMARY KEY (cluster, shard, through_version))
        """,
    ];

    /// <summary>Brings the tables to the newest of the steps.</summary>
    public static async Task UpgradeAsync(
        SqlSession session, SqlDialect dialect, IReadOnlyList<SchemaStep> steps, CancellationToken cancellation)
    {
        await dialect.CheckIntegrityAsync(session, cancellation);
        await session.InTransactionAsync(
            async () =>
            {
                await dialect.LockSchemaAsync(session, cancellation);
                long version = await VersionAsync(session, dialect, cancellation);
                long newest = steps[^1].Version;
                if (version > newest)
                {
                    throw new MetadataException(
                        $"{dialect.Description} has metadata of a newer Slogger (schema {version}; this program knows up to "
                        + $"{newest}). Start the newer program, or name another database.");
                }

                foreach (SchemaStep step in steps.Where(s => s.Version > version))
                {
                    foreach (string statement in step.Statements(dialect))
                    {
                        await session.ExecuteOnceAsync(statement, cancellation);
                    }

                    await session.ExecuteAsync(
                        "UPDATE slogger_schema SET version = @version", cancellation, ("@version", step.Version));
                }

                return true;
            },
            cancellation);

        foreach (string query in Shape.Concat(MovesShape).Concat(PartitionsShape).Concat(MembersShape).Concat(SitesShape)
            .Concat(SiteAddressesShape).Concat(StreamLayoutsShape).Concat(TakeoverTimesShape).Concat(IdentityShape)
            .Concat(ReignsShape).Concat(SettledVersionShape).Concat(PastMovesShape).Concat(ResetsShape))
        {
            await session.ExecuteOnceAsync(query, cancellation);
        }
    }

    // 0 with the version table just made when there are no tables yet.
    private static async Task<long> VersionAsync(SqlSession session, SqlDialect dialect, CancellationToken cancellation)
    {
        List<string> tables = await session.QueryAsync(dialect.TableNamesSql, r => r.GetString(0), cancellation);
        if (!tables.Contains("slogger_schema", StringComparer.OrdinalIgnoreCase))
        {
            if (tables.Count > 0)
            {
                throw Foreign(dialect, $"it has {string.Join(", ", tables.Order(StringComparer.Ordinal))}, but no slogger_schema");
            }

            await session.ExecuteOnceAsync(
                $"CREATE TABLE slogger_schema (product {dialect.TextType(ClusterLength)} NOT NULL, version BIGINT NOT NULL)", cancellation);
            await session.ExecuteAsync(
                "INSERT INTO slogger_schema (product, version) VALUES (@product, 0)", cancellation, ("@product", Product));
            return 0;
        }

        List<(string Product, long Version)> rows;
        try
        {
            rows = await session.QueryAsync(
                "SELECT product, version FROM slogger_schema", r => (r.GetString(0), r.GetInt64(1)), cancellation);
        }
        catch (Exception exception) when (exception is InvalidCastException
            || (exception is System.Data.Common.DbException && dialect.Classify(exception).Advice == ShapeAdvice))
        {
            throw Foreign(dialect, "its table slogger_schema has other columns");
        }

        return rows is [{ Product: Product, Version: >= 0 }]
            ? rows[0].Version
            : throw Foreign(dialect, "its table slogger_schema does not hold one row of this program");
    }

    private static MetadataException Foreign(SqlDialect dialect, string what) =>
        new($"{dialect.Description} has tables that Slogger did not make: {what}. Name another database, or rename them.");
}
