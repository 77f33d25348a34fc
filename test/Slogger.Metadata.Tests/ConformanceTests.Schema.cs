// The schema: made once, upgraded step by step, refused when it is not ours or newer than we are.
using System.Data.Common;
using Slogger.Core.Sites;
using Slogger.Metadata.Sql;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private static readonly long Newest = SqlSchema.Steps[^1].Version;
    private static readonly SchemaStep Added = new(Newest + 1, d => [$"CREATE TABLE slogger_second (x {d.TextType(10)} NOT NULL)"]);

    private static SqlMetadataStore StoreWith(string spec, params SchemaStep[] more)
    {
        MetadataStoreOptions options = new();
        return new(MetadataStoreFactory.CreateDialect(spec, options), options, [.. SqlSchema.Steps, .. more], TimeProvider.System);
    }

    private static async Task ExecuteAsync(string spec, string sql)
    {
        SqlDialect dialect = MetadataStoreFactory.CreateDialect(spec, new());
        await using DbConnection connection = dialect.CreateConnection();
        await connection.OpenAsync();
        await using DbCommand command = connection.CreateCommand();
        command.CommandText = sql;
        await command.ExecuteNonQueryAsync();
    }

    [Fact]
    public async Task Initialize_ManyStoresAtOnce_MakeOneSchema()
    {
        string spec = await FreshSpecAsync();
        await Parallel.ForAsync(0, 8, async (_, _) =>
        {
            await using IMetadataStore store = MetadataStoreFactory.Create(spec);
            await EventuallyAsync(async () =>
            {
                await store.InitializeAsync();
                return true;
            });
            await store.InitializeAsync();
            await EventuallyAsync(() => store.GetOrCreateClusterAsync("c", Settings()));
        });
    }

    [Fact]
    public async Task Initialize_OlderSchema_UpgradesAndKeepsTheRows()
    {
        string spec = await FreshSpecAsync();
        await using (SqlMetadataStore old = StoreWith(spec))
        {
            await old.InitializeAsync();
            await old.GetOrCreateClusterAsync("c", Settings());
        }

        await using SqlMetadataStore young = StoreWith(spec, Added);
        await young.InitializeAsync();
        Assert.NotNull(await young.FindClusterAsync("c"));
        await ExecuteAsync(spec, "INSERT INTO slogger_second (x) VALUES ('x')");
    }

    // In which versions slots moved was not noted: all of that is in the recorded cut.
    [Fact]
    public async Task Initialize_SlotsHadMoved_TheyAreSettledAtTheCut()
    {
        string spec = await FreshSpecAsync();
        SqlDialect dialect = MetadataStoreFactory.CreateDialect(spec, new());
        await ExecuteAsync(spec, $"CREATE TABLE slogger_schema (product {dialect.TextType(200)} NOT NULL, version BIGINT NOT NULL)");
        await ExecuteAsync(spec, "INSERT INTO slogger_schema (product, version) VALUES ('slogger-metadata', 13)");
        foreach (SchemaStep step in SqlSchema.Steps.Where(s => s.Version <= 13))
        {
            foreach (string statement in step.Statements(dialect)) { await ExecuteAsync(spec, statement); }
            if (step.Version > 1) { continue; }
            foreach (string cluster in (string[])["moved", "never"])
            {
                await ExecuteAsync(spec, $"INSERT INTO slogger_clusters VALUES ('{cluster}', 1, 3, 8, 1, 1)");
                await ExecuteAsync(spec, $"INSERT INTO slogger_shards VALUES ('{cluster}', 0, 'a', 'redis', 'me', 7, 3, 70)");
            }
        }

        await ExecuteAsync(spec, "UPDATE slogger_slots SET revision = 5 WHERE cluster = 'moved'");
        await using SqlMetadataStore store = StoreWith(spec);
        await store.InitializeAsync();
        Assert.Equal(70, (await store.OwnershipAsync("moved")).Settled.Number);
        Assert.Equal(0, (await store.OwnershipAsync("never")).Settled.Number);
        Assert.Equal(70, (await store.OwnershipAsync("moved")).KnownFrom.Number);
        Assert.Equal(0, (await store.OwnershipAsync("never")).KnownFrom.Number);
    }

    [Fact]
    public async Task Initialize_FirstSchema_KeepsWhatWasCommitted()
    {
        string spec = await FreshSpecAsync();
        SqlDialect dialect = MetadataStoreFactory.CreateDialect(spec, new());
        await ExecuteAsync(spec, $"CREATE TABLE slogger_schema (product {dialect.TextType(200)} NOT NULL, version BIGINT NOT NULL)");
        await ExecuteAsync(spec, "INSERT INTO slogger_schema (product, version) VALUES ('slogger-metadata', 1)");
        foreach (string statement in SqlSchema.Steps[0].Statements(dialect))
        {
            await ExecuteAsync(spec, statement);
        }

        await ExecuteAsync(spec, "INSERT INTO slogger_clusters VALUES ('c', 2, 3, 8, 1, 1)");
        await ExecuteAsync(spec, "INSERT INTO slogger_shards VALUES ('c', 0, 'a', 'redis', 'me', 7, 3, 70)");
        await ExecuteAsync(spec, "INSERT INTO slogger_shards VALUES ('c', 1, 'b', 'redis', 'me', 8, 3, 50)");
        await using SqlMetadataStore store = StoreWith(spec);
        await store.InitializeAsync();
        Assert.Equal(Point("3:50"), (await store.AdvanceCutAsync("c")).Cut);
        Assert.Equal([Point("3:70"), Point("3:50")], (await store.ShardsAsync("c")).Select(s => s.Durable));
        Assert.All(await store.ShardsAsync("c"), s => Assert.Equal(s.WorldLine, s.Entered));

        // Whoever asks first has the identity drawn, and all get that one.
        await using SqlMetadataStore second = StoreWith(spec);
        string[] drawn = await Task.WhenAll(Enumerable.Range(0, 8)
            .Select(i => EventuallyAsync(() => (i % 2 == 0 ? store : second).IdentityAsync("c"))));
        Assert.Matches("^[0-9a-f]{32}$", Assert.Single(drawn.Distinct()));
    }

    [Fact]
    public async Task Initialize_SchemaWithoutSiteAddresses_KeepsWhatTheSiteIs()
    {
        string spec = await FreshSpecAsync();
        MetadataStoreOptions options = new();
        await using (SqlMetadataStore old = new(MetadataStoreFactory.CreateDialect(spec, options), options,
            [.. SqlSchema.Steps.Where(s => s.Version <= 8)], TimeProvider.System))
        {
            // The tables are made, and found not to be those of this program.
            await Assert.ThrowsAsync<MetadataException>(() => old.InitializeAsync());
            await old.GetOrCreateClusterAsync("c", Settings(2));
        }

        await ExecuteAsync(spec, "INSERT INTO slogger_sites (cluster, epoch, role, final_world_line, final_version, hand_over, "
            + "hand_over_world_line, hand_over_version, called_off) VALUES ('c', 1, 1, 0, 0, 0, 0, 0, 0)");
        foreach (int stream in (int[])[0, 1])
        {
            await ExecuteAsync(spec, $"INSERT INTO slogger_streams (cluster, stream, generation, phase, sender_site, sender_epoch, "
                + $"sender_incarnation, owner_epoch, is_lost, is_open) VALUES ('c', {stream}, 3, 2, 1, 5, 1, 4, 0, 0)");
        }

        await using SqlMetadataStore store = StoreWith(spec);
        await store.InitializeAsync();
        SiteState site = await store.SiteAsync("c");
        Assert.Equal((SiteRole.Backup, 2, 2, 2, 1), (site.Role, site.Streams.Length, site.Sources, site.Shards, site.ShardOf(1)));
        Assert.Empty(await store.SiteAddressesAsync("c"));
        await store.NoteSiteAddressAsync("c", new(1), "b1:7001");
        Assert.Single(await store.SiteAddressesAsync("c"));
    }

    [Fact]
    public async Task Initialize_UpgradeFailsHalfWay_LeavesTheOldSchema()
    {
        string spec = await FreshSpecAsync();
        await using (SqlMetadataStore broken = StoreWith(spec, Added, new(Newest + 2, _ => ["CREATE TABLE slogger_third (", "x"])))
        {
            await Assert.ThrowsAsync<MetadataException>(() => broken.InitializeAsync());
        }

        // Nothing of it is there: not even the tables of the steps that had worked.
        await using SqlMetadataStore good = StoreWith(spec, Added);
        await good.InitializeAsync();
        await good.GetOrCreateClusterAsync("c", Settings());
    }

    [Fact]
    public async Task Initialize_NewerSchema_IsRefusedAndUntouched()
    {
        string spec = await FreshSpecAsync();
        await using (SqlMetadataStore young = StoreWith(spec, Added))
        {
            await young.InitializeAsync();
        }

        await using SqlMetadataStore old = StoreWith(spec);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => old.InitializeAsync());
        Assert.Contains($"newer Slogger (schema {Newest + 1}; this program knows up to {Newest})", refused.Message,
            StringComparison.Ordinal);
        await using SqlMetadataStore youngAgain = StoreWith(spec, Added);
        await youngAgain.InitializeAsync();
    }

    [Theory]
    [InlineData("CREATE TABLE slogger_clusters (x INT)", "slogger_clusters, but no slogger_schema")]
    [InlineData("CREATE TABLE slogger_schema (other INT)", "slogger_schema has other columns")]
    [InlineData("CREATE TABLE slogger_schema (product VARCHAR(20), version BIGINT)", "does not hold one row")]
    public async Task Initialize_ForeignTables_AreRefusedAndUntouched(string sql, string said)
    {
        string spec = await FreshSpecAsync();
        await ExecuteAsync(spec, sql);
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Contains("Slogger did not make", refused.Message, StringComparison.Ordinal);
        Assert.Contains(said, refused.Message, StringComparison.Ordinal);
        MetadataException again = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Equal(refused.Message, again.Message);
    }

    [Theory]
    [InlineData("DROP TABLE slogger_grid")]
    [InlineData("ALTER TABLE slogger_shards DROP COLUMN owner")]
    public async Task Initialize_TablesWereChanged_SaysSo(string sql)
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        await ExecuteAsync(spec, sql);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.InitializeAsync());
        Assert.Contains(SqlSchema.ShapeAdvice, refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task AnyCall_WithoutInitialize_SaysThatTablesAreMissing()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(await FreshSpecAsync());
        MetadataException missing = await Assert.ThrowsAsync<MetadataException>(() => store.FindClusterAsync("c"));
        Assert.Contains(SqlSchema.ShapeAdvice, missing.Message, StringComparison.Ordinal);
    }
}
