// Single stories, each told twice: with the rule that it is about, and without. Nothing happens by chance but what a seed decides
// of small things, so some seeds are tried: with the rule none of them may break, without it some must.
using Slogger.Core.Cuts;
using Slogger.Core.Leases;
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Tests;

public class ScenarioTests
{
    // Seeds whose clocks are within their bound, and which put nothing off.
    private static readonly int[] Seeds = [1, 3, 4, 6, 7, 9, 12, 13, 16, 18];

    [Fact]
    public void DedicatedWrite_AfterALateMarker_IsInTheNextVersion()
    {
        AssertRule("I1", new() { Seed = 0, Shards = 1 }, new() { Seed = 0, Shards = 1, Boundary = VersionGateMutation.DedicatedNotHeld }, c =>
        {
            ShardHost host = c.Hosts[0];
            ProxyProcess proxy = host.Newest!;
            PlainClient dedicated = c.Plains[2];
            dedicated.Blocks = false;
            dedicated.Connect(0);
            c.Sessions[0].Begin(0, 1, c.Random);
            Loop(c, proxy, () => proxy.Machine!.MarkerInFlight);
            // The marker waits in the store's queue; on another connection a write would come before it.
            dedicated.Begin(c.Random);
            for (int i = 0; i < 20; i++) proxy.Loop(c.Random);
            host.Store.ExecuteAllOf(dedicated.Link!.Own!);
            host.Store.ExecuteAll();
            for (int i = 0; i < 10; i++) proxy.StreamOne();
            for (int i = 0; i < 20; i++) proxy.Loop(c.Random);
            c.StoreDies(host);
            Rounds(c, 60);
            Assert.Equal(2, c.Sql.Line.Number);
        });
    }

    // The connection breaks for the proxy alone: the store has the marker yet to read, and reads it behind what comes on the next connection. Then the process
    // dies, and what it had not read in the stream the next one reads.
    [Fact]
    public void Marker_LostWithItsConnection_EndsNoVersionBehindWhatFollows()
    {
        SimSettings two = new() { Seed = 0, Shards = 2, ClockErrorUs = 0 };
        AssertRule("I1", two, two with { Mutation = SimMutation.LostMarkerLivesOn }, c =>
        {
            (ShardHost host, ShardHost other) = (c.Hosts[0], c.Hosts[1]);
            ProxyProcess proxy = host.Newest!;
            Rounds(c, 60);
            StoreConnection carrier = host.Store.Connections[^1];
            c.Sessions[0].Begin(0, 1, c.Random);
            Loop(c, proxy, () => carrier.ToStore.Any(command => command.Op is not null));
            host.Store.ExecuteAll();
            for (int i = 0; i < 400 && carrier.ToStore.Count == 0; i++) Alone(c, host, executes: false);
            proxy.IsStreamHeld = true;
            Marker marker = carrier.ToStore.Peek().Marker!.Value;
            carrier.IsDead = true;
            // The other shard closes the same version, and begins the next.
            for (int i = 0; i < 400 && other.Log.Last.Version < marker.Closed; i++) Alone(c, other);
            other.Newest!.IsStreamHeld = true;
            for (int i = 0; i < 40; i++) proxy.Loop(c.Random);
            for (int i = 0; i < 40; i++) proxy.StepTasks();
            c.Sessions[1].Begin(1, 1, c.Random);
            Turns(c, other);
            c.Sessions[1].ReceiveAll();
            c.Sessions[1].Begin(0, 1, c.Random);
            for (int i = 0; i < 4; i++) proxy.Loop(c.Random);
            foreach (StoreConnection connection in host.Store.Connections.Reverse().ToArray()) host.Store.ExecuteAllOf(connection);
            c.ProxyDies(host);
            c.StartProxy(host);
            for (int i = 0; i < 200 && c.Sql.Look().Claims[0].Point.Version < marker.Closed; i++) c.Round();
            c.StoreDies(other);
            other.Newest!.IsStreamHeld = false;
            Rounds(c, 60);
            Assert.Equal(2, c.Sql.Line.Number);
        });
    }

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

