// A Redis that others run: the proxy waits for it, never starts or stops it.
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Stores;

internal sealed class AttachedStore(RedisEndpoint endpoint) : IRedisStore
{
    public bool IsSupervised => false;

    public RedisEndpoint Endpoint => endpoint;

    public string Name => $"Redis at {endpoint}";

    public bool HasEnded => false;

    public bool IsEnding => false;

    public Task EnsureRunningAsync(CancellationToken stop) => Task.CompletedTask;

    public Task EndAsync(bool isKept) => Task.CompletedTask;
}
