// The tests of the tests for shards that come and go, for changes of the interval and for ordered ends: with one rule switched off, some
// case among the first so many breaks the invariant that the rule is for.
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Shards;
using Slogger.Core.Versions;

namespace Slogger.Simulation.Tests;

// What few seeds show has a scenario (Scenarios/*.txt, ScenarioTests). Not here: MemberMutation.OwnersNotCompared and LeavesAtOnce,
// DeadLeavesQuietly of the rows (MemberWorldTests has them): whoever drives has rules
// of the same names.
public class MemberMutantTests
{
    private static readonly SimSettings Growing = new() { Seed = 0, Moves = true, Members = true };

    [Theory]
    [InlineData((int)MemberMutation.AnyClaimAdmits, "I2", 500)]
    [InlineData((int)MemberMutation.AnyWorldLineAdmits, "I2|I5", 2000)]
    [InlineData((int)MemberMutation.FloorIgnored, "I2", 2000)]
    public void Member_RuleOfAdmissionIsOff_IsCaught(int mutation, string by, int seeds) =>
        MutantTests.AssertCaught(((MemberMutation)mutation).ToString(), by, seeds, Growing with { Member = (MemberMutation)mutation });

    [Fact]
    public void Joiner_RecordsAnOlderClaimThanItWasAdmittedWith_IsCaught() =>
        MutantTests.AssertCaught("OlderThanAdmitted", "I", 500, Growing with { Recorder = RecorderMutation.OlderThanAdmitted });

    // Somebody who never comes holds up everybody.
    [Fact]
    public void Member_JoinerCountsBeforeItIsAdmitted_IsCaught() =>
        MutantTests.AssertCaught("JoiningCounts", "I8|I2", 500, Growing with { Member = MemberMutation.JoiningCounts },
            checksProgress: true);

    [Theory]
    [InlineData((int)SimMutation.LeavesAtOnce, "I1|I2", 3000)]
    [InlineData((int)SimMutation.DeadLeavesQuietly, "I1|I2", 3000)]
    public void Leaver_RuleOfThoseWhoDriveIsOff_IsCaught(int mutation, string by, int seeds) =>
        MutantTests.AssertCaught(((SimMutation)mutation).ToString(), by, seeds, Growing with { Mutation = (SimMutation)mutation });

    // Who is not told closes nothing any more.
    [Fact]
    public void Interval_SettledAndNotTold_IsCaught() =>
        MutantTests.AssertCaught("SettledNotTold", "I8", 500, new() { Seed = 0, Grid = GridMutation.SettledNotTold }, checksProgress: true);

    // A session that is ahead, or an ordered end, finds a version open that holds what came after its time.
    [Fact]
    public void Shard_LateVersionEndsEarly_IsCaught() =>
        MutantTests.AssertCaught("EndsLateVersionsEarly", "I1", 10000, new() { Seed = 0, Shard = ShardMutation.EndsLateVersionsEarly },
            checksProgress: true);
}
