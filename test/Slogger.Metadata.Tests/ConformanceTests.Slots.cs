// The owners of hash slots: even when a cluster is made, the same for one made before they were kept, refused when damaged.
using Slogger.Core.Ownership;
using Slogger.Metadata.Sql;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    [InlineData(ClusterSettings.ShardCountMax)]
    public async Task Slots_NewCluster_AreEven(int shards)
    {
        await using IMetadataStore store = await FreshStoreAsync(shards);
        SlotOwners slots = await store.SlotsAsync("c");
        Assert.Equal(SlotMap.Even(shards).Rows, slots.Map.Rows);
        Assert.Equal(MapRevision.First, slots.Revision);
    }

    [Fact]
    public async Task Slots_NoSuchCluster_IsRefused()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        await Assert.ThrowsAsync<MetadataException>(() => store.SlotsAsync("none"));
    }

    [Fact]
    public async Task Initialize_ClusterWithoutSlots_GetsThoseOfANewOne()
    {
        string spec = await FreshSpecAsync();
        SqlDialect dialect = MetadataStoreFactory.CreateDialect(spec, new());
        int[] counts = [1, 2, 3, 7, 100, ClusterSettings.ShardCountMax];
        await using (SqlMetadataStore store = StoreWith(spec))
        {
            await store.InitializeAsync();
            foreach (int count in counts) { await store.GetOrCreateClusterAsync($"c{count}", Fixtures.Common.Settings(count)); }
        }

        await ExecuteAsync(spec, "DROP TABLE slogger_slots");
        foreach (string statement in SqlSchema.Steps.Single(s => s.Version == 3).Statements(dialect))
        {
            await ExecuteAsync(spec, statement);
        }
        await using SqlMetadataStore upgraded = StoreWith(spec);
        foreach (int count in counts) { Assert.Equal(SlotMap.Even(count).Rows, (await upgraded.SlotsAsync($"c{count}")).Map.Rows); }
    }

    [Theory]
    [InlineData("DELETE FROM slogger_slots WHERE first_slot = 0", "have no owner")]
    [InlineData("UPDATE slogger_slots SET last_slot = 8192 WHERE first_slot = 0", "overlap")]
    [InlineData("UPDATE slogger_slots SET shard = 0, revision = 2", null)]
    public async Task Slots_RowsWereChanged_AreTakenOnlyAsAMap(string sql, string? error)
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Fixtures.Common.Settings(2));
        await ExecuteAsync(spec, sql);
        if (error is not null)
        {
            Assert.Contains(error, (await Assert.ThrowsAsync<MetadataException>(() => store.SlotsAsync("c"))).Message,
                StringComparison.Ordinal);
            return;
        }

        SlotOwners slots = await store.SlotsAsync("c");
        Assert.Equal(new MapRevision(2), slots.Revision);
        Assert.All(Enumerable.Range(0, HashSlot.Count), s => Assert.Equal(0, slots.Map.Owner(new(s)).Number));
    }
}
