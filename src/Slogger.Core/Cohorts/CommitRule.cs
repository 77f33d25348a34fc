// What a cohort can never lose. A version counts when a majority has it durable, each in its own log, and the reign's record is among what
// they have (R3). The record is what makes the versions below it count: they are of older reigns, and a node with a newer log than theirs
// could else be elected and make them void (design, 4.5: the rule that the paper lacks).
using Slogger.Core.Identities;
using Slogger.Core.Replication;

namespace Slogger.Core.Cohorts;

/// <summary>The commit of one reign, at its leader. One thread at a time. Source: design, replicated shards, 4.2.</summary>
public sealed class CommitRule
{
    private readonly Reign _reign;
    private readonly CohortMutation _mutation;
    private readonly Cohort _cohort;
    private readonly Dictionary<NodeName, LogIndex> _durable = [];

    /// <summary>Nothing is known to be durable.</summary>
    public CommitRule(Reign reign, Cohort cohort)
        : this(reign, cohort, CohortMutation.None)
    {
    }

    internal CommitRule(Reign reign, Cohort cohort, CohortMutation mutation) => (_reign, _cohort, _mutation) = (reign, cohort, mutation);

    /// <summary>The last version that a majority has durable; null: none of this reign yet. It only grows.</summary>
    public LogIndex? Commit { get; private set; }

    /// <summary>A node's log is durable up to the end of a version.</summary>
    /// <returns>Whether <see cref="Commit"/> has grown.</returns>
    public bool Durable(NodeName node, LogIndex upTo)
    {
        // Late messages say less.
        if (_durable.TryGetValue(node, out LogIndex before) && before >= upTo) { return false; }
        _durable[node] = upTo;
        return Count();
    }

    /// <summary>Nothing more is committed while this is so. What is durable meanwhile counts when it ends.</summary>
    public bool IsFrozen { get; set; }

    /// <summary>A node has said hello: it may have lost what it had. So nothing that it has said before counts any more.</summary>
    public void Forget(NodeName node) => _durable.Remove(node);

    /// <summary>How far a node is durable; null: it has said nothing yet.</summary>
    public LogIndex? DurableOf(NodeName node) => _durable.TryGetValue(node, out LogIndex upTo) ? upTo : null;

    private bool Count()
    {
        int majority = _cohort.Majority - (_mutation == CohortMutation.MinorityCounts ? 1 : 0);
        if (_cohort.Reached(_durable, majority) is not { } counts || counts.Reign != _reign || IsFrozen) { return false; }
        if (Commit is { } commit && commit >= counts) { return false; }
        Commit = counts;
        return true;
    }
}