    [Fact]
    public void Marker_RefusedByABusyStore_LeavesItsVersionOpen()
    {
        AssertRule("I2", new() { Seed = 0, Shards = 1 }, new() { Seed = 0, Shards = 1, Shard = ShardMutation.RefusedLeavesClean }, c =>
        {
            c.Hosts[0].Store.IsBusy = true;
            c.Sessions[0].Begin(0, 2, c.Random);
            Rounds(c, 30);
            c.Hosts[0].Store.IsBusy = false;
            for (int i = 0; i < 10; i++)
            {
                c.Sessions[0].AskWhatIsCommitted(0);
                Rounds(c, 10);
            }

            Assert.Equal(2, c.Sessions[0].Session.Committed.Number);
        });
    }

    [Fact]
    public void Record_OfADeposedOwnerArrivesLate_IsRefused()
    {
        AssertRule("I6", new() { Seed = 0, Shards = 2 }, new() { Seed = 0, Shards = 2, Mutation = SimMutation.EpochNotCompared }, c =>
        {
            ShardHost host = c.Hosts[0];
            ProxyProcess owner = host.Newest!;
            c.Sessions[0].Begin(0, 1, c.Random);
            SqlCall? late = null;
            // With a coordinator to be told, rows are written now and then only.
            for (int i = 0; i < 4000 && late is null; i++)
            {
                Loop(c, owner, () => true);
                owner.StepTasks();
                host.Store.ExecuteAll();
                owner.StreamOne();
                owner.SyncSome(c.Random);
                late = c.Calls.Find(call => call.What == "record");
                foreach (SqlCall call in c.Calls.ToArray())
                    if (call != late) Answer(c, call);
            }

            c.Calls.Remove(late!);
            late!.Complete(null);
            c.TakeOver(host);
            while (c.Sql.Shards[0].Epoch == owner.Epoch) c.Round();
            Assert.Equal(RecordOutcome.Deposed, ((RecordResult)late.Apply()).Outcome);
        });
    }

    [Fact]
    public void Cut_OfADeposedCoordinatorArrivesLate_IsRefused()
    {
        SimSettings exact = new() { Seed = 0, Shards = 2, Finder = FinderKind.Exact };
        AssertRule("I3", exact, exact with { Mutation = SimMutation.CutNotCompared }, c =>
        {
            SqlCall? late = null;
            for (int i = 0; i < 400 && late is null; i++)
            {
                c.Sessions[0].Begin(i % 2, 1, c.Random);
                Rounds(c, 1, call => late is null && call.What == "cut" ? late = call : null);
            }

            c.Coordinators[0].Die("killed");
            for (int i = 0; i < 20; i++)
            {
                c.Sessions[0].Begin(i % 2, 1, c.Random);
                Rounds(c, 10);
            }

            Assert.Equal(RecordOutcome.Deposed, ((RecordResult)late!.Apply()).Outcome);
        });
    }

    [Fact]
    public void Shard_MissedAWorldLineWhileItsLogRanOn_GoesBackToTheBranch()
    {
        AssertRule("I5", new() { Seed = 0, Shards = 3 }, new() { Seed = 0, Shards = 3, Mutation = SimMutation.WorldLineNotCompared }, c =>
        {
            ProxyProcess away = c.Hosts[1].Newest!;
            away.CutOffUntil = long.MaxValue;
            Work(c, 10);
            c.StoreDies(c.Hosts[0]);
            Work(c, 10);
            c.StoreDies(c.Hosts[2]);
            Work(c, 10);
            Assert.True(c.Sql.Line.Number >= 3);
            Assert.Equal(WorldLine.First, c.Hosts[1].Log.Last.WorldLine);
            Assert.True(c.Hosts[1].Log.Last.Version > c.Sql.Lines[1].Branch.Versions[1]);
            away.CutOffUntil = 0;
            Rounds(c, 100);
            Assert.All(c.Hosts, h => Assert.Equal(c.Sql.Line, h.Log.Last.WorldLine));
        });
    }

