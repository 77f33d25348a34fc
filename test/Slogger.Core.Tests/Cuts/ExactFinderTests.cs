// The graph's rules one by one: rows that are late, doubled, merged or lost; the closure against trying every cut there is.
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using static Slogger.Core.Tests.Cuts.FinderTestKit;

namespace Slogger.Core.Tests.Cuts;

public class ExactFinderTests
{
    [Fact]
    public void Report_WithAGap_WaitsForWhatIsMissing()
    {
        ExactFinder exact = new(Start(2), []);
        Assert.Equal("0 0", exact.After("A(1,2]"));
        Assert.Equal("0 0", exact.After("A(3,4]", "A(5,6]"));
        Assert.Equal("2 0", exact.After("A(0,1]"));
        Assert.Equal("2 0", exact.After("A(4,5]"));
        Assert.Equal("2 0", exact.After("A(2,3] B1"));
        Assert.Equal("6 1", exact.After("B(0,1]"));
    }

    [Fact]
    public void Report_SeveralVersionsAgain_FillsTheGapsWithThem()
    {
        ExactFinder exact = new(Start(2), []);
        Assert.Equal("1 0", exact.After("A(0,1]", "A(2,3]", "A(5,6]"));
        // (1, 5] again as one: its dependencies may come from any part of it, so the missing parts (1, 2] and (3, 5] have them.
        Assert.Equal("1 0", exact.After("A(1,5] B1"));
        Assert.Equal(["A(1,2]", "A(2,3]", "A(3,5]", "A(5,6]"], exact.Rows().Select(Text));
        Assert.Equal("6 1", exact.After("B(0,1]"));
    }

    [Fact]
    public void Report_KnownAlready_ChangesNothing()
    {
        ExactFinder exact = new(Start(2), []);
        exact.After("A(0,2] B2", "A(2,4]");
        PrecedenceRow[] before = [.. exact.Rows()];
        Assert.Equal("0 0", exact.After("A(0,2] B2", "A(2,4]", "A(0,4] B2", "A(1,2]"));
        Assert.Equal(before, exact.Rows());
        Assert.Equal("4 2", exact.After("B(0,2]"));
        Assert.Equal("4 2", exact.After("A(0,2] B9", "B(0,2] A9"));
    }

    [Fact]
    public void Report_OtherWorldLine_ChangesNothing()
    {
        ExactFinder exact = new(Start(2), []);
        exact.After("A(0,2] B2");
        exact.BeginWorldLine(Cut.Uniform(new(2), 2, new(1)));
        Assert.Empty(exact.Rows());
        exact.Report(Report("A(1,3]"));
        exact.Report(Report("A(1,3]", worldLine: 3));
        Assert.Equal("1 1", exact.After());
        exact.Report(Report("A(1,3] B1", worldLine: 2));
        Assert.Equal("3 1", exact.After());
        Assert.Equal(new WorldLine(2), exact.Current.WorldLine);
    }

    [Fact]
    public void Constructor_RowsOfOtherWorldLines_ArePassedOver()
    {
        PrecedenceRow old = Report("A(0,9]").Row, now = Report("A(3,4]", worldLine: 2).Row;
        ExactFinder exact = new(Cut.Uniform(new(2), 1, new(3)), [old, now]);
        Assert.Equal("4", exact.After());
        Assert.ThrowsAny<ArgumentException>(() => new ExactFinder(Start(1), [Report("A(0,9] B1").Row]));
    }

    [Fact]
    public void Rows_ManyAboveTheCut_AreMergedAndNothingIsForgotten()
    {
        ExactFinder exact = new(Start(2), []);
        for (int v = 1; v <= 10_000; v++) exact.Report(Report($"A({v - 1},{v}] B{v}"));
        Assert.Equal(128, exact.Rows().Count);
        Assert.Equal("0 0", exact.After());
        // The first ones pass by themselves, the merged rest all at once.
        Assert.Equal("127 5000", exact.After("B(0,5000]"));
        Assert.Equal("10000 10000", exact.After("B(5000,10000]"));
    }

    [Fact]
    public void Rows_ManyGaps_StayBoundedAndGoOnInOrder()
    {
        ExactFinder exact = new(Start(1), []);
        for (int v = 2; v <= 10_000; v += 2) exact.Report(Report($"A({v - 1},{v}]"));
        Assert.InRange(exact.Rows().Count, 1, 128);
        for (int v = 1; v <= 10_000; v++) exact.Report(Report($"A({v - 1},{v}]"));
        Assert.Equal("10000", exact.After());
    }

    [Fact]
    public void Closure_RandomSmallGraphs_IsTheLargestClosedSet()
    {
        int partial = 0;
        for (int seed = 1; seed <= 3000; seed++)
        {
            Random random = new(seed);
            PrecedenceRow[][] graph = [.. Enumerable.Range(0, random.Next(1, 5)).Select(_ => new PrecedenceRow[random.Next(0, 5)])];
            foreach ((int s, PrecedenceRow[] rows) in graph.Index())
            {
                for (int i = 0, after = 0; i < rows.Length; i++)
                {
                    int through = after + random.Next(1, 4);
                    // Any version of any shard, also larger ones, its own, and ones that are not durable.
                    Dependency[] on = new Dependency[random.Next(0, 3)];
                    for (int d = 0; d < on.Length; d++) on[d] = new(new(random.Next(graph.Length)), new(random.Next(0, 10)));
                    rows[i] = new(new(s), new(WorldLine.First, new(through)), new(after), DependencySet.Of(on));
                    after = through;
                }
            }

            PrecedenceRow[] shuffled = [.. graph.SelectMany(r => r)];
            random.Shuffle(shuffled);
            ExactFinder exact = new(Start(graph.Length), shuffled);
            exact.Advance();
            VersionNumber[] largest = LargestByTryingAll(graph);
            Assert.True(largest.SequenceEqual(exact.Current.Versions.ToArray()),
                $"seed {seed}: {exact.Current}, not [{string.Join(' ', largest)}]");
            if (exact.Rows().Count > 0 && largest.Any(v => v > VersionNumber.Zero)) partial++;
        }

        Assert.True(partial > 500, $"{partial} graphs had something in and something out");
    }

    /// <summary>Tries every choice of a prefix per shard, and joins those that are closed.</summary>
    private static VersionNumber[] LargestByTryingAll(PrecedenceRow[][] graph)
    {
        VersionNumber[] largest = new VersionNumber[graph.Length];
        int[] taken = new int[graph.Length];
        while (true)
        {
            VersionNumber[] reach = [.. taken.Select((n, s) => n == 0 ? VersionNumber.Zero : graph[s][n - 1].Through.Version)];
            bool closed = true;
            for (int s = 0; s < graph.Length; s++)
                for (int i = 0; i < taken[s]; i++)
                    foreach (Dependency d in graph[s][i].Dependencies.Items) closed &= d.Version <= reach[d.Shard.Number];
            if (closed)
                for (int s = 0; s < graph.Length; s++) largest[s] = VersionNumber.Max(largest[s], reach[s]);
            int next = 0;
            while (next < graph.Length && taken[next] == graph[next].Length) taken[next++] = 0;
            if (next == graph.Length) return largest;
            taken[next]++;
        }
    }

    private static string Text(PrecedenceRow row) => $"{(char)('A' + row.Shard.Number)}({row.After},{row.Through.Version}]";
}
