// A shard among others: what it is durable at is not yet committed, and which of its versions may be in a cut.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Shards;

public sealed class ShardPeersTests
{
    private static WorldPoint P(long line, long version) => new(new(line), new(version));

    [Fact]
    public void DurableRecorded_CutBehind_CommitsOnlyWhatIsInTheCut()
    {
        ShardHarness h = new(peers: true);
        Close(h, 3, 110);
        Assert.Equal("", h.Do(e => h.Machine.DurableRecorded(P(1, 2), P(1, 0), e)));
        Assert.Equal(P(1, 0), h.Machine.Committed);
        Assert.Equal("Committed", h.Do(e => h.Machine.CutAdvanced(P(1, 1), e)));
        Assert.Equal(P(1, 1), h.Point);
        Assert.Equal("", h.Do(e => h.Machine.CutAdvanced(P(1, 1), e)));
        Assert.Equal("", h.Do(e => h.Machine.CutAdvanced(P(2, 1), e)));
        Assert.Equal("Committed", h.Do(e => h.Machine.CutAdvanced(P(1, 2), e)));
    }

    // Told late, to a process that has just begun.
    [Theory]
    [InlineData(7, "")]
    [InlineData(8, "Violation")]
    public void CutAdvanced_OfAnOlderWorldLine_IsNotAboveTheCutItBeganWith(long version, string expected)
    {
        ShardMachine machine = new(
            new ShardOptions { Shard = new(0), HasPeers = true },
            new(new VersionGrid(new(1), ShardHarness.Start, 1000), new(new(2), new(9), 100, 0, default), P(2, 8), P(2, 7),
                HybridTimestamp.Of(ShardHarness.Start, 0)));
        ShardEffects effects = new();
        machine.CutAdvanced(P(1, version), effects);
        Assert.Equal(expected, string.Join(' ', effects.Items.ToArray().Select(e => e.Kind)));
    }

    [Fact]
    public void CutAdvanced_AboveWhatIsDurableHere_IsAViolation()
    {
        ShardHarness h = new(peers: true);
        Close(h, 3, 110);
        Assert.Equal("Violation", h.Do(e => h.Machine.CutAdvanced(P(1, 3), e)));
    }

    [Fact]
    public void Claim_MarkerThatClosesSeveralVersions_OnlyTheLastIsRestorable()
    {
        ShardHarness h = new(peers: true);
        Close(h, 2, 110);
        Record(h, 1);
        Close(h, 3, 120);
        Assert.Equal(new DurableClaim(P(1, 2), 1, new(0)), h.Claim);
        Record(h, 2);
        // The marker of 3 comes when 6 is open: what was done in slots 4 and 5 stands before it.
        Close(h, 6, 130);
        Assert.Equal(new DurableClaim(P(1, 5), 1, new(5)), h.Claim);
        Assert.False(h.Claim.Restores(new(4)));
        Record(h, 5);
        Close(h, 7, 140);
        Assert.Equal(new DurableClaim(P(1, 6), 1, new(5)), h.Claim);
    }

