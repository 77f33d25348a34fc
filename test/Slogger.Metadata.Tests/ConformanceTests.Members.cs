// Shards that join and leave, and intervals that change: who counts in a cut, a world-line and a lease from which transaction on.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Membership;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using static Slogger.Metadata.Tests.Fixtures.Common;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    [Fact]
    public async Task AddShard_NotAdmitted_CountsInNoCutAndNoWorldLine()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        Assert.Equal(MemberState.Joining, (await store.AddShardAsync("c", new(2))).State);
        Assert.Equal(MemberState.Joining, (await store.AddShardAsync("c", new(2))).State);
        Assert.Contains("the next shard to join is 3", (await store.AddShardAsync("c", new(4))).Error, StringComparison.Ordinal);
        ClusterSettings settings = (await store.FindClusterAsync("c"))!;
        Assert.Equal((3, 2), (settings.ShardCount, settings.MadeWith));
        Assert.Equal([MemberState.Member, MemberState.Member, MemberState.Joining], (await store.ShardsAsync("c")).Select(s => s.State));
        await RecordAllAsync(store, epochs, 9);
        Assert.Equal(new VersionNumber(9), (await store.AdvanceCutAsync("c")).Cut.Version);
        WorldLineResult begun = await store.BeginWorldLineAsync("c", new(0), new(2), Claim(1, 12), epochs[0]);
        Assert.Equal((WorldLineOutcome.Started, new WorldPoint(new(2), new(9))), (begun.Outcome, begun.Current));
        Assert.Contains("has not joined", (await store.PlanMoveAsync("c", SomeSlots, new(2))).Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task AdmitShard_CanBeRestoredToTheCut_CountsFromThereOn()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        await store.AddShardAsync("c", new(2));
        long joiner = await store.TakeShardEpochAsync("c", new(2), "joiner");
        long owners = (await store.CoordinatorViewAsync("c")).Owners;
        long role = (await store.TakeCoordinatorAsync("c", default, "h:1"))!.Value;
        owners = (await store.CoordinatorViewAsync("c")).Owners;

        Assert.False(await store.AdmitShardAsync("c", new(2), Claim(1, 6), joiner));
        Assert.False(await store.AdmitShardAsync("c", new(2), new(Claim(1, 9).Point, 1, new(8)), joiner));
        Assert.False(await store.AdmitShardAsync("c", new(2), Claim(1, 8), joiner - 1));
        Assert.Equal(MemberState.Joining, (await store.ShardsAsync("c"))[2].State);
        Assert.True(await store.AdmitShardAsync("c", new(2), Claim(1, 8), joiner));
        Assert.True(await store.AdmitShardAsync("c", new(2), Claim(1, 8), joiner));
        ShardRecord record = (await store.ShardsAsync("c"))[2];
        Assert.Equal((MemberState.Member, new VersionNumber(8), new WorldLine(1)), (record.State, record.Durable.Version, record.Entered));

        // A coordinator that found a cut for the members before has to look again.
        Assert.Equal(CutOutcome.OwnersChanged, await store.RecordCutAsync("c", Cut.Uniform(new(1), 3, new(9)), role, owners));
        await RecordAllAsync(store, epochs, 12);
        Assert.Equal(new VersionNumber(8), (await store.AdvanceCutAsync("c")).Cut.Version);
        await store.RecordDurableAsync("c", new(2), Claim(1, 10), joiner);
        Assert.Equal(new VersionNumber(10), (await store.AdvanceCutAsync("c")).Cut.Version);
        Assert.NotNull((await store.PlanMoveAsync("c", SomeSlots, new(2))).Move);
    }

    // The branch is written into every row, so the joiner's row says more than the joiner has.
    [Fact]
    public async Task AdmitShard_AWorldLineHasBegunSince_TheClaimOfTheOldOneDoesNotCount()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        await store.AddShardAsync("c", new(2));
        long joiner = await store.TakeShardEpochAsync("c", new(2), "joiner");
        await store.BeginWorldLineAsync("c", new(0), new(2), Claim(1, 7), epochs[0]);
        Assert.False(await store.AdmitShardAsync("c", new(2), Claim(1, 9), joiner));
        Assert.Equal(WorldLineOutcome.Deposed, (await store.BeginWorldLineAsync("c", new(2), new(3), Claim(2, 9), joiner)).Outcome);
        Assert.True(await store.AdmitShardAsync("c", new(2), Claim(2, 9), joiner));
        Assert.Equal(new WorldLine(2), (await store.ShardsAsync("c"))[2].Entered);
    }

    [Fact]
    public async Task Leave_OwnsNothing_CutsGoOnWithoutItWhenItHasEnded()
    {
        (IMetadataStore store, long[] epochs) = await JoinedAsync();
        await using IMetadataStore used = store;
        Assert.Contains("owns 8192 hash slots", (await store.LeaveAsync("c", new(1))).Error, StringComparison.Ordinal);
        MoveId move = (await store.PlanMoveAsync("c", SomeSlots, new(2))).Move!.Value;
        Assert.Contains("takes part in move", (await store.LeaveAsync("c", new(2))).Error, StringComparison.Ordinal);
        await store.CancelMoveAsync("c", move);
        SlotMove cancelled = (await store.OwnershipAsync("c")).Moves.Single();
        await store.ChangeMoveAsync(
            "c", new(move, new(1), cancelled.Changed, MoveState.Cancelled, MoveState.Finished, VersionNumber.Zero, new(2), new(epochs[2])));
        Assert.Equal(MemberState.Leaving, (await store.LeaveAsync("c", new(2))).State);
        Assert.Contains("leaves", (await store.PlanMoveAsync("c", SomeSlots, new(2))).Error, StringComparison.Ordinal);

        // It still counts: what it has answered may not be durable yet.
        await RecordAllAsync(store, epochs[..2], 20);
        Assert.Equal(new VersionNumber(9), (await store.AdvanceCutAsync("c")).Cut.Version);
        await store.RecordDurableAsync("c", new(2), Claim(1, 15), epochs[2]);
        Assert.False(await store.EndMembershipAsync("c", new(2), epochs[1]));
        Assert.True(await store.EndMembershipAsync("c", new(2), epochs[2]));
        Assert.True(await store.EndMembershipAsync("c", new(2), epochs[2]));
        Assert.Equal(new VersionNumber(20), (await store.AdvanceCutAsync("c")).Cut.Version);
        Assert.Equal(DurableOutcome.Deposed, (await store.RecordDurableAsync("c", new(2), Claim(1, 16), epochs[2])).Outcome);
        WorldLineResult begun = await store.BeginWorldLineAsync("c", new(0), new(2), Claim(1, 25), epochs[0]);
        Assert.Equal((WorldLineOutcome.Started, new WorldPoint(new(2), new(20))), (begun.Outcome, begun.Current));
        Assert.Contains("the next shard to join is 3", (await store.AddShardAsync("c", new(2))).Error, StringComparison.Ordinal);
        Assert.Equal(MemberState.Joining, (await store.AddShardAsync("c", new(3))).State);
    }

    [Fact]
    public async Task Leave_HasNotJoinedYet_ItsProcessIsDeposed()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        await store.AddShardAsync("c", new(2));
        long joiner = await store.TakeShardEpochAsync("c", new(2), "joiner");
        Assert.Equal(MemberState.Left, (await store.LeaveAsync("c", new(2))).State);
        Assert.False(await store.AdmitShardAsync("c", new(2), Claim(1, 9), joiner));
        Assert.False(await store.RenewShardAsync("c", new(2), joiner));
        Assert.Null(await store.GridAsync("c", new(2), 0, joiner));
    }

    [Fact]
    public async Task EndMembership_OfAMember_IsRefused()
    {
        (IMetadataStore store, long[] epochs) = await JoinedAsync();
        await using IMetadataStore used = store;
        Assert.False(await store.EndMembershipAsync("c", new(2), epochs[2]));
        Assert.Equal(MemberState.Member, (await store.ShardsAsync("c"))[2].State);
    }

    [Fact]
    public async Task AddShard_ClustersThatCannotGrow_SayWhy()
    {
        (IMetadataStore store, _) = await FreshClusterAsync(FinderKind.Exact);
        await using IMetadataStore used = store;
        Assert.Contains("finder is exact", (await store.AddShardAsync("c", new(3))).Error, StringComparison.Ordinal);
        await store.GetOrCreateClusterAsync("one", Settings(1));
        Assert.Contains("made with one shard", (await store.AddShardAsync("one", new(1))).Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task ProposeInterval_AllAgree_BeginsAtTheProposedTime()
    {
        await using IMetadataStore store = await FreshStoreAsync(3);
        long[] epochs = await OwnersAsync(store, 2);   // the third has never run
        GridStretch first = (await store.FindClusterAsync("c"))!.Grid[0];
        long from = first.StartUs + 3_000_001;
        Assert.Equal((1, 0), await LookAsync(0));
        Assert.Equal(from, (await store.ProposeIntervalAsync("c", 1000, from)).ChangeUs);
        Assert.Equal(from, (await store.ProposeIntervalAsync("c", 7000, from + 5)).ChangeUs);
        Assert.Equal([new ShardId(0), new ShardId(1)], await store.SettleIntervalAsync("c", from, giveUp: false));
        Assert.Equal((1, from), await LookAsync(0));
        Assert.Null(await store.GridAsync("c", new(0), from, epochs[0] + 100));
        await store.GridAsync("c", new(0), from, epochs[0]);
        await store.GridAsync("c", new(1), from + 1, epochs[1]);
        Assert.Equal([new ShardId(1)], await store.SettleIntervalAsync("c", from, giveUp: false));
        Assert.Single((await store.FindClusterAsync("c"))!.Grid);
        await store.GridAsync("c", new(1), from, epochs[1]);
        Assert.Empty(await store.SettleIntervalAsync("c", from, giveUp: true));
        Assert.Empty(await store.SettleIntervalAsync("c", from, giveUp: false));
        GridStretch second = (await store.FindClusterAsync("c"))!.Grid[1];
        Assert.InRange(second.StartUs, from, from + first.IntervalUs);
        Assert.Equal(1000, second.IntervalUs);
        Assert.Equal((2, 0), await LookAsync(1));
        Assert.Equal(0, (await store.ProposeIntervalAsync("c", 1000, from)).ChangeUs);

        async Task<(int, long)> LookAsync(int shard)
        {
            GridState state = (await store.GridAsync("c", new(shard), 0, epochs[shard]))!;
            return (state.Stretches.Count, state.ChangeUs);
        }
    }

    [Fact]
    public async Task Snapshot_SaysWhatTheOtherQueriesSay()
    {
        await using IMetadataStore store = await FreshStoreAsync(3);
        await AssertSameAsync();
        long[] epochs = await OwnersAsync(store, 3);
        foreach (int shard in (int[])[0, 1, 2]) { await store.RecordDurableAsync("c", new(shard), Claim(1, 10 + shard), epochs[shard]); }
        await store.AdvanceCutAsync("c");
        await AssertSameAsync();
        await store.BeginWorldLineAsync("c", new(0), new(2), Claim(1, 12), epochs[0]);
        await store.EnterWorldLineAsync("c", new(0), new(2), epochs[0]);
        await AssertSameAsync();
        long from = (await store.FindClusterAsync("c"))!.Grid[0].StartUs + 3_000_001;
        await store.ProposeIntervalAsync("c", 1000, from);
        await AssertSameAsync();
        for (int shard = 0; shard < 3; shard++) { await store.GridAsync("c", new(shard), from, epochs[shard]); }
        Assert.Empty(await store.SettleIntervalAsync("c", from, giveUp: false));
        await AssertSameAsync();
        await Assert.ThrowsAsync<MetadataException>(() => store.SnapshotAsync("none"));

        // Each query by itself, and whatever is different from cluster to cluster is asked for anew.
        await store.GetOrCreateClusterAsync("other", Settings(2));
        Assert.Equal(2, (await store.SnapshotAsync("other")).Shards.Count);
        await AssertSameAsync();

        async Task AssertSameAsync()
        {
            ClusterSnapshot found = await store.SnapshotAsync("c");
            ClusterWatch watch = await store.WatchAsync("c");
            Assert.Equal(await store.ShardsAsync("c"), found.Shards);
            Assert.Equal((watch.Cut.Cut, watch.ChangeUs), (found.Cut.Cut, found.Grid.ChangeUs));
            Assert.Equal((await store.WorldLinesAsync("c")).Select(l => (l.WorldLine, l.BranchCut, l.StartedByEpoch, l.StartedAt)),
                found.Lines.Select(l => (l.WorldLine, l.BranchCut, l.StartedByEpoch, l.StartedAt)));
            Assert.Equal((await store.FindClusterAsync("c"))!.Grid, found.Grid.Stretches);
        }
    }

    [Fact]
    public async Task ProposeInterval_GivenUp_AgreementsToItAreToNoOther()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        long from = (await store.FindClusterAsync("c"))!.Grid[0].StartUs + 1_000_000;
        await store.ProposeIntervalAsync("c", 1000, from);
        await store.GridAsync("c", new(0), from, epochs[0]);
        Assert.Equal([new ShardId(1)], await store.SettleIntervalAsync("c", from, giveUp: true));
        Assert.Single((await store.FindClusterAsync("c"))!.Grid);

        // At the same time once more: it has another name, and what comes late for the first is not for it.
        GridState second = await store.ProposeIntervalAsync("c", 1000, from);
        Assert.Equal(from + 1, second.ChangeUs);
        await store.GridAsync("c", new(1), from, epochs[1]);
        Assert.Equal([new ShardId(0), new ShardId(1)], await store.SettleIntervalAsync("c", second.ChangeUs, giveUp: false));

        // Another owner has not agreed to what the one before has.
        await store.GridAsync("c", new(0), second.ChangeUs, epochs[0]);
        await store.GridAsync("c", new(1), second.ChangeUs, epochs[1]);
        await store.TakeShardEpochAsync("c", new(0), "another");
        Assert.Equal([new ShardId(0)], await store.SettleIntervalAsync("c", second.ChangeUs, giveUp: false));
    }

    /// <summary>I1 under fire: whatever is done at once, whoever has not agreed to a change by the time that it happened knows the grid
    /// with it.</summary>
    [Fact]
    public async Task Agreement_WhileProposalsAreSettledAndGivenUp_NobodyIsLeftWithAnOldGrid()
    {
        IMetadataStore[] stores = await RacersAsync();
        await stores[0].GetOrCreateClusterAsync("c", Settings(1));
        long epoch = await stores[0].TakeShardEpochAsync("c", new(0), "a");
        long start = (await stores[0].FindClusterAsync("c"))!.Grid[0].StartUs;
        int happened = 0, over = 0;
        for (int round = 0; round < 15; round++)
        {
            long change = (await stores[0].ProposeIntervalAsync("c", 1000 + round, start + (10_000_000L * (round + 1)))).ChangeUs;
            int before = (await stores[0].FindClusterAsync("c"))!.Grid.Count;
            GridState known = null!;
            await AllAtOnceAsync(stores, async (s, i) =>
            {
                if (i == 0) { await s.SettleIntervalAsync("c", change, giveUp: true); }
                if (i == 1) { known = (await s.GridAsync("c", new(0), change, epoch))!; }
                if (i == 2) { await s.SettleIntervalAsync("c", change, giveUp: false); }
                return true;
            });
            bool hasHappened = (await stores[0].FindClusterAsync("c"))!.Grid.Count > before;
            GridState state = (await stores[0].GridAsync("c", new(0), 0, epoch))!;
            Assert.Equal(0, state.ChangeUs);

            // It happened with the shard's agreement, or not at all; and who comes late is told how it came out.
            Assert.Equal((change, before), hasHappened ? (known.ChangeUs, known.Stretches.Count) : (change, before));
            Assert.Contains(known.ChangeUs, new[] { 0, change });
            _ = hasHappened ? happened++ : over++;
        }

        Assert.Equal(15, happened + over);
        await DisposeAllAsync(stores);
    }

    private async Task<(IMetadataStore Store, long[] Epochs)> JoinedAsync()
    {
        IMetadataStore store = await FreshStoreAsync(2);
        long[] epochs = await OwnersAsync(store, 2);
        await RecordAllAsync(store, epochs, 7);
        await store.AddShardAsync("c", new(2));
        long joiner = await store.TakeShardEpochAsync("c", new(2), "joiner");
        Assert.True(await store.AdmitShardAsync("c", new(2), Claim(1, 9), joiner));
        return (store, [.. epochs, joiner]);
    }

    private static async Task<long[]> OwnersAsync(IMetadataStore store, int count)
    {
        long[] epochs = new long[count];
        for (int i = 0; i < count; i++) { epochs[i] = await store.TakeShardEpochAsync("c", new(i), $"owner {i}"); }
        return epochs;
    }

    private static async Task RecordAllAsync(IMetadataStore store, long[] epochs, long version)
    {
        for (int i = 0; i < epochs.Length; i++)
        {
            Assert.Equal(DurableOutcome.Recorded, (await store.RecordDurableAsync("c", new(i), Claim(1, version), epochs[i])).Outcome);
        }
    }

    private static DurableClaim Claim(long line, long version) => new(new WorldPoint(new(line), new(version)), 1, VersionNumber.Zero);
}
