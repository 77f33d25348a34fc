// The right of a leader to answer reads, given by a majority of its cohort. It runs from when the leader *sent* what they have echoed, by
// its own clock. A follower votes for nobody from when it *received* that, for a little longer (ElectionOptions.GrantUs). So no other node
// has been elected while the lease holds, and no two clocks are compared, only how fast they run.
//
// When the lease is looked at: after a reply was read from the store, and before it is sent. Then no other reign had committed anything
// when the store executed the read (R5).
using Slogger.Core.Replication;

namespace Slogger.Core.Cohorts;

/// <summary>The lease of one reign. One thread at a time. Source: design, replicated shards, 6.1.</summary>
public sealed class LeaderLease
{
    private readonly NodeName _self;
    private readonly long _leaseUs;
    private readonly long _beganUs;
    private readonly CohortMutation _mutation;
    private readonly Cohort _cohort;
    private readonly Dictionary<NodeName, long> _echoUs = [];

    /// <summary>A reign begins: nothing was echoed yet.</summary>
    /// <param name="self">The leader.</param>
    /// <param name="cohort">Who votes.</param>
    /// <param name="leaseUs"><see cref="ElectionOptions.LeaseUs"/>.</param>
    /// <param name="nowUs">The leader's clock, which counts the time in which the machine sleeps.</param>
    public LeaderLease(NodeName self, Cohort cohort, long leaseUs, long nowUs)
        : this(self, cohort, leaseUs, nowUs, CohortMutation.None)
    {
    }

    internal LeaderLease(NodeName self, Cohort cohort, long leaseUs, long nowUs, CohortMutation mutation)
    {
        (_self, _cohort, _leaseUs, _beganUs, _mutation) = (self, cohort, leaseUs, nowUs, mutation);
        Count();
    }

    /// <summary>Everything that the leader sent before this was echoed by a majority, itself counted: until then no other reign had begun.
    /// <see cref="long.MinValue"/>: nothing was.</summary>
    public long MajorityUs { get; private set; } = long.MinValue;

    /// <summary>When the lease runs out, by the leader's clock. <see cref="long.MaxValue"/>: the leader is a majority by itself.</summary>
    public long UntilUs => MajorityUs is long.MinValue or long.MaxValue ? MajorityUs : MajorityUs + _leaseUs;

    /// <summary>Since when there was no lease at the latest, if there is none now.</summary>
    public long LostSinceUs => Math.Max(_beganUs, UntilUs);

    /// <summary>Whether a reply that was read from the store may be sent.</summary>
    public bool Holds(long nowUs) => nowUs < UntilUs;

    /// <summary>Whether a follower has answered something that the leader sent since then.</summary>
    public bool HasHeard(NodeName node, long sinceUs) => _echoUs.TryGetValue(node, out long echoUs) && echoUs >= sinceUs;

    /// <summary>A follower of this reign has answered.</summary>
    /// <param name="from">Who.</param>
    /// <param name="echoUs">When the leader sent the newest message that it answers.</param>
    /// <param name="nowUs">The leader's clock.</param>
    public void Echoed(NodeName from, long echoUs, long nowUs)
    {
        if (_mutation == CohortMutation.LeaseFromArrival) { echoUs = nowUs; }
        if (from == _self || (_echoUs.TryGetValue(from, out long before) && before >= echoUs)) { return; }
        _echoUs[from] = echoUs;
        Count();
    }

    private void Count()
    {
        int others = (_mutation == CohortMutation.LeaseOfOne ? 2 : _cohort.Majority) - (_cohort.Has(_self) ? 1 : 0);
        MajorityUs = others == 0 ? long.MaxValue : _cohort.Reached(_echoUs, others) ?? long.MinValue;
    }
}
