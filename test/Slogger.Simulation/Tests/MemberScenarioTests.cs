// Stories of shards that come and go, of the interval's change and of ordered ends, each told with the rule that it is about and without
// (see ScenarioTests).
using Slogger.Core.Membership;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Simulation.Processes;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Simulation.Tests;

public class MemberScenarioTests
{
    private static readonly SimSettings Two = new() { Seed = 0, Shards = 2 };
    private static readonly SimSettings Growing = new() { Seed = 0, Shards = 2, Moves = true, Members = true };

    [Fact]
    public void Joiner_ThatNeverComes_HoldsUpNobody()
    {
        ScenarioTests.AssertRule("I8", Growing, Growing with { Member = MemberMutation.JoiningCounts }, c =>
        {
            c.AddShard(neverComes: true);
            Write(c, 0);
            ScenarioTests.Rounds(c, 60);
        });
    }

    [Fact]
    public void Joiner_IsAdmitted_CountsAndCanBeGoneBackWith()
    {
        ScenarioTests.AssertRule("I2", Growing, Growing with { Member = MemberMutation.AnyClaimAdmits }, c =>
        {
            ShardHost joiner = c.AddShard()!;
            // Its disk is slow.
            c.StartProxy(joiner).IsSyncHeld = true;
            Write(c, 0);
            ScenarioTests.Rounds(c, 60);
            joiner.Newest!.IsSyncHeld = false;
            Until(c, () => c.Sql.Members.States[joiner.Number] == MemberState.Member);
            c.PlanMove(0, 1, joiner.Number);
            Until(c, () => c.Sql.Owners.Moves.IsEmpty);
            c.StoreDies(c.Hosts[0]);
            Until(c, () => c.Sql.Line.Number == 2);
            ScenarioTests.Rounds(c, 60);
        });
    }

    // What it has durable is what its clock says, and the cut is always further.
    [Fact]
    public void Joiner_WhoseClockStandsBehind_IsAdmitted()
    {
        ScenarioTests.AssertRule("I8", Growing, Growing with { Mutation = SimMutation.JoinerNotHurried }, c =>
        {
            ShardHost joiner = c.AddShard()!;
            joiner.SkewUs -= 30 * Cluster.IntervalUs;
            c.StartProxy(joiner);
            Write(c, 0);
            ScenarioTests.Rounds(c, 200);
        });
    }

    // It is asked for with what the joiner has, which is nothing by the time that it is granted.
    [Fact]
    public void Joiner_ItsAdmissionArrivesLate_IsNotWhatItWasAskedFor()
    {
        ScenarioTests.AssertRule("I2", Growing, Growing with { Mutation = SimMutation.AdmissionForgotten }, c =>
        {
            ShardHost joiner = c.AddShard()!;
            c.StartProxy(joiner);
            // One of the others says no more what it has durable: the cut stands, and the joiner comes far beyond it.
            c.Hosts[1].Newest!.PausedUntil = long.MaxValue;
            SqlCall? late = null;
            for (int i = 0; i < 400 && (late is null || i < 40); i++) c.Round(call => call.What == "admit" && (late ??= call) is not null);
            ProxyProcess before = joiner.Newest!;
            c.StoreDies(joiner);
            for (int i = 0; i < 20; i++) c.Round(call => call.What == "admit");
            late!.Apply();
            Assert.True(before.IsDead || c.Settings.Mutation == SimMutation.AdmissionForgotten);
            ScenarioTests.Rounds(c, 40);
        });
    }

    [Fact]
    public void Leaver_AnsweredLast_IsDurableBeforeItCountsNoMore()
    {
        ScenarioTests.AssertRule("I", Growing, Growing with { Mutation = SimMutation.LeavesAtOnce }, c =>
        {
            ShardHost leaver = Joined(c);
            Say(c, leaver.Number);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            leaver.Newest!.IsSyncHeld = true;
            Say(c, leaver.Number);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            c.BeginToLeave(leaver.Number);
            ScenarioTests.Rounds(c, 40);
            if (leaver.Newest is { } there) there.IsSyncHeld = false;
            Until(c, () => c.Sql.Members.States[leaver.Number] == MemberState.Left);
            c.PowerCut(leaver);
            ScenarioTests.Rounds(c, 40);
        });
    }

