// A move whose proxies, stores or command die, at each step of it: it goes on or begins again by itself, and nothing is lost.
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Moves;

public sealed class SlotMoveFailureTests
{
    private const string Failpoint = "SLOGGER_TEST_FAILPOINT";
    private const int Last = 199;
    private static readonly string Range = $"0-{Last}";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData(1, "move-purged")]
    [InlineData(1, "move-copied")]
    [InlineData(0, "move-changes-sent")]
    [InlineData(0, "move-withheld")]
    [InlineData(0, "move-leaving")]
    [InlineData(0, "move-last-changes-sent")]
    [InlineData(1, "move-complete")]
    [InlineData(1, "move-landed")]
    [InlineData(0, "move-discarded")]
    public async Task Move_AProxyDiesAtAStep_GoesOnWhenItIsBack(int victim, string step)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        cluster.KillProxy(victim);
        await cluster.StartProxyAsync(victim, new Dictionary<string, string> { [Failpoint] = step });
        await cluster.ServingAsync();
        using var writer = new MovingKeys(cluster, [.. MovingKeys.In(0, Last, 40, "w"), .. MovingKeys.In(1000, 2000, 5, "w")]);
        using var stop = new CancellationTokenSource();
        Task running = Task.Run(() => writer.RunAsync(1, stop.Token));
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        Assert.True(await cluster.ExitAsync(victim, Generous) is not null,
            $"the proxy of shard {victim} did not come to {step}\n{cluster.Tail()}");
        await Task.Delay(200);
        await cluster.StartProxyAsync(victim);
        await DoneAsync(cluster);
        await Task.Delay(200);
        await stop.CancelAsync();
        await running;
        await writer.CheckAsync();
        Assert.True(writer.Redirections > 0);
    }

    [Theory]
    [InlineData(0, "move-leaving")]
    [InlineData(1, "move-complete")]
    [InlineData(1, "move-landed")]
    [InlineData(0, "move-discarded")]
    public async Task Move_AProxyAndItsStoreDieAtAStep_DataAndOwnershipAgreeAfterTheRollback(int victim, string step)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        cluster.KillProxy(victim);
        await cluster.StartProxyAsync(victim, new Dictionary<string, string> { [Failpoint] = step });
        await cluster.ServingAsync();
        string[] keys = MovingKeys.In(0, Last, 20, "committed");
        using (var client = await cluster.ConnectAsync(0))
        {
            foreach (string key in keys) { await client.DoAsync("SET", key, "kept"); }
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        }

        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        Assert.True(await cluster.ExitAsync(victim, Generous) is not null,
            $"the proxy of shard {victim} did not come to {step}\n{cluster.Tail()}");
        await cluster.KillRedisAsync(victim);
        await cluster.StartProxyAsync(victim);
        await cluster.ServingAsync();
        await DoneAsync(cluster);
        using var next = await cluster.ConnectAsync(1);
        foreach (string key in keys) { Assert.Equal("kept", (await next.DoAsync("GET", key)).Text); }
        using var old = await cluster.ConnectAsync(0);
        Assert.All((await old.DoAsync("KEYS", "*")).Items, k => Assert.DoesNotContain("committed", k.Text, StringComparison.Ordinal));
    }

    private static async Task DoneAsync(ClusterDeployment cluster)
    {
        await cluster.MovesOverAsync();
        Assert.Contains($"slots {Range}: shard 1", (await cluster.MoveAsync("--list")).Output, StringComparison.Ordinal);
    }
}
