// DPR.ROLL shows all that a shard had at the end of one version after the other: random commands of the whole vocabulary in several
// databases, expiries, what cannot be repeated key by key. SLOGGER_TEST_SEED repeats a run.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class RollTests(ITestOutputHelper output)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    private const string All = """
        local reads = {string = {'GET'}, list = {'LRANGE', 0, -1}, set = {'SMEMBERS'}, hash = {'HGETALL'},
            zset = {'ZRANGE', 0, -1, 'WITHSCORES'}, stream = {'XRANGE', '-', '+'}}
        local all = {}
        for db = 0, 3 do
            redis.call('SELECT', db)
            for _, key in ipairs(redis.call('KEYS', '*')) do
                local type = redis.call('TYPE', key).ok
                local read = reads[type]
                all[#all + 1] = {db, key, type, redis.call(read[1], key, unpack(read, 2))}
            end
        end
        return all
        """;

    [Fact]
    public async Task RandomCommands_EachMoment_HasWhatClientsSaw()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "64mb"],
        });
        await deployment.StartAsync();
        using RespClient writer = await deployment.ConnectAsync(), reader = await deployment.ConnectAsync();
        var commands = new RandomCommands(seed);
        var random = new Random(seed);
        List<(string Version, List<Seen> Keys)> moments = [];
        for (int i = 0; i < 12; i++)
        {
            int count = random.Next(50, 400);
            for (int n = 0; n < count; n++)
            {
                foreach (string[] command in commands.Next()) { await writer.CallAsync(command); }
            }
            await writer.CallAsync("DISCARD");
            moments.Add((await VersionNowAsync(reader), await StoreContents.ReadAllAsync(reader)));
            // What expires meanwhile was there.
            await Task.Delay(random.Next(40));
        }
        // From the first that the log still has, and over checkpoints that were taken since.
        string name = (await reader.DoAsync("DPR.ROLL", "BEGIN", "FROM", moments[0].Version, "TO", moments[^1].Version)).Text;
        int compared = 0, fleeting = 0;
        foreach ((string version, List<Seen> keys) in moments)
        {
            Assert.Equal(version, Text((await ToAsync(reader, name, version)).Items[1].AsInteger()));
            Dictionary<(int, string), Seen> there = (await reader.DoAsync("DPR.ROLL", "EVAL", name, All)).Items
                .Select(k => (Type: k.Items[2].Text, k.Items))
                .Select(k => new Seen((int)k.Items[0].AsInteger(), k.Items[1].Text, k.Type, Canonical(k.Type, k.Items[3]), 0))
                .ToDictionary(s => (s.Database, s.Key));
            foreach (Seen seen in keys.Where(k => k.Type != "none"))
            {
                Assert.True(there.Remove((seen.Database, seen.Key), out Seen? found), $"{version}: {seen.Key} is missing");
                Assert.Equal(seen with { ExpiresAtMs = 0 }, found);
                compared++;
            }
            // What was about to expire then was not written down, and is there all the same.
            foreach (Seen more in there.Values)
            {
                await reader.DoAsync("SELECT", Text(more.Database));
                RespValue was = await reader.CallAsync("DPR.ASOF", "VERSION", version, "EXISTS", more.Key);
                Assert.True(was.IsError || was.AsInteger() == 1, $"{version}: {more.Key} was not there");
                fleeting++;
            }
        }
        output.WriteLine($"{compared} compared, {fleeting} besides");
        Assert.True(compared > 20, "hardly anything was compared");
    }

    [Fact]
    public async Task Next_NamesCommandsAndExpiries_AndSkipsWhatChangesNothing()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "n", "1");
        await VersionNowAsync(client);
        long expires = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 2000;
        await client.DoAsync("SET", "short", "x", "PXAT", Text(expires));
        string from = await VersionNowAsync(client);
        await Eventually.AsyncTrue("the key expires", s_limit, async () => (await client.DoAsync("GET", "short")).IsNull);
        // What deletes it in Redis is not in the version of INCR.
        await VersionNowAsync(client);
        await client.DoAsync("INCR", "n");
        string to = await VersionNowAsync(client);
        string name = (await client.DoAsync("DPR.ROLL", "BEGIN", "FROM", from, "TO", to)).Text;

        RespValue stand = await ToAsync(client, name, from);
        Assert.Equal(from, stand.Items[1].Text);
        Assert.Equal("2", await SizeAsync());
        Assert.Equal("[:0,[]]", (await client.DoAsync("DPR.ROLL", "COMMANDS", name)).Compact);
        // The first version that ends behind the expiry: the one before it does not.
        long over = stand.Items[3].AsInteger();
        long before = (await client.DoAsync("DPR.ASOF", "VERSION", Text(over - 1))).Items[2].AsInteger();
        stand = await ToAsync(client, name, Text(over));
        Assert.InRange(expires, (before / 1000) + 1, stand.Items[2].AsInteger() / 1000);
        Assert.Equal("1", await SizeAsync());
        Assert.Equal("[:0,[[$DEL,$short]]]", (await client.DoAsync("DPR.ROLL", "COMMANDS", name)).Compact);
        List<string> told = [];
        int stops = 0;
        for (; stand.Items[3].AsInteger() != 0; stops++)
        {
            stand = await ToAsync(client, name, stand.Items[3].Text);
            await SizeAsync();
            told.AddRange((await client.DoAsync("DPR.ROLL", "COMMANDS", name)).Items[1].Items.Select(c => c.Compact));
        }
        Assert.Equal("[$INCR,$n]", told[^1]);
        // The DEL of Redis, and INCR.
        Assert.InRange(stops, 1, 2);
        async Task<string> SizeAsync() => (await client.DoAsync("DPR.ROLL", "EVAL", name, "return redis.call('DBSIZE')")).Text;
    }

    [Fact]
    public async Task Refusals_AreByName()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync(), user = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "v", "EX", "1000");
        string from = await VersionNowAsync(client);
        await client.DoAsync("SET", "k", "w");
        string to = await VersionNowAsync(client);
        await client.DoAsync("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+ping", "+info");
        await user.DoAsync("AUTH", "reader", "secret");
        string[] begin = ["DPR.ROLL", "BEGIN", "FROM", from, "TO", to];
        Assert.StartsWith("NOPERM", (await user.CallAsync(begin)).Text);
        Assert.Contains("is behind version", (await client.CallAsync("DPR.ROLL", "BEGIN", "FROM", to, "TO", from)).Text);
        string name = (await client.DoAsync(begin)).Text;
        Assert.Contains("looks through the whole past", (await client.CallAsync(begin)).Text);
        Assert.Contains("it stands nowhere yet", (await client.CallAsync("DPR.ROLL", "EVAL", name, "return 1")).Text);
        await ToAsync(client, name, to);
        Assert.Contains("goes forward only", (await client.CallAsync("DPR.ROLL", "TO", name, from)).Text);
        Assert.Contains("is behind the last", (await client.CallAsync("DPR.ROLL", "TO", name, "99999999999")).Text);
        foreach (string never in (string[])["redis.call('SET', 'k', 'x')", "redis.call('PTTL', 'k')", "redis.call('CONFIG', 'GET', '*')"])
        {
            Assert.True((await client.CallAsync("DPR.ROLL", "EVAL", name, $"return {never}")).IsError, never);
        }
        Assert.Equal("w", (await client.DoAsync("DPR.ROLL", "EVAL", name, "return redis.call('GET', ARGV[1])", "k")).Text);
        await client.DoAsync("DPR.ROLL", "END", name);
        Assert.Contains("nothing of that name", (await client.CallAsync("DPR.ROLL", "COMMANDS", name)).Text);
        Assert.Contains("it is DPR.ROLL BEGIN", (await client.CallAsync("DPR.ROLL", "BEGIN", "FROM", from)).Text);
        Assert.Contains("it is DPR.ROLL BEGIN", (await client.CallAsync("DPR.ROLL", "TO", name, "x")).Text);
    }

    [Fact]
    public async Task Proxy_Killed_LeavesNothing()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string folder = Path.Combine(deployment.DataDirectory, "roll"), version;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "v");
            version = await VersionNowAsync(client);
            await client.DoAsync("DPR.ROLL", "BEGIN", "FROM", version, "TO", version);
        }
        Assert.True(Directory.Exists(folder));
        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync();
        await Eventually.AsyncTrue("what it left is deleted", s_limit, () => Task.FromResult(!Directory.Exists(folder)));
        using RespClient again = await deployment.ConnectAsync();
        string name = (await again.DoAsync("DPR.ROLL", "BEGIN", "FROM", version, "TO", version)).Text;
        await ToAsync(again, name, version);
        Assert.Equal("v", (await again.DoAsync("DPR.ROLL", "EVAL", name, "return redis.call('GET', 'k')")).Text);
    }

    // What the program reads at each step is what there was then, and it can do nothing else.
    [Fact]
    public async Task Program_AtEachStep_ReadsAllShardsAsTheyWere()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        string first = cluster.Key(0, "n"), second = cluster.Key(1, "n"), address = $"127.0.0.1:{Text(cluster.Port(1))}";
        await one.DoAsync("SET", first, "0");
        await two.DoAsync("SET", second, "0");
        string from = await VersionNowAsync(one);
        long began = Environment.TickCount64;
        for (int i = 0; i < 200; i++)
        {
            await one.DoAsync("INCR", first);
            await two.DoAsync("INCR", second);
        }
        // A slow machine takes longer, and not more steps: each starts processes.
        string step = Text(20 + ((Environment.TickCount64 - began) / 25)) + "ms";
        string look = $"echo at $SLOGGER_VERSION $(redis-cli -s $SLOGGER_SOCKET_0 get {first}) "
            + $"$(redis-cli -s $SLOGGER_SOCKET_1 get {second})";
        (int code, string told) = await ProxyProcess.CommandAsync("roll", "--address", address, "--from", from, "--step", step,
            "--exec", look);
        Assert.True(code == 0, told);
        string[][] seen = [.. told.Split('\n').Where(l => l.StartsWith("at ", StringComparison.Ordinal)).Select(l => l.Split(' '))];
        Assert.True(seen.Length > 1, told);
        Assert.Contains($"# the program was run {seen.Length} times", told);
        Assert.Equal(["at", seen[0][1], "0", "0"], seen[0]);
        foreach (string[] at in seen)
        {
            Assert.Equal(at[2], (await one.DoAsync("DPR.ASOF", "VERSION", at[1], "GET", first)).Text);
            Assert.Equal(at[3], (await two.DoAsync("DPR.ASOF", "VERSION", at[1], "GET", second)).Text);
        }
        string[] never = ["set x y", "pttl x", "config get dir", "acl list", "client list", "flushall", "replicaof no one", "save"];
        (code, told) = await ProxyProcess.CommandAsync("roll", "--address", address, "--from", from, "--step", "1h",
            "--exec", string.Join(';', never.Select(command => $"redis-cli -s $SLOGGER_SOCKET_0 {command}")));
        Assert.True(code == 0, told);
        Assert.Equal(never.Length, told.Split('\n').Count(l => l.StartsWith("NOPERM", StringComparison.Ordinal)));
        (code, told) = await ProxyProcess.CommandAsync("roll", "--address", address, "--from", from, "--step", "1h", "--exec", "exit 7");
        Assert.Equal(1, code);
        Assert.Contains("the program ended with exit code 7", told);
        (code, told) = await ProxyProcess.CommandAsync("roll", "--address", address, "--step", "often");
        Assert.Equal(2, code);
        foreach (string why in (string[])["--from is needed", "--exec is needed", "--step \"often\""]) { Assert.Contains(why, told); }
    }

    // When it is there.
    private static async Task<RespValue> ToAsync(RespClient client, string name, string version)
    {
        while (true)
        {
            RespValue stand = await client.DoAsync("DPR.ROLL", "TO", name, version);
            if (stand.Items[0].AsInteger() == 1) { return stand; }
        }
    }
}
