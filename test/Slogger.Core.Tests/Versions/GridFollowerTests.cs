// A change of the interval: what the metadata makes of it, and what a shard does.
using Slogger.Core.Membership;
using Slogger.Core.Versions;

namespace Slogger.Core.Tests.Versions;

public sealed class GridFollowerTests
{
    private const long Start = 1_000_000, Change = Start + 10_000, Grace = 3000;
    private static readonly VersionGrid Grid = new(new(1), Start, 1000);
    private static readonly IntervalProposal Nothing = new(Grid, 0, 0);

    [Fact]
    public void Propose_OneIsOpen_OrNothingWouldChange_IsRefused()
    {
        IntervalProposal proposed = Nothing.Propose(500, Change, 0)!;
        Assert.Equal(new IntervalProposal(Grid, Change, 500), proposed);
        Assert.Null(proposed.Propose(250, Change, 0));
        Assert.Null(Nothing.Propose(1000, Change, 0));
    }

    [Fact]
    public void Propose_AgreedToBefore_HasANameOfItsOwn()
    {
        Assert.Equal(Change + 1, Nothing.Propose(500, Change, Change)!.ChangeUs);
        Assert.False(Nothing.Propose(500, Change, Change)!.Takes(Change));
        Assert.False(Nothing.Takes(0));
    }

    [Fact]
    public void Settle_SomebodyIsMissing_WaitsOrGivesUp()
    {
        IntervalProposal proposed = Nothing.Propose(500, Change, 0)!;
        Assert.Null(proposed.Settle(Change, isAgreed: false, giveUp: false));
        Assert.Equal(Nothing, proposed.Settle(Change, isAgreed: false, giveUp: true));
        Assert.Null(proposed.Settle(Change - 1, isAgreed: true, giveUp: true));
        IntervalProposal settled = proposed.Settle(Change, isAgreed: true, giveUp: true)!;
        Assert.Equal(new GridStretch(new(11), Change, 500), settled.Grid.Stretches[^1]);
        Assert.Equal((0, 0), (settled.ChangeUs, settled.IntervalUs));
    }

    [Fact]
    public void Misses_WhoGoesByTheGridAndHasNotAgreed()
    {
        IntervalProposal proposed = Nothing.Propose(500, Change, 0)!;
        Assert.True(proposed.Misses(MemberState.Member, 7, 0));
        Assert.True(proposed.Misses(MemberState.Joining, 7, Change - 1));
        Assert.False(proposed.Misses(MemberState.Leaving, 7, Change));
        Assert.False(proposed.Misses(MemberState.Left, 7, 0));
        // It reads the grid when it starts.
        Assert.False(proposed.Misses(MemberState.Member, 0, 0));
    }

    [Fact]
    public void Beat_NothingIsProposed_AsksForNothing()
    {
        GridFollower follower = new(new(Grid, 0), Grace);
        Assert.Equal(default, follower.Beat(0));
        Assert.Equal(GridStepKind.Read, follower.Beat(Change).Kind);
    }

    [Fact]
    public void Beat_ItsTimeIsToCome_TellsAgreesAndSettles()
    {
        GridFollower follower = new(new(Grid, 0), Grace);
        Assert.Equal(new GridStep(GridStepKind.Read), follower.Beat(Change));
        Assert.True(follower.Learned(new(Grid, Change)));
        Assert.Equal(new GridStep(GridStepKind.Read, Change), follower.Next(Change - 1));
        Assert.False(follower.Learned(new(Grid, Change)));
        Assert.Equal(new GridStep(GridStepKind.Settle, Change), follower.Next(Change - 1));
        // Nobody has said how it came out: it is asked for, whatever the beat has found.
        Assert.Equal(GridStepKind.Read, follower.Beat(0).Kind);
        Assert.True(follower.Learned(new(Grid, 0)));
        Assert.Equal(default, follower.Next(Change + 1));
    }

    [Fact]
    public void Beat_ItsTimeHasCome_AgreesToNothing()
    {
        GridFollower follower = new(new(Grid, 0), Grace);
        follower.Beat(Change);
        follower.Learned(new(Grid, Change));
        Assert.Equal(new GridStep(GridStepKind.Settle, Change), follower.Next(Change));
        Assert.Equal(new GridStep(GridStepKind.Settle, Change, GivesUp: true), follower.Next(Change + Grace + 1));
        // The mutant: it may have ended a version beyond.
        GridFollower late = new(new(Grid, 0), Grace, GridMutation.AgreesLate);
        late.Beat(Change);
        late.Learned(new(Grid, Change));
        Assert.Equal(new GridStep(GridStepKind.Read, Change), late.Next(Change));
    }

    [Theory]
    [InlineData((int)GridMutation.None, true)]
    [InlineData((int)GridMutation.SettledNotTold, false)]
    public void Agreement_IsAnsweredWithWhatIsSettled_TheMachineIsTold(int mutation, bool isTold)
    {
        GridFollower follower = new(new(Grid, Change), Grace, (GridMutation)mutation);
        follower.Beat(Change);
        follower.Learned(new(Grid, Change));
        follower.Next(Change - 1);
        Assert.Equal(isTold, follower.Learned(new(Grid.WithInterval(500, Change - 1), 0)));
        // No later beat would ask.
        Assert.Equal(default, follower.Beat(0));
    }
}
