// slogger reset: afterwards all shards are as they were at the instant, and a reset of the reset gives back what was there before. A
// process that is killed in the midst of it leaves all of it, or nothing.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sites;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.ResetSteps;
using static Slogger.Integration.Tests.Past.StoreView;
using Step = Slogger.Integration.Tests.Past.ResetStep;

namespace Slogger.Integration.Tests.Past;

public sealed class ResetTests(ITestOutputHelper output)
{
    // What is not confined to keys cannot be undone, but that the store was emptied.
    private static readonly string[] s_unconfined = ["SWAPDB", "FLUSHDB"];

    [Fact]
    public async Task RandomCommands_AnyMoment_IsThereAgain_AndSoIsWhatWasBefore()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "64mb"],
        });
        await deployment.StartAsync();
        var commands = new RandomCommands(seed);
        var random = new Random(seed);
        List<(string Version, List<Seen> Keys)> moments = [];
        using (RespClient client = await deployment.ConnectAsync())
        {
            for (int i = 0; i < 8; i++)
            {
                for (int n = random.Next(50, 300); n > 0; n--)
                {
                    IReadOnlyList<string[]> next = commands.Next();
                    if (next.Any(c => s_unconfined.Contains(c[0]))) { continue; }
                    foreach (string[] command in next) { await client.CallAsync(command); }
                }
                await client.CallAsync("DISCARD");
                moments.Add((await VersionNowAsync(client), await StoreContents.ReadAllAsync(client)));
            }
        }
        foreach ((string version, List<Seen> keys) in moments.OrderBy(_ => random.Next()).Take(4))
        {
            List<Seen> before = await ContentsAsync(deployment);
            JsonElement report = await ResetAsync(deployment.Port, version);
            SnapshotTests.AssertSame(keys, await ContentsAsync(deployment));
            await ResetAsync(deployment.Port, report.GetProperty("undo_version").GetRawText());
            SnapshotTests.AssertSame(before, await ContentsAsync(deployment));
        }
    }

    // One client writes at both shards in turn, the second never ahead of the first: so it is whatever the cluster is set back to.
    [Fact]
    public async Task TwoShards_UnderWrites_AreSetBackTogether_AndClientsAreTold()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        string first = cluster.Key(0, "n"), second = cluster.Key(1, "n"), kept = cluster.Key(0, "other");
        using var stop = new CancellationTokenSource();
        Task<long> writing = Task.Run(async () =>
        {
            long closed = 0;
            while (!stop.IsCancellationRequested)
            {
                try
                {
                    using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
                    while (!stop.IsCancellationRequested)
                    {
                        await one.DoAsync("INCR", first);
                        await two.DoAsync("INCR", second);
                    }
                }
                catch (Exception e) when (e is ConnectionLostException or InvalidOperationException)
                {
                    closed++;
                    await Task.Delay(5);
                }
            }
            return closed;
        });
        using RespClient session = await cluster.ConnectAsync(0);
        await session.DoAsync("SET", kept, "before");
        await session.DoAsync("DPR.COMMITTED");
        await Task.Delay(300);
        string version = await VersionNowAsync(session);
        (long a, long b) = await PairAsync(cluster, version, first, second);
        await session.DoAsync("SET", kept, "after");
        await Task.Delay(300);

        JsonElement dry = await ResetAsync(cluster.Port(1), version, "--dry-run");
        Assert.True(dry.GetProperty("keys").GetInt64() >= 3);
        Assert.Equal(JsonValueKind.Null, dry.GetProperty("undo_version").ValueKind);
        Assert.Equal("after", (await session.DoAsync("GET", kept)).Text);

        JsonElement report = await ResetAsync(cluster.Port(1), version);
        output.WriteLine(report.GetRawText());
        await stop.CancelAsync();
        Assert.True(await writing >= 1, "the writer was not told");
        RespValue told = await session.CallAsync("GET", kept);
        Assert.StartsWith($"ROLLBACK worldline={report.GetProperty("world_line").GetInt64()}", told.Text);
        await session.DoAsync("DPR.RESUME", report.GetProperty("world_line").GetRawText());
        Assert.Equal("before", (await session.DoAsync("GET", kept)).Text);
        // At the end of the version that holds the reset, and not of a later one, both are as they were.
        long undo = report.GetProperty("undo_version").GetInt64();
        List<(long First, long Second)> later = [];
        for (long v = undo; later.Count == 0 || later[^1].First > a + 1_000_000 || v < undo + 200; v++)
        {
            later.Add(await PairAsync(cluster, Text(v), first, second));
            if (later.Contains((a, b))) { break; }
        }
        Assert.Contains((a, b), later);
        Assert.All(later, p => Assert.InRange(p.First - p.Second, 0, 1));
        (long x, long y) = later[0];
        await ResetAsync(cluster.Port(0), Text(undo));
        using RespClient zero = await cluster.ConnectAsync(0), other = await cluster.ConnectAsync(1);
        Assert.Equal((Text(x), Text(y)), ((await zero.DoAsync("GET", first)).Text, (await other.DoAsync("GET", second)).Text));
        Assert.Equal("after", (await zero.DoAsync("GET", kept)).Text);
    }

    // Whoever manages it goes silent for good behind a step, and a process is killed.
    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Killed_BehindAnyStep_AllOfItIsThere_OrNothing(int embedded)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false)
        {
            Embedded = embedded, EmbeddedOptions = EmbeddedPastTests.Shown, Options = ["--retention", "1h"],
        };
        await cluster.StartAsync();
        string[] keys = [cluster.Key(0, "k"), cluster.Key(1, "k")];
        // Who is behind which step when it dies.
        foreach ((Step last, bool isProxy, int victim) in ((Step, bool, int)[])[(Step.Held, false, 1), (Step.OneWritten, true, 0),
            (Step.OneWritten, true, 1), (Step.OneWritten, false, 0), (Step.AllWritten, true, 1), (Step.OneClosed, true, 0),
            (Step.OneClosed, true, 1), (Step.AllClosed, true, 0), (Step.Committed, true, 1), (Step.Committed, false, 0)])
        {
            string round = $"{last}-{(isProxy ? "proxy" : "redis")}-{victim}";
            await WriteAsync(cluster, keys, $"old-{round}");
            string version = await CommonVersionAsync(cluster);
            await WriteAsync(cluster, keys, $"new-{round}");
            // Acknowledged is not committed: the reset sees to that.
            await GoToAsync(cluster, version, last);
            if (isProxy)
            {
                cluster.KillProxy(victim);
                await cluster.StartProxyAsync(victim);
            }
            else { await cluster.KillRedisAsync(victim); }
            string[] found = await ReadAsync(cluster, keys);
            output.WriteLine($"{round}: {string.Join(' ', found)}");
            Assert.Equal(found[0], found[1]);
            Assert.Contains(found[0], Allowed(last, before: $"new-{round}", set: $"old-{round}"));
        }
    }

    [Fact]
    public async Task NobodyGoesOn_TheHoldEndsByItself_AndNothingIsSetBack()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        string[] keys = [cluster.Key(0, "k"), cluster.Key(1, "k")];
        await WriteAsync(cluster, keys, "old");
        string version = await CommonVersionAsync(cluster);
        await WriteAsync(cluster, keys, "new");
        await GoToAsync(cluster, version, Step.OneWritten);
        using (RespClient held = await cluster.ConnectAsync(1)) { await held.SendAsync("GET", keys[1]); }
        Assert.Equal(["new", "new"], await ReadAsync(cluster, keys));
        Assert.Equal(2, await cluster.NumberAsync(0, "worldline"));
        // The next one is not in its way.
        await ResetAsync(cluster.Port(0), version);
        Assert.Equal(["old", "old"], await ReadAsync(cluster, keys));
    }

    [Fact]
    public async Task PrefixAndExpiries_AreAsAskedFor_AndRefusalsAreByName()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string version;
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("MSET", "cart:1", "a", "cart:2", "b", "stock:1", "c");
            await client.DoAsync("SET", "cart:soon", "x", "PX", "5000");
            await client.DoAsync("RPUSH", "cart:list", "1", "2");
            await client.DoAsync("PEXPIRE", "cart:list", "5000");
            version = await VersionNowAsync(client);
            await client.DoAsync("RENAME", "cart:1", "stock:1");
            await client.DoAsync("DEL", "cart:2");
            await client.DoAsync("SET", "cart:3", "new");
            await client.DoAsync("SET", "other", "new");
            await Eventually.AsyncTrue("keys expire", TimeSpan.FromSeconds(20), async () =>
                (await client.DoAsync("EXISTS", "cart:soon", "cart:list")).AsInteger() == 0);

            await client.DoAsync("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+ping", "+info");
            using RespClient user = await deployment.ConnectAsync();
            await user.DoAsync("AUTH", "reader", "secret");
            Assert.StartsWith("NOPERM", (await user.CallAsync("DPR.RESET", "PREPARE", version)).Text);
            Assert.Contains("there is no such reset", (await client.CallAsync("DPR.RESET", "WRITE", "x")).Text);
            Assert.Contains("it is DPR.RESET PREPARE", (await client.CallAsync("DPR.RESET", "PREPARE")).Text);
            string name = await PreparedAsync(client, version);
            Assert.Contains("nothing is written before operations are held", (await client.CallAsync("DPR.RESET", "WRITE", name)).Text);
            Assert.Contains("nothing is closed before", (await client.CallAsync("DPR.RESET", "CLOSE", name, "1")).Text);
            // Whoever holds nothing yet gives way.
            string other = await PreparedAsync(client, version);
            Assert.Contains("there is no such reset", (await client.CallAsync("DPR.RESET", "HOLD", name)).Text);
            await client.DoAsync("DPR.RESET", "HOLD", other);
            Assert.Contains("operations are held already", (await client.CallAsync("DPR.RESET", "PREPARE", version)).Text);
            await client.DoAsync("DPR.RESET", "END", other);
            (int code, string told) = await ProxyProcess.CommandAsync(["reset", "--address", At(deployment.Port), "--to", "99999999999"]);
            Assert.Equal(1, code);
            Assert.Contains("is not committed", told);
            (code, told) = await ProxyProcess.CommandAsync(["reset", "--address", At(deployment.Port)]);
            Assert.Equal(2, code);
            Assert.Contains("the instant is named by --to", told);
        }

        await ResetAsync(deployment.Port, version, "--prefix", "cart:");
        Assert.Equal("a,b,nil,a,new,nil", await LookAsync(deployment));
        await ResetAsync(deployment.Port, version, "--prefix", "cart:", "--expiries", "shift");
        Assert.Equal("a,b,nil,a,new,x", await LookAsync(deployment));
        await ResetAsync(deployment.Port, version);
        Assert.Equal("a,b,nil,c,nil,nil", await LookAsync(deployment));
        using RespClient after = await deployment.ConnectAsync();
        await after.DoAsync("SWAPDB", "0", "1");
        (int refused, string why) = await ProxyProcess.CommandAsync(["reset", "--address", At(deployment.Port), "--to", version]);
        Assert.Equal(1, refused);
        Assert.Contains("SWAPDB, after version", why);
        Assert.Equal(0, (await after.DoAsync("DBSIZE")).AsInteger());
    }

    // A command that blocks is ended: it would take the element that is put back.
    [Fact]
    public async Task BlockedCommands_AreNotServedByIt()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync(), worker = await deployment.ConnectAsync();
        await client.DoAsync("RPUSH", "queue", "a", "b");
        string version = await VersionNowAsync(client);
        await client.DoAsync("DEL", "queue");
        await worker.SendAsync("BLPOP", "queue", "0");
        await Eventually.AsyncTrue("it blocks", TimeSpan.FromSeconds(20), async () =>
            (await client.DoAsync("INFO", "clients")).Text.Contains("blocked_clients:1", StringComparison.Ordinal));
        await ResetAsync(deployment.Port, version);
        Assert.StartsWith("UNBLOCKED", (await worker.ReadAsync(TimeSpan.FromSeconds(20))).Text);
        using RespClient after = await deployment.ConnectAsync();
        Assert.Equal(["a", "b"], (await after.DoAsync("LRANGE", "queue", "0", "-1")).Items.Select(i => i.Text));
    }

    // For a backup a reset is writes like others; the embedded store knows no RESTORE.
    [Fact]
    public async Task BackupWithEmbeddedStores_FollowsIt_AndServesWhatWasSetBack()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, 1, usesPostgres: false, embedded: true, TimeSpan.FromMilliseconds(2));
        await sites.StartAsync();
        string version;
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            await client.DoAsync("MSET", "a", "1", "b", "2", "c", "3");
            await client.DoAsync("SET", "lives", "x", "PX", "600000");
            version = await VersionNowAsync(client);
            await client.DoAsync("MSET", "a", "9", "new", "9", "lives", "y");
            await client.DoAsync("DEL", "b");
        }
        await ResetAsync(sites.Primary.Port(0), version);
        await sites.FollowingAsync();
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        using RespClient backup = await sites.Primary.ConnectAsync(0);
        Assert.Equal(["1", "2", "3", "x", ""],
            (await backup.DoAsync("MGET", "a", "b", "c", "lives", "new")).Items.Select(v => v.IsNull ? "" : v.Text));
        Assert.InRange((await backup.DoAsync("PTTL", "lives")).AsInteger(), 300_000, 600_000);
    }

    private static async Task<string> LookAsync(ProxyDeployment deployment)
    {
        using RespClient client = await deployment.ConnectAsync();
        RespValue[] values = [.. (await client.DoAsync("MGET", "cart:1", "cart:2", "cart:3", "stock:1", "other", "cart:soon")).Items];
        return string.Join(',', values.Select(v => v.IsNull ? "nil" : v.Text));
    }

    private static async Task WriteAsync(ClusterDeployment cluster, string[] keys, string value)
    {
        for (int shard = 0; shard < keys.Length; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            await client.DoAsync("SET", keys[shard], value);
        }
    }

    // Held clients wait until that is over.
    private static async Task<string[]> ReadAsync(ClusterDeployment cluster, string[] keys)
    {
        var values = new string[keys.Length];
        for (int shard = 0; shard < keys.Length; shard++)
        {
            values[shard] = "";
            await Eventually.AsyncTrue("it answers", TimeSpan.FromMinutes(1), async () =>
            {
                try
                {
                    using RespClient client = await cluster.ConnectAsync(shard);
                    values[shard] = (await client.DoAsync("GET", keys[shard])).Text;
                    return true;
                }
                catch (Exception e) when (e is ConnectionLostException or InvalidOperationException)
                {
                    return false;
                }
            });
        }
        return values;
    }

    private static async Task GoToAsync(ClusterDeployment cluster, string version, Step last)
    {
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        await ResetSteps.GoToAsync([one, two], version, last);
    }

    private static Task<string> CommonVersionAsync(ClusterDeployment cluster) =>
        ResetSteps.CommonVersionAsync(cluster.Port(0), cluster.Key(0, "k"));

    private static async Task<(long First, long Second)> PairAsync(ClusterDeployment cluster, string version, string first, string second)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(
            ["get", "--json", "--address", At(cluster.Port(0)), "--version", version, first, second]);
        Assert.True(code == 0, told);
        JsonElement keys = JsonDocument.Parse(told).RootElement.GetProperty("keys");
        long Of(int i) => keys[i].GetProperty("value") is { ValueKind: JsonValueKind.String } value
            ? long.Parse(value.GetString()!, CultureInfo.InvariantCulture) : 0;
        return (Of(0), Of(1));
    }

    private static async Task<List<Seen>> ContentsAsync(ProxyDeployment deployment)
    {
        using RespClient client = await deployment.ConnectAsync();
        return await StoreContents.ReadAllAsync(client);
    }
}
