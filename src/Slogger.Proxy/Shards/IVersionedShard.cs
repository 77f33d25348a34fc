// A shard with versions, as the host runs it.
using Slogger.Proxy.Configuration;
using Slogger.Proxy.FrontEnd;

namespace Slogger.Proxy.Shards;

internal interface IVersionedShard : IShardPort
{
    /// <summary>Opens what is kept, finds or starts the store, and recovers it if need be. A failure is returned.</summary>
    Task<ProxyExit?> StartAsync(CancellationToken stop);

    /// <summary>The front end is there: from now on its loop is told what happens.</summary>
    void Attach(FrontEndLoop loop);

    /// <summary>Completes when the shard cannot go on.</summary>
    Task<ProxyExit> Failure { get; }

    /// <summary>Commits what was done, and stops.</summary>
    Task StopAsync();
}
