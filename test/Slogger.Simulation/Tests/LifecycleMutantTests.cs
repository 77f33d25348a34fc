// The tests of the tests for the life of a shard: with one rule of ShardLifecycle switched off, some case among the first so many breaks
// the invariant that the rule is for. What few seeds show has a scenario (LaterWorldLineLetsIn, VersionNotAwaited, AdmissionForgotten,
// JoinerNotHurried, LeavesUncommitted); what OpenVersionForgotten switches off has a test of Core (LeaverTests).
using Slogger.Core.Cuts;
using Slogger.Core.Lifecycle;

namespace Slogger.Simulation.Tests;

public class LifecycleMutantTests
{
    [Theory]
    [InlineData((int)LifecycleMutation.CutShortOpens, (int)FinderKind.Approximate, "I", 20000)]
    [InlineData((int)LifecycleMutation.EntersBeforeClosed, (int)FinderKind.Approximate, "I", 20000)]
    [InlineData((int)LifecycleMutation.RestoresBeforeBegun, (int)FinderKind.Approximate, "I", 20000)]
    [InlineData((int)LifecycleMutation.OwnBranchTaken, (int)FinderKind.Approximate, "I", 20000)]
    [InlineData((int)LifecycleMutation.ViewKept, (int)FinderKind.Approximate, "I", 20000)]
    [InlineData((int)LifecycleMutation.PeersNotAwaited, (int)FinderKind.Approximate, "I", 20000)]
    public void Lifecycle_RuleIsOff_IsCaught(int mutation, int finder, string by, int seeds) =>
        MutantTests.AssertCaught(((LifecycleMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Finder = (FinderKind)finder, Lifecycle = (LifecycleMutation)mutation });

    // Who does not go back, or does not say what its versions depend on, holds up everybody.
    [Theory]
    [InlineData((int)LifecycleMutation.SameStoreAssumed, (int)FinderKind.Approximate)]
    [InlineData((int)LifecycleMutation.LeftWorldLineGoesOn, (int)FinderKind.Approximate)]
    [InlineData((int)LifecycleMutation.BranchForgotten, (int)FinderKind.Approximate)]
    [InlineData((int)LifecycleMutation.TrailNotBegun, (int)FinderKind.Exact)]
    public void Lifecycle_RuleIsOff_HoldsUpEverybody(int mutation, int finder) =>
        MutantTests.AssertCaught(
            ((LifecycleMutation)mutation).ToString(), "I", 20000,
                new() { Seed = 0, Finder = (FinderKind)finder, Lifecycle = (LifecycleMutation)mutation }, checksProgress: true);

    [Fact]
    public void Joiner_LetsClientsInBeforeItCounts_IsCaught() =>
        MutantTests.AssertCaught("AdmissionNotAwaited", "I", 500,
            new() { Seed = 0, Moves = true, Members = true, Lifecycle = LifecycleMutation.AdmissionNotAwaited });
}
