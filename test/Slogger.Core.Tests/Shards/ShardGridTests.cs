// A clock grid that changes while the shard runs: what it does not know to be the grid it closes no version by (invariant I1).
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Tests.Versions;
using Slogger.Core.Time;
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Shards;

public sealed class ShardGridTests
{
    private static readonly VersionGrid Grid = new(new(1), ShardHarness.Start, 1000);

    [Fact]
    public void Tick_BeyondWhatTheGridIsValidFor_ClosesNothingUntilItIsKnownAgain()
    {
        ShardHarness h = new(peers: true);
        h.Machine.GridChanged(h.Machine.Grid, h.StartOf(4));
        Assert.Equal("SendMarker", h.TickAt(3));
        Assert.Equal(new VersionNumber(2), h.Marker.Closed);
        Close(h, 110);

        // Version 3 ends at the very time up to which the grid is valid, version 4 later.
        Assert.Equal("SendMarker", h.TickAt(9));
        Assert.Equal(new VersionNumber(3), h.Marker.Closed);
        Close(h, 120);
        Assert.Equal("", h.TickAt(12));
        Assert.Equal(new VersionNumber(4), h.Machine.OpenVersion);

        // The interval was changed meanwhile: from version 4 on each is four times as long.
        VersionGrid longer = Grid.WithInterval(4000, h.StartOf(4) - 1);
        h.Machine.GridChanged(longer, h.StartOf(100));
        Assert.Equal("SendMarker", h.TickAt(12));
        Assert.Equal(longer.VersionAt(h.Now.Microseconds).Previous, h.Marker.Closed);
    }

    [Fact]
    public void Tick_OldGridGoesOn_ClosesWhatOthersNumberDifferently()
    {
        // The mutant: what the rule is for.
        ShardHarness h = new(peers: true, mutation: ShardMutation.OldGridGoesOn);
        h.Machine.GridChanged(h.Machine.Grid, h.StartOf(4));
        h.TickAt(9);
        VersionGrid longer = Grid.WithInterval(4000, h.StartOf(4) - 1);
        Assert.True(h.Marker.Closed > longer.VersionAt(h.Now.Microseconds));
    }

    [Fact]
    public void Tick_AnIdleShard_OpensNothingThatItsGridMayNotBeValidFor()
    {
        ShardHarness h = new(peers: true);
        h.CommitAt(2, 110);
        h.Machine.GridChanged(h.Machine.Grid, h.StartOf(20));
        h.TickAt(40, busy: false);
        Assert.Equal(new VersionNumber(20), h.Machine.OpenVersion);
    }

    // In the new grid the number could mean an hour later.
    [Fact]
    public void FastForward_BeforeTheGridIsChanged_IsForgotten()
    {
        ShardHarness h = new(peers: true);
        h.CommitAt(2, 110);
        h.Machine.GridChanged(h.Machine.Grid, h.StartOf(4));
        h.Machine.FastForward(new VersionNumber(400));
        h.TickAt(3, busy: false);
        VersionGrid longer = Grid.WithInterval(4000, h.StartOf(4) - 1);
        h.Machine.GridChanged(longer);
        h.TickAt(12, busy: false);
        Assert.Equal(longer.VersionAt(h.Now.Microseconds), h.Machine.OpenVersion);
    }

    // A start that takes longer than the grid is valid for.
    [Fact]
    public void Start_TheGridIsNotKnownAnyMore_OpensNothingBeyondIt()
    {
        ShardStart start = new(Grid, new(new(1), new(2), 100, 0, default), new(new(1), new(2)), new(new(1), new(2)),
            HybridTimestamp.Of(ShardHarness.Start + 60_000, 0));
        Assert.Equal(new VersionNumber(61), new ShardMachine(new() { HasPeers = true }, start).OpenVersion);
        Assert.Equal(new VersionNumber(21),
            new ShardMachine(new() { HasPeers = true }, start with { GridValidUntilUs = ShardHarness.Start + 20_000 }).OpenVersion);
        Assert.Equal(new VersionNumber(3),
            new ShardMachine(new() { HasPeers = true }, start with { GridValidUntilUs = ShardHarness.Start }).OpenVersion);
    }

