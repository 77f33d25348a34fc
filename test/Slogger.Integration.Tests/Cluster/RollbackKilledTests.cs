// The proxy of a shard whose Redis lives dies at each place on the way of a rollback, in place and in full. What the next start makes of
// that Redis is one of the states that it had been in, with every expiry, and so is what its log makes of an empty one.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class RollbackKilledTests
{
    private const int Killed = 137;

    private static readonly string[] s_inPlace =
        ["rollback-planned", "branch-written", "rollback-applied", "rolled-back", "attached", "identity-written", "clients-told"];

    // One cluster goes through all places, one after the other: a start costs more than what is tested.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public Task Proxy_KilledWithinARollbackInPlace_ItsLivingRedisIsAtAnExactPrefix(bool attached) =>
        KilledAsync(attached, "in-place", changesIdentity: false, s_inPlace);

    [Theory]
    [InlineData(false, "branch-written", "origin-recorded", "restore-running", "restore-at-target", "restored", "attached")]
    [InlineData(true, "branch-written", "origin-recorded", "restore-running", "restore-at-target", "promoted", "restored", "attached",
        "identity-written", "clients-told")]
    public Task Proxy_KilledWithinAFullRollback_ItsLivingRedisIsAtAnExactPrefix(bool attached, params string[] points) =>
        KilledAsync(attached, "full", changesIdentity: false, points);

    // Somebody has made it a replica and a master again: the same history goes on under another identity.
    [Fact]
    public Task Proxy_KilledWithinARollback_ItsRedisHasAnotherIdentityThen_AndIsRestored() =>
        KilledAsync(attached: true, "in-place", changesIdentity: true, ["branch-written", "rollback-applied"]);

    private static async Task KilledAsync(bool attached, string method, bool changesIdentity, string[] points)
    {
        using var workspace = new Workspace();
        using RedisProcess? first = attached ? await RedisProcess.StartAsync(workspace.Folder("redis0")) : null;
        using RedisProcess? second = attached ? await RedisProcess.StartAsync(workspace.Folder("redis1")) : null;
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false)
        {
            Store = shard => attached ? ["--redis", $"127.0.0.1:{(shard == 0 ? first : second)!.Port}"]
                : ["--redis-server", RedisProcess.Executable],
            // Long versions: what is written behind a commit is gone.
            Options = ["--rollback", method, "--version-interval", "1s"],
        };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        foreach (string point in points)
        {
            cluster.KillProxy(1);
            await cluster.StartProxyAsync(1, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
            await cluster.ServingAsync();
            if (method == "in-place") { await cluster.RollbackReadyAsync(1); }
            List<string> states;
            using (RespClient client = await cluster.ConnectAsync(1), other = await cluster.ConnectAsync(0))
            {
                states = await WriteAsync(cluster, client, n => cluster.Key(1, n),
                    n => other.DoAsync("SET", cluster.Key(0, "before"), n.ToString(CultureInfo.InvariantCulture)));
            }
            await KillRedisAsync(0);
            int? exitCode = await cluster.ProxyExitAsync(1);
            Assert.True(exitCode == Killed, $"exit code {exitCode} at {point}\n{cluster.Tail()}");
            if (changesIdentity)
            {
                using RespClient somebody = await second!.ConnectAsync();
                await somebody.DoAsync("REPLICAOF", "127.0.0.1", "1");
                await somebody.DoAsync("REPLICAOF", "NO", "ONE");
            }
            await cluster.StartProxyAsync(1);
            await cluster.ServingAsync();
            string found = await StateAsync();
            Assert.True(states.Contains(found),
                $"killed at {point}:\n{found}\nis none of\n{string.Join("\n---\n", states)}\n{cluster.Tail()}");
            int survived = int.Parse(await BeforeAsync(), CultureInfo.InvariantCulture);
            Assert.True(states.IndexOf(found) <= survived, $"killed at {point}: operation {states.IndexOf(found)} is there, and the one "
                + $"before it, of shard 0, is lost: {survived} are left\n{cluster.Tail()}");
            // Its log holds the same, and goes on behind it.
            using (RespClient client = await cluster.ConnectAsync(1))
            {
                await client.DoAsync("SET", cluster.Key(1, "later"), point);
                await CommittedAsync(cluster, client);
            }
            await KillRedisAsync(1);
            await cluster.ServingAsync();
            Assert.Equal(found, await StateAsync());
            using RespClient after = await cluster.ConnectAsync(1);
            Assert.Equal(point, (await after.DoAsync("GET", cluster.Key(1, "later"))).Text);
        }

        async Task KillRedisAsync(int shard)
        {
            if ((shard == 0 ? first : second) is not { } redis)
            {
                await cluster.KillRedisAsync(shard);
                return;
            }
            redis.KillHard();
            await redis.RestartAsync();
        }

        async Task<string> BeforeAsync()
        {
            using RespClient client = await cluster.ConnectAsync(0);
            return (await client.DoAsync("GET", cluster.Key(0, "before"))).Text;
        }

        async Task<string> StateAsync()
        {
            using RespClient client = await cluster.ConnectAsync(1);
            return await ReadAsync(client, n => cluster.Key(1, n));
        }
    }

    // The states from the last commit on, after each operation. Each of those comes after one at the other shard was answered.
    private static async Task<List<string>> WriteAsync(ClusterDeployment cluster, RespClient client, Func<string, string> key,
        Func<int, Task> before)
    {
        string[][] committed =
        [
            ["SET", key("plain"), "1"], ["SET", key("timed"), "1", "PX", "600000"], ["SET", key("kept"), "1", "PX", "700000"],
                ["RPUSH", key("list"), "1", "2"],
            ["EXPIRE", key("list"), "800"], ["HSET", key("hash"), "a", "1", "b", "2"], ["SET", key("gone"), "1", "EX", "900"],
        ];
        string[][] abandoned =
        [
            ["INCR", key("plain")], ["SET", key("timed"), "2"], ["PEXPIRE", key("kept"), "5000000"], ["LPUSH", key("list"), "0"],
                ["PERSIST", key("list")], ["HDEL", key("hash"), "a"],
            ["DEL", key("gone")], ["SET", key("new"), "1", "EX", "1000"], ["APPEND", key("plain"), "x"],
                ["SET", key("timed"), "3", "KEEPTTL"],
        ];
        await before(0);
        foreach (string[] command in committed) { await client.DoAsync(command); }
        await CommittedAsync(cluster, client);
        List<string> states = [await ReadAsync(client, key)];
        foreach (string[] command in abandoned)
        {
            await before(states.Count);
            await client.DoAsync(command);
            states.Add(await ReadAsync(client, key));
        }
        return states;
    }

    private static async Task CommittedAsync(ClusterDeployment cluster, RespClient client)
    {
        await client.SendAsync("DPR.WAIT", "*", "60000");
        RespValue reply = await client.ReadAsync(TimeSpan.FromSeconds(90));
        if (reply.Items[2].Number == 1) { return; }
        string shards = "";
        for (int look = 0; look < 2; look++)
        {
            for (int shard = 0; shard < 2; shard++)
            {
                using RespClient other = await cluster.ConnectAsync(shard);
                shards += $"\n---- shard {shard}\n{(await other.DoAsync("DPR.INFO")).Text}";
            }
            await Task.Delay(2000);
        }
        Assert.Fail($"not committed: {reply.Compact}{shards}\n{cluster.Tail()}");
    }

    private static async Task<string> ReadAsync(RespClient client, Func<string, string> key)
    {
        List<string> lines = [];
        foreach (string name in (string[])["plain", "timed", "kept", "list", "hash", "gone", "new"])
        {
            string type = (await client.DoAsync("TYPE", key(name))).Text;
            string value = type switch
            {
                "none" => "",
                "list" => Text(await client.DoAsync("LRANGE", key(name), "0", "-1")),
                "hash" => Text(await client.DoAsync("HGETALL", key(name))),
                _ => (await client.DoAsync("GET", key(name))).Text,
            };
            long expires = (await client.DoAsync("PEXPIRETIME", key(name))).Number;
            lines.Add($"{name} {type} {value} {expires.ToString(CultureInfo.InvariantCulture)}");
        }
        return string.Join('\n', lines);
    }

    private static string Text(RespValue list) => string.Join(',', list.Items.Select(i => i.Text));
}
