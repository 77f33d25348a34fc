// The tests of the tests for moves of slots: with one rule switched off, some case among the first so many breaks the invariant that
// the rule is for. In all of these cases slots move.
using Slogger.Core.Ownership;
using Slogger.Core.Shards;

namespace Slogger.Simulation.Tests;

// What few seeds show has a scenario (Scenarios/a-move*.txt, ScenarioTests). Not here: LandsBeforeBoundary, and FinishesBeforeBoundary,
// since a cut passes over a version that was not closed (the claims' floors); AnyWorldLine and
// ServesByAnyTable, since a process has a new ShardOwnership for every world-line, and what is done in an abandoned one is lost anyway.
// The machine does not rest on any of that: its own model has them (MoveWorldTests).
public class MoveMutantTests
{
    [Theory]
    [InlineData((int)MoveMutation.ServesOn, "I6", 500)]
    [InlineData((int)MoveMutation.LeavesBeforeWithheld, "I1|I2|I6", 500)]
    [InlineData((int)MoveMutation.CopiesForAnyRow, "I1|I2", 15000)]
    [InlineData((int)MoveMutation.ServesBeforeTakenBack, "I6", 1000)]
    [InlineData((int)MoveMutation.DiscardsBeforeCut, "I1|I2", 1000)]
    public void Move_RuleOfAShardIsOff_IsCaught(int mutation, string by, int seeds) =>
        MutantTests.AssertCaught(((MoveMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Moves = true, Move = (MoveMutation)mutation });

    // What is left behind shows when all has come to rest.
    [Theory]
    [InlineData((int)MoveMutation.FinishesBeforeCut, 1000)]
    public void Move_EndsTooEarly_IsCaught(int mutation, int seeds) =>
        MutantTests.AssertCaught(((MoveMutation)mutation).ToString(), "I8", seeds,
            new() { Seed = 0, Moves = true, Move = (MoveMutation)mutation }, checksProgress: true);

    [Fact]
    public void Move_LandsInAVersionOfTheOldOwner_IsRefused() =>
        MutantTests.AssertCaught("LandsAnywhere", "ArgumentException", 100,
            new() { Seed = 0, Moves = true, Move = MoveMutation.LandsAnywhere });

    [Theory]
    [InlineData((int)SimMutation.MoveOfDeposedCounts, "I1|I2|I6", 20000)]
    [InlineData((int)SimMutation.LandingOutlivesRecovery, "I2", 500)]
    [InlineData((int)SimMutation.GivenUpNotKilled, "I1|I2|I6", 2000)]
    [InlineData((int)SimMutation.CopyPastTheLog, "I1|I2", 500)]
    [InlineData((int)SimMutation.WithheldUntold, "I1|I2|I6", 20000)]
    [InlineData((int)SimMutation.CopyNotNoted, "I1|I2", 20000)]
    [InlineData((int)SimMutation.RestTaken, "I1|I2", 20000)]
    public void Move_RuleOfThoseWhoDriveIsOff_IsCaught(int mutation, string by, int seeds) =>
        MutantTests.AssertCaught(((SimMutation)mutation).ToString(), by, seeds,
            new() { Seed = 0, Moves = true, Mutation = (SimMutation)mutation });

    [Fact]
    public void Move_TheCopyIsPassedOverAfterARest_IsCaught() =>
        MutantTests.AssertCaught("ChangePassed", "I1|I2", 20000, new() { Seed = 0, Moves = true, Shard = ShardMutation.ChangePassed });
}
