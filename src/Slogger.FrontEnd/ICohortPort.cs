// What the front end of a cohort's node is told of the cohort: who leads, and where clients reach all its nodes.
using System.Collections.Immutable;
using Slogger.Core.Identities;

namespace Slogger.FrontEnd;

/// <summary>A node, as clients reach it.</summary>
/// <param name="Node">Its name.</param>
/// <param name="Host">An address or a name, as clients are to use it.</param>
/// <param name="Port">Its port.</param>
/// <param name="Follows">Whether it follows the leader, with its store, as was last heard. Of a leader: true.</param>
internal sealed record CohortSeat(string Node, string Host, int Port, bool Follows);

/// <summary>A cohort, as one of its nodes sees it. Immutable.</summary>
/// <param name="Self">The node.</param>
/// <param name="Leader">Who leads, if it is known where clients reach it; null: nobody.</param>
/// <param name="Nodes">All nodes of which that is known, in the order of their names, the leader and this one among them.</param>
/// <param name="Reign">The number of the leader's reign.</param>
internal sealed record CohortView(string Self, CohortSeat? Leader, ImmutableArray<CohortSeat> Nodes, long Reign)
{
    /// <summary>This node leads.</summary>
    public bool Leads => Leader?.Node == Self;
}

/// <summary>The cohort. Any thread.</summary>
internal interface ICohortPort
{
    /// <summary>Another object whenever something has changed.</summary>
    CohortView View { get; }

    /// <summary>How long ago all was committed that the store shows, at most; null: nothing is known. Unit: microseconds.</summary>
    long? AgeUs { get; }

    /// <summary>How old what a follower reads may be; zero: of any age. Never changes.</summary>
    TimeSpan ReadsStaleMax { get; }

    /// <summary>By which clients ask Sentinels for the shard. Never changes.</summary>
    string MasterName { get; }

    /// <summary>The cluster. Never changes.</summary>
    string Cluster { get; }

    /// <summary>The shard. Never changes.</summary>
    ShardId Shard { get; }
}
