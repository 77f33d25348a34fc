// Three shards for the tests of Slogger.Client, and clients of them.
using Slogger.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Client;

/// <summary>Three shards with SQLite, started once for the tests of a class.</summary>
public sealed class ClientCluster : IAsyncLifetime
{
    public const int Count = 3;
    private readonly Workspace _workspace = new();

    public ClientCluster() => Shards = new(_workspace, Count, usesPostgres: false);

    internal ClusterDeployment Shards { get; }

    /// <inheritdoc />
    public async ValueTask InitializeAsync()
    {
        await Shards.StartAsync();
        await Shards.ServingAsync();
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        await Shards.DisposeAsync();
        _workspace.Dispose();
    }

    internal static Task<SloggerClient> ConnectAsync(ClusterDeployment shards,
        Func<SloggerClientOptions, SloggerClientOptions>? with = null)
    {
        var options = new SloggerClientOptions { Endpoints =
            [.. Enumerable.Range(0, shards.Shards).Select(i => shards.Endpoint(i).ToString()!)] };
        return SloggerClient.ConnectAsync(with?.Invoke(options) ?? options);
    }

    /// <summary>What a key of a shard holds, past the client.</summary>
    internal static async Task<string> GetAsync(ClusterDeployment shards, int shard, string key)
    {
        using RespClient plain = await shards.ConnectAsync(shard);
        return (await plain.DoAsync("GET", key)).Compact;
    }
}
