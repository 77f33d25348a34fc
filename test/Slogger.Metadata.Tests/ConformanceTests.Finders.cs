// Cuts of the exact and the hybrid finder, the role of the coordinator, and leases.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Versions;
using Slogger.Metadata.Sql;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private async Task<(IMetadataStore Store, long[] Epochs)> FreshClusterAsync(FinderKind finder, int shards = 3) =>
        await ClusterAsync(await FreshSpecAsync(), finder, shards);

    private static async Task<(IMetadataStore Store, long[] Epochs)> ClusterAsync(string spec, FinderKind finder, int shards = 3)
    {
        IMetadataStore store = MetadataStoreFactory.Create(spec);
        await store.InitializeAsync();
        await store.GetOrCreateClusterAsync("c", Settings(shards) with { Finder = finder });
        long[] epochs = new long[shards];
        for (int s = 0; s < shards; s++) epochs[s] = await store.TakeShardEpochAsync("c", new(s), "me");
        return (store, epochs);
    }

    private static Cut ByShard(long worldLine, params long[] versions) =>
        new(new(worldLine), [.. versions.Select(v => new VersionNumber(v))]);

    private static PrecedenceRow Row(int shard, long after, long through, params (int Shard, long Version)[] on) =>
        new(new(shard), Point($"1:{through}"), new(after),
            DependencySet.Of([.. on.Select(o => new Dependency(new(o.Shard), new(o.Version)))]));

    private static Task<DurableResult> RecordRowAsync(IMetadataStore store, PrecedenceRow row, long epoch) =>
        store.RecordDurableRowAsync("c", DurableClaim.Of(row.Through), row, epoch);

    private static async Task<Cut> CutAsync(IMetadataStore store) => (await store.AdvanceCutAsync("c")).Whole(3);

    [Theory]
    [InlineData(FinderKind.Approximate)]
    [InlineData(FinderKind.Exact)]
    [InlineData(FinderKind.Hybrid)]
    public async Task GetOrCreateCluster_Finder_IsKept(FinderKind finder)
    {
        (IMetadataStore store, _) = await FreshClusterAsync(finder);
        await using IMetadataStore used = store;
        Assert.Equal(finder, (await store.FindClusterAsync("c"))!.Finder);
        Assert.Equal(finder, (await store.GetOrCreateClusterAsync("c", Settings(3) with { Finder = FinderKind.Exact })).Finder);
    }

    [Fact]
    public async Task RecordCut_ByShard_IsWhatAllReadAndNeverGoesBack()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Hybrid);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 9, 7), role, owners));
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 9, 7), role, owners));
        Assert.Equal(CutOutcome.NotMonotone, await store.RecordCutAsync("c", ByShard(1, 9, 8, 9), role, owners));
        Assert.Equal(ByShard(1, 5, 9, 7), await CutAsync(store));
        Assert.Equal(Point("1:5"), (await store.AdvanceCutAsync("c")).Cut);
        Assert.Equal(Point("1:9"), (await store.AdvanceCutAsync("c")).Of(new(1)));
        // What is in the cut is durable, whatever the shard has recorded itself.
        Assert.Equal([Point("1:5"), Point("1:9"), Point("1:7")], (await store.ShardsAsync("c")).Select(s => s.Durable));
        Assert.Equal(Point("1:9"), (await store.RecordDurableAsync("c", new(1), DurableClaim.Of(Point("1:9")), epochs[1])).Cut);
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 9, 9, 9), role, owners));
        Assert.Null((await store.AdvanceCutAsync("c")).ByShard);
    }

    // Who has recorded the last one goes by that, as long as it is the last one.
    [Fact]
    public async Task RecordCut_ShardsHaveMovedItOnMeanwhile_IsComparedWithThat()
    {
        string spec = await FreshSpecAsync();
        (IMetadataStore store, long[] epochs) = await ClusterAsync(spec, FinderKind.Approximate);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 5, 5), role, owners));
        await using (IMetadataStore other = await StoreOfAsync(spec))
        {
            for (int shard = 0; shard < 3; shard++)
            {
                await other.RecordDurableAsync("c", new(shard), DurableClaim.Of(Point("1:9")), epochs[shard]);
            }
            Assert.Equal(Point("1:9"), (await other.AdvanceCutAsync("c")).Cut);
        }
        Assert.Equal(CutOutcome.NotMonotone, await store.RecordCutAsync("c", ByShard(1, 7, 7, 7), role, owners));
        Assert.Equal(Point("1:9"), (await store.AdvanceCutAsync("c")).Cut);
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 10, 10, 10), role, owners));
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 11, 11, 11), role, owners));
        Assert.Equal(Point("1:11"), (await store.AdvanceCutAsync("c")).Cut);
    }

    [Fact]
    public async Task RecordCut_DeposedCoordinator_IsRefusedForGood()
    {
        (IMetadataStore store, _) = await FreshClusterAsync(FinderKind.Hybrid);
        await using IMetadataStore used = store;
        long old = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long young = (await store.TakeCoordinatorAsync("c", new(old, 0), "h:2"))!.Value;
        Assert.True(young > old);
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        Assert.Equal(CutOutcome.Deposed, await store.RecordCutAsync("c", ByShard(1, 5, 5, 6), old, owners));
        Assert.False(await store.RenewCoordinatorAsync("c", old));
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 5, 6), young, owners));
    }

    // What a coordinator was told by an owner that has been deposed must not be committed after that (invariant I6).
    [Fact]
    public async Task RecordCut_AShardChangedHands_HasToLookAgain()
    {
        (IMetadataStore store, _) = await FreshClusterAsync(FinderKind.Approximate);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        await store.TakeShardEpochAsync("c", new(2), "another");
        Assert.Equal(CutOutcome.OwnersChanged, await store.RecordCutAsync("c", ByShard(1, 5, 5, 5), role, owners));
        Assert.Equal(Point("1:0"), (await store.AdvanceCutAsync("c")).Cut);
        CoordinatorView view = await store.CoordinatorViewAsync("c");
        Assert.Equal(view.Shards[2].Epoch, view.Owners);
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 5, 5), role, view.Owners));
    }

    // The same of one who has recorded a cut already and goes by that, and of one who has recorded none.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task RecordCut_AShardOrTheRoleChangedHandsAfterAnother_IsRefusedToBoth(bool isRole)
    {
        string spec = await FreshSpecAsync();
        (IMetadataStore store, _) = await ClusterAsync(spec, FinderKind.Approximate);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 5, 5, 5), role, owners));
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 6, 6, 6), role, owners));
        await using IMetadataStore other = await StoreOfAsync(spec);
        if (isRole) { Assert.NotNull(await other.TakeCoordinatorAsync("c", new(role, 0), "h:2")); }
        else { await other.TakeShardEpochAsync("c", new(2), "another"); }
        foreach (IMetadataStore late in (IMetadataStore[])[store, other])
        {
            Assert.Equal(isRole ? CutOutcome.Deposed : CutOutcome.OwnersChanged,
                await late.RecordCutAsync("c", ByShard(1, 7, 7, 7), role, owners));
        }
        Assert.Equal(Point("1:6"), (await other.AdvanceCutAsync("c")).Cut);
        CoordinatorView view = await other.CoordinatorViewAsync("c");
        if (!isRole) { Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 7, 7, 7), role, view.Owners)); }
    }

    [Fact]
    public async Task RecordCut_AfterAWorldLineHasBegun_IsStale()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Hybrid);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        await store.RecordCutAsync("c", ByShard(1, 5, 9, 7), role, owners);
        Assert.Equal(WorldLineOutcome.BelowRecorded,
            (await store.BeginWorldLineAsync("c", new(1), new(2), DurableClaim.Of(Point("1:8")), epochs[1])).Outcome);
        WorldLineResult begun = await store.BeginWorldLineAsync("c", new(1), new(2), DurableClaim.Of(Point("1:12")), epochs[1]);
        // What versions above the cut depend on only the coordinator knew.
        Assert.Equal(new(WorldLineOutcome.Started, Point("2:9")), begun);
        Assert.Equal(begun, await store.BeginWorldLineAsync("c", new(1), new(2), DurableClaim.Of(Point("1:12")), epochs[1]));
        Assert.Equal(CutOutcome.StaleWorldLine, await store.RecordCutAsync("c", ByShard(1, 6, 9, 9), role, owners));
        Assert.Equal(ByShard(2, 5, 9, 7), await CutAsync(store));
        Assert.Equal([Point("2:5"), Point("2:9"), Point("2:7")], (await store.ShardsAsync("c")).Select(s => s.Durable));
        WorldLineRecord line = (await store.WorldLinesAsync("c"))[^1];
        Assert.Equal((new(5), new(9)), (line.BranchCut, line.BranchOf(new(1))));
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(2, 6, 9, 9), role, owners));
    }

    // A database gives rows in any order, and PostgreSQL in another one after each update.
    [Fact]
    public async Task HybridWithoutCoordinator_RowsUpdatedInAnyOrder_NoShardsCutIsAboveWhatItHas()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Hybrid);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        Assert.Equal(CutOutcome.Recorded, await store.RecordCutAsync("c", ByShard(1, 150, 90, 120), role, owners));
        foreach (int first in (int[])[0, 1, 2, 1, 0, 2])
        {
            foreach (int shard in (int[])[first, (first + 2) % 3, (first + 1) % 3])
            {
                await store.RecordDurableAsync("c", new(shard), Claim(1, shard == 0 ? 200 : shard == 1 ? 100 : 130), epochs[shard]);
                Cut cut = await CutAsync(store);
                Assert.True(cut.Of(new(0)).Number <= 200 && cut.Of(new(1)).Number <= 100 && cut.Of(new(2)).Number <= 130, $"{cut}");
            }
        }

        Assert.Equal(ByShard(1, 150, 100, 120), await CutAsync(store));
    }

    [Fact]
    public async Task HybridWithoutCoordinator_TheShardsClaimsMoveTheCutByTheGrid()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Hybrid);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        await store.RecordCutAsync("c", ByShard(1, 5, 9, 7), role, (await store.CoordinatorViewAsync("c")).Owners);
        await store.RecordDurableAsync("c", new(0), DurableClaim.Of(Point("1:8")), epochs[0]);
        await store.RecordDurableAsync("c", new(1), DurableClaim.Of(Point("1:20")), epochs[1]);
        // Shard 1 is above already; 2 has said nothing beyond its part of the cut.
        Assert.Equal(ByShard(1, 7, 9, 7), await CutAsync(store));
        await store.RecordDurableAsync("c", new(2), DurableClaim.Of(Point("1:11")), epochs[2]);
        Assert.Equal(ByShard(1, 8, 9, 8), await CutAsync(store));
        await store.RecordDurableAsync("c", new(0), DurableClaim.Of(Point("1:30")), epochs[0]);
        Assert.Equal(ByShard(1, 11, 11, 11), await CutAsync(store));
    }

    [Fact]
    public async Task Exact_RowsAreKeptUntilCommitted_AndReplacedFromTheirBeginning()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Exact);
        await using IMetadataStore used = store;
        async Task<string> RowsAsync() => string.Join("; ", (await store.CoordinatorViewAsync("c")).Rows
            .OrderBy(r => r.Shard.Number).ThenBy(r => r.Through.Version)
            .Select(r => $"{r.Shard}({r.After},{r.Through.Version}]"
                + string.Concat(r.Dependencies.Items.ToArray().Select(d => $" {d.Shard}:{d.Version}"))));
        await RecordRowAsync(store, Row(0, 0, 4, (1, 3), (2, 4)), epochs[0]);
        await RecordRowAsync(store, Row(0, 4, 6), epochs[0]);
        await RecordRowAsync(store, Row(1, 0, 5, (0, 4)), epochs[1]);
        Assert.Equal("0(0,4] 1:3 2:4; 0(4,6]; 1(0,5] 0:4", await RowsAsync());
        await RecordRowAsync(store, Row(0, 4, 6), epochs[0]);
        await RecordRowAsync(store, Row(0, 4, 8, (1, 7)), epochs[0]);
        Assert.Equal("0(0,4] 1:3 2:4; 0(4,8] 1:7; 1(0,5] 0:4", await RowsAsync());
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        await store.RecordCutAsync("c", ByShard(1, 4, 5, 4), role, (await store.CoordinatorViewAsync("c")).Owners);
        await RecordRowAsync(store, Row(0, 8, 9), epochs[0]);
        Assert.Equal("0(4,8] 1:7; 0(8,9]; 1(0,5] 0:4", await RowsAsync());
        // A deposed owner changes no row.
        await store.TakeShardEpochAsync("c", new(0), "another");
        Assert.Equal(DurableOutcome.Deposed, (await RecordRowAsync(store, Row(0, 4, 12), epochs[0])).Outcome);
        Assert.Equal("0(4,8] 1:7; 0(8,9]; 1(0,5] 0:4", await RowsAsync());
    }

    [Fact]
    public async Task Exact_BeginWorldLine_BranchesAtTheMaximalClosureOfTheRows()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Exact);
        await using IMetadataStore used = store;
        await RecordRowAsync(store, Row(0, 0, 4, (1, 3)), epochs[0]);
        await RecordRowAsync(store, Row(0, 4, 6, (2, 6)), epochs[0]);
        await RecordRowAsync(store, Row(1, 0, 5), epochs[1]);
        await RecordRowAsync(store, Row(2, 0, 2), epochs[2]);
        // Shard 2 proves 2 to 5 in its log, which wait for what shard 1 does not have.
        WorldLineResult begun = await store.BeginWorldLineAsync(
            "c", new(2), new(2), DurableClaim.Of(Point("1:5")), epochs[2], Row(2, 2, 5, (1, 9)));
        Assert.Equal(new(WorldLineOutcome.Started, Point("2:2")), begun);
        Assert.Equal(ByShard(2, 4, 5, 2), await CutAsync(store));
        Assert.Empty((await store.CoordinatorViewAsync("c")).Rows);
    }

    [Fact]
    public async Task Exact_ClaimsAlone_MoveNoCut()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Exact);
        await using IMetadataStore used = store;
        for (int s = 0; s < 3; s++) await RecordRowAsync(store, Row(s, 0, 5), epochs[s]);
        Assert.Equal(ByShard(1, 0, 0, 0), await CutAsync(store));
    }

    [Fact]
    public async Task TakeCoordinator_SeveralAtOnce_OneGetsIt()
    {
        string spec = await FreshSpecAsync();
        await using IMetadataStore first = MetadataStoreFactory.Create(spec);
        await first.InitializeAsync();
        await first.GetOrCreateClusterAsync("c", Settings(3));
        LeaseState seen = default;
        for (int round = 0; round < 5; round++)
        {
            long?[] taken = new long?[6];
            LeaseState before = seen;
            await Parallel.ForAsync(0, taken.Length, async (i, _) =>
            {
                await using IMetadataStore store = MetadataStoreFactory.Create(spec);
                await EventuallyAsync(async () =>
                {
                    taken[i] = await store.TakeCoordinatorAsync("c", before, $"h:{i}");
                    return true;
                });
            });
            int winner = Array.FindIndex(taken, t => t is not null);
            Assert.Single(taken, t => t is not null);
            ClusterWatch watch = await first.WatchAsync("c");
            Assert.Equal(watch.BeatOf(new(1)), await first.BeatAsync("c", new(1)));
            Assert.Equal((new LeaseState(taken[winner]!.Value, 0), $"h:{winner}"), (watch.Coordinator, watch.CoordinatorAddress));
            seen = watch.Coordinator;
        }
    }

    [Fact]
    public async Task TakeCoordinator_RenewedSinceItWasSeen_IsRefused()
    {
        (IMetadataStore store, _) = await FreshClusterAsync(FinderKind.Approximate);
        await using IMetadataStore used = store;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        Assert.True(await store.RenewCoordinatorAsync("c", role));
        Assert.Null(await store.TakeCoordinatorAsync("c", new(role, 0), "h:2"));
        Assert.Equal(new LeaseState(role, 1), (await store.WatchAsync("c")).Coordinator);
        Assert.NotNull(await store.TakeCoordinatorAsync("c", new(role, 1), "h:2"));
    }

    [Fact]
    public async Task RenewShard_Owner_ShowsInTheWatch_DeposedOwnerDoesNot()
    {
        (IMetadataStore store, long[] epochs) = await FreshClusterAsync(FinderKind.Approximate);
        await using IMetadataStore used = store;
        Assert.True(await store.RenewShardAsync("c", new(1), epochs[1]));
        Assert.True(await store.RenewShardAsync("c", new(1), epochs[1]));
        Assert.Equal([0, 2, 0], (await store.WatchAsync("c")).Leases.Select(l => l.Renewals));
        long young = await store.TakeShardEpochAsync("c", new(1), "another");
        Assert.False(await store.RenewShardAsync("c", new(1), epochs[1]));
        ClusterWatch watch = await store.WatchAsync("c");
        Assert.Equal([epochs[0], young, epochs[2]], watch.Leases.Select(l => l.Epoch));
        Assert.Equal("another", watch.Shards[1].Owner);
    }
}
