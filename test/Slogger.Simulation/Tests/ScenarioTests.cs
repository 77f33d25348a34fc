// Single stories that hang on an order of steps which the scenario files cannot say (Scenarios/*.txt has the others). Each is told twice:
// with the rule that it is about, and without. Nothing happens by chance but what a seed decides of small things, so some seeds are tried:
// with the rule none of them may break, without it some must.
using Slogger.Core.Lifecycle;
using Slogger.Core.Cuts;
using Slogger.Core.Membership;
using Slogger.Core.Recovery;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Tests;

public class ScenarioTests
{
    private static readonly SimSettings Two = new() { Seed = 0, Shards = 2 };

    // Seeds whose clocks are within their bound, and which put nothing off.
    private static readonly int[] Seeds = [1, 3, 4, 6, 7, 9, 12, 13, 16, 18];

    [Fact]
    public void Strides_ThatDoNotNest_AreRoundedToACommonMultiple()
    {
        Assert.Equal(6, CutOf(FinderMutation.None));
        // 9 is no multiple of 2: the first shard closed no such version.
        Assert.Equal(9, CutOf(FinderMutation.LargestStride));

        static long CutOf(FinderMutation mutation)
        {
            ApproximateFinder finder = new(Cut.Uniform(WorldLine.First, 2, new(0)), mutation);
            finder.Report(VersionReport.WithoutDependencies(new(0), new(WorldLine.First, new(10)), 2));
            finder.Report(VersionReport.WithoutDependencies(new(1), new(WorldLine.First, new(9)), 3));
            finder.Advance();
            return finder.Current.Versions[0].Number;
        }
    }

    // A session makes a shard open a version that its clock has not come to, and its process ends.
    [Fact]
    public void Clock_OfAShardThatWasMovedOn_IsContinuedByTheNextProcess()
    {
        SimSettings close = new() { Seed = 0, Shards = 2, ClockErrorUs = 400 };
        AssertRule("I1", close, close with { Mutation = SimMutation.ClockStaysBehind }, c =>
        {
            // Further apart than anybody knows: the order within a session has to hold all the same.
            c.Checks.IsRealTime = false;
            (ShardHost behind, ShardHost ahead) = (c.Hosts[0], c.Hosts[1]);
            ahead.SkewUs += 6 * Cluster.IntervalUs;
            c.ProxyDies(ahead);
            c.StartProxy(ahead);
            Rounds(c, 120);
            c.Sessions[0].Begin(1, 1, c.Random);
            for (int i = 0; i < 100 && c.Sessions[0].Session.Unanswered > 0; i++) c.Round();
            c.Sessions[0].Begin(0, 1, c.Random);
            for (int i = 0; i < 3; i++) Turns(c, behind);
            c.ProxyDies(behind);
            c.StartProxy(behind);
            Rounds(c, 60);
        }, [.. Enumerable.Range(1, 400)]);
    }

    [Fact]
    public void RollbackInPlace_AKeyExpiresBeforeItsTransaction_IsPutBackByAnother()
    {
        SimSettings inPlace = new() { Seed = 0, Shards = 2, InPlace = true };
        AssertRule("I1", inPlace, inPlace with { Rollback = RollbackMutation.OnePassOnly }, c =>
        {
            for (int key = 0; key < c.Keys.Count; key++)
            {
                c.Sessions[0].Begin(0, 1, c.Random, key);
                Rounds(c, 2);
            }

            Rounds(c, 60);
            // Nothing has changed at the survivor since the cut, but what changes meanwhile.
            c.StoreDies(c.Hosts[1]);
            Rounds(c, 60);
            Assert.Equal(2, c.Sql.Line.Number);
        });
    }

