// Design, section 3: "It runs on the monotonic clock and is slewed towards wall time, so a step back never stops it; causality
// that passes through the system moves it forward; a peer further ahead than the bound is refused."
using Slogger.Core.Time;

namespace Slogger.Core.Tests.Time;

public class HybridClockTests
{
    private const long Start = 1_700_000_000_000_000;

    [Fact]
    public void Now_ClocksStandStill_StillIncreases()
    {
        HybridClock clock = new(new(0, Start));
        HybridTimestamp last = clock.Last;
        for (int i = 0; i < 3 * HybridTimestamp.CounterMax; i++)
        {
            HybridTimestamp now = clock.Now(new(0, Start));
            Assert.True(now > last);
            last = now;
        }

        Assert.InRange(last.Microseconds, Start, Start + 4);
    }

    [Fact]
    public void Now_WallClockSetBack_RunsOnAlmostAsFastAsTheMonotonicClock()
    {
        HybridClock clock = new(new(0, Start));
        HybridTimestamp after = clock.Now(new(1_000_000, Start - 3_600_000_000));
        Assert.InRange(after.Microseconds, Start + 949_000, Start + 951_000);
        Assert.InRange(clock.AheadOfWallUs, 3_600_000_000, 3_602_000_000);
    }

    [Fact]
    public void Now_WallClockDrifts_IsFollowedSlowly()
    {
        HybridClock clock = new(new(0, Start));
        for (int i = 1; i <= 1000; i++) clock.Now(new(i * 1000, Start + (i * 1000) + 20_000));
        Assert.InRange(clock.AheadOfWallUs, -1, 1);
    }

    // A thread that loses its processor while it reads the clocks.
    [Theory]
    [InlineData(0)]
    [InlineData(4000)]
    [InlineData(2000)]
    public void Now_ClocksReadInPieces_NothingIsCorrectedThatMayBeRight(long before)
    {
        HybridClock clock = new(new(0, Start));
        for (int i = 1; i <= 1000; i++) clock.Now(new(i * 5000, Start + (i * 5000) - before, 4000));
        Assert.InRange(clock.Now(new(5_000_100, Start + 5_000_100)).Microseconds, Start + 5_000_100, Start + 5_000_101);
    }

    [Fact]
    public void Now_ClocksReadInPieces_WhatIsWrongForCertainIsCorrected()
    {
        foreach (long wrong in (long[])[20_000, -20_000])
        {
            HybridClock clock = new(new(0, Start));
            for (int i = 1; i <= 1000; i++) clock.Now(new(i * 5000, Start + (i * 5000) + wrong - 2000, 4000));
            Assert.InRange(Math.Abs(clock.Now(new(5_000_100, Start + 5_000_100 + wrong)).Microseconds - Start - 5_000_100 - wrong), 0,
                2001);
        }
    }

    [Fact]
    public void Now_WallClockFarAhead_IsFollowedAtOnce()
    {
        HybridClock clock = new(new(0, Start));
        Assert.Equal(Start + 86_400_000_000, clock.Now(new(1000, Start + 86_400_000_000)).Microseconds);
    }

    [Fact]
    public void TryObserve_RemoteAheadWithinBound_MovesTheClock()
    {
        HybridClock clock = new(new(0, Start));
        HybridTimestamp remote = HybridTimestamp.Of(Start + 400_000, 7);
        Assert.True(clock.TryObserve(remote, new(1, Start + 1)));
        Assert.True(clock.Now(new(1, Start + 1)) > remote);
        // It goes on from there; it does not wait for its own time to catch up.
        Assert.InRange(clock.Now(new(100_001, Start + 100_001)).Microseconds, Start + 490_000, Start + 500_001);
        // And gives the lead back.
        clock.Now(new(20_000_000, Start + 20_000_000));
        Assert.InRange(clock.AheadOfWallUs, -1, 1);
    }

    [Fact]
    public void TryObserve_RemoteTooFarAhead_IsRefusedAndForgotten()
    {
        HybridClock clock = new(new(0, Start));
        Assert.False(clock.TryObserve(HybridTimestamp.Of(Start + 500_002, 0), new(0, Start)));
        Assert.InRange(clock.Now(new(1, Start + 1)).Microseconds, Start, Start + 2);
    }

    [Fact]
    public void TryObserve_ManyRemotesEachALittleAhead_CannotDragTheClockBeyondTheBound()
    {
        HybridClock clock = new(new(0, Start));
        for (int i = 0; i < 100; i++) clock.TryObserve(HybridTimestamp.Of(clock.Last.Microseconds + 300_000, 0), new(0, Start));
        Assert.InRange(clock.Last.Microseconds, Start, Start + 500_000);
    }

    [Fact]
    public void Resume_OwnTimestampFarAhead_IsContinued()
    {
        HybridClock clock = new(new(0, Start));
        HybridTimestamp own = HybridTimestamp.Of(Start + 7_200_000_000, 5);
        clock.Resume(own, new(0, Start));
        HybridTimestamp next = clock.Now(new(1000, Start + 1000));
        Assert.True(next > own);
        Assert.InRange(next.Microseconds - own.Microseconds, 900, 1000);
    }

    // A process that waits between its start and its turn: its predecessor went on meanwhile.
    [Fact]
    public void Resume_LongAfterTheStart_TimeIsNotCountedTwice()
    {
        HybridClock clock = new(new(0, Start));
        HybridTimestamp own = HybridTimestamp.Of(Start + 9_000_000, 0);
        clock.Resume(own, new(10_000_000, Start + 10_000_000));
        Assert.InRange(clock.Now(new(10_000_001, Start + 10_000_001)).Microseconds, Start + 10_000_000, Start + 10_000_002);
    }

    [Fact]
    public void Now_RandomClocksAndRemotes_NeverGoesBackNorBeyondTheBound()
    {
        for (int seed = 1; seed <= 50; seed++)
        {
            Random random = new(seed);
            HybridClock clock = new(new(0, Start));
            long mono = 0, wall = Start;
            HybridTimestamp last = clock.Last;
            for (int i = 0; i < 2000; i++)
            {
                long step = random.Next(0, 3000);
                mono += step;
                wall += step + (random.Next(50) == 0 ? random.Next(-5_000_000, 5_000_000) : random.Next(-5, 6));
                if (random.Next(3) == 0)
                {
                    HybridTimestamp remote = HybridTimestamp.Of(Math.Max(0, wall + random.Next(-1_000_000, 1_000_000)), random.Next(10));
                    bool taken = clock.TryObserve(remote, new(mono, wall));
                    if (taken) last = last > remote ? last : remote;
                }

                HybridTimestamp now = clock.Now(new(mono, wall));
                Assert.True(now > last, $"seed {seed}, step {i}: {now} after {last}");
                last = now;
            }
        }
    }
}
