// The two servers that each front-end test runs against: a raw Redis, which proves that the test asks for what Redis
// really does, and the proxy, which has to do the same.
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

/// <summary>What a front-end test talks to.</summary>
public enum Target
{
    /// <summary>redis-server itself.</summary>
    Raw,

    /// <summary>redis-server behind the proxy, commit mode log.</summary>
    Proxy,
}

/// <summary>Starts each server once for all tests of a class, when first asked for.</summary>
public sealed class Servers : IAsyncDisposable
{
    private const string TargetVariable = "SLOGGER_TEST_TARGET";

    private readonly Workspace _workspace = new();
    private Task<RedisProcess>? _raw;
    private Task<ProxyDeployment>? _proxy;

    /// <summary>Both, or the one named in SLOGGER_TEST_TARGET (to try the tests themselves without the proxy).</summary>
    public static TheoryData<Target> Targets =>
        Enum.TryParse<Target>(Environment.GetEnvironmentVariable(TargetVariable), ignoreCase: true, out var only) ? [only]
            : [Target.Raw, Target.Proxy];

    internal Task<ProxyDeployment> ProxyAsync() => _proxy ??= StartProxyAsync();

    internal Task<RedisProcess> RawAsync() => _raw ??= RedisProcess.StartAsync(_workspace.Folder("raw"));

    /// <summary>The server's address; all its data is gone.</summary>
    internal async Task<EndPoint> EmptyAsync(Target target)
    {
        var endpoint = target == Target.Raw ? (await RawAsync()).Endpoint : (await ProxyAsync()).Endpoint;
        using var client = await RespClient.ConnectAsync(endpoint);
        await client.DoAsync("FLUSHALL");
        return endpoint;
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        if (_raw is { IsCompletedSuccessfully: true })
        {
            (await _raw).Dispose();
        }

        if (_proxy is { IsCompletedSuccessfully: true })
        {
            await (await _proxy).DisposeAsync();
        }

        _workspace.Dispose();
    }

    private async Task<ProxyDeployment> StartProxyAsync()
    {
        var deployment = new ProxyDeployment(_workspace, new ProxySetup());
        await deployment.StartAsync();
        return deployment;
    }
}
