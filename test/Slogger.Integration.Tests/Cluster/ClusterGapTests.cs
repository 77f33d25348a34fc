// A shard that went on by a checkpoint, since Redis's backlog did not reach back to where its log ended, must still be able
// to go back to before it: the cut of all shards may be there.
using System.Net.Sockets;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class ClusterGapTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Rollback_ToBeforeAGap_IsRestored()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2,
            usesPostgres: false) { Options = ["--redis-directive", "repl-backlog-size 16kb"] };
        await cluster.StartAsync();
        long line = await cluster.ServingAsync();
        string key = cluster.Key(0, "k");
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            await client.DoAsync("SET", key, "committed");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        }

        // The other shard closes no version from here on, so the cut stays where it is.
        cluster.KillProxy(1);
        using (RespClient client = await cluster.ConnectAsync(0)) { await client.DoAsync("SET", key, "not committed"); }
        cluster.KillProxy(0);
        using (RespClient direct = await RespClient.ConnectAsync(
            new UnixDomainSocketEndPoint(Path.Combine(cluster.Data(0), "redis", "redis.sock"))))
        {
            for (int i = 0; i < 100; i++) { await direct.DoAsync("SET", key, new string('d', 1000)); }
        }

        await cluster.StartProxyAsync(0);
        await Eventually.AsyncTrue("the first shard has gone on by a checkpoint\n" + cluster.Tail(), Generous,
            () => Task.FromResult(cluster.Tail().Contains("by a fresh checkpoint", StringComparison.Ordinal)));
        await Eventually.AsyncTrue("it serves", Generous, async () =>
        {
            using RespClient client = await cluster.ConnectAsync(0);
            return (await client.CallAsync("SET", key, "behind the gap")).Compact == "+OK";
        });

        // Nothing else speaks against going back in place.
        await cluster.RollbackReadyAsync(0);
        await cluster.KillRedisAsync(1);
        await cluster.StartProxyAsync(1);
        long next = await cluster.ServingAsync();
        Assert.True(next > line, $"world-line {next} after {line}");
        Assert.Contains("part of the stream was not read", Assert.Single(cluster.TakeRollbacks()).Reason, StringComparison.Ordinal);
        using RespClient after = await cluster.ConnectAsync(0);
        string found = (await after.CallAsync("GET", key)).Compact;
        Assert.True(found == "$committed", $"{found}\n{cluster.Tail()}");
    }
}
