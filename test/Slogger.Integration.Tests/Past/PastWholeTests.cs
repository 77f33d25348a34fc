// What may read any key, as of an instant: names of keys, and scripts that do not say what they read. It has to agree with what is read key
// by key, which is made in another way.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class PastWholeTests(ITestOutputHelper output, PastReadTests.OneProxy shared) : IClassFixture<PastReadTests.OneProxy>
{
    [Fact]
    public async Task RandomCommands_AtAnyInstant_TheNamesAreThoseOfTheKeysThatWereThere()
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
        List<string> versions = [];
        SortedSet<string> named = new(StringComparer.Ordinal);
        for (int i = 0; i < 5; i++)
        {
            await PastReadTests.WriteAsync(writer, commands, 200);
            await writer.DoAsync("SELECT", "0");
            named.UnionWith((await writer.DoAsync("KEYS", "*")).Items.Select(k => k.Text));
            versions.Add(await VersionNowAsync(reader));
        }
        foreach (string version in versions.AsEnumerable().Reverse())
        {
            string[] at = ["DPR.ASOF", "VERSION", version];
            List<string> there = [];
            foreach (string key in named)
            {
                if ((await reader.DoAsync([.. at, "TYPE", key])).Text != "none") { there.Add(key); }
            }
            Assert.Equal(there, (await reader.DoAsync([.. at, "KEYS", "*"])).Items.Select(k => k.Text).Order(StringComparer.Ordinal));
            Assert.Equal(there.Count, (await reader.DoAsync([.. at, "DBSIZE"])).AsInteger());
            Assert.Equal(there.Count,
                (await reader.DoAsync([.. at, "EVAL_RO", "return #redis.call('KEYS', '*')", "0"])).AsInteger());
            HashSet<string> scanned = [];
            string cursor = "0";
            do
            {
                RespValue page = await reader.DoAsync([.. at, "SCAN", cursor, "COUNT", "3"]);
                cursor = page.Items[0].Text;
                scanned.UnionWith(page.Items[1].Items.Select(k => k.Text));
            }
            while (cursor != "0");
            Assert.Equal(there, scanned.Order(StringComparer.Ordinal));
        }
        Assert.NotEmpty(named);
    }

    [Fact]
    public async Task EachKindOfRead_IsOfTheInstant_AndOfTheDatabaseThatIsSelected()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        await client.DoAsync("FLUSHALL");
        await client.DoAsync("FUNCTION", "LOAD", "REPLACE", """
            #!lua name=past
            redis.register_function{function_name='size', callback=function() return redis.call('DBSIZE') end, flags={'no-writes'}}
            """);
        await client.DoAsync("RPUSH", "list", "a", "b", "c");
        await client.DoAsync("MSET", "w:a", "3", "w:b", "1", "w:c", "2");
        await client.DoAsync("SET", "short", "x", "PX", "100");
        await client.DoAsync("SELECT", "2");
        await client.DoAsync("SET", "second", "x");
        await client.DoAsync("SELECT", "0");
        await Eventually.AsyncTrue("the key expires", TimeSpan.FromMinutes(1), async () => (await client.DoAsync("GET", "short")).IsNull);
        string then = await VersionNowAsync(client);
        await client.DoAsync("MSET", "w:a", "0", "later", "x");
        await client.DoAsync("FUNCTION", "FLUSH");
        string[] at = ["DPR.ASOF", "VERSION", then];
        Assert.Equal(["b", "c", "a"], (await client.DoAsync([.. at, "SORT_RO", "list", "BY", "w:*"])).Items.Select(i => i.Text));
        Assert.Equal(["list", "w:a", "w:b", "w:c"],
            (await client.DoAsync([.. at, "KEYS", "*"])).Items.Select(k => k.Text).Order(StringComparer.Ordinal));
        Assert.Equal("3", (await client.DoAsync([.. at, "EVAL_RO", "return redis.call('GET', 'w:a')", "0"])).Text);
        Assert.Contains((await client.DoAsync([.. at, "RANDOMKEY"])).Text, (string[])["list", "w:a", "w:b", "w:c"]);
        Assert.Equal(4, (await client.DoAsync([.. at, "FCALL_RO", "size", "0"])).AsInteger());
        await client.DoAsync("SELECT", "2");
        Assert.Equal("second", Assert.Single((await client.DoAsync([.. at, "KEYS", "*"])).Items).Text);
        RespValue refused = await client.CallAsync([.. at, "EVAL_RO", "return redis.call('SET', 'w:a', 'x')", "0"]);
        Assert.Contains("Write commands are not allowed", refused.Text);
    }

    [Fact]
    public async Task Scan_OfAnotherVersion_IsNotGoneOnWith()
    {
        using RespClient client = await shared.Deployment.ConnectAsync();
        for (int i = 0; i < 50; i++) { await client.DoAsync("SET", $"scan:{i}", "x"); }
        string first = await VersionNowAsync(client);
        await client.DoAsync("SET", "scan:other", "x");
        string second = await VersionNowAsync(client);
        string cursor = (await OfAllAsync(client, first, "SCAN", "0", "COUNT", "2")).Items[0].Text;
        Assert.NotEqual("0", cursor);
        Assert.Contains("begin it anew", (await client.CallAsync("DPR.ASOF", "VERSION", second, "SCAN", cursor)).Text);
        Assert.Equal(2, (await client.DoAsync("DPR.ASOF", "VERSION", first, "SCAN", cursor)).Items.Count);
        // Of a copy that somebody has had replaced, and then made again.
        foreach (string version in (string[])[second, first]) { await OfAllAsync(client, version, "DBSIZE"); }
        Assert.Contains("begin it anew", (await client.CallAsync("DPR.ASOF", "VERSION", first, "SCAN", cursor)).Text);
        Assert.Contains("wrong number of arguments", (await client.CallAsync("DPR.ASOF", "VERSION", first, "SCAN")).Text);
    }

    [Fact]
    public async Task User_NeedsTheRightToTheCommandAndToAllData()
    {
        using RespClient admin = await shared.Deployment.ConnectAsync(), user = await shared.Deployment.ConnectAsync();
        await admin.DoAsync("SET", "k", "x");
        string now = await VersionNowAsync(admin);
        await admin.DoAsync("ACL", "SETUSER", "names", "on", ">secret", "~*", "+@read", "+ping");
        await user.DoAsync("AUTH", "names", "secret");
        Assert.StartsWith("NOPERM", (await user.CallAsync("DPR.ASOF", "VERSION", now, "KEYS", "*")).Text);
        await admin.DoAsync("ACL", "SETUSER", "names", "+sync");
        Assert.True((await OfAllAsync(user, now, "KEYS", "*")).Items.Count > 0);
        await admin.DoAsync("ACL", "SETUSER", "names", "-keys");
        Assert.StartsWith("NOPERM", (await user.CallAsync("DPR.ASOF", "VERSION", now, "KEYS", "*")).Text);
        // Not by a script either.
        await admin.DoAsync("ACL", "SETUSER", "names", "+eval_ro");
        RespValue refused = await user.CallAsync("DPR.ASOF", "VERSION", now, "EVAL_RO", "return redis.call('KEYS', '*')", "0");
        Assert.Contains("can't run this command", refused.Text);
    }
}
