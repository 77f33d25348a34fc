// Moves of slots: planned once, changed only by who may, undone by a recovery to before the landing in the transaction that starts it.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Tests;

public abstract partial class ConformanceTests
{
    private static readonly ImmutableArray<SlotRange> SomeSlots = [new(new(0), new(99)), new(new(200), new(200))];

    [Fact]
    public async Task Move_FromPlanToEnd_IsKeptStepByStep()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long a = await store.TakeShardEpochAsync("c", new(0), "a"), b = await store.TakeShardEpochAsync("c", new(1), "b");
        MoveId id = (await store.PlanMoveAsync("c", SomeSlots, new(1))).Move!.Value;
        Assert.Contains("part of move", (await store.PlanMoveAsync("c", SomeSlots, new(1))).Error, StringComparison.Ordinal);
        Assert.Contains("has no shard 2", (await store.PlanMoveAsync("c", SomeSlots, new(2))).Error, StringComparison.Ordinal);
        await store.NoteMoveAsync("c", id, "copying");
        Assert.Equal("copying", (await store.MoveNotesAsync("c"))[id]);

        SlotMove planned = (await store.OwnershipAsync("c")).Moves.Single();
        Assert.Equal(SomeSlots, planned.Slots);
        MoveChange leaving = new(id, new(1), planned.Changed, MoveState.Planned, MoveState.Leaving, new(10), new(0), new(a));
        Assert.Equal(ChangeOutcome.Deposed, await store.ChangeMoveAsync("c", leaving with { Epoch = new(b) }));
        Assert.Equal(ChangeOutcome.Applied, await store.ChangeMoveAsync("c", leaving));
        Assert.Equal(ChangeOutcome.AlreadyApplied, await store.ChangeMoveAsync("c", leaving));
        OwnershipTable table = await store.OwnershipAsync("c");
        Assert.Equal(0, table.Map.Owner(new(50)).Number);
        MoveChange landed = new(id, new(1), table.Moves[0].Changed, MoveState.Leaving, MoveState.Landed, new(12), new(1), new(b));
        Assert.Equal(ChangeOutcome.Refused, await store.ChangeMoveAsync("c", landed with { Expected = planned.Changed }));
        Assert.Equal(ChangeOutcome.Applied, await store.ChangeMoveAsync("c", landed));
        table = await store.OwnershipAsync("c");
        Assert.Equal([1, 0, 1], new[] { 50, 150, 200 }.Select(s => table.Map.Owner(new(s)).Number));
        Assert.Equal(table.Revision, (await store.SlotsAsync("c")).Revision);
        Assert.False(await store.CancelMoveAsync("c", id));
        MoveChange finished = new(id, new(1), table.Moves[0].Changed, MoveState.Landed, MoveState.Finished,
            new(20), new(0), new(a));
        Assert.Equal(0, table.Settled.Number);
        Assert.Equal(ChangeOutcome.Applied, await store.ChangeMoveAsync("c", finished));
        Assert.Empty((await store.OwnershipAsync("c")).Moves);
        Assert.Equal(20, (await store.OwnershipAsync("c")).Settled.Number);
        Assert.Equal(0, (await store.OwnershipAsync("c")).KnownFrom.Number);
        Assert.True((await store.OwnershipAsync("c")).Revision > table.Revision);
        PastMove past = (await store.OwnershipAsync("c")).Past.Single();
        Assert.Equal(SomeSlots, past.Slots);
        Assert.Equal((id, 0, 1, 12L), (past.Id, past.From.Number, past.To.Number, past.Landed.Number));
        Assert.Equal([0, 1], new[] { 11, 12 }.Select(v => table.MapAt(new(v)).Owner(new(50)).Number));
        table = await store.OwnershipAsync("c");
        Assert.Equal([0, 1], new[] { 11, 12 }.Select(v => table.MapAt(new(v)).Owner(new(50)).Number));
        Assert.Equal(table.Revision, (await store.SlotsAsync("c")).Revision);
    }

    [Theory]
    [InlineData(11, 0, MoveState.Planned)]
    [InlineData(12, 1, MoveState.Landed)]
    public async Task BeginWorldLine_AMoveHasLanded_OwnershipFollowsTheData(long durable, int owner, MoveState state)
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        long a = await store.TakeShardEpochAsync("c", new(0), "a"), b = await store.TakeShardEpochAsync("c", new(1), "b");
        MoveId id = (await store.PlanMoveAsync("c", SomeSlots, new(1))).Move!.Value;
        SlotMove row = (await store.OwnershipAsync("c")).Moves.Single();
        await store.ChangeMoveAsync("c", new(id, new(1), row.Changed, MoveState.Planned, MoveState.Leaving, new(10), new(0), new(a)));
        row = (await store.OwnershipAsync("c")).Moves.Single();
        Assert.Equal(ChangeOutcome.Applied,
            await store.ChangeMoveAsync("c", new(id, new(1), row.Changed, MoveState.Leaving, MoveState.Landed, new(12), new(1), new(b))));
        Core.Cuts.DurableClaim claim = new(new WorldPoint(WorldLine.First, new(durable)), 1, new(durable));
        await store.RecordDurableAsync("c", new(1), claim, b);
        WorldLineResult begun = await store.BeginWorldLineAsync("c", new ShardId(0), new(2), claim, a);
        Assert.Equal(WorldLineOutcome.Started, begun.Outcome);
        Assert.Equal(durable, begun.Current.Version.Number);
        OwnershipTable table = await store.OwnershipAsync("c");
        Assert.Equal(2, table.WorldLine.Number);
        Assert.Equal(owner, table.Map.Owner(new(50)).Number);
        Assert.Equal(state, table.Moves.Single().State);
    }

    [Fact]
    public async Task PeerSecret_AskedTwice_IsTheClustersOwn()
    {
        await using IMetadataStore store = await FreshStoreAsync(2);
        string secret = await store.PeerSecretAsync("c");
        Assert.Equal(64, secret.Length);
        Assert.Equal(secret, await store.PeerSecretAsync("c"));
        await store.GetOrCreateClusterAsync("d", Fixtures.Common.Settings(2));
        Assert.NotEqual(secret, await store.PeerSecretAsync("d"));
    }
}
