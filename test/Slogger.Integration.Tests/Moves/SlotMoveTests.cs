// slogger move on real processes: under load nothing is lost, doubled or put out of order; what clients have open is ended as
// Redis Cluster ends it; what cannot be moved is refused in words.
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Moves;

public sealed class SlotMoveTests(ITestOutputHelper output)
{
    private const int Last = 199;
    private static readonly string Range = $"0-{Last}";

    [Fact]
    public async Task Move_ThereAndBackUnderLoad_NothingIsLostDoubledOrReordered()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        MovingKeys[] writers = [.. Enumerable.Range(0, 4).Select(w => new MovingKeys(cluster, [.. MovingKeys.In(0, Last, 30, $"w{w}:"), .. MovingKeys.In(1000, 2000, 5, $"w{w}:")]))];
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select((w, i) => Task.Run(() => w.RunAsync(i, stop.Token)))];
        foreach (string to in (string[])["1", "0", "1"])
        {
            await Task.Delay(300);
            (int exit, string text) = await cluster.MoveAsync("--slots", Range, "--to", to);
            Assert.True(exit == 0, text + cluster.Tail());
            Assert.Contains($"is done: shard {to} owns slots {Range}", text, StringComparison.Ordinal);
            output.WriteLine(text);
        }

        await stop.CancelAsync();
        await Task.WhenAll(running);
        foreach (MovingKeys writer in writers)
        {
            await writer.CheckAsync();
            Assert.True(writer.Redirections > 0);
            output.WriteLine($"{writer.Pushed} pushes, {writer.Redirections} redirections");
            writer.Dispose();
        }

        using RespClient old = await cluster.ConnectAsync(0);
        Assert.All(MovingKeys.In(0, Last, 30, "w0:"), key => Assert.DoesNotContain(key, KeysOf(old).Result));
    }

    [Fact]
    public async Task Move_EveryKindOfKey_ArrivesAsItWas()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string[] k = MovingKeys.In(0, Last, 9, "kind");
        string big = new('x', 3_000_000);
        using RespClient old = await cluster.ConnectAsync(0), next = await cluster.ConnectAsync(1);
        await old.DoAsync("SET", k[0], "v", "PXAT", DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds().ToString(CultureInfo.InvariantCulture));
        await old.DoAsync("HSET", k[1], "a", "1", "b", "2");
        await old.DoAsync("ZADD", k[2], "1.5", "one", "2", "two");
        await old.DoAsync("XADD", k[3], "1-1", "f", "v");
        await old.DoAsync("XGROUP", "CREATE", k[3], "g", "0");
        await old.DoAsync("XREADGROUP", "GROUP", "g", "c", "STREAMS", k[3], ">");
        await old.DoAsync("SET", k[4], big);
        await old.DoAsync("EVAL", "redis.call('SADD', KEYS[1], 'x', 'y') return 1", "1", k[5]);
        await old.DoAsync("SET", k[6], "soon gone", "PX", "1");
        await old.DoAsync("MULTI");
        await old.CallAsync("SET", k[7], "in a transaction");
        await old.DoAsync("EXEC");
        // What lies around at the new owner from before must not come back.
        string expires = (await old.DoAsync("PEXPIRETIME", k[0])).Text;
        (int exit, string text) = await cluster.MoveAsync("--partition", Range, "--to", "1");
        Assert.True(exit == 0, text + cluster.Tail());
        Assert.Equal(expires, (await next.DoAsync("PEXPIRETIME", k[0])).Text);
        Assert.Equal("v", (await next.DoAsync("GET", k[0])).Text);
        Assert.Equal("2", (await next.DoAsync("HGET", k[1], "b")).Text);
        Assert.Equal("1.5", (await next.DoAsync("ZSCORE", k[2], "one")).Text);
        Assert.Equal(1, (await next.DoAsync("XPENDING", k[3], "g")).Items[0].Number);
        Assert.Equal(big.Length, (await next.DoAsync("STRLEN", k[4])).Number);
        Assert.Equal(2, (await next.DoAsync("SCARD", k[5])).Number);
        Assert.Equal(0, (await next.DoAsync("EXISTS", k[6])).Number);
        Assert.Equal("in a transaction", (await next.DoAsync("GET", k[7])).Text);
        Assert.Equal(0, (await next.DoAsync("EXISTS", k[8])).Number);
        RespValue sentOn = await old.CallAsync("GET", k[0]);
        Assert.Equal($"MOVED {HashSlot.Of(Encoding.ASCII.GetBytes(k[0]))} 127.0.0.1:{cluster.Port(1)}", sentOn.Text);
    }

    [Fact]
    public async Task Move_BlockedWatchingAndInATransaction_AreEndedAsInRedisCluster()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string[] moving = MovingKeys.In(0, Last, 3, "open"), staying = MovingKeys.In(1000, 2000, 2, "open");
        using RespClient blocked = await cluster.ConnectAsync(0), blockedElsewhere = await cluster.ConnectAsync(0),
            watching = await cluster.ConnectAsync(0), queueing = await cluster.ConnectAsync(0), other = await cluster.ConnectAsync(0);
        await blocked.SendAsync("BLPOP", moving[0], "0");
        await blockedElsewhere.SendAsync("BLPOP", staying[0], "0");
        await watching.DoAsync("WATCH", moving[1]);
        await queueing.DoAsync("MULTI");
        Assert.Equal("+QUEUED", (await queueing.CallAsync("SET", moving[2], "1")).Compact);
        (int exit, string text) = await cluster.MoveAsync("--slots", Range, "--to", "1");
        Assert.True(exit == 0, text + cluster.Tail());

        RespValue ended = await blocked.ReadAsync(TimeSpan.FromSeconds(20));
        Assert.StartsWith($"MOVED {HashSlot.Of(Encoding.ASCII.GetBytes(moving[0]))} ", ended.Text, StringComparison.Ordinal);
        await watching.DoAsync("MULTI");
        Assert.Equal("+QUEUED", (await watching.CallAsync("SET", staying[1], "not to be")).Compact);
        Assert.Equal("_", (await watching.CallAsync("EXEC")).Compact);
        Assert.Equal("_", (await other.CallAsync("GET", staying[1])).Compact);
        Assert.StartsWith("MOVED ", (await queueing.CallAsync("EXEC")).Text, StringComparison.Ordinal);
        // Who waits for a key that stays goes on waiting, and gets it.
        await other.DoAsync("RPUSH", staying[0], "here");
        Assert.Equal("here", (await blockedElsewhere.ReadAsync(TimeSpan.FromSeconds(20))).Items[1].Text);
    }

    [Fact]
    public async Task Move_WhatCannotBe_IsRefusedInWords()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        foreach ((string[] arguments, int code, string what) in new (string[], int, string)[]
        {
            (["--slots", "0-99", "--to", "0"], 1, "owns slots 0-99 already"),
            (["--slots", "8000-9000", "--to", "1"], 1, "one owner at a time"),
            (["--slots", "0-99", "--to", "7"], 1, "has no shard 7"),
            (["--slots", "0-99,50", "--to", "1"], 2, "has slot 50 twice"),
            (["--slots", "0-16384", "--to", "1"], 2, "slots are 0 to 16383"),
            (["--slots", "0-99"], 2, "give --to SHARD"),
            (["--to", "1"], 2, "no slots are named"),
            (["--slots", "0-99", "--cancel"], 1, "no unfinished move"),
            (["--slots", "0-99", "--to", "1", "--cluster", "none"], 1, "knows no cluster"),
        })
        {
            (int exit, string text) = await cluster.MoveAsync(arguments);
            Assert.True(exit == code && text.Contains(what, StringComparison.Ordinal), $"{string.Join(' ', arguments)}: {exit} {text}");
        }

        // The new owner is away: the move waits for it, and can be called off.
        cluster.KillProxy(1);
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        Assert.Contains($"slots {Range} from shard 0 to shard 1", (await cluster.MoveAsync("--list")).Output, StringComparison.Ordinal);
        Assert.Contains("part of move", (await cluster.MoveAsync("--slots", "5", "--to", "1")).Output, StringComparison.Ordinal);
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--cancel")).ExitCode);
        await cluster.StartProxyAsync(1);
        await cluster.MovesOverAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await client.CallAsync("SET", MovingKeys.In(0, Last, 1, "still")[0], "here")).Compact);
    }

    // After a failover the backup's table would lead to where the slots were.
    [Fact]
    public async Task Move_OfAShardWithABackup_IsNotBegunAndSaysWhy()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { RedisOptions = ["--backup", "127.0.0.1:1"] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        await Eventually.AsyncTrue("it says why", TimeSpan.FromSeconds(30), async () => (await cluster.MoveAsync("--list")).Output.Contains("has a backup", StringComparison.Ordinal));
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--cancel")).ExitCode);
        await cluster.MovesOverAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await client.CallAsync("SET", MovingKeys.In(0, Last, 1, "still")[0], "here")).Compact);
    }

    private static async Task<string> KeysOf(RespClient client) => string.Join(' ', (await client.DoAsync("KEYS", "*")).Items.Select(i => i.Text));

    private static async Task<ClusterDeployment> StartAsync(Workspace workspace)
    {
        var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        return cluster;
    }
}
