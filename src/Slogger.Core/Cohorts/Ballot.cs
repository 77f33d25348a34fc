// What a node has promised. It is durable before anything follows from it: a node that forgot a promise could give it twice, and two nodes
// would lead one reign. So are the members that a leader names, before anything of its reign is acknowledged: a node that went back to an
// older list could be elected by nodes that do not count any more.
using Slogger.Core.Identities;

namespace Slogger.Core.Cohorts;

/// <summary>The newest reign that a node has voted for, or obeyed.</summary>
/// <param name="Promised">The reign. Nothing of an older one is accepted any more.</param>
/// <param name="For">Who has the node's vote in it.</param>
public readonly record struct Ballot(Reign Promised, NodeName For)
{
    /// <summary>The node has lost what it had, or is new: it only learns the log, and votes for nobody, until it has all that was
    /// committed.</summary>
    public bool Learns { get; init; }

    /// <summary>It learns, and its vote was for a candidate that founds the cohort. When it is told that the cohort began so it votes again:
    /// all have voted so, so nothing had been committed.</summary>
    public bool Founds { get; init; }

    /// <summary>The members, as the leader says that this node has obeyed last; null: it has obeyed none.</summary>
    public Cohort? Members { get; init; }

    /// <summary>Whether the node may vote for a candidate in a reign: it votes once in each, and for none below its promise.</summary>
    public bool MayPromise(Reign reign, NodeName candidate) => reign > Promised || (reign == Promised && For == candidate);
}