    [Theory]
    [InlineData(false, "")]
    [InlineData(true, "StartSave")]
    public void Stride_GrownWhileAnEndIsAwaited_ClosesNothingLate(bool forgets, string expected)
    {
        ShardHarness h = new(CommitMode.Bgsave, peers: true, mutation: forgets ? ShardMutation.LateEndIsNoMatter : ShardMutation.None);
        h.TickAt(2);
        Marker save = h.Marker;
        h.Answer(save);
        h.TickAt(9);
        // Every version can be closed so far: what is received until the end of the ninth is forwarded.
        Assert.Equal(h.StartOf(10), h.Machine.NextBoundaryUs(h.Now));
        h.Do(e => h.Machine.SaveCompleted(save, true, e));
        Assert.Equal(8, h.Machine.Stride);
        Assert.Equal(expected, h.TickAt(10));
        if (forgets) { return; }
        Assert.Equal(h.StartOf(17), h.Machine.NextBoundaryUs(h.Now));
        // The loop comes late; nothing was forwarded since that end.
        Assert.Equal("StartSave", h.TickAt(19));
        Assert.Equal((16, 19), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    // A marker is on its way for several versions, and requests are forwarded meanwhile.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void FastForward_WhatIsOpenHoldsWhatCameLater_EndsWithThat(bool forgets)
    {
        ShardHarness h = LateMarker(forgets);
        h.Machine.FastForward(new(6));
        Assert.Equal(forgets ? h.Now.Microseconds : h.StartOf(10), h.Machine.NextBoundaryUs(h.Now));
        Assert.Equal(forgets ? "SendMarker" : "", h.TickAfterUs(1, busy: true));
        if (!forgets) { h.TickAt(10); }
        Assert.Equal(forgets ? 8 : 9, h.Marker.Closed.Number);
    }

    // Asked for while the marker before is on its way: requests go on being forwarded.
    [Fact]
    public void FastForward_WhileAMarkerIsOnItsWay_DoesNotEndWhatIsForwardedMeanwhile()
    {
        ShardHarness h = new(peers: true);
        h.Machine.NextBoundaryUs(h.Now);
        Assert.Equal("SendMarker", h.TickAt(2));
        Marker late = h.Marker;
        h.Answer(late);
        h.Machine.FastForward(new(6));
        Assert.Equal(h.StartOf(3), h.Machine.NextBoundaryUs(h.Now));
        h.TickAt(8);
        Assert.Equal(h.StartOf(9), h.Machine.NextBoundaryUs(h.Now));
        h.Read(late, 110);
        Assert.Equal("", h.TickAfterUs(1, busy: true));
        Assert.Equal(h.StartOf(9), h.Machine.NextBoundaryUs(h.Now));
        Assert.Equal("SendMarker", h.TickAt(9));
        Assert.Equal(8, h.Marker.Closed.Number);
    }

    [Theory]
    [InlineData(false, 9)]
    [InlineData(true, 8)]
    public void Stopping_WhatIsOpenHoldsWhatCameLater_EndsWithThat(bool forgets, long closed)
    {
        ShardHarness h = LateMarker(forgets);
        h.Machine.Stopping();
        Assert.Equal("SendMarker", h.TickAfterUs(1, busy: true));
        Assert.Equal(closed, h.Marker.Closed.Number);
    }

    private static ShardHarness LateMarker(bool forgets)
    {
        ShardHarness h = new(peers: true, mutation: forgets ? ShardMutation.EndsLateVersionsEarly : ShardMutation.None);
        h.Machine.NextBoundaryUs(h.Now);
        Assert.Equal("SendMarker", h.TickAt(2));
        Marker late = h.Marker;
        h.TickAt(9);
        h.Answer(late);
        h.Read(late, 110);
        return h;
    }

    [Fact]
    public void Claim_RunOfEmptyVersions_AllAreRestorable()
    {
        ShardHarness h = new(peers: true);
        Close(h, 2, 110);
        Record(h, 1);
        h.TickAt(3, busy: false);
        Assert.Contains("AppendEmptyRun", h.TickAt(40, busy: false), StringComparison.Ordinal);
        h.Durable(39);
        Assert.Equal(new DurableClaim(P(1, 39), 1, new(0)), h.Claim);
    }

    [Fact]
    public void Claim_WhileTheNewestIsNotDurable_IsThatOfTheOneBefore()
    {
        ShardHarness h = new(peers: true);
        Close(h, 2, 110);
        Record(h, 1);
        Close(h, 3, 120, durable: false);
        Close(h, 9, 130, durable: false);
        // Version 2 is durable; 3 to 8 were closed together, which is not.
        h.Durable(2);
        Assert.Equal(new DurableClaim(P(1, 2), 1, new(2)), h.Claim);
    }

    // Versions that nobody waits for are not closed one by one, and that is not being late.
    [Fact]
    public void Stride_WritesWithPausesBetween_ClosesEachVersion()
    {
        ShardHarness h = new(peers: true);
        Close(h, 2, 110);
        for (int i = 1; i <= 20; i++)
        {
            h.TickAt((10 * i) + 1, busy: false);
            h.TickAt((10 * i) + 1);
            Close(h, (10 * i) + 2, 110 + (100 * i));
            Assert.Equal((1, 0), (h.Machine.Stride, LastClaim(h).Floor.Number));
        }
    }

    [Fact]
    public void Stride_LateAgainAndAgain_ClosesFewerVersionsThatAreAllRestorable()
    {
        ShardHarness h = new(peers: true);
        long offset = 100;
        long longest = 0;   // run of versions without a gap
        for (long slot = 4; slot < 400; slot += 3)
        {
            long stride = h.Machine.Stride;
            if (!h.TickAt(slot).Contains("SendMarker", StringComparison.Ordinal)) continue;
            Finish(h, offset += 10);
            Assert.Equal(0, h.Machine.LastBoundary.Version.Number % stride);
            Assert.True(h.Machine.Stride <= 4, $"{h.Machine.Stride}");
            if (h.Machine.Stride == 4) longest = Math.Max(longest, LastClaim(h).Point.Version.Number - LastClaim(h).Floor.Number);
        }

        // Twice as long the second time that it is tried with less.
        Assert.InRange(longest, 180, 220);

        ShardHarness alone = new();
        for (long slot = 4; slot < 200; slot += 3)
        {
            if (alone.TickAt(slot).Contains("SendMarker", StringComparison.Ordinal)) Finish(alone, offset += 10);
        }

        Assert.Equal(1, alone.Machine.Stride);
    }

    [Fact]
    public void Stride_InTimeForLong_ClosesMoreVersionsAgain()
    {
        ShardHarness h = new(peers: true);
        long offset = 100;
        for (long slot = 4; slot < 40; slot += 3) if (h.TickAt(slot).Contains("SendMarker", StringComparison.Ordinal))
            Finish(h, offset += 10);
        long late = h.Machine.Stride;
        Assert.True(late > 1);
        long changed = 0;
        for (long slot = 41; slot < 41 + (late * 600); slot++)
        {
            long before = h.Machine.Stride;
            if (h.TickAt(slot).Contains("SendMarker", StringComparison.Ordinal)) Finish(h, offset += 10);
            if (h.Machine.Stride < before) changed = h.Machine.LastBoundary.Version.Number;
        }

        Assert.Equal(1, h.Machine.Stride);
        // What the larger stride has skipped is not offered.
        Assert.True(changed > 100);
        Assert.Equal(changed, LastClaim(h).Floor.Number);
    }

    [Fact]
    public void EmptyVersions_CommitAwaited_AreClosedAtOnce()
    {
        ShardHarness h = new(peers: true);
        Close(h, 2, 110);
        Record(h, 1);
        h.Do(e => h.Machine.CommitAwaited(true, e));
        Assert.Contains("AppendEmptyRun", h.TickAt(4, busy: false), StringComparison.Ordinal);
        Assert.Contains("AppendEmptyRun", h.TickAt(5, busy: false), StringComparison.Ordinal);
        h.Do(e => h.Machine.CommitAwaited(false, e));
        Assert.DoesNotContain("AppendEmptyRun", h.TickAt(6, busy: false), StringComparison.Ordinal);
    }

    [Fact]
    public void WorldLineLeft_CommitsHaltUntilTheNextIsEntered()
    {
        ShardHarness h = new(peers: true);
        Close(h, 5, 110);
        h.Machine.WorldLineLeft(P(1, 4));
        Assert.Equal(ShardMode.StoreLost, h.Machine.Mode);
        Assert.Equal("", h.TickAt(9));
        // The branch is below what this shard had recorded, above what was committed.
        Assert.Equal("Committed", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(2), 105, 0, default), e)));
        Assert.Equal(P(2, 2), h.Machine.Committed);
        // Its own late record of the old world-line harms nobody.
        Assert.Equal("", h.Do(e => h.Machine.CutAdvanced(P(1, 2), e)));
        Assert.Equal("Violation", h.Do(e => h.Machine.CutAdvanced(P(1, 3), e)));
    }

    // The version before this one is closed at an offset, and durable: the last effects are those of that.
    private static void Close(ShardHarness h, long slot, long offset, bool durable = true)
    {
        h.TickAt(slot);
        Finish(h, offset, durable);
    }

    private static void Finish(ShardHarness h, long offset, bool durable = true)
    {
        Marker marker = h.Marker;
        h.Answer(marker);
        h.Read(marker, offset);
        if (durable) h.Durable(marker.Closed.Number);
    }

    private static DurableClaim LastClaim(ShardHarness h) => h.Machine.ClaimOf(h.Machine.LastBoundary.Point);

    private static void Record(ShardHarness h, long version) =>
        h.Do(e => h.Machine.DurableRecorded(P(1, version), P(1, version), e));
}
