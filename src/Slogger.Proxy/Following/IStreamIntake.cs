// The seam between a shard that follows and what receives the primary's log for it: the shard has log, store and front end; the intake (Slogger.Sites) has the network, the
// stream's receiver and the watermark, and says to which version the store goes.
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Proxy.Cluster;

namespace Slogger.Proxy.Following;

/// <summary>The store of a stream. One call at a time.</summary>
internal interface IFollowingStore
{
    /// <summary>Where it is known to be; the default: nowhere in the stream's present life.</summary>
    WorldPoint Applied { get; }

    /// <summary>Why it cannot be brought on, which only a person can change; null: it can.</summary>
    string? Problem => null;

    /// <summary>Another life of the stream begins: the log, and the checkpoint at its beginning. What the store holds goes on being shown until it is brought to a version of that.</summary>
    /// <param name="begin">Done while nobody else looks at log and checkpoints. Whether it has begun.</param>
    /// <param name="stop">Gives up waiting.</param>
    Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop);

    /// <summary>Brings it from where it is to exactly the end of a version. Tried again if it throws.</summary>
    Task BringToAsync(Boundary end, CancellationToken stop);

    /// <summary>It stands at the final watermark: the world-line of this site's rule begins there, durably. When this returns a process that is started as a primary's finds it there. Tried again if it throws.</summary>
    Task EnterAsync(WorldLine line, CancellationToken stop) => Task.CompletedTask;

    /// <summary>A base of the store's own from which the log can be replayed, besides the checkpoints: the offset of the newest at or below one, if that is whole; null: there is none.</summary>
    long? BaseBelow(long offset) => null;

    /// <summary>It stands at the final watermark: nobody reads any more, and it is made what a primary's store is. Tried again if it throws.</summary>
    Task PromoteAsync(CancellationToken stop);

    /// <summary>All shards of the site are open: it is the primary's, and nothing is brought anywhere any more.</summary>
    void TakeOver(SiteState site);
}

/// <summary>A shard that follows, as its intake sees it.</summary>
internal interface IFollowingShard : IFollowingStore
{
    /// <summary>Its place in the site's metadata, and as whom it receives the stream.</summary>
    ClusterSeat Seat { get; }

    /// <summary>The stream's log. While the stream is received it is the intake's to append to.</summary>
    VersionLog Log { get; }

    /// <summary>What the store can begin from.</summary>
    CheckpointStore Checkpoints { get; }

    /// <summary>Looks at what goes into the log; null: the store follows whatever comes.</summary>
    StreamGuard? Guard { get; }

    /// <summary>Restores its log into a store of its own, which is ended again, and compares that with the one that follows. Takes as long as a restore.</summary>
    Task<RestoreTrial> TryRestoreAsync(CancellationToken stop);

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
