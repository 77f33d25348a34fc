// Applications that keep StackExchange.Redis: scopes beside its connections, against running proxies and stores that are killed.
using Slogger.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Client;

public sealed class CommitScopeTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("approximate")]
    [InlineData("hybrid")]
    public async Task Scope_OverTwoShards_CommitsWhatTheMultiplexerDidAndTellsOfARollback(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        using ConnectionMultiplexer redis = await ConnectAsync(cluster);
        IDatabase db = redis.GetDatabase();
        string[] keys = [cluster.Key(0, "se"), cluster.Key(1, "se")];

        CommitScope scope = await client.BeginScopeAsync();
        for (int i = 1; i <= 100; i++)
        {
            foreach (string key in keys) { await db.StringIncrementAsync(key); }
        }

        await scope.WaitForCommitAsync().WaitAsync(Generous);
        await Task.WhenAll(cluster.KillRedisAsync(0), cluster.KillRedisAsync(1));
        await cluster.ServingAsync();
        for (int i = 0; i < 2; i++) { Assert.Equal("$100", await ClientCluster.GetAsync(cluster, i, keys[i])); }

        // The scope began before the rollback, so what it did may be lost: it says so, and so does the next wait.
        ScopeRolledBackException over = await Assert.ThrowsAsync<ScopeRolledBackException>(
            () => scope.WaitForCommitAsync().WaitAsync(Generous));
        Assert.Equal((1, true), (over.Abandoned.Number, over.WorldLine.Number > 1));
        await Assert.ThrowsAsync<ScopeRolledBackException>(() => scope.WaitForCommitAsync().WaitAsync(Generous));
        await scope.DisposeAsync();

        await using CommitScope next = await client.BeginScopeAsync();
        Assert.Equal(over.WorldLine, next.WorldLine);
        await Eventually.AsyncTrue("the multiplexer is back", Generous, async () =>
        {
            try
            {
                foreach (string key in keys) { await db.StringIncrementAsync(key); }
                return true;
            }
            catch (Exception e) when (e is RedisException or TimeoutException)
            {
                return false;
            }
        });
        await next.WaitForCommitAsync().WaitAsync(Generous);
    }

    private static Task<ConnectionMultiplexer> ConnectAsync(ClusterDeployment cluster)
    {
        var options = new ConfigurationOptions { AbortOnConnectFail = false, SyncTimeout = 10_000, ConnectTimeout = 10_000 };
        for (int i = 0; i < cluster.Shards; i++) { options.EndPoints.Add(cluster.Endpoint(i)); }
        return ConnectionMultiplexer.ConnectAsync(options);
    }
}