    // Its marker is late: one version holds what others count to several, and while it counts no cut falls between them.
    // In some seeds it is to leave before its front end has told that the open version holds something.
    [Theory]
    [InlineData((int)SimMutation.LeavesUncommitted)]
    [InlineData((int)SimMutation.OpenVersionForgotten)]
    public void Leaver_WithAVersionOpenBeyondItsTime_CountsUntilTheCutHasPassedIt(int mutation)
    {
        ScenarioTests.AssertRule("I1", Growing, Growing with { Mutation = (SimMutation)mutation }, c =>
        {
            ShardHost leaver = Joined(c), other = c.Hosts[1];
            ProxyProcess proxy = leaver.Newest!;
            proxy.IsStreamHeld = true;
            Say(c, leaver.Number);
            Until(c, () => proxy.Machine!.MarkerInFlight);
            Version open = proxy.Machine!.OpenVersion;
            Until(c, () => other.Log.Sync(0).Version >= open);
            other.Newest!.IsSyncHeld = true;
            Version late = new(other.Log.Last.Version.Number + 2);
            Until(c, () => c.Hosts[0].Log.Last.Version > late);
            c.Sessions[0].Begin(0, 1, c.Random);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            c.Sessions[1].Begin(leaver.Number, 1, c.Random, keyMeant: -1);
            Until(c, () => c.Sessions[1].Session.Unanswered == 0);
            proxy.IsStreamHeld = false;
            c.BeginToLeave(leaver.Number);
            ScenarioTests.Rounds(c, 100);
            other.Newest!.IsSyncHeld = false;
            Until(c, () => c.Sql.Members.States[leaver.Number] == MemberState.Left);
            ScenarioTests.Rounds(c, 40);
        }, ScenarioTests.SeedsUpTo(100));
    }

    [Fact]
    public void Leaver_ThatIsDead_IsLeftBehindByAWorldLine()
    {
        ScenarioTests.AssertRule("I", Growing, Growing with { Mutation = SimMutation.DeadLeavesQuietly }, c =>
        {
            ShardHost leaver = Joined(c);
            leaver.Newest!.IsSyncHeld = true;
            Say(c, leaver.Number);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            leaver.IsOff = true;
            c.PowerCut(leaver);
            c.BeginToLeave(leaver.Number);
            Until(c, () => c.Sql.Members.States[leaver.Number] == MemberState.Left);
            ScenarioTests.Rounds(c, 40);
        });
    }

