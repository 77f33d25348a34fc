// The paper's rules about cuts, each by the sentence that it checks (DPR, sections 3.1 to 3.4).
using Slogger.Core.Cuts;
using static Slogger.Core.Tests.Cuts.FinderTestKit;

namespace Slogger.Core.Tests.Cuts;

public class DprPaperFinderTests
{
    // Figure 2: sessions S1 and S2 of 4 operations each; filled in where the text leaves them open: S1 is A-1, B-1, C-2, B-2, and S2
    // is B-1, C-2, C-2, A-2. "We depict in Figure 2 a DPR-guarantee of up to
    // operation 2 of S1 (S1-2), and operation 1 of S2 (S2-1) [...] The system backs this guarantee with a DPR-cut that consists of
    // A-1 and B-1". "The dependency between B-2 and C-2 results from S1-4, which is chronologically after the last client
    // interaction with C, and C is not aware of its existence."
    private static readonly string[] Figure2WithoutC = ["A(0,1]", "B(0,1] A1", "B(1,2] C2", "A(1,2] C2"];

    [Fact]
    public void Figure2_CIsNotDurable_CutIsA1AndB1()
    {
        ExactFinder exact = new(Start(3), []);
        HybridFinder hybrid = new(Start(3));
        Assert.Equal("1 1 0", exact.After(Figure2WithoutC));
        Assert.Equal("1 1 0", hybrid.After(Figure2WithoutC));
    }

    [Fact]
    public void Figure2_CIsDurable_CutIsAll()
    {
        ExactFinder exact = new(Start(3), []);
        exact.After(Figure2WithoutC);
        Assert.Equal("2 2 2", exact.After("C(0,2] B1"));
        Assert.Empty(exact.Rows());
    }

    // "A token B-n depends on A-m if [...] there exists some token C-p, such that B-n depends on C-p, and C-p depends on A-m."
    [Fact]
    public void Transitivity_TheLastOfAChainIsNotDurable_NothingOfItIsInTheCut()
    {
        ExactFinder exact = new(Start(4), []);
        Assert.Equal("0 0 0 1", exact.After("B(0,1] C1", "C(0,1] A1", "D(0,1]"));
        Assert.Equal("1 1 1 1", exact.After("A(0,1]"));
    }

    // Versions of one number may depend on each other: a set is a cut "iff the set of tokens they capture is closed under the
    // transitive property of dependency", a cycle included.
    [Fact]
    public void Closure_VersionsThatDependOnEachOther_AreTakenTogether()
    {
        ExactFinder exact = new(Start(2), []);
        Assert.Equal("0 0", exact.After("A(0,5] B5"));
        Assert.Equal("5 5", exact.After("B(0,5] A5"));
    }

    // Figure 3: "calling Commit() in an uncoordinated manner may never yield a DPR-cut". A client alternates between A and B;
    // A-1 holds its first 3 operations, B-1 the first one; from then on both commit every 3 operations. "Any token in this
    // trace depends on all future tokens."
    [Fact]
    public void Figure3_UncoordinatedCommits_NeverYieldACut()
    {
        ExactFinder exact = new(Start(2), []);
        for (int n = 1; n <= 50; n++)
        {
            // A-n holds the client's operations 6n-5, 6n-3, 6n-1; the last follows 6n-2, which is in B-(n+1). B-(n+1) holds
            // 6n-2, 6n, 6n+2; the last follows 6n+1, which is in A-(n+1). B-1 holds 2.
            string b = n == 1 ? "B(0,1] A1" : $"B({n - 1},{n}] A{n - 1} A{n}";
            Assert.Equal("0 0", exact.After($"A({n - 1},{n}] B{n} B{n + 1}", b));
        }

        Assert.Equal(100, exact.Rows().Count);
    }

    // "This is correct because no versions can depend on larger versions": where they do, the approximate finder, which relies
    // on it, is wrong, and the exact one is not. Hence the rule v >= Vs is part of the contract of every shard.
    [Fact]
    public void Figure3_WithoutTheRule_TheApproximateFinderWouldCutThroughASession()
    {
        ApproximateFinder approximate = new(Start(2));
        Assert.Equal("1 1", approximate.After("A(0,1] B2", "B(0,1] A1"));
    }

