// What a shard says of the dependencies of its versions (DPR, section 3.1): rows of the graph, from the headers of batches.
using Slogger.Core.Cuts;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Tests.Cuts;

public class DependencyTrailTests
{
    private static readonly ShardId Own = new(1);
    private readonly DependencyTrail _trail = new(Own, 3);

    [Fact]
    public void RowFor_BatchesInItsVersions_NamesTheLargestOfEachShard()
    {
        _trail.Begin(V(10), V(10));
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
        _trail.Begin(V(0), V(0));
        _trail.Add([On(0, 4)], V(5));
        _ = Row(3);
        Assert.Equal("(3, 6] 0:4", Text(Row(6)));
        Assert.Equal("(3, 6] 0:4", Text(Row(6)));
    }

    [Fact]
    public void RowFor_WhatOthersExecuted_DependsOnEverythingUpToIt()
    {
        _trail.Begin(V(10), V(15));
        Assert.Equal("(10, 12] 0:12 2:12", Text(Row(12)));
        _trail.Add([On(0, 16)], V(17));
        Assert.Equal("(12, 18] 0:16 2:15", Text(Row(18)));
        Assert.Equal("(18, 19]", Text(Row(19)));
    }

    [Fact]
    public void Add_OwnShard_IsNoDependency()
    {
        _trail.Begin(V(0), V(0));
        _trail.Add([On(1, 3)], V(4));
        Assert.Equal("(0, 4]", Text(Row(4)));
    }

    [Fact]
    public void Committed_AndStartOver_BeginTheNextRowAtTheCut()
    {
        _trail.Begin(V(0), V(0));
        _trail.Add([On(0, 1)], V(2));
        _trail.Add([On(2, 5)], V(6));
        _ = Row(3);
        _ = Row(7);
        _trail.Committed(V(4));
        _trail.StartOver();
        Assert.Equal("(4, 7] 2:5", Text(Row(7)));
    }

    [Fact]
    public void Begin_NewWorldLine_ForgetsTheOldOne()
    {
        _trail.Begin(V(0), V(0));
        _trail.Add([On(0, 1)], V(2));
        _trail.Begin(V(1), V(1));
        Assert.Equal("(1, 3]", Text(Row(3)));
    }

    // Whatever is merged, the rows given out last are a chain without a gap that says of each version at least what it depends on.
    [Fact]
    public void RowFor_CutStandsStill_StaysBoundedAndSaysNoLess()
    {
        Random random = new(3);
        _trail.Begin(V(0), V(0));
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
        Version after = V(0);
        foreach (PrecedenceRow row in rows.Values.OrderBy(r => r.Through.Version.Number))
        {
            Assert.Equal(after, row.After);
            after = row.Through.Version;
            foreach ((long version, Dependency on) in added.Where(a => a.Version > row.After.Number && a.Version <= row.Through.Version.Number))
                Assert.Contains(row.Dependencies.Items.ToArray(), d => d.Shard == on.Shard && d.Version >= on.Version);
        }
    }

    private PrecedenceRow Row(long through) => _trail.RowFor(new(WorldLine.First, V(through)));

    private static Version V(long number) => new(number);

    private static Dependency On(int shard, long version) => new(new(shard), new(version));

    private static string Text(in PrecedenceRow row)
    {
        string on = string.Join(' ', row.Dependencies.Items.ToArray().Select(d => $"{d.Shard}:{d.Version}"));
        return $"({row.After}, {row.Through.Version}] {on}".TrimEnd();
    }
}
