// slogger move on real processes: under load nothing is lost, doubled or put out of order; what clients have open is ended as
// Redis Cluster ends it; what cannot be moved is refused in words.
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Moves;

public sealed class SlotMoveTests(ITestOutputHelper output)
{
    private const int Last = 199;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private static readonly string Range = $"0-{Last}";

    [Fact]
    public async Task Move_ThereAndBackUnderLoad_NothingIsLostDoubledOrReordered()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        MovingKeys[] writers = [.. Enumerable.Range(0, 4)
            .Select(w => new MovingKeys(cluster, [.. MovingKeys.In(0, Last, 30, $"w{w}:"), .. MovingKeys.In(1000, 2000, 5, $"w{w}:")]))];
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
        await old.DoAsync("SET", k[0], "v", "PXAT", DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds()
            .ToString(CultureInfo.InvariantCulture));
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

    // Nothing of the copy may be kept that was taken before. The new owner's Redis writes nothing meanwhile, so that the first keys have
    // been read and no more.
    [Theory]
    [InlineData("FLUSHALL", "FLUSHALL has changed all keys")]
    [InlineData("CLIENT KILL TYPE replica", "the replication stream was interrupted")]
    public async Task Move_WhatHasChangedCannotBeToldAnyMore_BeginsAgain(string disturbance, string why)
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string tag = MovingKeys.In(0, Last, 1, "all")[0];
        using RespClient old = await cluster.ConnectAsync(0), next = await cluster.ConnectAsync(1), source =
            await AtRedisAsync(cluster, 0), target = await AtRedisAsync(cluster, 1);
        await old.DoAsync("EVAL", "for i = 1, 1000 do redis.call('SET', '{' .. KEYS[1] .. '}' .. i, 'v') end", "1", tag);
        await target.DoAsync("CLIENT", "PAUSE", "60000", "WRITE");
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        await FirstKeysAsync(target);
        await (disturbance == "FLUSHALL" ? old : source).DoAsync(disturbance.Split(' '));
        await target.DoAsync("CLIENT", "UNPAUSE");
        await cluster.MovesOverAsync();
        Assert.Contains($"begins again: shard 0: the copy begins again: {why}", cluster.Tail(), StringComparison.Ordinal);
        Assert.Equal(disturbance == "FLUSHALL" ? 0 : 1000,
            (await next.DoAsync("KEYS", "*")).Items.Count(k => k.Text.Contains(tag, StringComparison.Ordinal)));
    }

    // Redis has executed and answered it, and the replication stream, by which the old owner knows what has changed, is far behind.
    [Fact]
    public async Task Move_LastChangesAreYetToBeReadInTheStream_TheyAreAwaited()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string key = MovingKeys.In(0, Last, 1, "late")[0];
        using RespClient old = await cluster.ConnectAsync(0), next = await cluster.ConnectAsync(1), target = await AtRedisAsync(cluster, 1);
        await old.DoAsync("SET", key, "early");
        await target.DoAsync("CLIENT", "PAUSE", "60000", "WRITE");
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        await FirstKeysAsync(target);
        await old.DoAsync("EVAL", "local large = string.rep('x', 1000000) for i = 1, 150 do redis.call('SET', ARGV[1], large) end "
            + "redis.call('SET', KEYS[1], 'last')", "1", key, MovingKeys.In(1000, 2000, 1, "large")[0]);
        await target.DoAsync("CLIENT", "UNPAUSE");
        await cluster.MovesOverAsync();
        Assert.Equal("last", (await next.DoAsync("GET", key)).Text);
    }

    // Its slot is withheld for a moment: it is this shard's, so nobody can be sent on, and the transaction need not be lost. A large
    // request that comes slowly keeps the move from going on behind that: it withholds the slots for a second, serves them again, and so
    // on.
    [Fact]
    public async Task Exec_WhileItsSlotIsWithheld_Waits()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        string[] moving = MovingKeys.In(0, Last, 2, "exec");
        string slow = MovingKeys.In(1000, 2000, 1, "slow")[0];
        using RespClient large = await cluster.ConnectAsync(0), asking = await cluster.ConnectAsync(0);
        byte[] value = new byte[2_000_000];
        await large.WriteAsync(Encoding.ASCII.GetBytes($"*3\r\n$3\r\nSET\r\n${slow.Length}\r\n{slow}\r\n${value.Length}\r\n"));
        await large.WriteAsync(value.AsMemory(0, value.Length / 2));
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        bool hasWaited = false;
        for (int i = 0; i < 50 && !hasWaited; i++)
        {
            using RespClient queueing = await cluster.ConnectAsync(0);
            await queueing.DoAsync("MULTI");
            Assert.Equal("+QUEUED", (await queueing.CallAsync("INCR", moving[1])).Compact);
            do { await asking.SendAsync("GET", moving[0]); } while (await HasAnsweredAsync(asking));
            await queueing.SendAsync("EXEC");
            hasWaited = !await HasAnsweredAsync(asking);
            RespValue done = await queueing.ReadAsync(Generous);
            Assert.True(done.Kind == RespKind.Array, done.ToString());
            if (hasWaited) { await asking.ReadAsync(Generous); }
        }

        Assert.True(hasWaited, "no transaction ended while its slot was withheld");
        await large.WriteAsync(value.AsMemory(value.Length / 2));
        await large.WriteAsync("\r\n"u8.ToArray());
        Assert.Equal("+OK", (await large.ReadAsync(Generous)).Compact);
        await cluster.MovesOverAsync();
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
        await using var cluster = new ClusterDeployment(workspace, shards: 2,
            usesPostgres: false) { RedisOptions = ["--backup", "127.0.0.1:1"] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--to", "1", "--no-wait")).ExitCode);
        await Eventually.AsyncTrue("it says why", TimeSpan.FromSeconds(30),
            async () => (await cluster.MoveAsync("--list")).Output.Contains("has a backup", StringComparison.Ordinal));
        Assert.Equal(0, (await cluster.MoveAsync("--slots", Range, "--cancel")).ExitCode);
        await cluster.MovesOverAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await client.CallAsync("SET", MovingKeys.In(0, Last, 1, "still")[0], "here")).Compact);
    }

    private static Task<RespClient> AtRedisAsync(ClusterDeployment cluster, int shard) =>
        RespClient.ConnectAsync(new UnixDomainSocketEndPoint(Path.Combine(cluster.Data(shard), "redis", "redis.sock")));

    // The new owner has them, and its Redis, where nothing is written now, has been told to.
    private static Task FirstKeysAsync(RespClient redis) =>
        Eventually.AsyncTrue("the first keys have been read", Generous,
            async () => (await redis.DoAsync("CLIENT", "LIST")).Text.Contains(" cmd=restore ", StringComparison.Ordinal));

    private static async Task<bool> HasAnsweredAsync(RespClient client)
    {
        try
        {
            await client.ReadAsync(TimeSpan.FromMilliseconds(50));
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    private static async Task<string> KeysOf(RespClient client) =>
        string.Join(' ', (await client.DoAsync("KEYS", "*")).Items.Select(i => i.Text));

    private static async Task<ClusterDeployment> StartAsync(Workspace workspace)
    {
        var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        return cluster;
    }
}
