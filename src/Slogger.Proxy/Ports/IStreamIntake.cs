// The seam between a shard that follows and what receives the primary's log for it: the shard has log, store and front end; the intake
// (Slogger.Sites) has the network, the stream's receiver and the watermark, and says to which version the store goes.
using Slogger.Core.Sites;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Drills;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Ports;

/// <summary>A shard that follows, as its intake sees it.</summary>
internal interface IFollowingShard : IFollowingStore
{
    /// <summary>Its place in the site's metadata, and as whom it receives the stream.</summary>
    ClusterSeat Seat { get; }

    /// <summary>The same shard, when its site is the primary.</summary>
    IPrimaryShard? Primary { get; }

    /// <summary>The stream's log. While the stream is received it is the intake's to append to.</summary>
    VersionLog Log { get; }

    /// <summary>What the store can begin from.</summary>
    CheckpointStore Checkpoints { get; }

    /// <summary>Looks at what goes into the log; null: the store follows whatever comes.</summary>
    StreamGuard? Guard { get; }

    /// <summary>Restores its log into a store of its own, which is ended again, and compares that with the one that follows. Takes as long
    /// as a restore.</summary>
    Task<RestoreTrial> TryRestoreAsync(CancellationToken stop);

    /// <summary>The same shard, as a node's of a cohort; null: it is none.</summary>
    ICohortShard? Cohort { get; }

    /// <summary>Whether it can be made a primary's where it stands, without loading anything.</summary>
    bool StoreFollows { get; }

    /// <summary>By these grids the versions of the stream went. Any thread.</summary>
    void OnGrid(VersionGrid grid);

    /// <summary>It cannot go on.</summary>
    void OnIntakeFailed(string why);
}

/// <summary>Receives a stream for a shard.</summary>
internal interface IStreamIntake
{
    /// <summary>Begins. Once.</summary>
    /// <param name="shard">For whom; its seat says what the site was when the stream was taken.</param>
    /// <param name="stop">Gives up.</param>
    Task StartAsync(IFollowingShard shard, CancellationToken stop);

    /// <summary>Has something done to the log while nothing is appended.</summary>
    Task WithLogAsync(Action change);

    /// <summary>Ends: the log is the shard's alone. Again: nothing.</summary>
    Task EndAsync();

    /// <summary>What it tells of itself.</summary>
    IEnumerable<(string Name, object Value)> Status { get; }
}
