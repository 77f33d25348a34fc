// The paper's figure 2 and its rules of recovery (DPR, sections 4.1, 4.2 and 7.4) in whole clusters, each by the sentence that it checks.
using Slogger.Core.Cuts;
using Slogger.Simulation.Clients;
using Slogger.Simulation.Processes;

namespace Slogger.Simulation.Tests;

public class DprPaperTests
{
    // "We depict in Figure 2 a DPR-guarantee": what rests on C waits for C, what came before it does not.
    [Fact]
    public void Figure2_CIsNotDurable_WhatCameBeforeItIsCommittedAndNoMore()
    {
        Cluster c = Started(new() { Seed = 1, Shards = 3, Finder = FinderKind.Exact });
        SessionClient s = c.Sessions[0];
        ProxyProcess third = c.Hosts[2].Newest!;
        // A process does not know what was executed before it: its first versions rest on those of all.
        Operate(c, s, 2);
        Until(c, () => s.Session.Committed.Number == 1);
        third.IsSyncHeld = true;
        Operate(c, s, 0);
        Operate(c, s, 1);
        Until(c, () => s.Session.Committed.Number == 3);
        Operate(c, s, 2);
        Operate(c, s, 1);
        Ask(c, s, 60);
        Assert.Equal(3, s.Session.Committed.Number);
        third.IsSyncHeld = false;
        Until(c, () => s.Session.Committed.Number == 5);
    }

    // Section 4.1: "temporarily halting DPR progress and sending a message to each worker to rollback, resuming progress only after all
    // workers have reported back with completion".
    [Fact]
    public void Recovery_AWorkerHasNotReportedBack_TheCutStandsAtTheBranch()
    {
        Cluster c = Started(new() { Seed = 1, Shards = 3 });
        Operate(c, c.Sessions[0], 0);
        c.Hosts[1].Newest!.PausedUntil = long.MaxValue;
        c.StoreDies(c.Hosts[0]);
        Until(c, () => c.Sql.Line.Number == 2);
        Cut branch = c.Sql.Lines[^1].Branch;
        ScenarioTests.Rounds(c, 200);
        Assert.Equal(branch, c.Sql.Cut);
        c.Hosts[1].Newest!.PausedUntil = 0;
        Until(c, () => !c.Sql.Cut.Equals(branch));
    }

    // Section 4.1: "Clients are notified of failure the next time they perform an operation or check on their commit status."
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public void Recovery_IsOver_AClientHearsOfItAtItsNextCall(bool operates)
    {
        Cluster c = Started(new() { Seed = 1, Shards = 2 });
        SessionClient s = c.Sessions[0];
        Operate(c, s, 0);
        c.StoreDies(c.Hosts[1]);
        Until(c, () => c.Sql.Line.Number == 2 && Array.TrueForAll(c.Hosts, h => h.Newest is { IsOpenToPlain: true }));
        Assert.Equal(1, s.Session.WorldLine.Number);
        if (operates) s.Begin(0, 1, c.Random);
        else s.AskWhatIsCommitted(0);
        Until(c, () => s.Session.WorldLine == c.Sql.Line);
    }

    // Section 7.4: "the third failure happened while the system is recovering from the second".
    [Fact]
    public void Recovery_AnotherFailureDuringIt_IsTheNextWorldLine()
    {
        Cluster c = Started(new() { Seed = 1, Shards = 3 });
        Operate(c, c.Sessions[0], 0);
        // One that does not come to the second world-line keeps its recovery under way.
        c.Hosts[1].Newest!.PausedUntil = long.MaxValue;
        c.StoreDies(c.Hosts[0]);
        Until(c, () => c.Hosts[0].Store.Line.Number == 2);
        Assert.DoesNotContain(c.Hosts, h => h.Newest is { IsOpenToPlain: true } && h.Store.Line.Number == 2);
        c.StoreDies(c.Hosts[0]);
        Until(c, () => c.Sql.Line.Number == 3);
        c.Hosts[1].Newest!.PausedUntil = 0;
        Until(c, () => Array.TrueForAll(c.Hosts, h => h.Newest is { IsOpenToPlain: true } && h.Store.Line == c.Sql.Line));
        Assert.All(c.Hosts, h => Assert.Equal(c.Sql.Line, h.Log.Last.WorldLine));
        c.Settle();
    }

    private static Cluster Started(SimSettings settings)
    {
        Cluster c = new(settings with { Faults = false, Clocks = ClockKind.WithinBound });
        Until(c, () => Array.TrueForAll(c.Hosts, h => h.Newest is { IsOpenToPlain: true }));
        return c;
    }

    /// <summary>One operation, until it is answered.</summary>
    private static void Operate(Cluster c, SessionClient s, int shard)
    {
        s.Begin(shard, 1, c.Random);
        Until(c, () => s.Session.Unanswered == 0);
    }

    private static void Ask(Cluster c, SessionClient s, int times)
    {
        for (int i = 0; i < times; i++)
        {
            s.AskWhatIsCommitted(i % c.Hosts.Length);
            ScenarioTests.Rounds(c, 3);
        }
    }

    private static void Until(Cluster c, Func<bool> condition)
    {
        for (int i = 0; i < 1000 && !condition(); i++) c.Round();
        Assert.True(condition(), "it does not come to that");
    }
}
