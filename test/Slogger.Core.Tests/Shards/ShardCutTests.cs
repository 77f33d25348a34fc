// DPR, section 3: "Persist before record, record before reported"; I2, I3; DPR, section 4.2: nothing of an abandoned
// world-line counts after its successor has started (I5).
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Shards;

public class ShardCutTests
{
    private static WorldPoint P(long line, long version) => new(new(line), new(version));

    [Fact]
    public void Cut_OneRecordOnItsWay_NewerPointsCoalesce()
    {
        ShardHarness h = new();
        for (int v = 2; v <= 4; v++)
        {
            h.TickAt(v);
            Marker m = h.Marker;
            h.Answer(m);
            h.Read(m, 100 + (10 * v));
            Assert.Equal(v == 2 ? "RecordDurable" : "", h.Durable(v - 1));
        }

        Assert.Equal("Committed RecordDurable", h.Recorded(P(1, 1)));
        Assert.Equal(P(1, 3), h.Effects[1].Point);
        Assert.Equal("Committed", h.Recorded(P(1, 3)));
        Assert.Equal("", h.Recorded(P(1, 3)));
        Assert.Equal(P(1, 3), h.Machine.Committed);
    }

    [Fact]
    public void Cut_MetadataUnavailable_IsRetriedWithBackOffAndTheNewestPoint()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        h.Durable(1);
        h.Machine.RecordUnavailable(P(1, 1));
        Assert.Equal("", h.TickAfterUs(400));
        Assert.Equal("RecordDurable", h.TickAfterUs(700));
        h.Machine.RecordUnavailable(P(1, 1));
        h.Machine.RecordUnavailable(P(1, 1)); // doubled
        Assert.Equal("", h.TickAfterUs(900));
        Assert.Equal("RecordDurable", h.TickAfterUs(1200));
        for (int i = 0; i < 10; i++)
        {
            h.Machine.RecordUnavailable(P(1, 1));
            Assert.EndsWith("RecordDurable", h.TickAfterUs(4000), StringComparison.Ordinal); // bounded
        }

