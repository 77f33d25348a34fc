// What a shard says of the dependencies of its versions (DPR, section 3.1): rows of the graph, from the headers of batches.
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

public class DependencyTrailTests
{
    private static readonly ShardId Own = new(1);
    private readonly DependencyTrail _trail = new(Own, 3);

    [Fact]
    public void RowFor_BatchesInItsVersions_NamesTheLargestOfEachShard()
    {
        _trail.Begin(At(10), V(10));
        _trail.Add([On(0, 9), On(2, 7)], V(11));
        _trail.Add([On(0, 11)], V(12));
        _trail.Add([On(2, 13)], V(14));
        Assert.Equal("(10, 12] 0:11 2:7", Text(Row(12)));
        Assert.Equal("(12, 13]", Text(Row(13)));
        Assert.Equal("(13, 20] 2:13", Text(Row(20)));
    }

    [Fact]
    public void RowFor_TheSameAgain_IsTheSameRow()
    {
        _trail.Begin(At(0), V(0));
        _trail.Add([On(0, 4)], V(5));
        _ = Row(3);
        Assert.Equal("(3, 6] 0:4", Text(Row(6)));
        Assert.Equal("(3, 6] 0:4", Text(Row(6)));
    }

    [Fact]
    public void RowFor_WhatOthersExecuted_DependsOnEverythingUpToIt()
    {
        _trail.Begin(At(10), V(15));
        Assert.Equal("(10, 12] 0:12 2:12", Text(Row(12)));
        _trail.Add([On(0, 16)], V(17));
        Assert.Equal("(12, 18] 0:16 2:15", Text(Row(18)));
        Assert.Equal("(18, 19]", Text(Row(19)));
    }

    [Fact]
    public void Add_OwnShard_IsNoDependency()
    {
        _trail.Begin(At(0), V(0));
        _trail.Add([On(1, 3)], V(4));
        Assert.Equal("(0, 4]", Text(Row(4)));
    }

    [Fact]
    public void Committed_AndStartOver_BeginTheNextRowAtTheCut()
    {
        _trail.Begin(At(0), V(0));
        _trail.Add([On(0, 1)], V(2));
        _trail.Add([On(2, 5)], V(6));
        _ = Row(3);
        _ = Row(7);
        _trail.Committed(At(4));
        Assert.Equal("(4, 7] 2:5", Text(_trail.RowFor(At(7), startsOver: true)!.Value));
    }

    [Fact]
    public void Begin_NewWorldLine_ForgetsTheOldOne()
    {
        _trail.Begin(At(0), V(0));
        _trail.Add([On(0, 1)], V(2));
        _trail.Begin(new(WorldLine.First.Next, V(1)), V(1));
        Assert.Equal("(1, 3]", Text(_trail.RowFor(new(WorldLine.First.Next, V(3)))!.Value));
        Assert.Null(_trail.RowFor(At(3)));
    }

    [Fact]
    public void Begin_SameWorldLine_GoesOn()
    {
        _trail.Begin(At(0), V(0));
        _trail.Add([On(0, 1)], V(2));
        _trail.Begin(At(1), V(1));
        Assert.Equal("(0, 3] 0:1", Text(Row(3)));
    }

    [Fact]
    public void RowForBranch_OfAWorldLineThatThisProcessHasNotEntered_DependsOnEverything()
    {
        Assert.Equal("(2, 5] 0:5 2:5", Text(_trail.RowForBranch(At(5), V(2))));
        _trail.Begin(At(2), V(2));
        Assert.Equal("(2, 5]", Text(_trail.RowForBranch(At(5), V(2))));
    }

