// Design, section 5, "Version boundary": what was forwarded before the marker is in the old version, what comes after in
// the new; a marker counts only if it was answered with an integer and read in the stream, otherwise the version stays open.
using Slogger.Core.Shards;
using Slogger.Core.Time;
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Shards;

public class ShardClosingTests
{
    [Fact]
    public void Tick_WithinTheSlot_DoesNothing()
    {
        ShardHarness h = new();
        Assert.Equal("", h.TickAt(1));
        Assert.False(h.Machine.BoundaryDue(h.Now));
    }

    // While nothing is to be done a tick may come late: all versions that have ended pass in one step.
    [Fact]
    public void MayRest_NoStepIsDue_AndOnlyThen()
    {
        ShardHarness h = new(syncIntervalUs: 3000, recordIntervalUs: 6000);
        Assert.False(h.Machine.MayRest);
        h.CommitAt(2, 200);
        Assert.True(h.Machine.MayRest);

        h.TickAt(3);
        Assert.False(h.Machine.MayRest);
        Marker marker = h.Marker;
        h.Answer(marker);
        h.Read(marker, 100_000);
        // Its sync is put off.
        Assert.False(h.Machine.MayRest);
        Assert.Equal("RequestSync", h.TickAfterUs(3000));
        Assert.True(h.Machine.MayRest);
        // So is its record. What is on its way takes no tick.
        Assert.Equal("", h.Durable(2));
        Assert.False(h.Machine.MayRest);
        Assert.Equal("RecordDurable", h.TickAfterUs(3000));
        Assert.True(h.Machine.MayRest);
        h.Recorded(h.Point);
        Assert.True(h.Machine.MayRest);

        h.Do(e => h.Machine.CommitAwaited(true, e));
        Assert.False(h.Machine.MayRest);
        h.Do(e => h.Machine.CommitAwaited(false, e));

        h.TickAt(13, busy: false);
        Assert.Equal(13, h.Machine.OpenVersion.Number);
        h.TickAt(13, busy: true);
        Assert.False(h.Machine.MayRest);
        h.Machine.StoreLost();
        Assert.False(h.Machine.MayRest);
    }

