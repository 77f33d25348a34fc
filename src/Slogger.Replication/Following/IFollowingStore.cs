// A stream's store as who receives the stream sees it: which version it goes to, when another life of the stream begins, and what a
// takeover asks of it.
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;

namespace Slogger.Replication.Following;

/// <summary>The store of a stream. One call at a time.</summary>
internal interface IFollowingStore
{
    /// <summary>Where it is known to be; the default: nowhere in the stream's present life.</summary>
    WorldPoint Applied { get; }

    /// <summary>Why it cannot be brought on, which only a person can change; null: it can.</summary>
    string? Problem => null;

    /// <summary>Another life of the stream begins: the log, and the checkpoint at its beginning. What the store holds goes on being shown
    /// until it is brought to a version of that.</summary>
    /// <param name="begin">Done while nobody else looks at log and checkpoints. Whether it has begun.</param>
    /// <param name="stop">Gives up waiting.</param>
    Task<bool> RenewAsync(Func<bool> begin, CancellationToken stop);

    /// <summary>Brings it from where it is to exactly the end of a version. Tried again if it throws.</summary>
    Task BringToAsync(Boundary end, CancellationToken stop);

    /// <summary>It stands at the final watermark: the world-line of this site's rule begins there, durably. When this returns a process
    /// that is started as a primary's finds it there. Tried again if it throws.</summary>
    Task EnterAsync(WorldLine line, CancellationToken stop) => Task.CompletedTask;

    /// <summary>A base of the store's own from which the log can be replayed, besides the checkpoints: the offset of the newest at or below
    /// one, if that is whole; null: there is none.</summary>
    long? BaseBelow(long offset) => null;

    /// <summary>It stands at the final watermark: nobody reads any more, and it is made what a primary's store is. Tried again if it
    /// throws.</summary>
    Task PromoteAsync(CancellationToken stop);

    /// <summary>All shards of the site are open: it is the primary's, and nothing is brought anywhere any more.</summary>
    void TakeOver(SiteState site);
}
