// The finders at the size of a large cluster. Nothing is decided by timing: the tests check the cuts and what is allocated, and print
// the time.
using System.Diagnostics;
using Slogger.Core.Cuts;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Cuts;

public class FinderScaleTests
{
    [Fact]
    public void Approximate_512Shards_2000Rounds_CutFollows() => Measure("approximate", c => new ApproximateFinder(c), 512, 2000, 0);

    [Fact]
    public void Exact_64Shards_CutFollows() => Measure("exact", c => new ExactFinder(c, []), 64, 200, 63);

    [Fact]
    public void Hybrid_64Shards_CutFollows() => Measure("hybrid", c => new HybridFinder(c), 64, 200, 63);

    [Theory]
    [InlineData(8, 7)]
    [InlineData(64, 8)]
    [InlineData(64, 63)]
    [InlineData(512, 8)]
    [InlineData(512, 511)]
    public void Graph_Sizes_CutFollows(int shards, int on)
    {
        int rounds = Math.Max(20, 4000 / shards);
        Measure("exact", c => new ExactFinder(c, []), shards, rounds, on);
        Measure("hybrid", c => new HybridFinder(c), shards, rounds, on);
    }

    [Fact]
    public void Advance_NothingToMove_AllocatesNothing()
    {
        HybridFinder hybrid = new(FinderTestKit.Start(2));
        hybrid.After("A(0,1] B1", "B(0,1] A1", "A(1,2] B2");
        VersionReport known = FinderTestKit.Report("A(1,2] B2");
        long before = GC.GetAllocatedBytesForCurrentThread();
        for (int i = 0; i < 1000; i++)
        {
            hybrid.Report(known);
            hybrid.Advance();
        }

        Assert.Equal(0, GC.GetAllocatedBytesForCurrentThread() - before);
    }

    /// <summary>In each round every shard reports one version that depends on the same version of the next shards, in an order by
    /// seed; the last shard reports one round later, so that there is always a closure to be found between two rounds.</summary>
    private static void Measure(string name, Func<Cut, IDprFinder> make, int shards, int rounds, int on)
    {
        const int Seed = 1;
        Random random = new(Seed);
        int[] order = [.. Enumerable.Range(0, shards - 1)];
        Dependency[] items = new Dependency[on];
        IDprFinder finder = make(FinderTestKit.Start(shards));
        Stopwatch reporting = new(), advancing = new();
        List<VersionReport> reports = new(shards);
        for (int round = 1; round <= rounds; round++)
        {
            random.Shuffle(order);
            reports.Clear();
            foreach (int shard in order) reports.Add(Report(shard, round));
            if (round > 1) reports.Add(Report(shards - 1, round - 1));
            reporting.Start();
            foreach (VersionReport report in reports) finder.Report(report);
            reporting.Stop();
            advancing.Start();
            finder.Advance();
            advancing.Stop();
            Assert.Equal(round - 1, finder.Current.Versions[0].Number);
            Assert.Equal(round - 1, finder.Current.Versions[shards - 1].Number);
        }

        TestContext.Current.TestOutputHelper?.WriteLine(
            $"{name}, {shards} shards, {on} dependencies each: {advancing.Elapsed.TotalMilliseconds / rounds:F4} ms per advance, "
            + $"{reporting.Elapsed.TotalMilliseconds / rounds:F4} ms for a round of reports (seed {Seed})");

        VersionReport Report(int shard, int version)
        {
            for (int i = 0; i < on; i++) items[i] = new(new((shard + 1 + i) % shards), new(version));
            return new(new(shard), new(WorldLine.First, new(version)), 1, new VersionNumber(version - 1), DependencySet.Of(items));
        }
    }
}