    // What others wrote during a rest is in no version that has passed, and in none behind the one that was open when it was noticed.
    [Theory]
    [InlineData((int)ShardMutation.None)]
    [InlineData((int)ShardMutation.ChangePassed)]
    public void Wake_AChangeWasNoticed_PassesTheVersionsBeforeIt(int mutation)
    {
        ShardHarness h = new(mutation: (ShardMutation)mutation);
        h.CommitAt(2, 200);
        Assert.Equal(2, h.Machine.OpenVersion.Number);
        HybridTimestamp noticed = HybridTimestamp.Of(h.StartOf(20) + 10, 0), woken = HybridTimestamp.Of(h.StartOf(22) + 10, 0);
        VersionNumber told = h.Machine.OpenBy(noticed);
        Assert.Equal(20, told.Number);

        Assert.Equal("AppendEmptyRun RequestSync", h.Do(e => h.Machine.Wake(woken, noticed, e)));
        if (mutation != 0)
        {
            Assert.True(h.Boundary.Version >= told);
            return;
        }
        Assert.Equal((19, 20), (h.Boundary.Version.Number, h.Machine.OpenVersion.Number));
        Assert.Equal("SendMarker", h.TickAt(22));
        Assert.Equal((21, 22), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    [Fact]
    public void Wake_NothingHasChanged_AllThatHaveEndedPass()
    {
        ShardHarness h = new();
        h.CommitAt(2, 200);
        HybridTimestamp woken = HybridTimestamp.Of(h.StartOf(22) + 10, 0);
        h.Do(e => h.Machine.Wake(woken, null, e));
        Assert.Equal((21, 22), (h.Boundary.Version.Number, h.Machine.OpenVersion.Number));
    }

    [Fact]
    public void Tick_GridPointPassed_SendsAMarkerAndOpensTheNextVersion()
    {
        ShardHarness h = new();
        Assert.Equal("SendMarker", h.TickAt(2));
        Assert.Equal((1, 2, 1), (h.Marker.Closed.Number, h.Marker.Next.Number, h.Marker.WorldLine.Number));
        Assert.Equal(2, h.Machine.OpenVersion.Number);
        Assert.Equal(1, h.Machine.LowestVersion.Number);
    }

    [Fact]
    public void Tick_Late_SkipsVersions()
    {
        ShardHarness h = new();
        h.TickAt(9);
        Assert.Equal((8, 9), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    [Fact]
    public void Tick_MarkerOnItsWay_SendsNoSecondOne()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        Assert.Equal("", h.TickAt(3));
        Assert.Equal(2, h.Machine.OpenVersion.Number);
        Assert.False(h.Machine.BoundaryDue(h.Now));
        h.Answer(marker);
        Assert.Equal("", h.TickAt(4));
        h.Read(marker, 110);
        Assert.Equal("SendMarker", h.TickAt(5));
        Assert.Equal((4, 5), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void Marker_AnsweredAndRead_CountsInEitherOrder(bool answeredFirst)
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        if (answeredFirst)
        {
            Assert.Equal("", h.Answer(marker));
            Assert.Equal("AppendBoundary RequestSync", h.Read(marker, 110));
            Assert.Equal("RecordDurable", h.Durable(1));
        }
        else
        {
            // Logged where it stands in the stream, but nothing is committed to it yet.
            Assert.Equal("AppendBoundary RequestSync", h.Read(marker, 110));
            Assert.Equal("", h.Durable(1));
            Assert.Equal("RecordDurable", h.Answer(marker));
        }

        Assert.Equal(1, h.Point.Version.Number);
        Assert.Equal(110, h.Machine.LastBoundary.Offset);
        Assert.Equal(2, h.Machine.LowestVersion.Number);
    }

    [Fact]
    public void Marker_Refused_LeavesTheVersionOpen()
    {
        ShardHarness h = new();
        h.TickAt(2);
        h.Answer(h.Marker, ok: false);
        Assert.Equal(1, h.Machine.LowestVersion.Number);
        Assert.Equal(2, h.Machine.OpenVersion.Number);
        // Nothing was forwarded since, and still the next slot needs a marker; it closes the larger range.
        Assert.Equal("SendMarker", h.TickAt(3, busy: false));
        Assert.Equal(2, h.Marker.Closed.Number);
        Assert.Equal(1, h.Machine.StatusAt(h.Now).MarkersFailed);
    }

    [Fact]
    public void Marker_LostAndReadLater_DoesNotCount()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker lost = h.Marker;
        h.Lost(lost);
        Assert.Equal("", h.Read(lost, 110));
        Assert.Equal("SendMarker", h.TickAt(3, busy: false));
        Marker next = h.Marker;
        Assert.Equal("", h.Read(lost, 120));
        Assert.Equal("AppendBoundary RequestSync", h.Read(next, 130));
        Assert.Equal((2, 130), (h.Boundary.Version.Number, h.Boundary.Offset));
    }

    [Fact]
    public void Marker_ReadThenLost_IsRestorableButNotCommitted()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        h.Read(marker, 110);
        h.Lost(marker);
        Assert.Equal("", h.Durable(1));
        h.TickAt(3, busy: false);
        h.Answer(h.Effects[0].Marker);
        Assert.False(h.Machine.Committed.Version.Number > 0);
    }

    [Fact]
    public void Marker_LateDoubledOrUnknownInputs_ChangeNothing()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        Marker other = marker with { Closed = new(7), Next = new(8) };
        foreach (string effects in (string[])[h.Answer(other), h.Answer(other, false), h.Lost(other), h.Read(other, 105)])
            Assert.Equal("", effects);
        h.Answer(marker);
        Assert.Equal("", h.Answer(marker, false));
        Assert.Equal("", h.Lost(marker));
        h.Read(marker, 110);
        Assert.Equal("", h.Read(marker, 110));
        Assert.False(h.Machine.MarkerInFlight);
    }

    [Fact]
    public void Marker_RefusedYetRead_IsAViolation()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        h.Read(marker, 110);
        Assert.Equal("Violation", h.Answer(marker, ok: false));
        Assert.Equal(ShardMode.Halted, h.Machine.Mode);
        Assert.Equal("", h.TickAt(9));
    }

