// The seam between a shard and the node of a cohort in its process: the shard has log, store and front end; the node (Slogger.Cohorts) has
// the network, the election, and what followers receive.
using Slogger.Core.Cohorts;
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.FrontEnd;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;
using Slogger.Replication.Seeding;

namespace Slogger.Proxy.Ports;

/// <summary>A node, as its shard sees it. Any thread.</summary>
internal interface ICohort : IStreamIntake
{
    /// <summary>Who it is.</summary>
    CohortOptions Options { get; }

    /// <summary>Who votes, in the reign that the node leads or follows.</summary>
    Cohort Members { get; }

    /// <summary>How the other members are reached.</summary>
    IReadOnlyList<(NodeName Node, IShipConnector Way)> Others { get; }

    /// <summary>Who leads, and where clients reach the nodes. Another object whenever something has changed.</summary>
    CohortView Seats { get; }

    /// <summary>See <see cref="ICohortPort.AgeUs"/>.</summary>
    long? AgeUs { get; }

    /// <summary>Another node has promised this reign, which is above the leader's: it will never answer the leader again.</summary>
    void Refused(Reign promised);

    /// <summary>The shard's store is lost. Another node is asked to lead, if one could.</summary>
    /// <returns>Whether one was: this node steps down.</returns>
    bool GiveWay();

    /// <summary>The shard stops by plan. Another node is asked to lead, if one could, and this one steps down. Completes when another one
    /// leads, or none has in twice the lease.</summary>
    Task HandOverAsync();
}

/// <summary>The shard of a node, as the node sees it.</summary>
internal interface ICohortShard
{
    /// <summary>The reign that it leads; null: it follows.</summary>
    ICohortLead? Lead { get; }

    /// <summary>It leads from now on: its log begins the reign, durably, and is shipped to the followers. A log that is empty begins with
    /// the reign, when the store has been looked at.</summary>
    /// <exception cref="Slogger.Log.LogException">The log refused.</exception>
    void BeginReign(Reign reign);

    /// <summary>Whether a world-line has to begin before the store goes to the log's end: clients may have been told more than the log
    /// has, or it may lack a part of a reset, or have one that others lack. Among several shards it takes the shard in the metadata, and
    /// waits for that.</summary>
    /// <param name="losesNothing">See <see cref="ElectionEffect.Begin"/>.</param>
    /// <param name="stop">Gives up.</param>
    Task<bool> BeginsWithWorldLineAsync(bool losesNothing, CancellationToken stop);

    /// <summary>Takes the shard in the metadata, and begins a world-line where the log ends, or below, where the other shards have it. A
    /// majority has the log. Nobody is served yet. Waits for the metadata.</summary>
    Task BeginWorldLineAsync(CancellationToken stop);

    /// <summary>Operations of clients are held, and all that was done before is committed: all that anybody was told. Nothing is held
    /// where nobody is told more than that anyway.</summary>
    /// <param name="stop">Gives up.</param>
    /// <returns>Whether that is so. If not, it has taken too long, or the shard does not serve; <see cref="GoOn"/> ends the hold.</returns>
    Task<bool> HoldAsync(CancellationToken stop);

    /// <summary>Operations of clients go on.</summary>
    void GoOn();

    /// <summary>It does not lead any more: nobody is told anything, and the process is to begin anew as a follower's.</summary>
    void StepDown();
}

/// <summary>A reign at its leader. Any thread.</summary>
internal interface ICohortLead
{
    /// <summary>Which.</summary>
    Reign Reign { get; }

    /// <summary>Completes when a majority has the reign's record.</summary>
    Task HasBegun { get; }

    /// <summary>The last version that is committed; null: none of this reign yet.</summary>
    LogIndex? Commit { get; }

    /// <summary>Whether the lease holds.</summary>
    bool MaySpeak { get; }

    /// <summary>Has the lease looked at: whoever steps down without one does.</summary>
    void Look(Action<LeaderLease> look);

    /// <summary>A follower has answered what was sent then, by the leader's clock. Not one that learns.</summary>
    void Echoed(NodeName node, long sentUs);

    /// <summary>How the followers are, and a node that is to be a member.</summary>
    IReadOnlyList<CohortFollowerStatus> Followers { get; }

    /// <summary>The log is shipped to a node that is to be a member, too, until <see cref="ForgetAsync"/>. Again: nothing.</summary>
    void ShipTo(NodeName node, IShipConnector way);

    /// <summary>A node will not be a member: the log is shipped to it, and kept for it, no more.</summary>
    Task ForgetAsync(NodeName node);

    /// <summary>See <see cref="Leader.IsFrozen"/>.</summary>
    void Freeze(bool isFrozen);

    /// <summary>See <see cref="Leader.Has"/>.</summary>
    bool Has(NodeName node);

    /// <summary>See <see cref="Leader.MayChange"/>.</summary>
    bool MayChange(Cohort next);
}

/// <summary>A follower, as its leader sees it.</summary>
/// <param name="Node">Who.</param>
/// <param name="Durable">Up to where it has the log durable; the default: nothing is known.</param>
/// <param name="LagBytes">Bytes of the leader's log that it lacks.</param>
/// <param name="Learns">It has lost what it had, or is new.</param>
/// <param name="SilentUs">How long it has said nothing; -1: it never has.</param>
/// <param name="Problem">Why there is no connection; null: there is one.</param>
internal readonly record struct CohortFollowerStatus(
    NodeName Node, LogIndex Durable, long LagBytes, bool Learns, long SilentUs, string? Problem)
{
    /// <summary>How far the copy is that it is being given; null: it is given none, or there is none yet.</summary>
    public SeedProgress? Seeding { get; init; }
}
