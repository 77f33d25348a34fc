// Stories of slots that move, each told with the rule that it is about and without (see ScenarioTests).
using Slogger.Core.Ownership;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Tests;

public class MoveScenarioTests
{
    private const int Key = 0, Old = 0, New = 1, Third = 2;
    private static readonly SimSettings Moving = new() { Seed = 0, Shards = 3, Moves = true };

    [Fact]
    public void Partition_MovedBeyondTheCut_IsItsOldOwnersAfterARecovery()
    {
        ScenarioTests.AssertRule("I2", Moving, Moving with { Mutation = SimMutation.LandingOutlivesRecovery }, c =>
        {
            Write(c, Old);
            ScenarioTests.Rounds(c, 40);
            // One shard says no more what it has durable: the cut stands.
            c.Hosts[Third].Newest!.PausedUntil = long.MaxValue;
            c.PlanMove(Key, 1, New);
            Until(c, () => c.Sql.Owners.Moves is [{ State: MoveState.Landed }]);
            Assert.True(c.Sql.Cut.Versions[0] < c.Sql.Owners.Moves[0].Landed);
            Write(c, New);
            ScenarioTests.Rounds(c, 20);
            c.StoreDies(c.Hosts[New]);
            Until(c, () => c.Sql.Line.Number == 2);
            Assert.Equal(Old, c.Keys.OwnerOf(Key, c.Sql.Owners.Map));
        });
    }

    [Fact]
    public void Partition_MovedAndItsOldOwnerGone_IsWholeAtTheNewOne()
    {
        ScenarioTests.AssertRule("I2", Moving, Moving with { Mutation = SimMutation.CopyPastTheLog }, c =>
        {
            Write(c, Old);
            ScenarioTests.Rounds(c, 40);
            c.PlanMove(Key, 1, New);
            Until(c, () => c.Sql.Owners.Moves is [{ State: MoveState.Landed } move] && c.Sql.Cut.Versions[0] >= move.Landed);
            // The machine of the old owner is gone, with its store and its process.
            c.PowerCut(c.Hosts[Old]);
            c.StoreDies(c.Hosts[New]);
            Until(c, () => c.Sql.Line.Number == 2 && c.Hosts[New].Newest is { IsOpen: true });
            Assert.Equal(New, c.Keys.OwnerOf(Key, c.Sql.Owners.Map));
            Assert.Empty(c.Hosts[Old].Proxies);
            // The session hears of the world-line first.
            c.Sessions[0].AskWhatIsCommitted(New);
            Until(c, () => c.Sessions[0].Session.WorldLine == c.Sql.Line);
            Write(c, New);
            ScenarioTests.Rounds(c, 40);
            Assert.Equal(c.Sessions[0].Ops[^1], c.Hosts[New].Store.ValueOf(Key));
        });
    }

    [Fact]
    public void OldOwner_ItsStreamIsSlow_RenouncesWhenItHasToldOfAllThatChanged()
    {
        ScenarioTests.AssertRule("I", Moving, Moving with { Mutation = SimMutation.StreamNotAwaited }, c =>
        {
            Write(c, Old);
            ScenarioTests.Rounds(c, 40);
            c.PlanMove(Key, 1, New);
            Until(c, () => c.Happened.GetValueOrDefault("move: copying") > 0);
            // The key was read; now it changes, and the one who copies hears nothing of that.
            ProxyProcess owner = c.Hosts[Old].Newest!;
            owner.IsStreamHeld = true;
            Write(c, Old);
            ScenarioTests.Rounds(c, 200);
            owner.IsStreamHeld = false;
            Until(c, () => c.Sql.Owners.Moves.IsEmpty);
            Write(c, New);
            ScenarioTests.Rounds(c, 20);
        });
    }

    [Fact]
    public void OldOwner_ItsClockIsBehind_KeepsItsCopyUntilTheCutHasPassedTheLanding()
    {
        ScenarioTests.AssertRule("I2", Moving, Moving with { Move = MoveMutation.DiscardsBeforeCut }, c =>
        {
            c.Hosts[Old].SkewUs = c.Hosts[Third].SkewUs = 0;
            c.Hosts[New].SkewUs = c.ClockErrorUs;
            ScenarioTests.Rounds(c, 500);
            Write(c, Old);
            ScenarioTests.Rounds(c, 40);
            c.PlanMove(Key, 1, New);
            Until(c, () => c.Sql.Owners.Moves is [{ State: MoveState.Landed }]);
            // A deletion now would be in a version below the landing.
            Until(c, () => c.Sql.Owners.Moves.IsEmpty || c.Sql.Cut.Versions[0] >= c.Sql.Owners.Moves[0].Landed.Previous);
            c.StoreDies(c.Hosts[New]);
            Until(c, () => c.Sql.Line.Number == 2);
        });
    }

    [Fact]
    public void OldOwner_ForgetsAStepOnItsWay_NewOneLandsInTheMiddleOfAnother()
    {
        ScenarioTests.AssertRule("I6", Moving, Moving with { Mutation = SimMutation.StepForgotten }, c =>
        {
            Write(c, Old);
            c.PlanMove(Key, 1, New);
            // The old owner renounces, but hears nothing of that.
            SqlCall? late = null;
            for (int i = 0; i < 400 && late is null; i++)
            {
                c.Round(call => late is null && call.What == "move" && call.Caller == c.Hosts[Old].Newest && (late = call) is not null);
            }

            ProxyProcess owner = c.Hosts[Old].Newest!;
            owner.LoseReplicationLink();
            ScenarioTests.Rounds(c, 4);
            Until(c, () => owner is { IsOpenToPlain: true });
            // Only now it arrives.
            late!.Apply();
            Write(c, Old);
            ScenarioTests.Rounds(c, 40);
        });
    }

    private static void Write(Cluster c, int shard)
    {
        int before = c.Sessions[0].Ops.Count;
        c.Sessions[0].Begin(shard, 1, c.Random, Key);
        Assert.Equal(before + 1, c.Sessions[0].Ops.Count);
    }

    private static void Until(Cluster c, Func<bool> condition)
    {
        for (int i = 0; i < 1000 && !condition(); i++) c.Round();
        Assert.True(condition(), "it does not come to that");
    }
}
