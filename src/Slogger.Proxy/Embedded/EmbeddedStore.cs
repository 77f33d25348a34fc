// The store inside the proxy, as the shard's recovery sees it: it is there as long as the proxy is, and nobody else's.
using Slogger.Proxy.Stores;

namespace Slogger.Proxy.Embedded;

internal sealed class EmbeddedStore : IStore
{
    public bool IsSupervised => true;

    public string Name => "the embedded store";

    public bool HasEnded => false;

    public Task EnsureRunningAsync(CancellationToken stop) => Task.CompletedTask;

    public Task EndAsync(bool isKept) => Task.CompletedTask;
}