    // The answer to an agreement tells of no proposal any more, and no beat would ask again.
    [Fact]
    public void Interval_SettledBetweenTwoCallsOfABeat_IsLearned()
    {
        ScenarioTests.AssertRule("I8", Two, Two with { Grid = GridMutation.SettledNotTold }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            c.ProposeInterval(Cluster.IntervalUs / 2, c.NowUs + (40 * Cluster.IntervalUs));
            // Shard 0 has agreed, and asks again whether it is settled; between its two calls it is, since the other's agreement arrives.
            SqlCall? late = null;
            for (int i = 0; i < 400 && c.Sql.Proposal.ChangeUs is > 0 and long change; i++)
            {
                c.Round(call =>
                {
                    if (call.What != "agree") return call.What == "settle";
                    if (call.Caller == c.Hosts[1].Newest) return (late ??= call) is not null;
                    if (late is null || c.Sql.Shards[0].AgreedUs != change) return false;
                    late.Apply();
                    c.Sql.SettleInterval(change, giveUp: false);
                    return false;
                });
            }

            Assert.Equal(2, c.Sql.ClockGrid.Stretches.Length);
            Assert.Equal(0, c.Sql.Proposal.ChangeUs);
        });
    }

    [Fact]
    public void Interval_NotAllHaveAgreed_StaysAsItIs()
    {
        ScenarioTests.AssertRule("I", Two, Two with { Grid = GridMutation.AppliedWithoutAll }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            // It serves, and knows nothing.
            c.Hosts[0].Newest!.CutOffUntil = long.MaxValue;
            c.ProposeInterval(4 * Cluster.IntervalUs, c.NowUs + (12 * Cluster.IntervalUs));
            Exchange(c, () => false);
        });
    }

    [Fact]
    public void Interval_AgreedToBefore_IsAgreedToAnew()
    {
        ScenarioTests.AssertRule("I", Two, Two with { Grid = GridMutation.AnyAgreementCounts }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            c.ProposeInterval(Cluster.IntervalUs / 2, c.NowUs + (12 * Cluster.IntervalUs));
            Until(c, () => c.HasOneGrid && c.Sql.ClockGrid.Stretches.Length == 2);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            c.ProposeInterval(4 * Cluster.IntervalUs, c.NowUs + (12 * Cluster.IntervalUs));
            Exchange(c, () => false);
        });
    }

    [Fact]
    public void Interval_AShardHearsOfItTooLate_StaysAsItIs()
    {
        ScenarioTests.AssertRule("I", Two, Two with { Grid = GridMutation.AgreesLate }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            c.ProposeInterval(4 * Cluster.IntervalUs, c.NowUs + (12 * Cluster.IntervalUs));
            long change = c.Sql.Proposal.ChangeUs;
            Exchange(c, () => c.NowUs > change + (ProxyProcess.GridGraceUs / 2));
            ProcessOf(c, 0).CutOffUntil = 0;
            Exchange(c, () => false);
        });
    }

    [Fact]
    public void Interval_AShardHasAgreedAndHearsNoMore_EndsNoVersionBeyond()
    {
        ScenarioTests.AssertRule("I", Two, Two with { Shard = ShardMutation.OldGridGoesOn }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            c.ProposeInterval(4 * Cluster.IntervalUs, c.NowUs + (14 * Cluster.IntervalUs));
            Until(c, () => c.Sql.Shards[0].AgreedUs > 0);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            Exchange(c, () => false);
            Assert.Equal(2, c.Sql.ClockGrid.Stretches.Length);
        });
    }

    // Versions are half as long, and it has not heard of it: by its own grid a session that comes from elsewhere is ahead of time, and its clock must
    // not follow. It would close versions early when it knows the grid again.
    [Fact]
    public void Session_AheadOfAShardThatDoesNotKnowTheGrid_DoesNotMoveItsClock()
    {
        SimSettings oneClock = Two with { ClockErrorUs = 0 };
        ScenarioTests.AssertRule("I", oneClock, oneClock with { Gate = GateMutation.OldGridTranslates }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            c.ProposeInterval(Cluster.IntervalUs / 2, c.NowUs + (14 * Cluster.IntervalUs));
            Until(c, () => c.Sql.Shards[0].AgreedUs > 0);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            long change = c.Sql.Proposal.ChangeUs;
            Exchange(c, () => c.NowUs > change + (3 * Cluster.IntervalUs));
            for (int i = 0; i < 20; i++)
            {
                c.Sessions[0].Begin(1, 1, c.Random);
                ScenarioTests.Rounds(c, 2);
                c.Sessions[0].Begin(0, 1, c.Random);
                ScenarioTests.Rounds(c, 2);
            }
            ProcessOf(c, 0).CutOffUntil = 0;
            Exchange(c, () => false);
            Assert.Equal(2, c.Sql.ClockGrid.Stretches.Length);
        });
    }

    // What it holds beyond its time others count to later versions.
    [Fact]
    public void Process_EndsInOrderWhileItDoesNotKnowTheGrid_ClosesNothing()
    {
        ScenarioTests.AssertRule("I1", Two, Two with { Shard = ShardMutation.EndsLateVersionsEarly }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            c.ProposeInterval(2 * Cluster.IntervalUs, c.NowUs + (14 * Cluster.IntervalUs));
            Until(c, () => c.Sql.Shards[0].AgreedUs > 0);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            long change = c.Sql.Proposal.ChangeUs;
            Exchange(c, () => c.NowUs > change + (20 * Cluster.IntervalUs));
            Assert.True(ProcessOf(c, 0).Stop());
            ScenarioTests.Rounds(c, 20);
        });
    }

    [Fact]
    public void Process_AfterOneThatEndedInOrder_WaitsForTheVersionThatItGoesOnWith()
    {
        // One clock for all: no reply is held, but those of versions that were opened before their time.
        SimSettings oneClock = Two with { ClockErrorUs = 0 };
        ScenarioTests.AssertRule("I1", oneClock, oneClock with { Mutation = SimMutation.VersionNotAwaited, Gate = GateMutation.OneClockHoldsNothing }, c =>
        {
            ScenarioTests.Rounds(c, 20);
            ShardHost host = c.Hosts[0];
            // Time enough in one version: it is as long as many rounds.
            c.ProposeInterval(32 * Cluster.IntervalUs, c.NowUs + (12 * Cluster.IntervalUs));
            Until(c, () => c.Sql.ClockGrid.Stretches.Length == 2 && c.NowUs > c.Sql.ClockGrid.Stretches[1].StartUs + Cluster.IntervalUs);
            c.Sessions[0].Begin(0, 1, c.Random);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            ProxyProcess before = host.Newest!;
            Assert.True(before.Stop());
            Until(c, () => before.IsDead);
            c.StartProxy(host);
            for (int i = 0; i < 300 && host.Newest is not { IsOpenToPlain: true }; i++) c.Round();
            // What is answered here others see before they begin.
            c.Sessions[0].Begin(0, 1, c.Random);
            Until(c, () => c.Sessions[0].Session.Unanswered == 0);
            c.Sessions[1].Begin(1, 1, c.Random);
            ScenarioTests.Rounds(c, 400);
        });
    }

    private static ShardHost Joined(Cluster c)
    {
        ShardHost joiner = c.AddShard()!;
        c.StartProxy(joiner);
        Until(c, () => joiner.Newest is { IsOpenToPlain: true });
        return joiner;
    }

    private static ProxyProcess ProcessOf(Cluster c, int shard) => c.Hosts[shard].Newest!;

    // Two sessions that know of each other: what one hears at a shard the other acts upon at the other one.
    private static void Exchange(Cluster c, Func<bool> until)
    {
        for (int i = 0; i < 60 && !until(); i++)
        {
            c.Sessions[0].Begin(1, 1, c.Random);
            ScenarioTests.Rounds(c, 4);
            c.Sessions[1].Begin(0, 1, c.Random);
            ScenarioTests.Rounds(c, 4);
        }
    }

    private static void Write(Cluster c, int shard) => c.Sessions[0].Begin(shard, 1, c.Random, keyMeant: 0);

    // Something without a key: any shard does it.
    private static void Say(Cluster c, int shard) => c.Sessions[0].Begin(shard, 1, c.Random, keyMeant: -1);

    private static void Until(Cluster c, Func<bool> condition)
    {
        for (int i = 0; i < 1000 && !condition(); i++) c.Round();
        Assert.True(condition(), "it does not come to that");
    }
}