    [Fact]
    public void Marker_ReadBehindItsPlace_IsAViolation()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Assert.Equal("Violation", h.Read(h.Marker, 100));
    }

    [Fact]
    public void Idle_SlotsCloseWithoutTouchingTheStore()
    {
        ShardHarness h = new();
        h.CommitAt(2, 110);
        for (int v = 3; v <= 11; v++)
        {
            Assert.Equal("", h.TickAt(v, busy: false));
            Assert.Equal((v, v), (h.Machine.OpenVersion.Number, h.Machine.LowestVersion.Number));
        }

        // Recorded lazily, at the place of the boundary before, and only when durable.
        Assert.Equal("AppendEmptyRun RequestSync", h.TickAt(12, busy: false));
        Assert.Equal((11, 110), (h.Boundary.Version.Number, h.Boundary.Offset));
        Assert.Equal("", h.TickAt(13, busy: false));
        Assert.Equal("RecordDurable", h.Durable(11));
        Assert.Equal(11, h.Point.Version.Number);
    }

    [Fact]
    public void Idle_ThenBusy_OneMarkerClosesTheRest()
    {
        ShardHarness h = new();
        h.CommitAt(2, 110);
        h.TickAt(5, busy: false);
        Assert.Equal("", h.TickAt(5, busy: true));
        Assert.Equal("SendMarker", h.TickAt(6, busy: false));
        Assert.Equal((5, 6), (h.Marker.Closed.Number, h.Marker.Next.Number));
    }

    [Fact]
    public void Start_WhatIsBehindTheLastBoundaryIsUnknown_SoTheFirstCloseNeedsAMarker()
    {
        ShardHarness h = new();
        Assert.Equal("SendMarker", h.TickAt(2, busy: false));
    }

    [Fact]
    public void FastForward_AheadOfTheClock_OpensThatVersionAtTheNextTick()
    {
        ShardHarness h = new();
        h.Machine.FastForward(new(40));
        Assert.True(h.Machine.BoundaryDue(h.Now));
        Assert.Equal("SendMarker", h.TickAt(1));
        Assert.Equal((39, 40), (h.Marker.Closed.Number, h.Marker.Next.Number));
        h.Machine.FastForward(new(3));
        Assert.Equal(40, h.Machine.OpenVersion.Number);
    }

    [Fact]
    public void CatchingUp_MarkersOfAnEarlierIncarnation_CountByBeingRead()
    {
        ShardHarness h = new(attach: false, lastVersion: 3, recorded: 2);
        Assert.False(h.Machine.MayForward);
        h.Machine.Attached(100, 200);
        Assert.Equal(ShardMode.CatchingUp, h.Machine.Mode);
        Assert.Equal("RecordDurable", h.TickAt(4));
        Marker old = new(new(1), new(8), new(9), h.Now);
        Assert.Equal("", h.Read(old with { WorldLine = new(2) }, 140));
        Assert.Equal("", h.Read(old with { Closed = new(3) }, 145));
        Assert.Equal("AppendBoundary RequestSync", h.Read(old, 150));
        Assert.Equal(9, h.Machine.OpenVersion.Number);
        Assert.False(h.Machine.MayForward);
        h.Machine.StreamRead(199);
        Assert.False(h.Machine.MayForward);
        h.Machine.StreamRead(200);
        Assert.True(h.Machine.MayForward);
        // From here on only markers of its own count.
        Assert.Equal("", h.Read(old with { Closed = new(20), Next = new(21) }, 210));
    }

    [Fact]
    public void CatchingUp_MarkerBehindTheTarget_DoesNotCount()
    {
        ShardHarness h = new(attach: false);
        h.Machine.Attached(100, 200);
        Assert.Equal("", h.Read(new(new(1), new(8), new(9), h.Now), 201));
        Assert.True(h.Machine.MayForward);
    }

    [Fact]
    public void StreamRestarted_MarkerOnItsWay_IsTakenForLost()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        h.Answer(marker);
        h.Machine.StreamRestarted(500);
        Assert.Equal("", h.Read(marker, 510));
        Assert.Equal("SendMarker", h.TickAt(3, busy: false));
        Assert.Equal(2, h.Machine.LowestVersion.Number);
    }

    [Fact]
    public void StoreLost_ThenAttachedAgain_GoesOnInTheSameWorldLine()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker marker = h.Marker;
        h.Machine.StoreLost();
        Assert.False(h.Machine.MayForward);
        Assert.Equal("", h.TickAt(5));
        h.Machine.Attached(100, 160);
        Assert.True(h.Machine.MayForward);
        Assert.Equal("", h.Read(marker, 150));
        Assert.Equal("SendMarker", h.TickAt(6, busy: false));
        Assert.Equal(5, h.Marker.Closed.Number);
    }
}
