// The proxy with nothing installed: it starts a store of its own, which is as durable, and as much a Redis to its clients, as one behind
// it.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Embedded;

public sealed class EmbeddedShardTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task OrderedStop_NothingIsLost_AndTheWorldLineGoesOn()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        for (int round = 1; round <= 3; round++)
        {
            using (RespClient client = await shard.ConnectAsync())
            {
                Assert.Equal(round == 1 ? "_" : "$" + (round - 1), (await client.CallAsync("GET", "k")).Compact);
                await client.DoAsync("SET", "k", round.ToString(CultureInfo.InvariantCulture));
                await client.DoAsync("SET", "expiring", "v", "PXAT", "9999999999999");
            }

            // Nobody has waited for a commit: the stop does.
            Assert.Equal(0, await shard.Proxy.TerminateAsync());
            await shard.StartAsync();
            Assert.Equal(1, await shard.NumberAsync("worldline"));
        }

        using RespClient last = await shard.ConnectAsync();
        Assert.Equal("$3", (await last.CallAsync("GET", "k")).Compact);
        Assert.Equal(":9999999999999", (await last.CallAsync("PEXPIRETIME", "expiring")).Compact);
        Assert.Equal(":2", (await last.CallAsync("DBSIZE")).Compact);
        Assert.Equal("faster", await shard.InfoAsync("mode"));
    }

    [Fact]
    public async Task StopOfAnIdleShard_IsNotTakenForACrash()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        for (int round = 0; round < 2; round++)
        {
            await Task.Delay(1500);
            // It has not the memory yet of the two pages that its log begins with: 64 MB.
            long kilobytes = long.Parse(File.ReadLines($"/proc/{shard.Proxy.Id}/status")
                .First(l => l.StartsWith("RssAnon:", StringComparison.Ordinal))[8..^2], CultureInfo.InvariantCulture);
            Assert.InRange(kilobytes, 1, 48 << 10);
            Assert.Equal(0, await shard.Proxy.TerminateAsync());
            await shard.StartAsync();
        }

        Assert.Equal(1, await shard.NumberAsync("worldline"));
    }

    // The note of the ordered stop is good for one start only, also when nothing has been committed since.
    [Fact]
    public async Task Killed_AfterAnOrderedStopAndAStart_WhatIsLostIsTold()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = ["--faster-memory", "256mb", "--version-interval", "10s"] };
        await shard.StartAsync();
        using (RespClient client = await shard.ConnectAsync()) { await client.DoAsync("SET", "k", "kept"); }
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        await shard.StartAsync();
        Assert.Equal(1, await shard.NumberAsync("worldline"));
        using (RespClient client = await shard.ConnectAsync()) { await client.DoAsync("SET", "k", "lost"); }
        await shard.KillAndStartAsync();
        Assert.Equal(2, await shard.NumberAsync("worldline"));
    }

    // One writer, one operation after the other: what is there after a kill is a prefix, with all that was reported as committed.
    [Fact]
    public async Task Killed_UnderLoad_APrefixIsThereWithAllThatWasCommitted()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        var random = new Random(1);
        long sent = 0, committed = 0, committedInAll = 0;
        for (int round = 1; round <= 8; round++)
        {
            Task writing = WriteAsync();
            await Task.Delay(random.Next(100, 800));
            shard.Proxy.KillHard();
            await writing;
            await shard.StartAsync();
            Assert.Equal(round + 1, await shard.NumberAsync("worldline"));
            long found = await FoundAsync(shard, sent);
            Assert.True(found >= committed, $"round {round}: {committed} operations were committed, {found} are there");
            committedInAll += committed;
            sent = committed = found;
        }

        Assert.True(committedInAll > 0, "nothing was ever committed");

        async Task WriteAsync()
        {
            try
            {
                using RespClient client = await shard.ConnectAsync();
                while (true)
                {
                    sent++;
                    await client.DoAsync("SET", $"op{sent % 50}:{sent}", sent.ToString(CultureInfo.InvariantCulture));
                    await client.DoAsync("APPEND", $"row{sent / 200}", sent + ",");
                    if (sent % 10 == 0 && (await client.DoAsync("DPR.WAIT", "*", "200")).Items[2].Number == 1) { committed = sent; }
                }
            }
            catch (ConnectionLostException)
            {
                // Killed.
            }
        }
    }

    // WAITAOF is how clients that know nothing of versions wait.
    [Fact]
    public async Task WaitAof_IsAnswered_WhatCameBeforeSurvives()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        for (int round = 0; round < 3; round++)
        {
            using (RespClient client = await shard.ConnectAsync())
            {
                await client.DoAsync("INCR", "n");
                Assert.Equal("[:1,:0]", (await client.DoAsync("WAITAOF", "1", "0", "20000")).Compact);
            }

            await shard.KillAndStartAsync();
        }

        using RespClient last = await shard.ConnectAsync();
        Assert.Equal("$3", (await last.CallAsync("GET", "n")).Compact);
    }

    // Nothing has changed: a checkpoint would cost the disk, and those who read, for nothing. What was read is committed all the same.
    [Fact]
    public async Task Reading_MakesNoCommits_AndIsCommitted()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await client.DoAsync("SET", "k", "v");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        string directory = Path.Combine(shard.Data, "faster", "commits");
        string[] Commits() => [.. Directory.EnumerateFiles(directory).Order(StringComparer.Ordinal)];
        string[] before = Commits();
        await Eventually.AsyncTrue("no commit is under way", Generous, async () =>
        {
            string[] last = before;
            await Task.Delay(500);
            return last.SequenceEqual(before = Commits());
        });
        long open = await shard.NumberAsync("open_version");
        while (await shard.NumberAsync("open_version") < open + 200)
        {
            for (int i = 0; i < 500; i++) { await client.DoAsync("GET", "k"); }
        }

        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        Assert.Equal(before, Commits());
        await client.DoAsync("APPEND", "k", "w");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        Assert.NotEqual(before, Commits());
        await shard.KillAndStartAsync();
        using RespClient after = await shard.ConnectAsync();
        Assert.Equal("$vw", (await after.CallAsync("GET", "k")).Compact);
    }

    // There is no seed for it: nobody else has written to it.
    [Fact]
    public async Task Commits_AreGone_TheStartSaysSo_AndAdvisesNoSeed()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using (RespClient client = await shard.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "v");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        }

        shard.Proxy.KillHard();
        foreach (string file in Directory.EnumerateFiles(Path.Combine(shard.Data, "faster", "commits"))) { File.Delete(file); }
        using ProxyProcess refused = ProxyProcess.Launch(Workspace.FreePort(), ["--data", shard.Data, .. shard.Options]);
        int? exitCode = await refused.ExitAsync(Generous);
        Assert.True(exitCode is not null and not 0, refused.Tail());
        Assert.Contains("Committed operations would be lost", refused.Tail(), StringComparison.Ordinal);
        Assert.Contains("Bring the directory back from a copy", refused.Tail(), StringComparison.Ordinal);
        Assert.DoesNotContain("--seed", refused.Tail(), StringComparison.Ordinal);
    }

    // Nobody asks, and no version ends: the proxy says so by itself.
    [Fact]
    public async Task FullDisk_ForMoreThanTenSeconds_IsToldAndCommitsGoOnWhenThereIsRoom()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        string mount = workspace.Folder("small"), ballast = Path.Combine(mount, "ballast"), store = Path.Combine(shard.Data, "faster");
        var (exitCode, output) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=16m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + output);
        try
        {
            // Only the store's disk fills up, not that of the metadata.
            await shard.StartAsync();
            using (RespClient first = await shard.ConnectAsync()) { await first.DoAsync("PING"); }
            Assert.Equal(0, await shard.Proxy.TerminateAsync());
            Assert.Equal(0, (await ChildProcess.RunAsync("mv", [store, mount])).ExitCode);
            Directory.CreateSymbolicLink(store, Path.Combine(mount, "faster"));
            await shard.StartAsync();
            using RespClient client = await shard.ConnectAsync();
            await client.DoAsync("SET", "before", "1");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
            await File.WriteAllBytesAsync(ballast, new byte[8 << 20]);
            for (int i = 0; i < 100; i++) { await client.DoAsync("SET", $"meanwhile:{i}", new string('x', 100_000)); }
            long start = Environment.TickCount64;
            while (!shard.Proxy.Tail().Contains("nothing has become durable for 10 s", StringComparison.Ordinal))
            {
                Assert.True(Environment.TickCount64 - start < 3 * Generous.TotalMilliseconds, shard.Proxy.Tail());
                await Task.Delay(100);
            }

            // Operations went on.
            Assert.Equal("$1", (await client.CallAsync("GET", "before")).Compact);
            await client.DoAsync("SET", "later", "1");
            File.Delete(ballast);
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
            await shard.KillAndStartAsync();
            using RespClient last = await shard.ConnectAsync();
            Assert.Equal("$1", (await last.CallAsync("GET", "later")).Compact);
            Assert.Equal(":102", (await last.CallAsync("DBSIZE")).Compact);
        }
        finally
        {
            shard.Dispose();
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    [Fact]
    public async Task DataDirectory_OfAnotherProcessOrStore_IsRefused()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        await RefusedAsync(["--data", shard.Data], "is in use by another Slogger process");
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        await RefusedAsync(["--data", shard.Data, "--redis-server", RedisProcess.Executable], "an embedded store");

        static async Task RefusedAsync(string[] options, string why)
        {
            using ProxyProcess refused = ProxyProcess.Launch(Workspace.FreePort(), options);
            int? exitCode = await refused.ExitAsync(Generous);
            Assert.True(exitCode is not null and not 0, refused.Tail());
            Assert.Contains(why, refused.Tail(), StringComparison.Ordinal);
        }
    }

    [Fact]
    public async Task Watch_AnotherClientWrites_ExecDoesNothing()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient one = await shard.ConnectAsync(), other = await shard.ConnectAsync();
        await one.DoAsync("SET", "k", "1");
        await one.DoAsync("WATCH", "k");
        await one.DoAsync("MULTI");
        Assert.Equal("+QUEUED", (await one.DoAsync("INCR", "k")).Compact);
        await other.DoAsync("SET", "k", "10");
        Assert.Equal("_", (await one.CallAsync("EXEC")).Compact);
        await one.DoAsync("WATCH", "k");
        await one.DoAsync("MULTI");
        await one.DoAsync("INCR", "k");
        await one.DoAsync("APPEND", "k", "0");
        Assert.Equal("[:11,:3]", (await one.CallAsync("EXEC")).Compact);
        Assert.Equal("$110", (await other.CallAsync("GET", "k")).Compact);
    }

    // The marker of versions is a command of the engine, on a connection that clients share.
    [Fact]
    public async Task OwnMarker_SentByAClient_IsNoCommand()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        long open = await shard.NumberAsync("open_version");
        foreach (string name in (string[])["SLOGGER.COMMIT", "slogger.commit"])
        {
            Assert.StartsWith($"-ERR unknown command '{name}', with args beginning with: '1' ",
                (await client.CallAsync(name, "1", "999999999999")).Compact, StringComparison.Ordinal);
            await client.DoAsync("MULTI");
            Assert.StartsWith("-ERR unknown command", (await client.CallAsync(name, "1", "999999999999")).Compact,
                StringComparison.Ordinal);
            await client.CallAsync("DISCARD");
        }

        Assert.True(await shard.NumberAsync("open_version") < open + 1_000_000);
    }

    [Fact]
    public async Task WhatIsMissing_TheStartAndTheErrorsSayWhatToDo()
    {
        const string Remedy = "start with --redis-server redis-server";
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        Assert.Contains(shard.Proxy.Tail().Split('\n'), l =>
            l.Contains("slogger serve without a Redis serves strings", StringComparison.Ordinal)
                && l.Contains(Remedy, StringComparison.Ordinal));
        using RespClient client = await shard.ConnectAsync();
        foreach (string[] request in (string[][])[["LPUSH", "l", "1"], ["BLPOP", "l", "0"], ["EVAL", "return 1", "0"],
            ["XADD", "s", "*", "a", "b"], ["MONITOR"], ["CLIENT", "TRACKING", "ON"], ["hSET", "h", "f", "v"]])
        {
            string reply = (await client.CallAsync(request)).Compact;
            Assert.StartsWith("-ERR unknown ", reply, StringComparison.Ordinal);
            Assert.EndsWith(Remedy, reply, StringComparison.Ordinal);
        }

        Assert.Equal("-ERR unknown command 'nONSENSE', with args beginning with: 'a' ", (await client.CallAsync("nONSENSE", "a")).Compact);
        await client.DoAsync("sET", "k", new string('v', 300_000));
        Assert.Equal(":300000", (await client.CallAsync("sTRLEN", "k")).Compact);
    }

    // A mistake in it is one when it is executed, as at Redis.
    [Fact]
    public async Task ReplyMode_InATransaction_OnlyWhatIsOneIsTaken()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await client.DoAsync("MULTI");
        foreach (string mode in (string[])["foo", "ON"])
        {
            Assert.Equal("+QUEUED", (await client.CallAsync("CLIENT", "REPLY", mode)).Compact);
        }
        Assert.Equal("[-ERR syntax error,+OK]", (await client.CallAsync("EXEC")).Compact);
        Assert.Equal("+PONG", (await client.CallAsync("PING")).Compact);
    }

    // Replies are bounded: what a client does not read must not be made ahead.
    [Fact]
    public async Task LargeValues_InOnePipeline_AllAreAnsweredInOrder()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync(), other = await shard.ConnectAsync();
        string large = new('x', 15 << 20), middle = new('y', 1 << 20);
        await client.DoAsync("SET", "large", large);
        await client.DoAsync("SET", "middle", middle);
        for (int i = 0; i < 40; i++)
        {
            await client.SendAsync("GET", i % 8 == 0 ? "large" : "middle");
            await client.SendAsync("INCR", "n");
        }

        Assert.Equal("+PONG", (await other.CallAsync("PING")).Compact);
        for (int i = 1; i <= 40; i++)
        {
            Assert.Equal(i % 8 == 1 ? large : middle, (await client.ReadAsync(Generous)).Text);
            Assert.Equal(i, (await client.ReadAsync(Generous)).Number);
        }
    }

    [Fact]
    public async Task Resp3_SelectAndClientCommands_AreAnsweredAsByRedis()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        RespValue hello = await client.DoAsync("HELLO", "3");
        Assert.Equal(RespKind.Map, hello.Kind);
        Assert.Equal("_", (await client.CallAsync("GET", "none")).Compact);
        Assert.Equal("+OK", (await client.CallAsync("SELECT", "0")).Compact);
        Assert.Equal("-ERR DB index is out of range", (await client.CallAsync("SELECT", "1")).Compact);
        await client.DoAsync("CLIENT", "SETNAME", "somebody");
        Assert.Contains("name=somebody", (await client.DoAsync("CLIENT", "LIST")).Text, StringComparison.Ordinal);
        Assert.StartsWith("-ERR unknown command 'LPUSH'", (await client.CallAsync("LPUSH", "l", "1")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-ERR unknown command", (await client.CallAsync("BLPOP", "l", "0")).Compact, StringComparison.Ordinal);
        Assert.Equal("+PONG", (await client.CallAsync("PING")).Compact);
        Assert.Contains("redis_version:", (await client.DoAsync("INFO", "server")).Text, StringComparison.Ordinal);
    }

    [Fact]
    public async Task StackExchangeRedis_Works()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using ConnectionMultiplexer multiplexer = await ConnectionMultiplexer.ConnectAsync(shard.Endpoint.ToString()!);
        IDatabase database = multiplexer.GetDatabase();
        await Task.WhenAll(Enumerable.Range(0, 500).Select(i => database.StringSetAsync($"key{i}", i, TimeSpan.FromMinutes(10))));
        Assert.Equal(Enumerable.Range(0, 500).Sum(),
            (await Task.WhenAll(Enumerable.Range(0, 500).Select(i => database.StringGetAsync($"key{i}")))).Sum(v => (int)v));
        ITransaction transaction = database.CreateTransaction();
        transaction.AddCondition(Condition.StringEqual("key1", 1));
        Task<long> incremented = transaction.StringIncrementAsync("key1", 41);
        Assert.True(await transaction.ExecuteAsync());
        Assert.Equal(42, await incremented);
        Assert.True(await database.KeyDeleteAsync("key2"));
        Assert.False(await database.KeyExistsAsync("key2"));
        Assert.NotNull(await database.KeyTimeToLiveAsync("key3"));
    }

    // The row says which operations are there; each also has a key of its own.
    private static async Task<long> FoundAsync(EmbeddedShard shard, long sent)
    {
        using RespClient client = await shard.ConnectAsync();
        RespValue rows = await client.DoAsync(["MGET", .. Enumerable.Range(0, (int)(sent / 200) + 1).Select(i => $"row{i}")]);
        long[] found = [.. rows.Items.SelectMany(r => r.Text.Split(',', StringSplitOptions.RemoveEmptyEntries))
            .Select(t => long.Parse(t, CultureInfo.InvariantCulture))];
        for (int i = 0; i < found.Length; i++) { Assert.True(found[i] == i + 1, $"operation {found[i]} stands where {i + 1} should"); }
        for (int i = 0; i < found.Length; i += 97)
        {
            Assert.Equal("$" + found[i], (await client.CallAsync("GET", $"op{found[i] % 50}:{found[i]}")).Compact);
        }
        return found.Length;
    }
}
