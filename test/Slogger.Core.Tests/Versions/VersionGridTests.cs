// Design, section 3: "v = v0 + (t - t0) / D. The grid epoch lives in the metadata store, so changing D never makes versions go back."
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Versions;

public class VersionGridTests
{
    private const long T0 = 1_000_000;

    [Theory]
    [InlineData(T0 - 5, 10)]
    [InlineData(T0, 10)]
    [InlineData(T0 + 4999, 10)]
    [InlineData(T0 + 5000, 11)]
    [InlineData(T0 + 50_001, 20)]
    public void VersionAt_OneStretch_IsTheSlot(long timeUs, long version) =>
        Assert.Equal(new VersionNumber(version), new VersionGrid(new(10), T0, 5000).VersionAt(timeUs));

    [Fact]
    public void StartOf_IsTheFirstInstantOfTheVersion()
    {
        VersionGrid grid = new VersionGrid(new(1), T0, 5000).WithInterval(1000, T0 + 12_345).WithInterval(60_000_000, T0 + 20_000);
        for (long t = T0; t < T0 + 200_000_000; t += 777)
        {
            VersionNumber v = grid.VersionAt(t);
            long start = grid.StartOf(v);
            Assert.True(start <= t);
            Assert.Equal(v, grid.VersionAt(start));
            if (v.Number > 1) Assert.True(grid.VersionAt(start - 1) < v);
        }
    }

    [Fact]
    public void Successor_TakesEffectAtTheNextGridPoint()
    {
        VersionGrid grid = new VersionGrid(new(1), T0, 5000).WithInterval(1000, T0 + 7_000);
        Assert.Equal(new GridStretch(new(3), T0 + 10_000, 1000), grid.Stretches[^1]);
        Assert.Equal(new VersionNumber(2), grid.VersionAt(T0 + 9_999));
        Assert.Equal(new VersionNumber(4), grid.VersionAt(T0 + 11_000));
        Assert.Equal(5000, grid.IntervalUsAt(T0 + 9_999));
        Assert.Equal(1000, grid.IntervalUsAt(T0 + 10_000));
    }

    [Fact]
    public void Successor_RandomChanges_VersionsNeverGoBack()
    {
        for (int seed = 1; seed <= 100; seed++)
        {
            Random random = new(seed);
            VersionGrid grid = new(new(random.Next(1, 1000)), T0, random.Next(100, 10_000));
            long t = T0;
            VersionNumber last = grid.VersionAt(t);
            for (int i = 0; i < 500; i++)
            {
                t += random.Next(0, 5_000);
                if (random.Next(20) == 0) grid = grid.WithInterval(random.Next(100, 100_000), t + random.Next(0, 10_000));
                VersionNumber v = grid.VersionAt(t);
                Assert.True(v >= last, $"seed {seed}: {v} after {last}");
                last = v;
            }
        }
    }

    [Fact]
    public void StartOf_VersionThatAStretchSkipped_OpensWithTheStretch()
    {
        VersionGrid grid = new([new(new(1), T0, 5000), new(new(100), T0 + 10_000, 1000)]);
        Assert.Equal(T0 + 10_000, grid.StartOf(new(50)));
        Assert.Equal(T0 + 5_000, grid.StartOf(new(2)));
        Assert.Equal(T0, grid.StartOf(VersionNumber.Zero));
    }

    [Fact]
    public void OfHistory_AnotherSiteGoesOnBelowWhatWasOpen_ThoseVersionsAreInNoHistory()
    {
        // The site's versions 11 to 20 were open, and are lost: the other one takes over with version 11, when 21 would be.
        VersionGrid grid = VersionGrid.OfHistory([new(new(1), T0, 1000), new(new(11), T0 + 20_000, 500)]);
        Assert.Equal(new VersionNumber(10), grid.VersionAt(T0 + 9_999));
        Assert.Equal(new VersionNumber(10), grid.VersionAt(T0 + 19_999));
        Assert.Equal(new VersionNumber(11), grid.VersionAt(T0 + 20_000));
        Assert.Equal(T0 + 9_000, grid.StartOf(new(10)));
        Assert.Equal(T0 + 20_000, grid.StartOf(new(11)));
        Assert.Equal(T0 + 20_500, grid.StartOf(new(12)));
    }

    [Fact]
    public void Behind_WhatTheGridHasItself_ItsOwnStretchesCount()
    {
        VersionGrid own = new(new(11), T0 + 20_000, 500);
        GridStretch first = new(new(1), T0, 1000);
        Assert.Equal([first, own.Stretches[0]], own.Behind(VersionGrid.OfHistory([first])).Stretches);
        Assert.Equal([first, own.Stretches[0]], own.Behind(VersionGrid.OfHistory([first, new(new(12), T0 + 21_000, 500)])).Stretches);
        Assert.Equal(own.Stretches, own.Behind(own).Stretches);
    }

    [Fact]
    public void OfHistory_StretchesInAnotherOrder_AreRefused()
    {
        Assert.Throws<ArgumentException>(() => VersionGrid.OfHistory([]));
        Assert.Throws<ArgumentException>(() => VersionGrid.OfHistory([new(new(1), T0, 0)]));
        Assert.Throws<ArgumentException>(() => VersionGrid.OfHistory([new(new(5), T0, 1000), new(new(5), T0 + 1, 1000)]));
        Assert.Throws<ArgumentException>(() => VersionGrid.OfHistory([new(new(5), T0, 1000), new(new(6), T0, 1000)]));
    }

    [Fact]
    public void Constructor_StretchesThatGoBack_AreRefused()
    {
        Assert.Throws<ArgumentException>(() => new VersionGrid([]));
        Assert.Throws<ArgumentException>(() => new VersionGrid(new(1), T0, 0));
        Assert.Throws<ArgumentException>(() => new VersionGrid(new(0), T0, 5000));
        Assert.Throws<ArgumentException>(() => new VersionGrid([new(new(1), T0, 5000), new(new(2), T0 + 50_000, 5000)]));
        Assert.Throws<ArgumentException>(() => new VersionGrid([new(new(1), T0, 5000), new(new(9), T0, 5000)]));
    }

    [Theory]
    [InlineData(1, 1000, 0, 2, 1010)]
    [InlineData(1, 1000, 1010, 2, 1010)]
    [InlineData(1, 1000, 1011, 3, 1020)]
    [InlineData(7, 0, 100, 17, 100)]
    public void Successor_NotBefore_IsTheNextGridPoint(long version, long start, long notBefore, long nextVersion, long nextStart)
    {
        GridStretch next = new GridStretch(new(version), start, 10).Successor(3, notBefore);
        Assert.Equal(new(new(nextVersion), nextStart, 3), next);
    }
}
