// Somebody who has a shard leave, in the order of the product's LeavingShard: asks for it, and waits until its proxy has done it. For one
// that is dead a world-line is begun in its name first, so that nothing above what it has said is ever committed. May be interrupted.
using Slogger.Core.Membership;
using Slogger.Core.WorldLines;

namespace Slogger.Simulation.Processes;

internal sealed class Operator : Process
{
    private readonly int _shard;

    public Operator(Cluster cluster, string name, int shard)
        : base(cluster, name)
    {
        _shard = shard;
        Start(Run());
    }

    // Its lease has run out: the product's LeaseWatch says so of whom nobody can hear of.
    private bool IsGone => Cluster.Hosts[_shard] is { IsOff: true, Proxies.Count: 0 };

    private IEnumerable<bool> Run()
    {
        while (!IsDead)
        {
            SqlCall ask = Ask("leave", () => Cluster.Sql.Leave(_shard));
            while (!ask.IsDone) yield return true;
            // It may not: nothing was changed.
            if (ask.Result is false or MemberState.Left) Die("is done");
            if (IsDead) yield break;
            if (ask.Result is MemberState.Leaving && IsGone)
                foreach (bool step in RemoveDead()) yield return step;
            long untilUs = Cluster.NowUs + (4 * Cluster.IntervalUs);
            while (Cluster.NowUs < untilUs) yield return true;
        }
    }

    private IEnumerable<bool> RemoveDead()
    {
        SqlCall take = Ask("take", () => Cluster.Sql.TakeEpoch(_shard));
        while (!take.IsDone) yield return true;
        if (take.Result is not long epoch || epoch == 0) yield break;
        if (Cluster.Settings.Mutation != SimMutation.DeadLeavesQuietly)
        {
            BeginResult? begun = null;
            while (begun is null or { Outcome: BeginOutcome.StaleWorldLine })
            {
                SqlCall look = Ask("look", Cluster.Sql.Look);
                while (!look.IsDone) yield return true;
                if (look.Result is not SqlView view) continue;
                SqlCall begin = Ask("begin", () => Cluster.Sql.BeginWorldLine(_shard, view.Claims[_shard], epoch, null, view.Cut));
                while (!begin.IsDone) yield return true;
                begun = (BeginResult?)begin.Result;
            }

            // Its proxy has come back.
            if (begun.Outcome != BeginOutcome.Started) yield break;
            WorldLine line = begun.View.Line;
            SqlCall enter = Ask("enter", () => Cluster.Sql.Enter(_shard, line, epoch));
            while (!enter.IsDone) yield return true;
            if (enter.Result is null) yield break;
            Cluster.Count("member: dead one is left behind");
        }

        SqlCall end = Ask("end", () => Cluster.Sql.EndMembership(_shard, epoch));
        while (!end.IsDone) yield return true;
    }
}
