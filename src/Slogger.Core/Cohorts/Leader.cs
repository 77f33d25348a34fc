// What a leader makes of its followers' answers: what is committed, how long it may answer reads, and when a node that has lost its disk
// votes again.
//
// A node that has lost its disk has lost its promises, too. It may obey a leader whose reign is over, without knowing. So what it says
// counts for nothing, neither for the commit nor for the lease, until its leader admits it. That leader has heard from a majority without
// it, since it has said that it learns: so no later reign had begun. And the node has all that was committed by then.
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Core.Cohorts;

/// <summary>One reign, at its leader. Not thread-safe. Source: design, replicated shards, 4.2, 4.6 and 6.1.</summary>
public sealed class Leader
{
    private readonly NodeName _self;
    private readonly Cohort _cohort;
    private readonly CommitRule _rule;
    private readonly CohortMutation _mutation;
    private readonly Dictionary<NodeName, Learner> _learners = [];

    private readonly record struct Learner(long SinceUs, LogIndex Durable);

    /// <summary>A reign begins.</summary>
    /// <param name="self">The leader.</param>
    /// <param name="reign">The reign.</param>
    /// <param name="cohort">Who votes.</param>
    /// <param name="leaseUs"><see cref="ElectionOptions.LeaseUs"/>.</param>
    /// <param name="nowUs">The leader's clock, which counts the time in which the machine sleeps.</param>
    public Leader(NodeName self, Reign reign, Cohort cohort, long leaseUs, long nowUs)
        : this(self, reign, cohort, leaseUs, nowUs, CohortMutation.None)
    {
    }

    internal Leader(NodeName self, Reign reign, Cohort cohort, long leaseUs, long nowUs, CohortMutation mutation)
    {
        (_self, _cohort, Reign, _mutation) = (self, cohort, reign, mutation);
        _rule = new(reign, cohort, mutation);
        Lease = new(self, cohort, leaseUs, nowUs, mutation);
    }

    /// <summary>The reign.</summary>
    public Reign Reign { get; }

    /// <summary>How long it may answer.</summary>
    public LeaderLease Lease { get; }

    /// <summary>The last version that a majority has durable; null: none of this reign yet.</summary>
    public LogIndex? Commit => _rule.Commit;

    /// <summary>How far a node is durable, as far as that counts; null: nothing of it does yet.</summary>
    public LogIndex? DurableOf(NodeName node) => _rule.DurableOf(node);

    /// <summary>The leader is about to hand over: nothing more is committed, so that the next one can have all that is.</summary>
    public bool IsFrozen
    {
        get => _rule.IsFrozen;
        set => _rule.IsFrozen = value;
    }

    /// <summary>Whether a node has all that is committed.</summary>
    public bool Has(NodeName node) => Commit is { } commit && DurableOf(node) >= commit;

    /// <summary>The leader's own log is durable up to the end of a version.</summary>
    /// <returns>Whether <see cref="Commit"/> has grown.</returns>
    public bool Synced(LogIndex durable) => _rule.Durable(_self, durable);

    /// <summary>There is a new link to a node. It may have lost what it had said that it has.</summary>
    public void Linked(NodeName node)
    {
        _rule.Forget(node);
        _learners.Remove(node);
    }

    /// <summary>A follower has answered, over its newest link.</summary>
    /// <param name="node">Who.</param>
    /// <param name="reply">What.</param>
    /// <param name="nowUs">The leader's clock.</param>
    /// <returns>Whether <see cref="Commit"/> has grown.</returns>
    public bool Replied(NodeName node, ShipReply reply, long nowUs)
    {
        if (reply.Learns && _mutation != CohortMutation.LearnerCounts)
        {
            _learners[node] = new(_learners.TryGetValue(node, out Learner before) ? before.SinceUs : nowUs, reply.Durable);
            return false;
        }
        _learners.Remove(node);
        if (reply.EchoUs > 0) { Lease.Echoed(node, reply.EchoUs, nowUs); }
        return reply.Durable.Reign == Reign && _rule.Durable(node, reply.Durable);
    }

    /// <summary>Whether the next reign may have these members (R12): the record of this one is committed by its own, and they differ by
    /// one. A node that is new has all that is committed, and of them a majority is there and votes: else they could lose the lead, and never
    /// elect again.</summary>
    public bool MayChange(Cohort next) => (Commit is not null || _mutation == CohortMutation.ChangesUncommitted)
        && (next.Differences(_cohort) == 1 || _mutation == CohortMutation.ChangesTwo)
        && next.Voters.Except(_cohort.Voters).All(n => DurableOf(n) is not null)
        && next.Voters.Count(n => DurableOf(n) is not null) >= next.Majority;

    /// <summary>Whether a node that learns has learned enough: it votes from then on.</summary>
    public bool Admits(NodeName node) => _learners.TryGetValue(node, out Learner learner)
        && (Lease.MajorityUs > learner.SinceUs || _mutation == CohortMutation.LearnerCounts)
        && Commit is { } commit && learner.Durable >= commit;
}
