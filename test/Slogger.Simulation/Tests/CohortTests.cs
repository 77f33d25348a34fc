// Cohorts in seeded cases, and the tests of the tests: with one rule switched off some case breaks the invariant that the rule is for.
using Slogger.Core.Cohorts;
using Slogger.Simulation.Cohorts;

namespace Slogger.Simulation.Tests;

public class CohortTests
{
    [Fact]
    public void Cohort_AnySeed_EveryInvariantHolds()
    {
        var happened = new HashSet<string>();
        for (int seed = 1; seed <= 2_000; seed++)
        {
            var world = new CohortWorld(new() { Seed = seed });
            string? broken = CohortRun.Try(world);
            Assert.True(broken is null, $"seed {seed}: {broken}");
            happened.UnionWith(world.Happened.Keys);
        }
        string[] all = ["commits", "made void", "reigns", "strong reads", "handed over", "a deaf leader", "stepped down", "cut apart",
            "disks lost", "learned", "member added", "member removed"];
        Assert.Empty(all.Except(happened));
    }

    // If what an older reign has counted, it would take four leaders in a row, each with one follower only, to lose it: that rule is
    // switched off in the model (SpinTests, OldReignCounts).
    [Theory]
    [InlineData((int)CohortMutation.PromiseIgnored, "R1|R2", 2000)]
    [InlineData((int)CohortMutation.PromiseNotDurable, "R1|R2", 8000)]
    [InlineData((int)CohortMutation.AnyLogWins, "R1|R2", 2000)]
    [InlineData((int)CohortMutation.LongestLogWins, "R1|R2|R4", 2000)]
    [InlineData((int)CohortMutation.GrantIgnored, "R5|R9", 2000)]
    [InlineData((int)CohortMutation.NoWaitAtStart, "R5|R9", 2000)]
    [InlineData((int)CohortMutation.NoDrift, "R9", 2000)]
    [InlineData((int)CohortMutation.LeaseFromArrival, "R5", 8000)]
    [InlineData((int)CohortMutation.LeaseOfOne, "R5", 8000)]
    [InlineData((int)CohortMutation.OldLeaderObeyed, "R1|R2|R4|R5", 2000)]
    [InlineData((int)CohortMutation.MinorityCounts, "R1|R2|R3", 2000)]
    [InlineData((int)CohortMutation.GoesOnAfterLead, "R5|R1", 8000)]
    [InlineData((int)CohortMutation.NeverSilent, "R10", 2000)]
    [InlineData((int)CohortMutation.AckBeforeSync, "R1|R2|R3|R4", 2000)]
    [InlineData((int)CohortMutation.AppliesUncommitted, "R4", 2000)]
    [InlineData((int)CohortMutation.LossForgotten, "R1|R2|R4", 2000)]
    [InlineData((int)CohortMutation.LearnerCounts, "R1|R2|R3|R4|R5|R10", 8000)]
    [InlineData((int)CohortMutation.MinorityFounds, "R1|R2|R4", 4000)]
    [InlineData((int)CohortMutation.AcksAfterVote, "R1|R2|R3|R4", 20000, 8000)]
    [InlineData((int)CohortMutation.FoundingNotPassedOn, "R10", 4000)]
    [InlineData((int)CohortMutation.ChangesUncommitted, "R1|R2|R12", 4000, 4000)]
    [InlineData((int)CohortMutation.ChangesTwo, "R1|R2|R12", 2000)]
    [InlineData((int)CohortMutation.AnyLogIsHandedTo, "R1|R2|R4", 4000)]
    [InlineData((int)CohortMutation.MembersForgotten, "R1|R2|R12", 2000)]
    [InlineData((int)CohortMutation.AlwaysSettled, "R13", 8000)]
    public void Rule_IsOff_IsCaught(int mutation, string by, int seeds, int first = 1)
    {
        for (int seed = first; seed < first + seeds; seed++)
        {
            string? broken = CohortRun.Try(new(new() { Seed = seed, Mutation = (CohortMutation)mutation }));
            string? rule = broken?.Split(':')[0];
            // Nobody leads any more, or something was said to be settled that was not: that follows from what broke before.
            if (rule is null || (rule is "R10" or "R13" && !by.Split('|').Contains(rule))) { continue; }
            Assert.Contains(rule, by.Split('|'));
            return;
        }
        Assert.Fail($"{(CohortMutation)mutation}: not caught in {seeds} seeds from {first} on");
    }
}
