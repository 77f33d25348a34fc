// A move whose proxies, stores or command die, at each step of it: it goes on or begins again by itself, and nothing is lost.
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Moves;

public sealed class SlotMoveFailureTests
{
    private const string Failpoint = "SLOGGER_TEST_FAILPOINT";
    private const int Last = 199;
    private static readonly string Range = $"0-{Last}";
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    // Slots go to and fro in one cluster, once for each step: a start costs more than what is tested.
    [Fact]
    public async Task Move_AProxyDiesAtAStep_GoesOnWhenItIsBack()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using var writer = new MovingKeys(cluster, [.. MovingKeys.In(0, Last, 40, "w"), .. MovingKeys.In(1000, 2000, 5, "w")]);
        using var stop = new CancellationTokenSource();
        Task running = Task.Run(() => writer.RunAsync(1, stop.Token));
        (int from, int to) = (0, 1);
        foreach ((bool isOld, string step) in ((bool, string)[])[(false, "move-purged"), (false, "move-copied"),
            (true, "move-changes-sent"), (true, "move-withheld"), (true, "move-leaving"), (true, "move-last-changes-sent"),
            (false, "move-complete"), (false, "move-landed"), (true, "move-discarded")])
        {
            int redirections = writer.Redirections;
            await DieAsync(cluster, isOld ? from : to, step, to);
            await Task.Delay(200);
            await cluster.StartProxyAsync(isOld ? from : to);
            await DoneAsync(cluster, to);
            await Eventually.AsyncTrue($"the writer follows, {step}", Generous,
                () => Task.FromResult(writer.Redirections > redirections || running.IsCompleted));
            (from, to) = (to, from);
        }
        await stop.CancelAsync();
        await running;
        await writer.CheckAsync();
    }

    [Fact]
    public async Task Move_AProxyAndItsStoreDieAtAStep_DataAndOwnershipAgreeAfterTheRollback()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        string[] keys = MovingKeys.In(0, Last, 20, "committed");
        (int from, int to) = (0, 1);
        foreach ((bool isOld, string step) in ((bool, string)[])[(true, "move-leaving"), (false, "move-complete"), (false, "move-landed"),
            (true, "move-discarded")])
        {
            int victim = isOld ? from : to;
            await DieAsync(cluster, victim, step, to, async () =>
            {
                using RespClient client = await cluster.ConnectAsync(from);
                foreach (string key in keys) { await client.DoAsync("SET", key, step); }
                Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
            });
            await cluster.KillRedisAsync(victim);
            await cluster.StartProxyAsync(victim);
            await cluster.ServingAsync();
            await DoneAsync(cluster, to);
            using RespClient next = await cluster.ConnectAsync(to), old = await cluster.ConnectAsync(from);
            foreach (string key in keys) { Assert.Equal(step, (await next.DoAsync("GET", key)).Text); }
            Assert.All((await old.DoAsync("KEYS", "*")).Items, k => Assert.DoesNotContain("committed", k.Text, StringComparison.Ordinal));
            (from, to) = (to, from);
        }
    }

    // A proxy dies at a step of the move to a shard, which begins here.
    private static async Task DieAsync(ClusterDeployment cluster, int victim, string step, int to, Func<Task>? before = null)
    {
        cluster.KillProxy(victim);
        await cluster.StartProxyAsync(victim, new Dictionary<string, string> { [Failpoint] = step });
        await cluster.ServingAsync();
        if (before is not null) { await before(); }
        (int exit, string said) = await cluster.MoveAsync("--slots", Range, "--to", $"{to}", "--no-wait");
        Assert.True(exit == 0, $"{step}: {said}");
        Assert.True(await cluster.ExitAsync(victim, Generous) is not null,
            $"the proxy of shard {victim} did not come to {step}\n{cluster.Tail()}");
    }

    private static async Task DoneAsync(ClusterDeployment cluster, int to)
    {
        await cluster.MovesOverAsync();
        string list = (await cluster.MoveAsync("--list")).Output;
        Assert.Contains(to == 1 ? $"slots {Range}: shard 1" : "slots 0-8191: shard 0", list, StringComparison.Ordinal);
    }
}
