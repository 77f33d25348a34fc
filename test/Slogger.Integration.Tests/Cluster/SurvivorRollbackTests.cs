// A shard whose Redis is alive when another shard loses its own: it goes back in place, and whatever dies on the way, the next
// start comes back to the same prefix.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class SurvivorRollbackTests(ITestOutputHelper output)
{
    private const int Killed = 137;

    [Fact]
    public async Task AnotherShardsRedisDies_TheSurvivorGoesBackInPlace_AndItsLogHoldsWhatItHolds()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2,
            usesPostgres: false) { Options = ["--redis-directive", "enable-debug-command yes"] };
        await StartAsync(cluster);
        for (int round = 0; round < 4; round++)
        {
            using var stop = new CancellationTokenSource();
            Task writing = WriteAsync(cluster, round, stop.Token);
            await Task.Delay(300);
            await cluster.KillRedisAsync(0);
            await writing;
            await cluster.ServingAsync();
            (bool isInPlace, string what) = Assert.Single(cluster.TakeRollbacks());
            output.WriteLine(what);
            Assert.True(isInPlace, what);
        }
        Assert.Equal(4, await cluster.NumberAsync(1, "rollbacks_in_place"));
        string before = await StateAsync(cluster);
        await cluster.KillRedisAsync(1);
        await cluster.ServingAsync();
        Assert.Equal(before, await StateAsync(cluster));
    }

    // One cluster goes through all places, one after the other: a start costs more than what is tested.
    [Fact]
    public async Task ProxyDiesWithinARollbackInPlace_TheNextStartIsAtTheBranch()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await StartAsync(cluster);
        ClusterWriter[] writers = [.. Enumerable.Range(0, 3).Select(i => new ClusterWriter(i, cluster, i))];
        foreach (string point in (string[])["rollback-planned", "branch-written", "rollback-applied", "rolled-back", "attached",
            "identity-written", "clients-told"])
        {
            await DieAsync(cluster, writers, point, isInPlace: true, () => cluster.KillRedisAsync(0));
            await cluster.RollbackReadyAsync(1);
            await cluster.KillRedisAsync(0);
            await CheckAsync(cluster, writers);
            await cluster.KillRedisAsync(1);
            await CheckAsync(cluster, writers);
        }
    }

    [Theory]
    [InlineData("in-place", "branch-written", "rolled-back")]
    [InlineData("full", "branch-written", "origin-recorded")]
    public async Task AttachedAndProxyDiesWithinARollback_ItsRedisIsTakenForItsOwn(string method, params string[] points)
    {
        using var workspace = new Workspace();
        using RedisProcess first = await RedisProcess.StartAsync(workspace.Folder("redis0")), second =
            await RedisProcess.StartAsync(workspace.Folder("redis1"));
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false)
        {
            Store = shard => ["--redis", $"127.0.0.1:{(shard == 0 ? first : second).Port}"], Options = ["--rollback", method],
        };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        ClusterWriter[] writers = [.. Enumerable.Range(0, 2).Select(i => new ClusterWriter(i, cluster, i))];
        foreach (string point in points)
        {
            await DieAsync(cluster, writers, point, method == "in-place", async () =>
            {
                first.KillHard();
                await first.RestartAsync();
            });
        }
    }

    // Shard 1 dies at a place of the rollback that the loss of shard 0's Redis begins, under load, and is started again.
    private static async Task DieAsync(
        ClusterDeployment cluster, ClusterWriter[] writers, string point, bool isInPlace, Func<Task> loseRedis)
    {
        cluster.KillProxy(1);
        await cluster.StartProxyAsync(1, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
        await cluster.ServingAsync();
        if (isInPlace) { await cluster.RollbackReadyAsync(1); }
        using (var stop = new CancellationTokenSource())
        {
            Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(writers, stop.Token)))];
            await Task.Delay(300);
            await loseRedis();
            int? exitCode = await cluster.ProxyExitAsync(1);
            Assert.True(exitCode == Killed, $"exit code {exitCode} at {point}\n{cluster.Tail()}");
            await stop.CancelAsync();
            await Task.WhenAll(running);
        }
        await cluster.StartProxyAsync(1);
        await CheckAsync(cluster, writers);
    }

    [Fact]
    public async Task RedisDiesWithinARollbackInPlace_EverythingIsRestored()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await StartAsync(cluster);
        ClusterWriter[] writers = [.. Enumerable.Range(0, 3).Select(i => new ClusterWriter(i, cluster, i))];
        for (int round = 0; round < 5; round++)
        {
            using var stop = new CancellationTokenSource();
            Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(writers, stop.Token)))];
            await Task.Delay(200);
            await cluster.KillRedisAsync(0);
            await Task.Delay(Random.Shared.Next(60));
            await cluster.KillRedisAsync(1);
            await stop.CancelAsync();
            await Task.WhenAll(running);
            await CheckAsync(cluster, writers);
        }
    }

    // What Redis does not replicate is in a checkpoint by then, which is above the branch, and in no log: nobody could take it back key by
    // key.
    [Fact]
    public async Task UnloggedChangeIsUndone_EverythingIsRestored()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2,
            usesPostgres: false) { Options = ["--redis-directive", "enable-debug-command yes"] };
        await StartAsync(cluster);
        // The cut stays where it is from here on.
        cluster.KillProxy(0);
        using (RespClient client = await cluster.ConnectAsync(1)) { await client.DoAsync("DEBUG", "POPULATE", "100", "unlogged"); }
        await cluster.KillRedisAsync(0);
        await cluster.StartProxyAsync(0);
        await cluster.ServingAsync();
        using (RespClient after = await cluster.ConnectAsync(1)) { Assert.Empty((await after.DoAsync("KEYS", "unlogged:*")).Items); }
        Assert.Equal("data was changed past the log, and no checkpoint that is committed holds that yet",
            Assert.Single(cluster.TakeRollbacks()).Reason);
    }

    [Fact]
    public async Task FlushIsUndone_EverythingIsRestored()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2,
            usesPostgres: false) { Options = ["--version-interval", "500ms"] };
        await StartAsync(cluster);
        using (RespClient client = await cluster.ConnectAsync(1))
        {
            await client.DoAsync("SET", cluster.Key(1, "kept"), "1");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
            await client.DoAsync("FLUSHALL");
        }
        await cluster.KillRedisAsync(0);
        await cluster.ServingAsync();
        (bool isInPlace, string reason) = Assert.Single(cluster.TakeRollbacks());
        output.WriteLine(reason);
        Assert.False(isInPlace);
        using RespClient after = await cluster.ConnectAsync(1);
        Assert.Equal("$1", (await after.CallAsync("GET", cluster.Key(1, "kept"))).Compact);
    }

    [Fact]
    public async Task FullIsAskedFor_EverythingIsRestored()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Options = ["--rollback", "full"] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await cluster.KillRedisAsync(0);
        await cluster.ServingAsync();
        Assert.Equal((false, "--rollback full"), Assert.Single(cluster.TakeRollbacks()));
    }

    private static async Task StartAsync(ClusterDeployment cluster)
    {
        await cluster.StartAsync();
        await cluster.ServingAsync();
        for (int shard = 0; shard < cluster.Shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            await client.DoAsync("SET", cluster.Key(shard, "first"), "1");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
            await cluster.RollbackReadyAsync(shard);
        }
    }

    private static async Task CheckAsync(ClusterDeployment cluster, ClusterWriter[] writers)
    {
        await cluster.ServingAsync();
        var survived = new Dictionary<ClusterWriter, long>();
        foreach (ClusterWriter writer in writers) { survived[writer] = await writer.SurvivedAsync(); }
        foreach (ClusterWriter writer in writers) { Assert.Null(writer.Unsupported(survived)); }
        foreach (ClusterWriter writer in writers) { writer.ContinueFrom(survived[writer], isBranch: true); }
    }

    // All kinds of values, one operation after the other, until the connection ends.
    private static async Task WriteAsync(ClusterDeployment cluster, int seed, CancellationToken stop)
    {
        var random = new Random(seed);
        using RespClient client = await cluster.ConnectAsync(1);
        try
        {
            while (!stop.IsCancellationRequested)
            {
                string key = cluster.Key(1, "k" + random.Next(200)), value = random.Next(1_000_000)
                    .ToString(System.Globalization.CultureInfo.InvariantCulture);
                string[] command = random.Next(10) switch
                {
                    0 => ["SET", "{" + key + "}s", value, "PX", "600000"],
                    1 => ["INCRBY", "{" + key + "}n", value],
                    2 => ["RPUSH", "{" + key + "}l", value, value],
                    3 => ["LMOVE", "{" + key + "}l", "{" + key + "}m", "LEFT", "RIGHT"],
                    4 => ["HSET", "{" + key + "}h", "f" + random.Next(5), value],
                    5 => ["ZADD", "{" + key + "}z", value, "m" + random.Next(9)],
                    6 => ["RENAME", "{" + key + "}n", "{" + key + "}o"],
                    7 => ["DEL", "{" + key + "}s", "{" + key + "}h"],
                    8 => ["XADD", "{" + key + "}x", "MAXLEN", "10", "*", "f", value],
                    _ => ["EXPIRE", "{" + key + "}m", "1000"],
                };
                await client.CallAsync(command);
            }
        }
        catch (ConnectionLostException)
        {
            // The rollback.
        }
    }

    // What shard 1 holds, once it is committed.
    private static async Task<string> StateAsync(ClusterDeployment cluster)
    {
        using RespClient client = await cluster.ConnectAsync(1);
        await client.DoAsync("DEL", cluster.Key(1, "no such key"));
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number);
        string state = (await client.DoAsync("DEBUG", "DIGEST")).Text;
        foreach (RespValue key in (await client.DoAsync("KEYS", "*")).Items.OrderBy(k => k.Text, StringComparer.Ordinal))
        {
            state += $"\n{key.Text} {(await client.DoAsync("DEBUG", "DIGEST-VALUE", key.Text)).Compact} "
                + $"{(await client.DoAsync("PEXPIRETIME", key.Text)).Compact}";
        }
        return state;
    }
}
