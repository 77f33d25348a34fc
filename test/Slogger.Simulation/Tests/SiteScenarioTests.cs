// Stories of disaster recovery, each told twice: with the rule that it is about, and without. For what the dice hardly ever bring about.
using Slogger.Core.Replication;
using Slogger.Core.Sites;
using Slogger.Simulation.Sites;

namespace Slogger.Simulation.Tests;

public class SiteScenarioTests
{
    // It sleeps while another one takes its stream, receives more of it, and the watermark moves on with that. It wakes up to the question what it holds.
    [Fact]
    public void FinalReport_OfAReceiverThatWasDeposed_DoesNotCount() => AssertRule("I4", ShipMutation.DeposedFinalCounts, c =>
    {
        BackupSite site = c.Backup!;
        Until(c, () => site.Checks.Told.Version.Number > 3);
        BackupProcess old = site.Processes.First(p => p.Has(0));
        old.PausedUntil = long.MaxValue;
        site.Replace(old);
        BackupProcess next = site.Processes[^1];
        Core.Versions.Version before = site.Checks.Told.Version;
        Until(c, () => site.Checks.Told.Version.Number > before.Number + 5);
        site.Order();
        Until(c, () => site.Sql.State.Role == SiteRole.FailingOver);
        next.PausedUntil = long.MaxValue;
        old.ForgetInbox();
        old.PausedUntil = 0;
        for (int n = 0; n < 40; n++) Turns(c);
        next.PausedUntil = 0;
        Until(c, () => site.IsOver);
    });

    // It is cut off and well, and its clients ask on after the backup has decided with which version it goes on.
    [Fact]
    public void Commit_OfAPrimaryWhoseLeaseIsOver_IsToldNoMore()
    {
        int caught = 0;
        foreach (int seed in Enumerable.Range(1, 400).Where(s => Make(s, ShipMutation.None).Backup!.LeaseTermUs > 0).Take(12))
        {
            Story(Make(seed, ShipMutation.None));
            SimException? e = Record.Exception(() => Story(Make(seed, ShipMutation.ToldForEver))) as SimException;
            if (e?.Message.StartsWith("I6", StringComparison.Ordinal) == true) caught++;
        }

        Assert.True(caught > 0, "that it is told all the same was not noticed");

        static void Story(Cluster c)
        {
            BackupSite site = c.Backup!;
            Until(c, () => site.Checks.Told.Version.Number > 3);
            site.Wires.CutUntilUs[-1] = long.MaxValue;
            site.Order();
            Until(c, () => site.Sql.State.Final is not null);
            for (int n = 0; n < 200; n++)
            {
                foreach (BackupProcess p in site.Processes) p.PausedUntil = long.MaxValue;
                c.Round();
                c.NextTick();
            }
        }
    }

    // Nothing is written by any client; the cut moves on all the same, and the watermark with it, and somebody can take over at it.
    [Fact]
    public void Watermark_NothingIsWritten_MovesOn()
    {
        foreach (int seed in (int[])[1, 4, 7])
        {
            Cluster c = Make(seed, ShipMutation.None);
            Until(c, () => c.Backup!.Checks.Told.Version.Number > 20);
            c.Backup!.Order();
            Until(c, () => c.Backup!.IsOver);
            Assert.True(c.Backup!.Sql.State.Final!.Value.Version.Number > 20);
        }
    }

    private static void AssertRule(string by, ShipMutation mutation, Action<Cluster> story)
    {
        int caught = 0;
        foreach (int seed in (int[])[1, 3, 4, 6, 7, 9])
        {
            story(Make(seed, ShipMutation.None));
            try
            {
                story(Make(seed, mutation));
            }
            catch (SimException e) when (e.Message.StartsWith(by, StringComparison.Ordinal))
            {
                caught++;
            }
        }

        Assert.True(caught > 0, $"{mutation} was not noticed");
    }

    private static Cluster Make(int seed, ShipMutation mutation) =>
        new(new() { Seed = seed, Shards = 2, Faults = false, Moves = false, Members = false, Backup = true, Ship = mutation });

    private static void Turns(Cluster c)
    {
        // Once somebody has ordered a failover a round of the primary wakes everybody.
        if (c.Backup!.IsWanted) c.PassTime(150);
        else c.Round();
        for (int n = 0; n < 10; n++, c.NextTick()) c.Backup!.Turn();
    }

    private static void Until(Cluster c, Func<bool> isSo)
    {
        for (int n = 0; n < 3000 && !isSo(); n++) Turns(c);
        Assert.True(isSo(), c.Backup!.Describe());
    }
}