        Assert.Equal("Committed", h.Recorded(P(1, 1)));
    }

    [Fact]
    public void Cut_RefusedWhileTheStoreIsLost_IsLeftToTheRecovery()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        Assert.Equal("RecordDurable", h.Durable(1));
        h.Machine.StoreLost();

        // This process has begun world-line 2 in the metadata before the record on its way got there.
        Assert.Equal("", h.Do(e => h.Machine.RecordRefused(P(1, 1), "stale world-line", e)));
        Assert.Equal("Committed", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(1), 110, 0, h.Now), e)));
        Assert.Equal(P(2, 1), h.Machine.Committed);
    }

    [Fact]
    public void Cut_RefusedWhileTheStoreIsLost_IsTriedAgainIfTheWorldLineGoesOn()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        h.Durable(1);
        h.Machine.StoreLost();
        h.Do(e => h.Machine.RecordRefused(P(1, 1), "deposed", e));
        h.Machine.Attached(110, 110);
        Assert.Equal("RecordDurable", h.TickAfterUs(10));
        Assert.Equal("Violation", h.Do(e => h.Machine.RecordRefused(P(1, 1), "deposed", e)));
    }

    [Fact]
    public void Cut_Refused_HaltsForGood()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        h.Durable(1);
        Assert.Equal("Violation", h.Do(e => h.Machine.RecordRefused(P(1, 1), "deposed", e)));
        Assert.Contains("deposed", h.Effects[0].Text, StringComparison.Ordinal);
        Assert.Equal("", h.TickAt(9));
        Assert.Equal("", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(5), 0, 0, default), e)));
        Assert.Equal(ShardMode.Halted, h.Machine.Mode);
    }

    [Fact]
    public void LogDurable_NeverAppended_IsAViolation()
    {
        ShardHarness h = new();
        Assert.Equal("Violation", h.Durable(9));
    }

    [Fact]
    public void StoreLost_HaltsTheCut_AndTheBranchCoversIt()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        h.Machine.StoreLost();
        Assert.Equal("", h.Durable(1));
        Assert.Equal("Committed", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(1), 110, 0, default), e)));
        Assert.Equal(P(2, 1), h.Point);
        Assert.Equal(ShardMode.Detached, h.Machine.Mode);
        h.Machine.Attached(110, 115);
        Assert.True(h.Machine.MayForward);
    }

    // A leader that is cut off from its cohort, and reaches SQL: the next one has claimed there what this one has not.
    [Theory]
    [InlineData(false, "Violation")]
    [InlineData(true, "Deposed")]
    public void CutAdvanced_BeyondWhatIsDurable_IsALaterLeaders_IfThereMayBeOne(bool replicated, string effect)
    {
        ShardHarness h = new(lastVersion: 5, recorded: 3, peers: true, replicated: replicated);
        Assert.Equal("Committed", h.Do(e => h.Machine.CutAdvanced(P(1, 5), e)));
        Assert.Equal(effect, h.Do(e => h.Machine.CutAdvanced(P(1, 6), e)));
        Assert.Equal(ShardMode.Halted, h.Machine.Mode);
        Assert.Equal("", h.Do(e => h.Machine.CutAdvanced(P(1, 7), e)));
    }

    [Fact]
    public void WorldLineStarted_BranchBelowTheCut_IsAViolation()
    {
        ShardHarness h = new();
        h.CommitAt(5, 110);
        h.Machine.StoreLost();
        Assert.Equal("Violation", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(3), 0, 0, default), e)));
    }

    [Fact]
    public void WorldLineStarted_TwiceOrOlder_ChangesNothing()
    {
        ShardHarness h = new();
        h.CommitAt(5, 110);
        h.Machine.StoreLost();
        h.Do(e => h.Machine.WorldLineStarted(new(3), new(new(3), new(4), 110, 0, default), e));
        Assert.Equal("", h.Do(e => h.Machine.WorldLineStarted(new(3), new(new(3), new(4), 110, 0, default), e)));
        Assert.Equal("", h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(4), 110, 0, default), e)));
        Assert.Equal(P(3, 4), h.Machine.Committed);
    }

    [Fact]
    public void WorldLineStarted_LateEventsOfTheOldOne_DoNotCount()
    {
        ShardHarness h = new();
        h.CommitAt(5, 110);
        h.TickAt(6);
        Marker old = h.Marker;
        h.Answer(old);
        h.Read(old, 120);
        h.Durable(5);
        h.Machine.StoreLost();
        h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(5), 120, 0, default), e));
        h.Machine.Attached(120, 120);
        Assert.Equal(6, h.Machine.OpenVersion.Number);
        Assert.Equal("SendMarker", h.TickAt(8));
        Marker fresh = h.Marker;
        Assert.Equal(2, fresh.WorldLine.Number);
        Assert.Equal("", h.Read(old, 130));
        h.Answer(fresh);
        h.Read(fresh, 140);
        Assert.Equal("", h.Durable(7, worldLine: 1));
        // The record of the old world-line is still on its way: one at a time, and its result is not ours.
        Assert.Equal("", h.Durable(7, worldLine: 2));
        Assert.Equal("", h.Do(e => h.Machine.RecordRefused(P(1, 5), "stale world-line", e)));
        Assert.Equal("RecordDurable", h.TickAt(8));
        Assert.Equal(P(2, 7), h.Point);
    }

    [Fact]
    public void CutRecorded_OfTheOldWorldLineAboveTheBranch_IsAViolation()
    {
        ShardHarness h = new();
        h.CommitAt(3, 110);
        h.TickAt(6);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 120);
        h.Durable(5);
        h.Machine.StoreLost();
        h.Do(e => h.Machine.WorldLineStarted(new(2), new(new(2), new(2), 110, 0, default), e));
        Assert.Equal("Violation", h.Recorded(P(1, 5)));
    }

    [Fact]
    public void Start_DurableButNotRecorded_IsRecordedAtTheFirstTick()
    {
        ShardHarness h = new(lastVersion: 7, recorded: 4);
        Assert.Equal(8, h.Machine.OpenVersion.Number);
        Assert.Equal("RecordDurable", h.TickAt(1));
        Assert.Equal(P(1, 7), h.Point);
        Assert.Throws<ArgumentException>(() => new ShardHarness(lastVersion: 3, recorded: 4));
    }

    [Fact]
    public void Stopping_ClosesSyncsAndRecordsTheLastVersionWithoutWaitingForTheClock()
    {
        ShardHarness h = new();
        h.CommitAt(2, 110);
        h.TickAt(2);
        h.Machine.Stopping();
        Assert.False(h.Machine.MayForward);
        Assert.Equal("SendMarker", h.TickAfterUs(1));
        Marker m = h.Marker;
        Assert.Equal((2, 3), (m.Closed.Number, m.Next.Number));
        h.Answer(m);
        h.Read(m, 120);
        Assert.Equal("RecordDurable", h.Durable(2));
        Assert.Equal("Committed", h.Recorded(P(1, 2)));
        Assert.Equal("Stopped", h.TickAfterUs(1));
        Assert.Equal(ShardMode.Stopped, h.Machine.Mode);
    }

    [Fact]
    public void Stopping_WhatWasDoneBehindTheLastMarker_IsClosedBeforeItStops()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Machine.Stopping(); // with a marker on its way, and more forwarded behind it
        h.Answer(m);
        h.Read(m, 110);
        Assert.Equal("RecordDurable", h.Durable(1));
        Assert.Equal("Committed", h.Recorded(P(1, 1)));
        Assert.Equal("SendMarker", h.TickAfterUs(1, busy: true));
        Marker last = h.Marker;
        h.Answer(last);
        h.Read(last, 120);
        h.Durable(2);
        Assert.Equal("Committed", h.Recorded(P(1, 2)));
        Assert.Equal("Stopped", h.TickAfterUs(1));
    }

    [Fact]
    public void Pace_NobodyWaits_SyncsAndRecordsArePutOffUntilTheirTimeHasCome()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary", h.Read(m, 900)); // 5 ms since the last sync are not over
        Assert.Equal("SendMarker RequestSync", h.TickAt(7));
        m = h.Marker;
        Assert.Equal("", h.Durable(2));
        h.Answer(m);
        h.Read(m, 1500);
        h.Durable(6);
        Assert.DoesNotContain("RecordDurable", h.TickAt(50), StringComparison.Ordinal);
        Assert.Contains("RecordDurable", h.TickAt(53), StringComparison.Ordinal);
        Assert.Equal(P(1, 6), h.Effects.Single(e => e.Kind == ShardEffectKind.RecordDurable).Point);
    }

    [Fact]
    public void Pace_VersionsWithoutWrites_AreSyncedWithTheRecord()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 310 + Marker.StreamBytesMax); // the marker alone
        Assert.DoesNotContain("RequestSync", h.TickAt(40), StringComparison.Ordinal);
        Assert.Contains("RequestSync", h.TickAt(53), StringComparison.Ordinal);
    }

    [Fact]
    public void Pace_SomebodyBeginsToWait_WhatWasPutOffIsDoneAtOnceAndSoIsAllThatFollows()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary", h.Read(m, 900));
        Assert.Equal("RequestSync", h.Do(e => h.Machine.CommitAwaited(true, e)));
        Assert.Equal("RecordDurable", h.Durable(2));
        h.Recorded(P(1, 2));
        h.TickAt(4);
        m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary RequestSync", h.Read(m, 1500));
        Assert.Equal("RecordDurable", h.Durable(3));
        h.Recorded(P(1, 3));

        // Durable and put off: the wait brings the record.
        h.Do(e => h.Machine.CommitAwaited(false, e));
        h.TickAt(5);
        m = h.Marker;
        h.Answer(m);
        h.Read(m, 2100);
        Assert.Equal("", h.Durable(4));
        Assert.Equal("RequestSync RecordDurable", h.Do(e => h.Machine.CommitAwaited(true, e)));
        Assert.Equal(P(1, 4), h.Point);
        Assert.Equal("", h.Do(e => h.Machine.CommitAwaited(true, e))); // a second one who waits
    }

    [Fact]
    public void Pace_ARepliesVersionIsAwaited_SyncsFollowAtOnceAndRecordsDoNot()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary", h.Read(m, 900));
        Assert.Equal("RequestSync", h.Do(e => h.Machine.RepliesAwaited(true, e, new(2))));
        Assert.Equal("", h.Do(e => h.Machine.RepliesAwaited(true, e, new(2))));
        Assert.Equal("", h.Durable(2));
        h.TickAt(4);
        m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary RequestSync", h.Read(m, 1500));
        h.Do(e => h.Machine.RepliesAwaited(false, e, new(2)));
        h.TickAt(5);
        m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary", h.Read(m, 2100));
    }

    [Fact]
    public void Pace_WhatIsAwaitedIsOpenYet_WhatWasClosedBeforeIsNotInItsWay()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary", h.Read(m, 900));
        Assert.Equal("", h.Do(e => h.Machine.CommitAwaited(true, e, h.Machine.OpenVersion)));
        h.TickAt(4);
        m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary RequestSync", h.Read(m, 1500));
        Assert.Equal("RecordDurable", h.Durable(3));
    }

    [Fact]
    public void Pace_Stopping_PutsNothingOff()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(2);
        h.Machine.Stopping();
        Assert.Equal("SendMarker", h.TickAfterUs(1));
        Marker m = h.Marker;
        h.Answer(m);
        Assert.Equal("AppendBoundary RequestSync", h.Read(m, 900));
        Assert.Equal("RecordDurable", h.Durable(2));
    }

    [Fact]
    public void Pace_AwaitedWhileTheStoreIsLost_RecordsNothing()
    {
        ShardHarness h = new(syncIntervalUs: 5_000, recordIntervalUs: 50_000);
        h.CommitAt(2, 310);
        h.TickAt(3);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 900);
        h.Machine.StoreLost();
        h.Durable(2);
        Assert.Equal("RequestSync", h.Do(e => h.Machine.CommitAwaited(true, e)));
    }

    [Fact]
    public void Stopping_Idle_RecordsTheRunAndStops()
    {
        ShardHarness h = new();
        h.CommitAt(2, 110);
        h.TickAt(6, busy: false);
        h.Machine.Stopping();
        Assert.Equal("AppendEmptyRun RequestSync", h.TickAfterUs(1));
        Assert.Equal("RecordDurable", h.Durable(5));
        Assert.Equal("Committed", h.Recorded(P(1, 5)));
        Assert.Equal("Stopped", h.TickAfterUs(1));
    }

    [Fact]
    public void Stopping_WithoutAStore_RecordsWhatIsDurableAndStops()
    {
        ShardHarness h = new();
        h.TickAt(2);
        Marker m = h.Marker;
        h.Answer(m);
        h.Read(m, 110);
        h.Machine.Stopping();
        h.Machine.StoreLost();
        Assert.Equal("", h.TickAfterUs(1));
        Assert.Equal("RecordDurable", h.Durable(1));
        Assert.Equal("Committed Stopped", h.Recorded(P(1, 1)));
    }

    [Fact]
    public void Status_EachStage_ShowsItsVersionAndLag()
    {
        ShardHarness h = new();
        h.CommitAt(4, 110);
        h.TickAt(6);
        h.Answer(h.Marker);
        ShardStatus s = h.Machine.StatusAt(h.Now);
        Assert.Equal((5, 3, 3, 3), (s.Answered.Version.Number, s.Read.Version.Number, s.Durable.Version.Number, s.Recorded.Version.Number));
        Assert.Equal((1, 2001), (s.AnsweredLagUs, s.RecordedLagUs));
        Assert.NotNull(s.MarkerSentAt);
    }

    [Fact]
    public void Machine_SteadyState_AllocatesNothing()
    {
        ShardHarness h = new();
        ShardEffects effects = new();
        long offset = 200;
        Slogger.Core.Time.HybridTimestamp now = h.Now;
        void Round(int i)
        {
            now = Slogger.Core.Time.HybridTimestamp.Of(ShardHarness.Start + (i * 1000L), 1);
            effects.Clear();
            h.Machine.Tick(now, true, effects);
            Marker m = effects.Items[^1].Marker;
            effects.Clear();
            h.Machine.MarkerAnswered(m, true, effects);
            h.Machine.MarkerRead(m, offset += 60, 0, effects);
            h.Machine.LogDurable(new(new(1), m.Closed), effects);
            h.Machine.DurableRecorded(new(new(1), m.Closed), new(new(1), m.Closed), effects);
        }

        for (int i = 1; i < 200; i++) Round(i);
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 200; i < 5000; i++) Round(i);
        Assert.True(GC.GetAllocatedBytesForCurrentThread() - before < 1000);
        Assert.Equal(4999 - 0, h.Machine.Committed.Version.Number);
    }
}