    // The answer to an agreement tells of no proposal any more, and no beat would ask again.
    [Fact]
    public void Interval_SettledBetweenTwoCallsOfABeat_IsLearned()
    {
        AssertRule("I8", Two, Two with { Grid = GridMutation.SettledNotTold }, c =>
        {
            Rounds(c, 20);
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

    // Versions are half as long, and it has not heard of it: by its own grid a session that comes from elsewhere is ahead of time, and its
    // clock must not follow. It would close versions early when it knows the grid again.
    [Fact]
    public void Session_AheadOfAShardThatDoesNotKnowTheGrid_DoesNotMoveItsClock()
    {
        SimSettings oneClock = Two with { ClockErrorUs = 0 };
        AssertRule("I", oneClock, oneClock with { Gate = GateMutation.OldGridTranslates }, c =>
        {
            Rounds(c, 20);
            c.ProposeInterval(Cluster.IntervalUs / 2, c.NowUs + (14 * Cluster.IntervalUs));
            Until(c, () => c.Sql.Shards[0].AgreedUs > 0);
            ProcessOf(c, 0).CutOffUntil = long.MaxValue;
            long change = c.Sql.Proposal.ChangeUs;
            Exchange(c, () => c.NowUs > change + (3 * Cluster.IntervalUs));
            for (int i = 0; i < 20; i++)
            {
                c.Sessions[0].Begin(1, 1, c.Random);
                Rounds(c, 2);
                c.Sessions[0].Begin(0, 1, c.Random);
                Rounds(c, 2);
            }
            ProcessOf(c, 0).CutOffUntil = 0;
            Exchange(c, () => false);
            Assert.Equal(2, c.Sql.ClockGrid.Stretches.Length);
        });
    }

    [Fact]
    public void OldOwner_ItsStreamIsSlow_RenouncesWhenItHasToldOfAllThatChanged()
    {
        const int Old = 0, New = 1;
        SimSettings moving = new() { Seed = 0, Shards = 3, Moves = true };
        AssertRule("I", moving, moving with { Mutation = SimMutation.StreamNotAwaited }, c =>
        {
            c.Sessions[0].Begin(Old, 1, c.Random, keyMeant: 0);
            Rounds(c, 40);
            c.PlanMove(key: 0, 1, New);
            Until(c, () => c.Happened.GetValueOrDefault("move: copying") > 0);
            // The key was read; now it changes, and the one who copies hears nothing of that.
            ProxyProcess owner = c.Hosts[Old].Newest!;
            owner.IsStreamHeld = true;
            c.Sessions[0].Begin(Old, 1, c.Random, keyMeant: 0);
            Rounds(c, 200);
            owner.IsStreamHeld = false;
            Until(c, () => c.Sql.Owners.Moves.IsEmpty);
            c.Sessions[0].Begin(New, 1, c.Random, keyMeant: 0);
            Rounds(c, 20);
        });
    }

    // ---- The kit ----

    private static void AssertRule(string by, SimSettings with, SimSettings without, Action<Cluster> story, int[]? seeds = null)
    {
        seeds ??= Seeds;
        foreach (int seed in seeds)
        {
            if (Tell(with with { Seed = seed }, story) is { } text) Assert.Fail($"seed {seed}, with the rule: {text}");
        }

        string?[] broken = [.. seeds.Select(seed => Tell(without with { Seed = seed }, story))];
        TestContext.Current.TestOutputHelper?.WriteLine(string.Join('\n', broken.Where(b => b is not null).Distinct()));
        Assert.Contains(broken, b => b is not null && b.StartsWith(by, StringComparison.Ordinal));
    }

    /// <summary>Null if every invariant held.</summary>
    private static string? Tell(SimSettings settings, Action<Cluster> story)
    {
        Cluster c = new(settings with { Faults = false, Clocks = ClockKind.WithinBound });
        try
        {
            for (int i = 0; i < 200 && !Array.TrueForAll(c.Hosts, h => h.Newest is { IsOpen: true }); i++) c.Round();
            story(c);
            c.Settle();
            return null;
        }
        catch (SimException e)
        {
            return e.Message;
        }
    }

    private static void Rounds(Cluster c, int count)
    {
        for (int i = 0; i < count; i++) c.Round();
    }

    /// <summary>A shard works, and no time passes.</summary>
    private static void Turns(Cluster c, ShardHost host)
    {
        for (int i = 0; i < 4; i++) host.Newest!.Loop(c.Random);
        host.Store.ExecuteAll();
        for (int i = 0; i < 8; i++) host.Newest!.StreamOne();
        for (int i = 0; i < 8; i++) host.Newest!.Loop(c.Random);
    }

    private static ShardHost Joined(Cluster c)
    {
        ShardHost joiner = c.AddShard()!;
        c.StartProxy(joiner);
        Until(c, () => joiner.Newest is { IsOpen: true });
        return joiner;
    }

    private static ProxyProcess ProcessOf(Cluster c, int shard) => c.Hosts[shard].Newest!;

    // Two sessions that know of each other: what one hears at a shard the other acts upon at the other one.
    private static void Exchange(Cluster c, Func<bool> until)
    {
        for (int i = 0; i < 60 && !until(); i++)
        {
            c.Sessions[0].Begin(1, 1, c.Random);
            Rounds(c, 4);
            c.Sessions[1].Begin(0, 1, c.Random);
            Rounds(c, 4);
        }
    }

    // Something without a key: any shard does it.
    private static void Say(Cluster c, int shard) => c.Sessions[0].Begin(shard, 1, c.Random, keyMeant: -1);

    private static void Until(Cluster c, Func<bool> condition)
    {
        for (int i = 0; i < 1000 && !condition(); i++) c.Round();
        Assert.True(condition(), "it does not come to that");
    }
}