    // Nobody was let in: no marker has to say so.
    [Fact]
    public void Start_Clean_EndsVersionsWithoutAMarker()
    {
        ShardStart start = new(Grid, new(new(1), new(2), 100, 0, default), new(new(1), new(2)), new(new(1), new(2)),
            HybridTimestamp.Of(ShardHarness.Start, 0)) { IsClean = true };
        ShardMachine machine = new(new() { HasPeers = true }, start);
        ShardEffects effects = new();
        machine.Attached(100, 100);
        machine.CommitAwaited(true, effects);
        machine.Tick(HybridTimestamp.Of(ShardHarness.Start + 10_000, 0), busy: false, effects);
        Assert.Equal("AppendEmptyRun RequestSync", string.Join(' ', effects.Items.ToArray().Select(e => e.Kind)));
    }

    [Fact]
    public void FastForward_BeyondWhatTheGridIsValidFor_Waits()
    {
        ShardHarness h = new(peers: true);
        h.Machine.GridChanged(h.Machine.Grid, h.StartOf(4));
        h.Machine.FastForward(new(8));
        h.TickAt(2);
        Assert.Equal(new VersionNumber(4), h.Machine.OpenVersion);
        Close(h, 110);

        // The loop does not turn round and round meanwhile.
        Assert.True(h.Machine.NextBoundaryUs(h.Now) > h.Now.Microseconds);
        h.Machine.GridChanged(h.Machine.Grid);
        Assert.Equal(h.Now.Microseconds, h.Machine.NextBoundaryUs(h.Now));
        h.TickAfterUs(1);
        Assert.Equal(new VersionNumber(8), h.Machine.OpenVersion);
    }

    [Fact]
    public void GridChanged_AnEndWasGivenOutByTheOldGrid_IsAskedForAgain()
    {
        ShardHarness h = new(peers: true);
        Assert.Equal(h.StartOf(2), h.Machine.NextBoundaryUs(h.Now));
        h.Machine.GridChanged(Grid.WithInterval(500, h.StartOf(2)));

        // Requests may have been forwarded up to an end that has another number by now.
        Assert.Equal("", h.TickAt(3));
        h.Machine.NextBoundaryUs(h.Now);
        Assert.Equal("SendMarker", h.TickAfterUs(1000, busy: true));
    }

    [Fact]
    public void Batch_AheadOfAGridThatMayHaveChanged_IsKeptNotRefused()
    {
        BatchGate gate = new(new BatchGateOptions());
        BatchHeader header = new(new SessionId(1), new(1), new VersionNumber(5000), new SequenceNumber(1), 1, default);
        HybridTimestamp now = HybridTimestamp.Of(ShardHarness.Start, 0);
        GateShard shard = new(new(1), new(1), Grid, []);
        Assert.Equal(GateVerdict.RefuseAhead, gate.Decide(header, shard, now).Verdict);
        Assert.Equal(GateVerdict.WaitForGrid,
            gate.Decide(header, shard with { GridValidUntilUs = ShardHarness.Start + 1000 }, now).Verdict);
        Assert.Equal(GateVerdict.RefuseAhead,
            gate.Decide(header, shard with { GridValidUntilUs = ShardHarness.Start + 500_000 }, now).Verdict);
    }

    [Fact]
    public void Batch_OfAVersionThatBeginsWhereTheGridMayHaveChanged_IsKept()
    {
        BatchGate gate = new(new BatchGateOptions());
        long opensUs = Grid.StartOf(new VersionNumber(20));
        BatchHeader header = new(new SessionId(1), new(1), new VersionNumber(20), new SequenceNumber(1), 1, default);
        HybridTimestamp now = HybridTimestamp.Of(ShardHarness.Start, 0);
        GateShard shard = new(new(1), new(1), Grid, []);
        Assert.Equal(GateVerdict.FastForward, gate.Decide(header, shard with { GridValidUntilUs = opensUs }, now).Verdict);
        Assert.Equal(GateVerdict.WaitForGrid, gate.Decide(header, shard with { GridValidUntilUs = opensUs - 1 }, now).Verdict);
    }

    private static void Close(ShardHarness h, long offset)
    {
        Marker marker = h.Marker;
        h.Answer(marker);
        h.Read(marker, offset);
    }
}
