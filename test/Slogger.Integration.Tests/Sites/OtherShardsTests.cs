// A backup with another number of shards than its primary: real processes, Redis servers and databases. What the one held is compared with
// what the other holds, key by key, whatever shard they are in.
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class OtherShardsTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(90);

    [Theory]
    [InlineData(2, 1)]
    [InlineData(1, 2)]
    [InlineData(2, 3)]
    public async Task FailOver_EveryKeyIsThere_AndBackAgain(int shards, int backupShards)
    {
        int seed = Environment.TickCount & 0xFFFFFF;
        output.WriteLine($"seed {seed}");
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards, backupShards);
        await Task.WhenAll(sites.Primary.StartSqlAsync(), sites.Backup.StartSqlAsync());
        // Some of it is in the copies, the rest in the streams.
        await sites.Primary.StartAsync();
        await sites.Primary.ServingAsync(Limit);
        for (int s = 0; s < shards; s++) { await LoadFunctionAsync(sites.Primary, s); }
        await WriteAsync(sites.Primary, random, 300);
        await sites.Backup.StartAsync();
        await sites.FollowingAsync();
        await WriteAsync(sites.Primary, random, 300);

        // Its processes die while there is something to follow; one of them with its Redis.
        using (var stop = new CancellationTokenSource())
        {
            Task writing = WriteUntilAsync(sites.Primary, new Random(seed + 1), stop.Token);
            for (int s = 0; s < backupShards; s++)
            {
                sites.Backup.KillProxy(s);
                if (s == 0) { await sites.Backup.KillRedisAsync(s); }
                await Task.Delay(random.Next(300));
                await sites.Backup.StartAsync(s);
            }
            await stop.CancelAsync();
            await writing;
        }
        await sites.FollowingAsync();
        (int code, string text) = await sites.Backup.CommandAsync("status", "--site");
        output.WriteLine(text);
        Assert.Equal(0, code);
        (code, text) = await sites.Backup.CommandAsync("drill", "--restore");
        output.WriteLine(text);
        Assert.True(code == 0, sites.Tail());
        await WriteAsync(sites.Primary, random, 100);
        await sites.FollowingAsync();
        SortedDictionary<string, string> before = await ContentAsync(sites.Primary);

        await sites.Primary.KillAsync();
        output.WriteLine(await sites.FailOverAsync());
        AssertSame(before, await ContentAsync(sites.Primary));

        // The other site comes back, and holds what is written now.
        await WriteAsync(sites.Primary, random, 200);
        await sites.SeedBackAsync();
        await WriteAsync(sites.Primary, random, 200);
        await sites.FollowingAsync();
        before = await ContentAsync(sites.Primary);
        output.WriteLine(await sites.SwitchOverAsync());
        AssertSame(before, await ContentAsync(sites.Primary));
        for (int s = 0; s < sites.Shards; s++)
        {
            using RespClient client = await sites.Primary.ConnectAsync(s);
            Assert.Equal(1, (await client.DoAsync("FCALL", "one", "0")).Number);
        }
    }

    private static async Task LoadFunctionAsync(Site site, int shard)
    {
        using RespClient client = await site.ConnectAsync(shard);
        await client.DoAsync("FUNCTION", "LOAD", "#!lua name=lib\nredis.register_function('one', function(keys, args) return 1 end)");
    }

    private static async Task WriteUntilAsync(Site site, Random random, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested) { await WriteAsync(site, random, 20); }
    }

    private static async Task WriteAsync(Site site, Random random, int steps)
    {
        RespClient[] clients = await Task.WhenAll(Enumerable.Range(0, site.Shards).Select(site.ConnectAsync));
        for (int i = 0; i < steps; i++)
        {
            string tag = $"{{{random.Next(60)}}}";
            RespClient client = clients[site.ShardOf(tag)];
            foreach (string[] command in Next(random, tag)) { await client.CallAsync(command); }
        }
        foreach (RespClient client in clients) { client.Dispose(); }
    }

    private static string[][] Next(Random random, string tag)
    {
        string value = new('v', random.Next(400)), number = random.Next(1000).ToString(CultureInfo.InvariantCulture);
        return random.Next(12) switch
        {
            0 => [["SET", tag + "s", value]],
            1 => [["SET", tag + "e", value, "PX", "36000000"], ["PERSIST", tag + "s"]],
            2 => [["RPUSH", tag + "l", value, number], ["LMOVE", tag + "l", tag + "l2", "LEFT", "RIGHT"]],
            3 => [["SADD", tag + "set", number, value], ["SPOP", tag + "set"]],
            4 => [["ZADD", tag + "z", number, value, number, "m" + number], ["ZPOPMIN", tag + "z"]],
            5 => [["HSET", tag + "h", "f" + number, value], ["HINCRBYFLOAT", tag + "h", "n", "0.5"]],
            6 => [["XADD", tag + "x", "MAXLEN", "~", "100", "*", "f", value]],
            7 => [["MULTI"], ["INCR", tag + "n"], ["DEL", tag + "s"], ["PUBLISH", "m", value], ["RPUSH", tag + "l", number], ["EXEC"]],
            8 => [["EVAL", "redis.call('SET', KEYS[1], ARGV[1]) redis.call('INCR', KEYS[2]) return 1", "2", tag + "s", tag + "n", value]],
            9 => [["DEL", tag + "s", tag + "l", tag + "h"]],
            10 => [["RENAME", tag + "s", tag + "s2"], ["PFADD", tag + "p", value, number]],
            _ => [["APPEND", tag + "a", number], ["GETEX", tag + "a", "PX", "72000000"], ["SETBIT", tag + "b", number, "1"]],
        };
    }

    // At the stores themselves: of all keys what they hold, and when they expire.
    private static async Task<SortedDictionary<string, string>> ContentAsync(Site site)
    {
        var content = new SortedDictionary<string, string>(StringComparer.Ordinal);
        for (int s = 0; s < site.Shards; s++)
        {
            using RespClient store = await RespClient.ConnectAsync(
                new UnixDomainSocketEndPoint(Path.Combine(site.Data(s), "redis", "redis.sock")));
            foreach (string key in (await store.DoAsync("KEYS", "*")).Items.Select(k => k.Text))
            {
                Assert.Equal(s, site.ShardOf(key));
                // What is written to see whether a site serves is not of the run.
                if (key.StartsWith("{following", StringComparison.Ordinal) || key.StartsWith("{serving", StringComparison.Ordinal))
                {
                    continue;
                }
                content.Add(key, $"{(await store.DoAsync("PEXPIRETIME", key)).Number} {await ValueAsync(store, key)}");
            }
        }
        return content;
    }

    private static async Task<string> ValueAsync(RespClient store, string key)
    {
        string type = (await store.DoAsync("TYPE", key)).Text;
        RespValue value = await store.DoAsync(type switch
        {
            "string" => ["GET", key],
            "list" => ["LRANGE", key, "0", "-1"],
            "set" => ["SORT_RO", key, "ALPHA"],
            "hash" => ["HGETALL", key],
            "zset" => ["ZRANGE", key, "0", "-1", "WITHSCORES"],
            _ => (string[])["XRANGE", key, "-", "+"],
        });
        if (type != "hash") { return $"{type} {value.Compact}"; }
        string[] fields = [.. value.Items.Select(i => i.Text)];
        return "hash " + string.Join(' ', Enumerable.Range(0, fields.Length / 2).Select(i => $"{fields[2 * i]}={fields[(2 * i) + 1]}")
            .Order(StringComparer.Ordinal));
    }

    private static void AssertSame(SortedDictionary<string, string> expected, SortedDictionary<string, string> found)
    {
        Assert.True(expected.Count > 50, $"{expected.Count} keys");
        foreach ((string key, string value) in expected) { Assert.True(
            found.TryGetValue(key, out string? other) && other == value, $"{key}: {value} before, {other ?? "nothing"} now"); }
        Assert.Equal(expected.Count, found.Count);
    }

    // ---- What cannot be followed ----

    [Fact]
    public async Task ACommandOverSeveralSlots_IsNotFollowed_AndTheSiteStaysTakeOverable()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, 2);
        await sites.StartAsync();
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            string low = sites.Backup.Key(0, "k"), high = sites.Backup.Key(1, "k");
            await client.DoAsync("SET", low, "before");
            await sites.FollowingAsync();
            await client.DoAsync("RENAME", low, high);
            await client.DoAsync("SET", sites.Backup.Key(0, "later"), "1");
            await Eventually.AsyncTrue("the backup says what it cannot follow", Limit, async () =>
                (await sites.Backup.CommandAsync("status", "--site")).Output.Contains(
                    "RENAME names keys of several of this site's shards", StringComparison.Ordinal));
            await Eventually.AsyncTrue("and so does the primary", Limit,
                async () => (await sites.Primary.InfoAsync(0, "backup_problem"))?.Contains("RENAME", StringComparison.Ordinal) == true);
            await sites.Primary.KillAsync();
            output.WriteLine(await sites.FailOverAsync());
            using RespClient other = await sites.Primary.ConnectAsync(0);
            Assert.Equal("before", (await other.DoAsync("GET", low)).Text);
        }
    }

    // Its keys are among those of another shard there: a fresh copy makes up for it.
    [Fact]
    public async Task FlushAll_OfOneOfTheShardsThatComeTogether_HasItSeededAnew()
    {
        var random = new Random(1);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 2, 1);
        await sites.StartAsync();
        await WriteAsync(sites.Primary, random, 800);
        await sites.FollowingAsync();
        using (RespClient client = await sites.Primary.ConnectAsync(0)) { await client.DoAsync("FLUSHALL"); }
        await Eventually.AsyncTrue("it is seeded anew", Limit, async () =>
            (await sites.Backup.CommandAsync("status", "--site", "--json")).Output.Contains("\"generation\": 2", StringComparison.Ordinal));
        await WriteAsync(sites.Primary, random, 100);
        await sites.FollowingAsync();
        AssertSame(await ContentAsync(sites.Primary), await ContentAsync(sites.Backup));
    }

    [Fact]
    public async Task Start_WhatCannotBeDivided_IsRefusedWithAnAnswer()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, 2);
        await sites.Primary.StartAsync();
        await sites.Primary.ServingAsync(Limit);
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            await client.DoAsync("SELECT", "2");
            await client.DoAsync("SET", "k", "v");
        }
        for (int s = 0; s < 2; s++) { sites.Backup.Launch(s); }
        await Eventually.AsyncTrue("both processes of the backup end", Limit,
            () => Task.FromResult(sites.Backup.IsDown(0) && sites.Backup.IsDown(1)));
        Assert.Contains("there are keys in database 2", sites.Backup.Tail(0), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Hello_PrimaryOfAnotherNumberThanWasSaid_IsRefused()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 2, 1);
        sites.Backup.OtherShards = 3;
        await sites.Backup.StartAsync();
        await sites.Primary.StartAsync();
        await sites.Primary.ServingAsync(Limit);
        await Eventually.AsyncTrue("the primary hears why", Limit, async () =>
            (await sites.Primary.InfoAsync(0, "backup_problem"))?.Contains(
                "the primary has 2 shards, and this backup was made for a primary of 3", StringComparison.Ordinal) == true);
    }
}
