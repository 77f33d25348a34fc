// Property tests of the finders: many seeded clusters, each with reports that are late, doubled, overtaken and lost, finders that
// die and world-lines that begin (invariants I1, I2, I3, I5, I8), and mutants that prove that the properties would notice.
using Slogger.Core.Cuts;
using Slogger.Core.Tests.Model;

namespace Slogger.Core.Tests.Cuts;

public class FinderWorldTests
{
    // SLOGGER_TEST_WORLDS in the environment for a long run.
    private static readonly int Worlds =
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_WORLDS"), out int n) ? n : 400;

    private static readonly long[] Nested = [1, 2, 8];
    private static readonly long[] NotNested = [2, 3, 4];

    [Fact]
    public void Finders_RandomReports_CutsAreClosedMaximalAndMonotone()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++) Run(new() { Seed = seed }, happened);
        AssertHappened(happened, "ExactFinder moved", "ApproximateFinder moved", "HybridFinder moved", "exact is no grid cut",
            "exact above approximate",
            "report of an old world-line", "world-line", "hybrid died", "hybrid held back by the lost part");
    }

    [Fact]
    public void Finders_ShardsThatCloseEveryStride_CutsAreRestorableEverywhere()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++) Run(new() { Seed = seed, Strides = seed % 2 == 0 ? Nested : NotNested }, happened);
        AssertHappened(happened, "ExactFinder moved", "ApproximateFinder moved", "HybridFinder moved", "exact above approximate");
    }

    [Fact]
    public void Finders_SeveralVersionsInOneReport_CutsAreClosedAndMonotone()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++)
            Run(new() { Seed = seed, Coalesce = true, Strides = seed % 2 == 0 ? [1] : Nested }, happened);
        AssertHappened(happened, "ExactFinder moved", "ApproximateFinder moved", "HybridFinder moved");
    }

    [Fact]
    public void Finders_FewRangesKeptApart_CutsAreClosedAndGoOn()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++) Run(new() { Seed = seed, RangesMax = 3 }, happened);
        AssertHappened(happened, "ExactFinder moved", "HybridFinder moved", "hybrid died");
    }

    // "Monotonicity" in the paper's sense: a version never depends on a larger one. The exact finder does not need it.
    [Fact]
    public void Exact_VersionsThatDependOnLargerOnes_CutsAreClosedMaximalAndMonotone()
    {
        Dictionary<string, int> happened = [];
        for (int seed = 1; seed <= Worlds; seed++) Run(new() { Seed = seed, Monotone = false, Coalesce = seed % 2 == 0 }, happened);
        AssertHappened(happened, "ExactFinder moved", "exact is no grid cut", "world-line");
    }

    [Theory]
    [InlineData((int)FinderMutation.GridOneTooFar, "I2")]
    [InlineData((int)FinderMutation.StrideIgnored, "I1")]
    [InlineData((int)FinderMutation.LargestStride, "I1")]
    [InlineData((int)FinderMutation.AnyWorldLine, "I2")]
    [InlineData((int)FinderMutation.OldWorldLineKept, "I2")]
    [InlineData((int)FinderMutation.GraphOneTooFar, "I1")]
    [InlineData((int)FinderMutation.NoTransitivity, "I1")]
    [InlineData((int)FinderMutation.LostIsTrusted, "I1")]
    [InlineData((int)FinderMutation.GapIsClosed, "I1")]
    [InlineData((int)FinderMutation.FillsWholeGap, "I1")]
    [InlineData((int)FinderMutation.MergeForgets, "I1")]
    public void Mutant_IsCaught(int mutation, string by)
    {
        FinderMutation m = (FinderMutation)mutation;
        FinderWorldSettings settings = new()
        {
            Mutation = m,
            Strides = m == FinderMutation.LargestStride ? NotNested : m == FinderMutation.StrideIgnored ? Nested : [1],
            RangesMax = m == FinderMutation.MergeForgets ? 3 : PrecedenceGraph.RangesMax,
        };
        List<string> caught = [];
        for (int seed = 1; seed <= Worlds && !caught.Exists(c => c.StartsWith(by, StringComparison.Ordinal)); seed++)
        {
            try
            {
                new FinderWorld(settings with { Seed = seed }).Run();
            }
            catch (Exception e) when (e is ModelException or ArgumentException or InvalidOperationException)
            {
                caught.Add(e.Message);
                TestContext.Current.TestOutputHelper?.WriteLine($"{m}: seed {seed}: {e.Message}");
            }
        }

        // At the level of operations, not only by a difference from the slow computation.
        Assert.Contains(caught, c => c.StartsWith(by, StringComparison.Ordinal));
    }

    private static void Run(FinderWorldSettings settings, Dictionary<string, int> happened)
    {
        FinderWorld world = new(settings);
        try
        {
            world.Run();
        }
        catch (Exception e)
        {
            throw new ModelException($"seed {settings.Seed}: {e.Message}\n{e.StackTrace}");
        }

        foreach ((string what, int n) in world.Happened) happened[what] = happened.GetValueOrDefault(what) + n;
    }

    private static void AssertHappened(Dictionary<string, int> happened, params string[] what)
    {
        TestContext.Current.TestOutputHelper?.WriteLine(string.Join(", ", happened.Select(h => $"{h.Key} {h.Value}")));
        // A world in which nothing happens proves nothing.
        foreach (string w in what)
            Assert.True(happened.GetValueOrDefault(w) > Worlds / 4,
                $"'{w}' happened {happened.GetValueOrDefault(w)} times in {Worlds} worlds");
    }
}