    [Fact]
    public void Recoveries_TwoAtOnce_BeginOneWorldLine()
    {
        AssertRule("I5", new() { Seed = 0, Shards = 2 }, new() { Seed = 0, Shards = 2, Mutation = SimMutation.BeginNotCompared }, c =>
        {
            Work(c, 5);
            c.StoreDies(c.Hosts[0]);
            c.StoreDies(c.Hosts[1]);
            Rounds(c, 100);
            Assert.Equal(2, c.Sql.Line.Number);
            Assert.All(c.Hosts, h => Assert.Equal(c.Sql.Line, h.Log.Last.WorldLine));
        });
    }

    [Fact]
    public void Owner_DeposedWhileItCannotReachSql_IsShutOut()
    {
        AssertRule("I6", new() { Seed = 0, Shards = 2 }, new() { Seed = 0, Shards = 2, Mutation = SimMutation.StoreNotFenced }, c =>
        {
            ShardHost host = c.Hosts[0];
            ProxyProcess owner = host.Newest!;
            PlainClient client = c.Plains[0];
            client.Connect(0);
            c.Sql.IsDown = true;
            Rounds(c, 20);
            // SQL is back, but not for the owner.
            owner.CutOffUntil = long.MaxValue;
            c.Sql.IsDown = false;
            client.Begin(c.Random);
            Rounds(c, 1);
            owner.PausedUntil = c.Tick + 30;
            c.TakeOver(host);
            client.Begin(c.Random);
            // It wakes with what its client has sent meanwhile.
            Rounds(c, 60);

            Assert.True(owner.IsDead);
            Assert.True(host.Newest is { IsOpen: true });
        });
    }

    [Fact]
    public void Clock_SteppedBack_VersionsGoOn()
    {
        AssertRule("I8", new() { Seed = 0, Shards = 2 }, new() { Seed = 0, Shards = 2, Mutation = SimMutation.WallClockTaken }, c =>
        {
            Rounds(c, 40);
            Cut before = c.Sql.Cut;
            c.Hosts[0].SkewUs -= 1_000_000;
            Rounds(c, 200);
            if (c.Sql.Cut.Versions[0].Number < before.Versions[0].Number + 10) throw new SimException($"I8: the cut stands at {c.Sql.Cut}, it was {before}");
        });
    }

    // All markers of a process are refused, and the wall clock is set back before the next one starts.
    [Theory]
    [InlineData((int)FinderKind.Approximate)]
    [InlineData((int)FinderKind.Exact)]
    [InlineData((int)FinderKind.Hybrid)]
    public void Clock_SetBackBetweenTwoProcesses_OpensNoVersionAgain(int finder)
    {
        SimSettings two = new() { Seed = 0, Shards = 2, Finder = (FinderKind)finder };
        AssertRule("I1", two, two with { Mutation = SimMutation.ClockForgotten }, c =>
        {
            ShardHost host = c.Hosts[0];
            Rounds(c, 40);
            host.Store.IsBusy = true;
            c.Sessions[0].Begin(0, 1, c.Random);
            Rounds(c, 120);
            c.Sessions[0].Begin(0, 1, c.Random);
            for (int i = 0; i < 200 && c.Sessions[0].Session.Unanswered > 0; i++) c.Round();
            host.SkewUs -= 20 * Cluster.IntervalUs;
            c.ProxyDies(host);
            host.Store.IsBusy = false;
            c.StartProxy(host);
            for (int i = 0; i < 60; i++)
            {
                host.Newest!.BeginToWait();
                c.Round();
            }

            c.StoreDies(c.Hosts[1]);
            Rounds(c, 60);
            Assert.Equal(2, c.Sql.Line.Number);
        });
    }

