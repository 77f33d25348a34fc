// What IMetadataStore promises, on every database: one class of tests, one small subclass per database. See the partial
// files for the schema and for races.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Metadata.Sql;
using Slogger.Metadata.Tests.Fixtures;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    /// <summary>A spec of an empty database (or schema), for one test.</summary>
    protected abstract Task<string> FreshSpecAsync();

    private async Task<IMetadataStore> FreshStoreAsync(int shards = 1)
    {
        IMetadataStore store = MetadataStoreFactory.Create(await FreshSpecAsync());
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings(shards));
        return store;
    }

    [Fact]
    public async Task GetOrCreateCluster_Exists_ReturnsWhatWasThere()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        ClusterSettings again = await store.GetOrCreateClusterAsync("c", Settings(shards: 7, interval: 1000));
        Assert.Equal(1, again.ShardCount);
        Assert.Equal(Settings().Grid, again.Grid);
        Assert.Null(await store.FindClusterAsync("other"));
        Assert.Equal(Settings().Grid, (await store.FindClusterAsync("c"))!.Grid);
    }

    [Fact]
    public async Task Identity_OfAClusterThatWasMadeAnewUnderItsName_IsAnother()
    {
        await using IMetadataStore store = await FreshStoreAsync(), anew = await FreshStoreAsync();
        string identity = await store.IdentityAsync("c");
        Assert.Matches("^[0-9a-f]{32}$", identity);
        await store.GetOrCreateClusterAsync("c", Settings(shards: 7));
        await store.GetOrCreateClusterAsync("other", Settings());
        Assert.Equal(identity, await store.IdentityAsync("c"));
        Assert.NotEqual(identity, await store.IdentityAsync("other"));
        Assert.NotEqual(identity, await anew.IdentityAsync("c"));
        await Assert.ThrowsAsync<MetadataException>(() => store.IdentityAsync("none"));
    }

    [Fact]
    public async Task GetOrCreateCluster_BadProposal_IsRefused()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        await Assert.ThrowsAsync<ArgumentException>(() => store.GetOrCreateClusterAsync("d", Settings(shards: 0)));
        await Assert.ThrowsAsync<ArgumentException>(() => store.GetOrCreateClusterAsync("d", new() { Grid = [] }));
        ClusterSettings offGrid = new() { Grid = [new(new(1), 0, 10), new(new(3), 25, 20)] };
        await Assert.ThrowsAsync<ArgumentException>(() => store.GetOrCreateClusterAsync("d", offGrid));
    }

    [Fact]
    public async Task ChangeInterval_LaterTime_StartsOnTheOldGrid()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        GridStretch first = Settings().Grid[0];
        GridStretch second = await store.ChangeIntervalAsync("c", 1000, first.StartUs + 10_001);
        Assert.Equal(new(new(4), first.StartUs + 15_000, 1000), second);

        Assert.Equal(second, await store.ChangeIntervalAsync("c", 1000, second.StartUs + 777));
        GridStretch third = await store.ChangeIntervalAsync("c", 7000, 0);
        Assert.Equal(new(new(5), second.StartUs + 1000, 7000), third);
        Assert.Equal([first, second, third], (await store.FindClusterAsync("c"))!.Grid);
        await Assert.ThrowsAsync<MetadataException>(() => store.ChangeIntervalAsync("none", 1000, 0));
    }

    [Fact]
    public async Task RegisterShard_NewCluster_IsInWorldLineOneAtVersionZero()
    {
        await using IMetadataStore store = await FreshStoreAsync(shards: 2);
        ShardRecord shard = await store.RegisterShardAsync("c", new(1), "127.0.0.1:7001", "redis");
        Assert.Equal(new(new ShardId(1), "127.0.0.1:7001", "redis", DurableClaim.Of(Point("1:0")), 0, string.Empty, WorldLine.First),
            shard);
        IReadOnlyList<ShardRecord> all = await store.ShardsAsync("c");
        Assert.Equal([new(0), new(1)], all.Select(s => s.Shard));
        Assert.Equal(shard, all[1]);
        WorldLineRecord line = Assert.Single(await store.WorldLinesAsync("c"));
        Assert.Equal((WorldLine.First, new(0), 0L), (line.WorldLine, line.BranchCut, line.StartedByEpoch));
    }

    [Fact]
    public async Task AnyCall_UnknownClusterOrShard_SaysWhich()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        MetadataException missing = await Assert.ThrowsAsync<MetadataException>(() => store.ShardsAsync("none"));
        Assert.Contains("\"none\"", missing.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<MetadataException>(() => store.WorldLinesAsync("none"));
        await Assert.ThrowsAsync<MetadataException>(() => store.RegisterShardAsync("c", new(1), "a", "redis"));
        await Assert.ThrowsAsync<MetadataException>(() => store.TakeShardEpochAsync("c", new(1), "me"));
        await Assert.ThrowsAsync<MetadataException>(() => store.RecordAsync("c", new(1), Point("1:1"), 1));
        await Assert.ThrowsAsync<MetadataException>(() => store.BeginAsync("none", new(2), new(1), 1));
        await Assert.ThrowsAsync<MetadataException>(() => store.OriginsAsync("c", new(1)));
        Assert.Equal(0, (await store.ShardsAsync("c"))[0].Epoch);
    }

    [Fact]
    public async Task RecordCut_OwnerInOrder_IsRecordedAndRepeatable()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        foreach (string point in new[] { "1:1", "1:1", "1:7", "1:9000000000000000000" })
        {
            Assert.Equal(DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, Point(point), epoch));
            Assert.Equal(Point(point), (await store.ShardsAsync("c"))[0].Durable);
        }
    }

    [Fact]
    public async Task RecordCut_LowerVersion_IsNotMonotoneAndChangesNothing()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await store.RecordAsync("c", Shard0, Point("1:8"), epoch);
        Assert.Equal(DurableOutcome.NotMonotone, await store.RecordAsync("c", Shard0, Point("1:7"), epoch));
        Assert.Equal(Point("1:8"), (await store.ShardsAsync("c"))[0].Durable);
    }

    [Fact]
    public async Task RecordCut_DeposedOwner_IsRefusedForGood()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long old = await store.TakeShardEpochAsync("c", Shard0, "old");
        await store.RecordAsync("c", Shard0, Point("1:5"), old);
        long young = await store.TakeShardEpochAsync("c", Shard0, "young");
        Assert.True(young > old);
        Assert.Equal(DurableOutcome.Deposed, await store.RecordAsync("c", Shard0, Point("1:6"), old));
        Assert.Equal(DurableOutcome.Deposed, await store.RecordAsync("c", Shard0, Point("1:4"), old));
        Assert.Equal(DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, Point("1:6"), young));
        ShardRecord now = (await store.ShardsAsync("c"))[0];
        Assert.Equal((Point("1:6"), young, "young"), (now.Durable, now.Epoch, now.Owner));
    }

    [Fact]
    public async Task RecordCut_AbandonedWorldLine_IsStale()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await store.BeginAsync("c", new(2), new(5), epoch);
        Assert.Equal(DurableOutcome.StaleWorldLine, await store.RecordAsync("c", Shard0, Point("1:9"), epoch));
        Assert.Equal(DurableOutcome.NotMonotone, await store.RecordAsync("c", Shard0, Point("2:4"), epoch));
        Assert.Equal(DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, Point("2:5"), epoch));
    }

    [Fact]
    public async Task RecordCut_AheadOfTheMetadata_SaysThatItWasSetBack()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        MetadataException line = await Assert.ThrowsAsync<MetadataException>(
            () => store.RecordAsync("c", Shard0, Point("2:1"), epoch));
        Assert.Contains("set back", line.Message, StringComparison.Ordinal);
        await Assert.ThrowsAsync<MetadataException>(() => store.RecordAsync("c", Shard0, Point("1:1"), epoch + 1));
    }

    [Fact]
    public async Task BeginWorldLine_Successor_StartsOnce()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await store.RecordAsync("c", Shard0, Point("1:5"), epoch);
        WorldLineResult started = await store.BeginAsync("c", new(2), new(7), epoch);
        Assert.Equal(new(WorldLineOutcome.Started, Point("2:7")), started);
        Assert.Equal(Point("2:7"), (await store.ShardsAsync("c"))[0].Durable);

        // The same again, as after a lost answer; then another one's late attempt at the same world-line.
        await store.RecordAsync("c", Shard0, Point("2:8"), epoch);
        Assert.Equal(new(WorldLineOutcome.Started, Point("2:7")), await store.BeginAsync("c", new(2), new(7), epoch));
        await store.BeginAsync("c", new(3), new(8), epoch);
        Assert.Equal(
            new(WorldLineOutcome.StaleWorldLine, Point("3:8")), await store.BeginAsync("c", new(2), new(7), epoch));
        await Assert.ThrowsAsync<MetadataException>(() => store.BeginAsync("c", new(5), new(9), epoch));
        Assert.Equal(
            [(1L, 0L), (2, 7), (3, 8)],
            (await store.WorldLinesAsync("c")).Select(l => (l.WorldLine.Number, l.BranchCut.Number)));
    }

    [Fact]
    public async Task BeginWorldLine_BelowTheRecordedCut_IsRefused()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long epoch = await store.TakeShardEpochAsync("c", Shard0, "me");
        await store.RecordAsync("c", Shard0, Point("1:5"), epoch);
        Assert.Equal(
            WorldLineOutcome.BelowRecorded, (await store.BeginAsync("c", new(2), new(4), epoch)).Outcome);
        Assert.Single(await store.WorldLinesAsync("c"));
        Assert.Equal(DurableOutcome.Recorded, await store.RecordAsync("c", Shard0, Point("1:6"), epoch));
    }

    [Fact]
    public async Task BeginWorldLine_DeposedOwner_IsRefused()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        long old = await store.TakeShardEpochAsync("c", Shard0, "old");
        await store.TakeShardEpochAsync("c", Shard0, "young");
        Assert.Equal(
            new(WorldLineOutcome.Deposed, Point("1:0")), await store.BeginAsync("c", new(2), new(4), old));
        Assert.Single(await store.WorldLinesAsync("c"));
    }

    [Fact]
    public async Task RecordDurable_SeveralShards_CutIsWhatAllHave()
    {
        await using IMetadataStore store = await FreshStoreAsync(shards: 3);
        long[] epochs = await EpochsAsync(store, 3);
        Assert.Equal(Point("1:0"), await CutAfterAsync(0, 9));
        Assert.Equal(Point("1:0"), await CutAfterAsync(1, 5));
        Assert.Equal(Point("1:5"), await CutAfterAsync(2, 7));
        Assert.Equal(Point("1:7"), await CutAfterAsync(1, 8));
        await store.AwaitCommitAsync("c", new(30));
        await store.AwaitCommitAsync("c", new(20));
        Assert.Equal(new(Point("1:7"), new(30)), await store.AdvanceCutAsync("c"));

        async Task<WorldPoint> CutAfterAsync(int shard, long version) =>
            (await store.RecordDurableAsync("c", new(shard), DurableClaim.Of(new(new(1), new(version))), epochs[shard])).Cut;
    }

    [Fact]
    public async Task RecordDurable_CutOnceRecorded_StaysWhateverIsClaimedLater()
    {
        await using IMetadataStore store = await FreshStoreAsync(shards: 2);
        long[] epochs = await EpochsAsync(store, 2);
        await store.RecordAsync("c", new(0), Point("1:11"), epochs[0]);
        await store.RecordAsync("c", new(1), Point("1:10"), epochs[1]);

        // From here on shard 0 closes every 8th version only, and nothing between 11 and 24.
        WorldPoint cut = (await store.RecordDurableAsync("c", new(0), new(Point("1:24"), 8, new(24)), epochs[0])).Cut;
        Assert.Equal(Point("1:10"), cut);
        Assert.Equal(Point("1:10"), (await store.RecordDurableAsync("c", new(1), DurableClaim.Of(Point("1:23")), epochs[1])).Cut);
        WorldLineResult begun = await store.BeginWorldLineAsync("c", new(1), new(2), DurableClaim.Of(Point("1:23")), epochs[1]);
        Assert.Equal(new(WorldLineOutcome.Started, Point("2:10")), begun);
        Assert.All(await store.ShardsAsync("c"), s => Assert.Equal((Point("2:10"), new(10)), (s.Durable, s.Claim.Floor)));
    }

    [Fact]
    public async Task BeginWorldLine_SeveralShards_BranchesAtWhatAllHaveAndMovesAll()
    {
        await using IMetadataStore store = await FreshStoreAsync(shards: 3);
        long[] epochs = await EpochsAsync(store, 3);
        foreach ((int shard, long version) in new[] { (0, 9L), (1, 5L), (2, 7L) })
        {
            await store.RecordAsync("c", new(shard), new(new(1), new(version)), epochs[shard]);
        }

        // The shard that failed proves more than it had recorded.
        Assert.Equal(
            new(WorldLineOutcome.Started, Point("2:6")),
            await store.BeginWorldLineAsync("c", new(1), new(2), DurableClaim.Of(Point("1:6")), epochs[1]));
        Assert.All(await store.ShardsAsync("c"), s => Assert.Equal((Point("2:6"), WorldLine.First), (s.Durable, s.Entered)));
        DurableResult stale = await store.RecordDurableAsync("c", new(0), DurableClaim.Of(Point("1:10")), epochs[0]);
        Assert.Equal(new(DurableOutcome.StaleWorldLine, Point("2:6")), stale);
        Assert.Equal(Point("2:6"), (await store.AdvanceCutAsync("c")).Cut);
    }

    [Fact]
    public async Task EnterWorldLine_CurrentOneOnly_IsNoted()
    {
        await using IMetadataStore store = await FreshStoreAsync(shards: 2);
        long[] epochs = await EpochsAsync(store, 2);
        await store.BeginWorldLineAsync("c", Shard0, new(2), DurableClaim.Of(Point("1:0")), epochs[0]);
        await store.EnterWorldLineAsync("c", new(1), new(2), epochs[1]);
        await store.EnterWorldLineAsync("c", Shard0, new(1), epochs[0]);
        await store.EnterWorldLineAsync("c", Shard0, new(2), epochs[0] + 100);
        Assert.Equal([new(1), new(2)], (await store.ShardsAsync("c")).Select(s => s.Entered));
    }

    private static async Task<long[]> EpochsAsync(IMetadataStore store, int shards)
    {
        long[] epochs = new long[shards];
        for (int i = 0; i < shards; i++)
        {
            epochs[i] = await store.TakeShardEpochAsync("c", new(i), "me");
        }

        return epochs;
    }

    [Fact]
    public async Task Origins_Recorded_ComeBackInOrderAndStay()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        string a = new('a', 40), b = new('b', 40);
        await store.RecordOriginAsync("c", Shard0, b, 900, Point("2:7"));
        await store.RecordOriginAsync("c", Shard0, a, 100, Point("1:3"));
        await store.RecordOriginAsync("c", Shard0, a, 100, Point("1:3"));
        await Assert.ThrowsAsync<MetadataException>(() => store.RecordOriginAsync("c", Shard0, a, 100, Point("1:4")));
        await Assert.ThrowsAsync<ArgumentException>(() => store.RecordOriginAsync("c", Shard0, "xyz", 100, Point("1:4")));
        Assert.Equal(
            [new(Shard0, a, 100, Point("1:3")), new(Shard0, b, 900, Point("2:7"))], await store.OriginsAsync("c", Shard0));
    }

    [Fact]
    public async Task Names_AnyUnicode_AreKeptExactly()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        string[] names = ["Каталог", "目录", "\u00e9", "e\u0301", "C", "a b", "ß", "ss", "\U0001F9CA❄", "o'; DROP TABLE x --", "@p", "ﬁ"];
        for (int i = 0; i < names.Length; i++)
        {
            await store.GetOrCreateClusterAsync(names[i], Settings(interval: i + 1));
            string address = $"хост-{names[i]}:1";
            long epoch = await store.TakeShardEpochAsync(names[i], Shard0, names[i]);
            ShardRecord shard = await store.RegisterShardAsync(names[i], Shard0, address, names[i]);
            Assert.Equal(new(Shard0, address, names[i], DurableClaim.Of(Point("1:0")), epoch, names[i], WorldLine.First), shard);
        }

        for (int i = 0; i < names.Length; i++)
        {
            Assert.Equal(i + 1, (await store.FindClusterAsync(names[i]))!.Grid[0].IntervalUs);
        }
    }

    [Theory]
    [InlineData("")]
    [InlineData(" c")]
    [InlineData("c ")]
    [InlineData("a\0b")]
    [InlineData("a\nb")]
    public async Task Names_ThatDatabasesTreatDifferently_AreRefused(string name)
    {
        await using IMetadataStore store = await FreshStoreAsync();
        await Assert.ThrowsAsync<ArgumentException>(() => store.FindClusterAsync(name));
        await Assert.ThrowsAsync<ArgumentException>(() => store.FindClusterAsync("half a pair \ud800"));
        await Assert.ThrowsAsync<ArgumentException>(() => store.FindClusterAsync(new string('x', 201)));
        await store.GetOrCreateClusterAsync(new string('ж', 200), Settings());
    }

    [Fact]
    public async Task AnyCall_NewStoreOnTheSameDatabase_SeesWhatWasWritten()
    {
        string spec = await FreshSpecAsync();
        await using (IMetadataStore first = MetadataStoreFactory.Create(spec))
        {
            await first.InitializeAsync();
            await first.GetOrCreateClusterAsync("c", Settings());
            await first.RecordAsync("c", Shard0, Point("1:5"), await first.TakeShardEpochAsync("c", Shard0, "me"));
        }

        await using IMetadataStore second = MetadataStoreFactory.Create(spec);
        await second.InitializeAsync();
        Assert.Equal(Point("1:5"), (await second.ShardsAsync("c"))[0].Durable);
    }

    [Fact]
    public async Task AnyCall_CancelledOrDisposed_SaysSo()
    {
        IMetadataStore store = await FreshStoreAsync();
        using CancellationTokenSource cancelled = new();
        await cancelled.CancelAsync();
        await Assert.ThrowsAnyAsync<OperationCanceledException>(() => store.ShardsAsync("c", cancelled.Token));
        await store.ShardsAsync("c");
        await store.DisposeAsync();
        await store.DisposeAsync();
        await Assert.ThrowsAsync<ObjectDisposedException>(() => store.ShardsAsync("c"));
    }

    [Fact]
    public async Task MarkReset_IsSeenByWhoLeadsNext_NotSetByWhoLedBefore_AndClosedByAWorldLine()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        (long first, _) = await store.LeadShardAsync("c", Shard0, "a:1", "redis", "a", new(1));
        Assert.False((await ShardAsync()).Reset.IsOpen(new(1)));
        Assert.False(await store.MarkResetAsync("c", Shard0, new(new(2)), first));
        Assert.True(await store.MarkResetAsync("c", Shard0, new(new(1)), first));
        Assert.True(await store.MarkResetAsync("c", Shard0, new(new(1)), first));
        (long second, _) = await store.LeadShardAsync("c", Shard0, "b:1", "redis", "b", new(2));
        ShardRecord seen = await ShardAsync();
        Assert.True(seen.Reset.IsOpen(seen.WorldLine));

        await store.BeginWorldLineAsync("c", Shard0, new(2), DurableClaim.Of(new(new(1), new(1))), second);
        seen = await ShardAsync();
        Assert.Equal(new WorldLine(2), seen.WorldLine);
        Assert.False(seen.Reset.IsOpen(seen.WorldLine));
        Assert.False(await store.MarkResetAsync("c", Shard0, new(new(2)), first));
        Assert.False((await ShardAsync()).Reset.IsOpen(seen.WorldLine));

        async Task<ShardRecord> ShardAsync() => Assert.Single(await store.ShardsAsync("c"));
    }

    [Fact]
    public async Task LeadShard_WhenALaterReignIsNoted_ChangesNothing()
    {
        await using IMetadataStore store = await FreshStoreAsync();
        (long first, Reign reign) = await LeadAsync("a", 3);
        Assert.Equal(new Reign(3), reign);
        (long second, _) = await LeadAsync("b", 5);
        Assert.True(second > first);

        Assert.Equal((0L, new Reign(5)), await LeadAsync("a", 4));
        ShardRecord record = Assert.Single(await store.ShardsAsync("c"));
        Assert.Equal(("b:1", "b", second), (record.Address, record.Owner, record.Epoch));
        Assert.Equal(DurableOutcome.Deposed, (await store.RecordDurableAsync("c", Shard0, DurableClaim.Of(new(new(1), new(1))), first)).Outcome);

        // Its answer was lost, and it asks again.
        (long third, _) = await LeadAsync("b", 5);
        Assert.True(third > second);
        // A process without a cohort has the shard; the reigns go on.
        Assert.True(await store.TakeShardEpochAsync("c", Shard0, "alone") > third);
        Assert.Equal((0L, new Reign(5)), await LeadAsync("a", 4));
        Assert.True((await LeadAsync("a", 6)).Epoch > third);
        await Assert.ThrowsAsync<MetadataException>(() => store.LeadShardAsync("c", new(1), "a:1", "redis", "a", new(7)));

        Task<(long Epoch, Reign Reign)> LeadAsync(string node, long reign) =>
            store.LeadShardAsync("c", Shard0, node + ":1", "redis", node, new(reign));
    }
}
