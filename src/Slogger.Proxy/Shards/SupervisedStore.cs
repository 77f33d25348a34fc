using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Shards;

internal sealed class SupervisedStore(ServeOptions options, ILogSink log) : IStore
{
    public bool IsSupervised => true;

    public RedisEndpoint Endpoint => throw new InvalidOperationException($"{options} {log}");

    public string Name => "the supervised Redis";

    public Task EnsureRunningAsync(CancellationToken stop) => Task.CompletedTask;

    public Task StopAsync() => Task.CompletedTask;
}