    // "A StateObject checks Vs against its next token version v, and executes the request only if v >= Vs; otherwise it calls
    // Commit() until v >= Vs before executing." The client of figure 3, with that rule: each version has a finite dependency set.
    [Fact]
    public void Figure3_WithTheRule_TheCutFollows()
    {
        long[] open = [1, 1], closed = [0, 0], since = [0, -2];
        List<Dependency>[] on = [[], []];
        ExactFinder exact = new(Start(2), []);
        ApproximateFinder approximate = new(Start(2));
        long vs = 0;
        for (int operation = 1; operation <= 300; operation++)
        {
            int at = operation % 2 == 1 ? 0 : 1;
            if (vs > open[at]) Commit(at, vs);
            if (operation > 1) on[at].Add(new(new(1 - at), new(vs)));
            vs = Math.Max(vs, open[at]);
            if (++since[at] == 3) Commit(at, open[at] + 1);
            exact.Advance();
            approximate.Advance();
            // Two versions are open at most: all before them is in the cut.
            Assert.True(exact.Current.IsAtLeast(approximate.Current));
            Assert.True(approximate.Current.Versions[0].Number >= Math.Min(closed[0], closed[1]));
        }

        Assert.True(approximate.Current.Versions[0].Number > 40);

        void Commit(int at, long next)
        {
            VersionReport report = new(new(at), new(new(1), new(next - 1)), 1, new(closed[at]), DependencySet.Of([.. on[at]]));
            exact.Report(report);
            approximate.Report(report);
            (closed[at], open[at], since[at]) = (next - 1, next, 0);
            on[at].Clear();
        }
    }

    // "Because the coordinator only sees committed versions, the computed cut is always safe, albeit slightly outdated."
    [Fact]
    public void Exact_NotReportedYet_IsOutside()
    {
        ExactFinder exact = new(Start(2), []);
        Assert.Equal("4 0", exact.After("A(0,4]", "A(4,5] B5"));
        Assert.Equal("5 5", exact.After("B(0,5]"));
    }

    // "The compute node can simply be restarted in case of failure, as it is stateless."
    [Fact]
    public void Exact_RestartedFromTheRows_FindsTheSame()
    {
        ExactFinder before = new(Start(3), []);
        before.After(Figure2WithoutC);
        ExactFinder after = new(before.Current, before.Rows().Reverse());
        Assert.False(after.Advance());
        Assert.Equal("2 2 2", after.After("C(0,2] B1"));
    }

    // "Let Vmin be the smallest version number in the durable store. Then, a DPR-cut in the system consists of all tokens of
    // version Vmin."
    [Fact]
    public void Approximate_CutIsTheSmallestDurableVersion_AtEveryShard()
    {
        ApproximateFinder finder = new(Start(3));
        Assert.Equal("0 0 0", finder.After("A(0,9]", "B(0,7]"));
        Assert.Equal("5 5 5", finder.After("C(0,5]"));
        Assert.Equal("7 7 7", finder.After("C(5,12]"));
    }

    // "We can additionally track Vmax, the largest version number in the durable store. We can then program each StateObject to
    // [...] fast-forward its next checkpoint to be at least Vmax, which allows for a lagging StateObject to catch up".
    [Fact]
    public void Approximate_AShardLags_CatchesUpByVmax()
    {
        ApproximateFinder finder = new(Start(2));
        Assert.Equal("1 1", finder.After("A(0,90]", "B(0,1]"));
        Assert.Equal(90, finder.Vmax.Number);
        Assert.Equal("90 90", finder.After($"B(1,{finder.Vmax}]"));
    }

    // "Upon failure, the precedence graph is lost; when a new version arrives, the coordinator cannot be certain of its
    // dependency set in the lost subgraph and therefore cannot safely advance the DPR cut."
    [Fact]
    public void Hybrid_GraphIsLost_WhatDependsOnTheLostPartWaits()
    {
        HybridFinder hybrid = Lost();
        Assert.Equal("2 2 2", hybrid.After());
        Assert.Equal("2 2 2", hybrid.After("A(6,7] B5"));
        Assert.Equal("2 2 2", hybrid.After("B(5,7]"));
    }

    // "Eventually the approximate algorithm will advance the DPR cut past the missing subgraph, at which point the coordinator
    // can proceed as normal."
    [Fact]
    public void Hybrid_ApproximatePassesTheLostPart_GraphCountsAgain()
    {
        HybridFinder hybrid = Lost();
        hybrid.After("A(6,7] B5", "B(5,7]");
        // C is durable to 5: B's lost part (3, 5] is passed, and what B has above it is known. A's lost part goes to 6.
        Assert.Equal("5 7 5", hybrid.After("C(2,5]"));
        Assert.Equal("7 7 6", hybrid.After("C(5,6]"));
        // And as normal: exact, not approximate.
        Assert.Equal("9 8 6", hybrid.After("A(7,9] B8", "B(7,8]"));
    }

    private static HybridFinder Lost()
    {
        HybridFinder first = new(Start(3));
        Assert.Equal("2 3 2", first.After("A(0,2]", "B(0,3]", "C(0,2]", "A(2,6] B4", "B(3,5] C3"));
        // Another starts from a cut that was recorded a little before, and from the durable versions.
        HybridFinder second = new(Cut.Uniform(new(1), 3, new(2)));
        foreach ((int shard, long durable) in new[] { (0, 6L), (1, 5L), (2, 2L) })
            second.Report(VersionReport.WithoutDependencies(new(shard), new(new(1), new(durable)), 1));
        return second;
    }
}