    // Whatever is merged, the rows given out last are a chain without a gap that says of each version at least what it depends on.
    [Fact]
    public void RowFor_CutStandsStill_StaysBoundedAndSaysNoLess()
    {
        Random random = new(3);
        _trail.Begin(At(0), V(0));
        Dictionary<long, PrecedenceRow> rows = [];
        List<(long Version, Dependency On)> added = [];
        for (long v = 1; v <= 1000; v++)
        {
            Dependency on = On(random.Next(2) * 2, random.NextInt64(1, v + 1));
            _trail.Add([on], V(v));
            added.Add((v, on));
            if (random.Next(3) != 0) continue;
            PrecedenceRow row = Row(v);
            foreach (long end in rows.Keys.Where(e => e > row.After.Number).ToArray()) rows.Remove(end);
            rows[v] = row;
        }

        Assert.InRange(rows.Count, 2, DependencyTrail.RowsMax);
        VersionNumber after = V(0);
        foreach (PrecedenceRow row in rows.Values.OrderBy(r => r.Through.Version.Number))
        {
            Assert.Equal(after, row.After);
            after = row.Through.Version;
            foreach ((long version, Dependency on) in added.Where(
                a => a.Version > row.After.Number && a.Version <= row.Through.Version.Number))
                Assert.Contains(row.Dependencies.Items.ToArray(), d => d.Shard == on.Shard && d.Version >= on.Version);
        }
    }

    [Theory]
    [InlineData(8, 30, 1, 0, 16)]
    [InlineData(16, 30, 1, 0, 24)]
    [InlineData(28, 30, 1, 0, 30)]
    [InlineData(29, 30, 1, 0, 30)]
    [InlineData(8, 30, 1, 20, 24)]   // 16 was skipped
    [InlineData(8, 31, 1, 31, 31)]
    [InlineData(33, 47, 16, 0, 47)]  // only multiples of 16 and the end can be restored to
    [InlineData(30, 47, 16, 0, 32)]
    [InlineData(40, 40, 1, 0, 40)]
    public void StepOf_SeveralVersions_GoesToTheLargestPowerOfTwo(long after, long durable, long stride, long floor, long step)
    {
        _trail.Begin(At(after), V(after));
        DurableClaim claim = new(new(WorldLine.First, V(durable)), stride, V(floor));
        DurableClaim taken = _trail.StepOf(claim);
        Assert.Equal(step, taken.Point.Version.Number);
        Assert.True(claim.Restores(taken.Point.Version));
        Assert.True(taken.Floor <= taken.Point.Version);
    }

    // Three shards with dense dependencies, each of which can write a row only now and then, at times of its own.
    [Theory]
    [InlineData(true)]
    [InlineData(false)]
    public void StepOf_RowsOfSeveralVersions_TheCutGoesOn(bool steps)
    {
        Random random = new(5);
        DependencyTrail[] trails = [new(new(0), 3), new(new(1), 3), new(new(2), 3)];
        foreach (DependencyTrail trail in trails) trail.Begin(At(0), V(0));
        ExactFinder finder = new(Cut.Uniform(WorldLine.First, 3, V(0)), []);
        for (long v = 1; v <= 600; v++)
        {
            for (int s = 0; s < 3; s++)
            {
                trails[s].Add([On((s + 1) % 3, v), On((s + 2) % 3, v)], V(v));
                if (random.Next(4 + (3 * s)) != 0) continue;
                DurableClaim claim = DurableClaim.Of(new(WorldLine.First, V(v)));
                if (steps) claim = trails[s].StepOf(claim);
                PrecedenceRow row = trails[s].RowFor(claim.Point)!.Value;
                finder.Report(VersionReport.Of(new(s), claim, row.After, row.Dependencies));
            }

            finder.Advance();
            for (int s = 0; s < 3; s++) trails[s].Committed(new(WorldLine.First, finder.Current.Versions[s]));
        }

        long lowest = finder.Current.Versions.ToArray().Min().Number;
        if (steps) Assert.InRange(lowest, 400, 600);
        else Assert.InRange(lowest, 0, 300); // by chance alone they end together
    }

    private PrecedenceRow Row(long through) => _trail.RowFor(At(through))!.Value;

    private static WorldPoint At(long version) => new(WorldLine.First, V(version));

    private static VersionNumber V(long number) => new(number);

    private static Dependency On(int shard, long version) => new(new(shard), new(version));

    private static string Text(in PrecedenceRow row)
    {
        string on = string.Join(' ', row.Dependencies.Items.ToArray().Select(d => $"{d.Shard}:{d.Version}"));
        return $"({row.After}, {row.Through.Version}] {on}".TrimEnd();
    }
}