    // Whose processors are so busy that nobody there reads both clocks at once has the same time all the same: on one machine no reply is held.
    [Fact]
    public void Clock_ReadInPieces_IsThatOfTheMachineStill()
    {
        SimSettings oneClock = new() { Seed = 0, Shards = 2, ClockErrorUs = 0 };
        AssertRule("I1", oneClock, oneClock with { Mutation = SimMutation.SpreadIgnored }, c =>
        {
            c.Hosts[1].SpreadUs = 4 * Cluster.IntervalUs;
            Rounds(c, 600);
            for (int i = 0; i < 40; i++)
            {
                c.Sessions[0].Begin(0, 1, c.Random);
                for (int j = 0; j < 100 && c.Sessions[0].Session.Unanswered > 0; j++) c.Round();
                c.Sessions[1].Begin(1, 1, c.Random);
                for (int j = 0; j < 100 && c.Sessions[1].Session.Unanswered > 0; j++) c.Round();
                Rounds(c, 7);
            }

            c.StoreDies(c.Hosts[0]);
            Rounds(c, 60);
        });
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
        });
    }

    [Fact]
    public void Interval_Changed_NumbersTheSameTimeAlikeEverywhere()
    {
        AssertRule("I1", new() { Seed = 0, Shards = 2 }, new() { Seed = 0, Shards = 2, Mutation = SimMutation.GridNotLearned }, c =>
        {
            Rounds(c, 20);
            c.ProposeInterval(Cluster.IntervalUs / 4, c.NowUs + (12 * Cluster.IntervalUs));
            for (int i = 0; i < 60; i++)
            {
                // Two sessions that know of each other: what one hears at shard 1 the other acts upon at shard 0.
                c.Sessions[0].Begin(1, 1, c.Random);
                Rounds(c, 4);
                c.Sessions[1].Begin(0, 1, c.Random);
                Rounds(c, 2);
            }

            Assert.Equal(2, c.Sql.ClockGrid.Stretches.Length);
        });
    }

    [Fact]
    public void Lease_RunsOutWhileSqlIsDown_IsNotTakenWhenItIsBack()
    {
        SimSettings exact = new() { Seed = 0, Shards = 2, Finder = FinderKind.Exact };
        AssertRule("I6", exact, exact with { Lease = LeaseMutation.OutageCounts }, c =>
        {
            Work(c, 4);
            Coordinator holder = c.Coordinators[0];
            c.Coordinators.Add(new(c, "another coordinator"));
            Rounds(c, 10);
            // SQL is back for moments only, and the holder does not get to it in any of them.
            holder.PausedUntil = long.MaxValue;
            for (int i = 0; i < 5; i++)
            {
                c.Sql.IsDown = true;
                Rounds(c, 20);
                c.Sql.IsDown = false;
                Rounds(c, 2);
            }

            holder.PausedUntil = 0;
            Rounds(c, 80);
            Assert.False(holder.IsDead);
        });
    }

    [Fact]
    public void RollbackInPlace_AKeyExpiresBeforeItsTransaction_IsPutBackByAnother()
    {
        SimSettings inPlace = new() { Seed = 0, Shards = 2, InPlace = true };
        AssertRule("I1", inPlace, inPlace with { Mutation = SimMutation.OnePassOnly }, c =>
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

    [Fact]
    public void Shard_ALaterWorldLineBeginsWhileItWaits_FollowsBeforeItLetsAnybodyIn()
    {
        AssertRule("I5", new() { Seed = 0, Shards = 3 }, new() { Seed = 0, Shards = 3, Mutation = SimMutation.LaterWorldLineLetsIn }, c =>
        {
            (ShardHost first, ShardHost away, ShardHost other) = (c.Hosts[0], c.Hosts[1], c.Hosts[2]);
            c.Plains[0].Connect(1);
            away.Newest!.PausedUntil = long.MaxValue;
            c.StoreDies(first);
            for (int i = 0; i < 200 && (first.Store.Line.Number < 2 || other.Store.Line.Number < 2); i++) c.Round();
            // The second is not entered by all, and never will be.
            c.StoreDies(other);
            for (int i = 0; i < 100; i++)
            {
                c.Round();
                if (first.Newest is not { IsOpenToPlain: true }) continue;
                c.Plains[1].Connect(0);
                c.Plains[1].Begin(c.Random);
            }

            // It knows of no recovery yet.
            c.Plains[0].Begin(c.Random);
            away.Newest!.PausedUntil = 0;
            Rounds(c, 60);
            Assert.True(c.Sql.Line.Number >= 3);
        });
    }

    // ---- The kit ----

    // Seeds up to this one, of the same kinds.
    internal static int[] SeedsUpTo(int last) => [.. Enumerable.Range(1, last).Where(s => s % 3 != 2 && s % 5 != 0)];

    internal static void AssertRule(string by, SimSettings with, SimSettings without, Action<Cluster> story, int[]? seeds = null)
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
            for (int i = 0; i < 200 && !Array.TrueForAll(c.Hosts, h => h.Newest is { IsOpenToPlain: true }); i++) c.Round();
            story(c);
            c.Settle();
            return null;
        }
        catch (SimException e)
        {
            return e.Message;
        }
    }

    internal static void Rounds(Cluster c, int count)
    {
        for (int i = 0; i < count; i++) c.Round();
    }

    /// <summary>Rounds in which a request to SQL may be held back: its caller hears nothing.</summary>
    private static void Rounds(Cluster c, int count, Func<SqlCall, SqlCall?> held)
    {
        for (int i = 0; i < count; i++)
        {
            c.Round();
            foreach (Coordinator coordinator in c.Coordinators) coordinator.StepTasks();
            foreach (SqlCall call in c.Calls.ToArray())
            {
                if (held(call) is null) continue;
                c.Calls.Remove(call);
                call.Complete(null);
            }
        }
    }

    private static void Work(Cluster c, int times)
    {
        for (int i = 0; i < times; i++)
        {
            c.Sessions[0].Begin(i % c.Hosts.Length, 1, c.Random);
            c.Sessions[1].Begin((i + 1) % c.Hosts.Length, 1, c.Random);
            Rounds(c, 8);
        }
    }

    private static void Answer(Cluster c, SqlCall call)
    {
        c.Calls.Remove(call);
        call.Complete(call.Apply());
    }

    /// <summary>A shard works, and no time passes.</summary>
    private static void Turns(Cluster c, ShardHost host, bool executes = true)
    {
        for (int i = 0; i < 4; i++) host.Newest!.Loop(c.Random);
        if (executes) host.Store.ExecuteAll();
        for (int i = 0; i < 8; i++) host.Newest!.StreamOne();
        for (int i = 0; i < 8; i++) host.Newest!.Loop(c.Random);
    }

    /// <summary>A shard goes on, and with it time and SQL; the others do nothing.</summary>
    private static void Alone(Cluster c, ShardHost host, bool executes = true)
    {
        c.PassTime(150);
        host.Newest!.BeginToWait();
        Turns(c, host, executes);
        host.Newest!.SyncSome(c.Random);
        host.Newest!.StepTasks();
        foreach (SqlCall call in c.Calls.Where(call => call.Caller == host.Newest).ToArray()) Answer(c, call);
    }

    /// <summary>Turns of one front end, while time passes.</summary>
    private static void Loop(Cluster c, ProxyProcess proxy, Func<bool> until)
    {
        for (int i = 0; i < 100; i++)
        {
            c.PassTime(150);
            proxy.Loop(c.Random);
            if (until()) return;
        }
    }
}
