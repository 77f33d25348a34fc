// The store of a shard, as the shard's recovery sees it: one that others run, one that the proxy runs, or one inside the proxy.
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Stores;

/// <summary>What a shard's store is, and how it comes back.</summary>
internal interface IStore
{
    /// <summary>Whether it is the proxy's own, which may overwrite what it holds.</summary>
    bool IsSupervised { get; }

    /// <summary>How a person knows it.</summary>
    string Name { get; }

    /// <summary>Whether a supervised Redis that ran has certainly ended, with all that it held: the next one begins empty.</summary>
    bool HasEnded { get; }

    /// <summary>Has a supervised Redis run: adopts the one that runs, or starts one. Does nothing for an attached one.</summary>
    Task EnsureRunningAsync(CancellationToken stop);

    /// <summary>It is not used any more. A supervised Redis is ended in order, unless it is kept for what comes next in this process.
    /// Does nothing for an attached one.</summary>
    Task EndAsync(bool isKept);
}

/// <summary>A Redis.</summary>
internal interface IRedisStore : IStore
{
    /// <summary>Where it is now, with the proxy's own credentials. A supervised one has a new place after each start, so that
    /// nothing meant for one incarnation can reach the next.</summary>
    RedisEndpoint Endpoint { get; }

    /// <summary>Whether a supervised Redis answers nobody any more, some milliseconds before <see cref="IStore.HasEnded"/>.</summary>
    bool IsEnding { get; }
}
