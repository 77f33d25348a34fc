// What DPR.ASOF says of an instant is what clients could read then, whatever was done since: random commands of the whole vocabulary in
// several databases. And what happens when it cannot be said, when processes die, and when the history changes.
// SLOGGER_TEST_SEED repeats a run; SLOGGER_TEST_INSTANTS=n makes it longer.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastReadTests(ITestOutputHelper output, PastReadTests.OneProxy shared) : IClassFixture<PastReadTests.OneProxy>
{
    /// <summary>For what changes nothing.</summary>
    public sealed class OneProxy : IAsyncLifetime
    {
        private readonly Workspace _workspace = new();

        internal ProxyDeployment Deployment { get; private set; } = null!;

        public async ValueTask InitializeAsync()
        {
            Deployment = new(_workspace, new ProxySetup());
            await Deployment.StartAsync();
        }

        public async ValueTask DisposeAsync()
        {
            await Deployment.DisposeAsync();
            _workspace.Dispose();
        }
    }

    private static readonly int s_instants = int.TryParse(
        Environment.GetEnvironmentVariable("SLOGGER_TEST_INSTANTS"), CultureInfo.InvariantCulture, out int n) ? n : 20;

    // Of each instant; a long run looks at more.
    private static readonly int s_keys = s_instants > 20 ? 100 : 15;

    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    private sealed record Moment(string Version, IReadOnlyList<Seen> Keys);

    [Fact]
    public async Task RandomCommands_AnyInstant_IsReadAsItWas()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            // A checkpoint now and then: most instants are below the newest.
            Options = ["--checkpoint-every", "1mb", "--log-budget", $"{Math.Max(64, 4 * s_instants)}mb"],
        });
        await deployment.StartAsync();
        using RespClient writer = await deployment.ConnectAsync(), reader = await deployment.ConnectAsync();
        var commands = new RandomCommands(seed);
        List<Moment> moments = [];
        var random = new Random(seed);
        for (int i = 0; i < s_instants; i++)
        {
            await WriteAsync(writer, commands, random.Next(30, 400));
            string version = await VersionNowAsync(reader);
            moments.Add(new(version, await StoreContents.ReadAllAsync(reader)));
            // What expires meanwhile was there.
            await Task.Delay(random.Next(40));
        }
        int compared = 0;
        Dictionary<string, int> refused = [];
        foreach (Moment moment in moments.OrderBy(_ => random.Next()))
        {
            foreach (Seen seen in moment.Keys.OrderBy(_ => random.Next()).Take(s_keys))
            {
                string[] at = ["DPR.ASOF", "VERSION", moment.Version];
                await reader.DoAsync("SELECT", Text(seen.Database));
                RespValue type = await reader.CallAsync([.. at, "TYPE", seen.Key]);
                if (type.IsError)
                {
                    string why = type.Text.Split("SLOGGER ")[^1];
                    refused[why] = refused.GetValueOrDefault(why) + 1;
                    continue;
                }
                string value = seen.Type == "none" ? ""
                    : Canonical(seen.Type, await reader.DoAsync([.. at, .. ReadOf(seen.Type, seen.Key)]));
                long expires = (await reader.DoAsync([.. at, "PEXPIRETIME", seen.Key])).AsInteger();
                Assert.Equal(seen, seen with { Type = type.Text, Value = value, ExpiresAtMs = expires });
                compared++;
            }
        }
        foreach ((string why, int count) in refused) { output.WriteLine($"refused {count}: {why}"); }
        output.WriteLine($"{compared} compared, {refused.Values.Sum()} refused");
        // Each names what cannot be repeated key by key.
        Assert.All(refused.Keys, why => Assert.Matches("since the checkpoint|more than .* on these keys", why));
        Assert.True(compared > refused.Values.Sum(), "hardly ever answered");
    }

    [Fact]
    public async Task Expiry_AsItWas_AlsoWhenTheKeyHasGoneSince()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        long expires = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 2500;
        await client.DoAsync("SET", "short", "x", "PXAT", $"{expires}");
        await client.DoAsync("SET", "none", "y");
        string before = await VersionNowAsync(client);
        await Eventually.AsyncTrue("the key expires", s_limit, async () => (await client.DoAsync("GET", "short")).IsNull);
        string after = await VersionNowAsync(client);
        Task<RespValue> At(string version, params string[] read) => client.DoAsync(["DPR.ASOF", "VERSION", version, .. read]);

        Assert.Equal("x", (await At(before, "GET", "short")).Text);
        Assert.Equal(expires, (await At(before, "PEXPIRETIME", "short")).AsInteger());
        Assert.InRange((await At(before, "PTTL", "short")).AsInteger(), 1, 2500);
        Assert.InRange((await At(before, "TTL", "short")).AsInteger(), 1, 3);
        Assert.Equal(-1, (await At(before, "TTL", "none")).AsInteger());
        Assert.Equal(-2, (await At(before, "TTL", "missing")).AsInteger());
        Assert.True((await At(after, "GET", "short")).IsNull);
        Assert.Equal(1, (await At(after, "EXISTS", "short", "none")).AsInteger());
    }

    [Fact]
    public async Task Instant_ByTimeAndAgo_IsTheVersionThatHadEnded()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        List<(long BeganMs, long Ms, int Value)> written = [];
        for (int i = 0; i < 10; i++)
        {
            long beganMs = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
            await client.DoAsync("SET", "k", $"{i}");
            await Task.Delay(60);
            written.Add((beganMs, DateTimeOffset.UtcNow.ToUnixTimeMilliseconds(), i));
            await Task.Delay(60);
        }
        foreach ((long beganMs, long ms, int value) in written)
        {
            Assert.Equal($"{value}", (await client.DoAsync("DPR.ASOF", "TIME", $"{ms}", "GET", "k")).Text);
            long ago = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() - ms;
            Assert.Equal($"{value}", (await client.DoAsync("DPR.ASOF", "AGO", $"{ago}", "GET", "k")).Text);
            RespValue found = await client.DoAsync("DPR.ASOF", "TIME", $"{ms}");
            // It ended at or before that time, and holds what was written last before it.
            Assert.InRange(found.Items[2].AsInteger() / 1000, beganMs, ms);
        }
        // What has been acknowledged is in an instant that is asked for afterwards.
        for (int i = 0; i < 50; i++)
        {
            await client.DoAsync("SET", "k", $"now {i}");
            Assert.Equal($"now {i}", (await client.DoAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
        }
    }

    // A proxy that was held up closes several versions at one place: what was done in the first of them is in the last.
    [Fact]
    public async Task Now_WhenVersionsEndTogether_HasAllThatWasAcknowledged()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        for (int i = 0; i < 60; i++)
        {
            await client.DoAsync("SET", "k", $"{i}");
            await client.SendAsync("DPR.ASOF", "AGO", "0", "GET", "k");
            await Task.Delay(i % 6);
            ChildProcess.Suspend(deployment.Proxy.Id);
            await Task.Delay(15);
            ChildProcess.Resume(deployment.Proxy.Id);
            Assert.Equal($"{i}", (await client.ReadAsync()).Text);
        }
    }

    // Long before the next checkpoint.
    [Fact]
    public async Task FlushAll_BeforeAndBehindIt_KeysAreAsTheyWere()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("MSET", "a", "1", "b", "1");
        string before = await VersionNowAsync(client);
        await client.DoAsync("SET", "a", "2");
        await client.DoAsync("FLUSHALL");
        string empty = await VersionNowAsync(client);
        await client.DoAsync("APPEND", "b", "3");
        string after = await VersionNowAsync(client);
        foreach ((string version, string state) in ((string, string)[])
            [(after, "[_ $3]"), (before, "[$1 $1]"), (empty, "[_ _]"), (after, "[_ $3]")])
        {
            RespValue read = await client.DoAsync("DPR.ASOF", "VERSION", version, "MGET", "a", "b");
            Assert.Equal(state, $"[{string.Join(' ', read.Items.Select(i => i.IsNull ? "_" : i.Compact))}]");
        }
    }

    [Theory]
    [InlineData("it is DPR.ASOF VERSION", "DPR.ASOF")]
    [InlineData("it is DPR.ASOF VERSION", "DPR.ASOF", "AGO", "soon")]
    [InlineData("it is DPR.ASOF VERSION", "DPR.ASOF", "AGO", "-1", "GET", "k")]
    [InlineData("it is DPR.ASOF VERSION", "DPR.ASOF", "SINCE", "1", "GET", "k")]
    [InlineData("has no command 'NOPE'", "DPR.ASOF", "AGO", "0", "NOPE", "k")]
    [InlineData("READONLY SLOGGER 'SET' may change data", "DPR.ASOF", "AGO", "0", "SET", "k", "v")]
    [InlineData("'GETEX' may change data", "DPR.ASOF", "AGO", "0", "GETEX", "k", "PERSIST")]
    [InlineData("nothing can be waited for", "DPR.ASOF", "AGO", "0", "XREAD", "BLOCK", "0", "STREAMS", "k", "$")]
    [InlineData("access at least one of the keys", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('GET', 'other')", "1", "k")]
    [InlineData("access at least one of the keys", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('GET', 'kk')", "2", "k", "k?")]
    [InlineData("can't run this command", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('TTL', KEYS[1])", "1", "k")]
    [InlineData("can't run this command", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('KEYS', '*')", "1", "k")]
    [InlineData("Write commands are not allowed", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('SET', KEYS[1], 'x')", "1", "k")]
    [InlineData("a space or a zero byte", "DPR.ASOF", "AGO", "0", "EVAL_RO", "return 1", "1", "k k")]
    [InlineData("runs what was loaded before", "DPR.ASOF", "AGO", "0", "EVALSHA_RO", "0000", "1", "k")]
    [InlineData("SLOGGER NOTCLOSED 5138-11-16T09:46:39.999Z is in the future", "DPR.ASOF", "TIME", "99999999999999", "GET", "k")]
    [InlineData("SLOGGER NOTKEPT 1970-01-01T00:00:01.000Z is before the cluster began", "DPR.ASOF", "TIME", "1000", "GET", "k")]
    [InlineData("a time is in milliseconds", "DPR.ASOF", "TIME", "9223372036854775807", "GET", "k")]
    [InlineData("SLOGGER NOTKEPT version 0 is not kept", "DPR.ASOF", "VERSION", "0", "GET", "k")]
    public async Task BadQuestion_IsRefusedByName_AndTheConnectionGoesOn(string why, params string[] question)
    {
        ProxyDeployment deployment = shared.Deployment;
        using RespClient client = await deployment.ConnectAsync();
        RespValue refusal = await client.CallAsync(question);
        Assert.True(refusal.IsError, refusal.Compact);
        Assert.Contains(why, refusal.Text);
        Assert.Equal("PONG", (await client.DoAsync("PING")).Text);
    }

    [Fact]
    public async Task Connection_SubscribedOrInATransaction_IsRefused()
    {
        ProxyDeployment deployment = shared.Deployment;
        using RespClient subscribed = await deployment.ConnectAsync(), queueing = await deployment.ConnectAsync();
        await subscribed.CallAsync("SUBSCRIBE", "news");
        Assert.Contains("Can't execute 'dpr.asof'", (await subscribed.CallAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
        await queueing.DoAsync("MULTI");
        Assert.Contains("cannot be queued", (await queueing.CallAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
    }

    [Fact]
    public async Task Script_ReadsTheKeysThatItNames_AsTheyWere_WithTheRightsOfItsUser()
    {
        ProxyDeployment deployment = shared.Deployment;
        using RespClient admin = await deployment.ConnectAsync(), user = await deployment.ConnectAsync();
        await admin.DoAsync("MSET", "script:*1", "3", "script:2", "4");
        string then = await VersionNowAsync(admin);
        await admin.DoAsync("MSET", "script:*1", "30", "script:2", "40");
        const string sum = "return redis.call('GET', KEYS[1]) + redis.call('GET', KEYS[2])";
        string[] asked = ["DPR.ASOF", "VERSION", then, "EVAL_RO"];
        Assert.Equal(7, (await admin.DoAsync([.. asked, sum, "2", "script:*1", "script:2"])).AsInteger());
        // One after the other with other keys: no right stays.
        Assert.Equal("4", (await admin.DoAsync([.. asked, "return redis.call('GET', KEYS[1])", "1", "script:2"])).Text);
        RespValue other = await admin.CallAsync([.. asked, "return redis.call('GET', 'script:*1')", "1", "script:2"]);
        Assert.Contains("access at least one of the keys", other.Text);
        await admin.DoAsync("ACL", "SETUSER", "scripter", "on", ">secret", "~script:*", "+@read", "+eval_ro", "-strlen", "+ping");
        await user.DoAsync("AUTH", "scripter", "secret");
        Assert.Equal(7, (await user.DoAsync([.. asked, sum, "2", "script:*1", "script:2"])).AsInteger());
        RespValue refused = await user.CallAsync([.. asked, "return redis.call('STRLEN', KEYS[1])", "1", "script:2"]);
        Assert.Contains("can't run this command", refused.Text);
        Assert.StartsWith("NOPERM", (await user.CallAsync([.. asked, "return 1", "1", "others"])).Text);
        // In the database of whoever asks, whoever was before.
        await admin.DoAsync("SELECT", "1");
        await admin.DoAsync("SET", "script:2", "of another database");
        Assert.Equal("of another database",
            (await admin.DoAsync("DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('GET', KEYS[1])", "1", "script:2")).Text);
        Assert.Equal("4", (await user.DoAsync([.. asked, "return redis.call('GET', KEYS[1])", "1", "script:2"])).Text);
        refused = await admin.CallAsync([.. asked, "redis.call('SELECT', '0') return redis.call('GET', KEYS[1])", "1", "script:2"]);
        Assert.Contains("can't run this command", refused.Text);
        // One that never ends is given up with the redis-server that runs it.
        const string key = "script:\u00e0", endless = "while true do end";
        await admin.DoAsync("SELECT", "0");
        await admin.DoAsync("SET", key, "letters");
        await admin.SendAsync("DPR.ASOF", "AGO", "0", "EVAL_RO", endless, "1", key);
        Assert.True((await admin.ReadAsync(s_limit)).IsError);
        RespValue letters = await admin.DoAsync("DPR.ASOF", "AGO", "0", "EVAL_RO", "return redis.call('GET', KEYS[1])", "1", key);
        Assert.Equal("letters", letters.Text);
    }

    [Fact]
    public async Task User_MayReadOfThePast_WhatItMayReadNow()
    {
        ProxyDeployment deployment = shared.Deployment;
        using RespClient admin = await deployment.ConnectAsync(), user = await deployment.ConnectAsync();
        await admin.DoAsync("MSET", "mine:1", "a", "yours:1", "b");
        await admin.DoAsync("ACL", "SETUSER", "reader", "on", ">secret", "~mine:*", "+@read", "-strlen", "+ping");
        await user.DoAsync("AUTH", "reader", "secret");
        Assert.Equal("a", (await user.DoAsync("DPR.ASOF", "AGO", "0", "GET", "mine:1")).Text);
        RespValue refused = await user.CallAsync("DPR.ASOF", "AGO", "0", "GET", "yours:1");
        Assert.True(refused.IsError);
        Assert.StartsWith("NOPERM", refused.Text);
        Assert.StartsWith("NOPERM", (await user.CallAsync("DPR.ASOF", "AGO", "0", "STRLEN", "mine:1")).Text);
    }

    [Fact]
    public async Task RedisRunByOthers_ThePastIsRefusedByName()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        Assert.Contains("knows no program for it", (await client.CallAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
        // Which version it would be is known all the same.
        Assert.Equal(3, (await client.DoAsync("DPR.ASOF", "AGO", "0")).Items.Count);
    }

    // Its lens runs on, and is ended by the next proxy; the past is there again.
    [Fact]
    public async Task Proxy_Killed_ThePastIsThereAgain()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string version;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "then");
            version = await VersionNowAsync(client);
            Assert.Equal("then", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
            await client.DoAsync("SET", "k", "later");
        }
        string folder = Path.Combine(deployment.DataDirectory, "past");
        Assert.True(Directory.Exists(folder));
        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync();
        await Eventually.AsyncTrue("what the killed proxy has left is ended", s_limit, () => Task.FromResult(!Directory.Exists(folder)));
        using (RespClient client = await deployment.ConnectAsync())
        {
            Assert.Equal("then", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
        }
        await deployment.Proxy.TerminateAsync();
        Assert.False(Directory.Exists(folder));
    }

    [Fact]
    public async Task Recovery_WhatItTookBack_IsNotThePast()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string version;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "committed");
            version = await VersionNowAsync(client);
            Assert.Equal("committed", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
            for (int i = 0; i < 200; i++) { await client.DoAsync("SET", "k", $"{i}"); }
        }
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using (RespClient client = await deployment.ConnectAsync())
        {
            string survived = (await client.DoAsync("GET", "k")).Text;
            Assert.Equal("committed", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
            Assert.Equal(survived, (await client.DoAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
            await client.DoAsync("SET", "k", "afterwards");
            Assert.Equal("afterwards", (await client.DoAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
            Assert.Equal("committed", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
        }
    }

    // ---- What a store shows ----

    /// <summary>Sends random commands, of which any key can be read back by itself.</summary>
    internal static async Task WriteAsync(RespClient client, RandomCommands commands, int count)
    {
        for (int i = 0; i < count; i++)
        {
            foreach (string[] command in commands.Next())
            {
                // What is not confined to keys is refused by name until the next checkpoint: then there is little to compare.
                if (command[0] is "SWAPDB" or "FLUSHALL" or "FLUSHDB" or "FUNCTION" or "FCALL") { continue; }
                await client.CallAsync(command);
            }
        }
        await client.CallAsync("DISCARD");
    }

}
