// The clock grid in the oracle of SQL, and the change of its interval that is proposed: by the machine that the product's store drives
// (IntervalProposal), each method one transaction.
using Slogger.Core.Membership;
using Slogger.Core.Versions;

namespace Slogger.Simulation.Processes;

internal sealed partial class Sql
{
    /// <summary>The grid, and what is proposed.</summary>
    public IntervalProposal Proposal { get; private set; }

    public VersionGrid ClockGrid => Proposal.Grid;

    /// <summary>The grid as a shard goes by it; with that, its agreement.</summary>
    /// <returns>The grid; false if another process owns the shard.</returns>
    public object ReadGrid(int shard, long agreedUs, long epoch)
    {
        if (Shards[shard].Epoch != epoch) return false;
        if (Proposal.Takes(agreedUs)) Shards[shard].AgreedUs = agreedUs;
        return new GridView(ClockGrid, Proposal.ChangeUs);
    }

    /// <summary>Proposes that the interval changes.</summary>
    public bool ProposeInterval(long intervalUs, long fromUs)
    {
        if (Proposal.Propose(intervalUs, fromUs, Shards.Max(s => s.AgreedUs), _settings.Grid) is not { } proposed) return false;
        Proposal = proposed;
        Changed();
        return true;
    }

    /// <summary>Ends a proposal, if it is time.</summary>
    public object SettleInterval(long changeUs, bool giveUp)
    {
        bool isAgreed = !Shards.Where((s, i) => Proposal.Misses(Members.States[i], s.Epoch, s.AgreedUs, _settings.Grid)).Any();
        if (Proposal.Settle(changeUs, isAgreed, giveUp, _settings.Grid) is not { } settled) return this;
        _cluster.OnIntervalSettled(settled.Grid != ClockGrid);
        Proposal = settled;
        Changed();
        return this;
    }
}
