// How keys fall into partitions: kept as the cluster was made, hash for one made before it was kept, refused when damaged.
using Slogger.Core.Ownership;
using Slogger.Metadata.Sql;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private static Partitioning Ranges(string text)
    {
        Assert.True(Partitioning.TryParse(text, out Partitioning partitions, out string problem), problem);
        return partitions;
    }

    [Fact]
    public async Task Partitions_OfANewCluster_AreKeptAndEven()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(await FreshSpecAsync());
        await store.InitializeAsync();
        // Quotes, bytes that are no text, and as many keys as there can be.
        Partitioning some = Ranges(@"range:d'x,m\x00\xff\x2c,t"), most =
            Ranges("range:" + string.Join(',', Enumerable.Range(0, HashSlot.Count - 1).Select(i => $"key:{i:x8}")));
        foreach ((string name, Partitioning partitions, int shards) in new[] { ("some", some, 3), ("most", most, 2),
            ("hash", Partitioning.Hash, 2), ("one", some, 1) })
        {
            ClusterSettings made = await store.GetOrCreateClusterAsync(
                name, Fixtures.Common.Settings(shards) with { Partitions = partitions });
            Assert.Equal(partitions, made.Partitions);
            Assert.Equal(partitions,
                (await store.GetOrCreateClusterAsync(
                    name, Fixtures.Common.Settings(shards) with { Partitions = Ranges("range:other,others") })).Partitions);
            Assert.Equal(partitions, (await store.FindClusterAsync(name))!.Partitions);
            Assert.Equal(SlotMap.Even(shards, partitions.Count).Rows, (await store.SlotsAsync(name)).Map.Rows);
            Assert.Equal(partitions.Count, (await store.OwnershipAsync(name)).Map.Count);
        }
    }

    [Fact]
    public async Task Partitions_FewerThanShards_AreRefused()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(await FreshSpecAsync());
        await store.InitializeAsync();
        ArgumentException refused = await Assert.ThrowsAsync<ArgumentException>(
            () => store.GetOrCreateClusterAsync("c", Fixtures.Common.Settings(3) with { Partitions = Ranges("range:m") }));
        Assert.Contains("2 partitions cannot be divided among 3 shards", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task PlanMove_OfRanges_TakesThoseThatThereAre()
    {
        await using IMetadataStore store = MetadataStoreFactory.Create(await FreshSpecAsync());
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Fixtures.Common.Settings(2) with { Partitions = Ranges("range:d,m,t") });
        Assert.Contains("0 to 3", (await store.PlanMoveAsync("c", [new(new(1), new(4))], new(1))).Error, StringComparison.Ordinal);
        Assert.Null((await store.PlanMoveAsync("c", [new(new(1), new(1))], new(1))).Error);
        Assert.Equal(4, (await store.OwnershipAsync("c")).Map.Count);
    }

    [Fact]
    public async Task Initialize_SchemaWithoutPartitions_HasHashSlots()
    {
        string spec = await FreshSpecAsync();
        SqlDialect dialect = MetadataStoreFactory.CreateDialect(spec, new());
        await ExecuteAsync(spec, $"CREATE TABLE slogger_schema (product {dialect.TextType(200)} NOT NULL, version BIGINT NOT NULL)");
        await ExecuteAsync(spec, "INSERT INTO slogger_schema (product, version) VALUES ('slogger-metadata', 5)");
        foreach (string statement in SqlSchema.Steps.Where(s => s.Version <= 5).SelectMany(s => s.Statements(dialect)))
        {
            await ExecuteAsync(spec, statement);
        }
        await ExecuteAsync(spec, "INSERT INTO slogger_clusters (cluster, shard_count, world_line, epoch_last, revision, created_us, "
            + "finder) VALUES ('c', 2, 3, 8, 1, 1, 'exact')");
        await ExecuteAsync(spec, "INSERT INTO slogger_grid VALUES ('c', 1, 0, 5000)");
        await ExecuteAsync(spec, "INSERT INTO slogger_slots VALUES ('c', 0, 99, 1, 7)");
        await ExecuteAsync(spec, "INSERT INTO slogger_slots VALUES ('c', 100, 16383, 0, 7)");
        await using SqlMetadataStore store = StoreWith(spec);
        await store.InitializeAsync();
        ClusterSettings settings = (await store.FindClusterAsync("c"))!;
        Assert.Equal((Partitioning.Hash, Core.Cuts.FinderKind.Exact), (settings.Partitions, settings.Finder));
        SlotOwners slots = await store.SlotsAsync("c");
        Assert.Equal((HashSlot.Count, new MapRevision(7)), (slots.Map.Count, slots.Revision));
        Assert.Equal([1, 0], slots.Map.Rows.Select(r => r.Shard.Number));
    }

    [Theory]
    [InlineData("UPDATE slogger_clusters SET partitions = 'range:'", "empty split key")]
    [InlineData("UPDATE slogger_clusters SET partitions = 'range:m'", "there are 2, not 3")]
    [InlineData("UPDATE slogger_clusters SET partitions = 'nonsense'", "neither hash nor range")]
    public async Task Partitions_RowWasChanged_IsRefused(string sql, string error)
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Fixtures.Common.Settings(2) with { Partitions = Ranges("range:d,m") });
        await ExecuteAsync(spec, sql);
        MetadataException refused = await Assert.ThrowsAsync<MetadataException>(() => store.FindClusterAsync("c"));
        Assert.Contains(error, refused.Message, StringComparison.Ordinal);
        Assert.Contains("from a backup", refused.Message, StringComparison.Ordinal);
    }
}
