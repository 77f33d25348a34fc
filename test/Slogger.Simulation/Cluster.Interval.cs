// The interval changes while all else goes on: by proposal and agreement, as slogger interval has it.
namespace Slogger.Simulation;

internal sealed partial class Cluster
{
    // A beat takes some versions here: far enough ahead for all to agree, mostly.
    private const int AheadMax = 24;
    private const int ChangesMax = 3;

    /// <summary>No change is under way, and versions of the last one are in the cut.</summary>
    public bool HasOneGrid => Sql.Proposal.ChangeUs == 0
        && (Sql.ClockGrid.Stretches.Length == 1 || Sql.Cut.Versions.ToArray().Min() > Sql.ClockGrid.Stretches[^1].FirstVersion.Next);

    /// <summary>A proposal has come to its end.</summary>
    public void OnIntervalSettled(bool isApplied)
    {
        Count(isApplied ? "interval changed" : "change of the interval given up");
        if (IsTraced) Note(isApplied ? "SQL: the interval changes as proposed" : "SQL: the interval stays as it is");
    }

    private void IntervalChanges()
    {
        if (Sql.ClockGrid.Stretches.Length > ChangesMax) return;
        long before = Sql.ClockGrid.Stretches[^1].IntervalUs;
        ProposeInterval(Dice(2) ? before / 2 : 2 * before, NowUs + (Random.Next(2, AheadMax) * IntervalUs));
    }

    /// <summary>Somebody has the interval change.</summary>
    public void ProposeInterval(long intervalUs, long fromUs)
    {
        if (!Sql.ProposeInterval(intervalUs, fromUs)) return;
        Count("interval proposed");
        if (IsTraced) Note($"an interval of {intervalUs} us is proposed, from {Sql.Proposal.ChangeUs - StartUs} us on");
    }

    // Who has proposed it waits for it, or has gone.
    private void IntervalTurn()
    {
        if (Dice(40)) Sql.SettleInterval(Sql.Proposal.ChangeUs, giveUp: NowUs > Sql.Proposal.ChangeUs);
        if (Dice(2)) Someone(Hosts[Random.Next(Hosts.Length)])?.StepTasks();
        if (Dice(3)) SqlTurn();
    }
}
