// slogger snapshot and slogger load: the files hold what the shards held. A plain redis-server loads them, and another cluster, too.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Past;

public sealed class SnapshotTests(ITestOutputHelper output)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    // Everything that Redis has: what cannot be repeated key by key, too.
    [Fact]
    public async Task RandomCommands_SnapshotsOfTheirInstants_AreLoadedByPlainRedis_AndByAnotherShard()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            Options = ["--checkpoint-every", "1mb", "--log-budget", "64mb"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        var commands = new RandomCommands(seed);
        var random = new Random(seed);
        List<(string Version, List<Seen> Keys)> moments = [];
        for (int i = 0; i < 8; i++)
        {
            int count = random.Next(50, 400);
            for (int n = 0; n < count; n++)
            {
                foreach (string[] command in commands.Next()) { await client.CallAsync(command); }
            }
            await client.CallAsync("DISCARD");
            moments.Add((Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger()),
                await StoreContents.ReadAllAsync(client)));
        }
        await client.DoAsync("FLUSHALL");
        foreach ((string version, List<Seen> keys) in moments.OrderBy(_ => random.Next()).Take(4))
        {
            string directory = await TakeAsync(workspace, deployment.Port, "--version", version);
            using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder($"plain-{version}"),
                "--dir", directory, "--dbfilename", "shard-0.rdb");
            using RespClient plain = await redis.ConnectAsync();
            AssertSame(keys, await StoreContents.ReadAllAsync(plain));
            Assert.Equal((await plain.DoAsync("FUNCTION", "LIST")).Compact, (await FunctionsOfAsync(workspace, directory, keys)).Compact);
        }
    }

    // One client writes at both shards in turn, the second never ahead of the first: so it is in any snapshot.
    [Fact]
    public async Task TwoShards_UnderWrites_HoldOneCut_AndThreeShardsTakeIt()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        string first = cluster.Key(0, "n"), second = cluster.Key(1, "n");
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        for (int i = 0; i < 3000; i++) { await (i % 2 == 0 ? one : two).DoAsync("SET", cluster.Key(i % 2, $"key:{i}"), Text(i)); }
        long expires = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 3_600_000;
        await two.DoAsync("SET", cluster.Key(1, "expires"), "x", "PXAT", Text(expires));
        await two.DoAsync("SET", cluster.Key(1, "over"), "x", "PX", "300");
        using var stop = new CancellationTokenSource();
        long written = 0;
        Task writing = Task.Run(async () =>
        {
            while (!stop.IsCancellationRequested)
            {
                await one.DoAsync("INCR", first);
                await two.DoAsync("INCR", second);
                Interlocked.Increment(ref written);
            }
        });
        List<(string Directory, long First, long Before, long After)> taken = [];
        for (int i = 0; i < 3; i++)
        {
            long before = Interlocked.Read(ref written);
            string directory = await TakeAsync(workspace, cluster.Port(i % 2));
            long[] values = [await OfPlainAsync(workspace, directory, 0, first), await OfPlainAsync(workspace, directory, 1, second)];
            Assert.InRange(values[0] - values[1], 0, 1);
            // What was acknowledged before is in it.
            Assert.True(values[1] >= before, $"{values[1]} of {before}");
            taken.Add((directory, values[0], before, values[1]));
        }
        await stop.CancelAsync();
        await writing;
        Assert.True(taken[^1].First > taken[0].First, "nothing was written meanwhile");

        await using var other = new ClusterDeployment(new Workspace(), 3, usesPostgres: false);
        await other.StartAsync();
        await Eventually.AsyncTrue("the key expires", s_limit, async () =>
            (await two.DoAsync("EXISTS", cluster.Key(1, "over"))).AsInteger() == 0);
        (int code, string told) = await LoadAsync(other.Port(2), taken[0].Directory, "--json");
        Assert.True(code == 0, told);
        JsonElement report = JsonDocument.Parse(told).RootElement;
        Assert.Equal(3003, report.GetProperty("keys").GetInt64());
        Assert.InRange(report.GetProperty("expired").GetInt64(), 0, 1);
        long keys = 0;
        for (int shard = 0; shard < 3; shard++)
        {
            using RespClient client = await other.ConnectAsync(shard);
            keys += (await client.DoAsync("DBSIZE")).AsInteger();
        }
        Assert.Equal(report.GetProperty("keys").GetInt64(), keys);
        Assert.Equal(Text(taken[0].First), (await AnywhereAsync(other, "GET", first)).Text);
        Assert.Equal("2999", (await AnywhereAsync(other, "GET", cluster.Key(1, "key:2999"))).Text);
        Assert.Equal(expires, (await AnywhereAsync(other, "PEXPIRETIME", cluster.Key(1, "expires"))).AsInteger());

        (code, told) = await LoadAsync(other.Port(0), taken[0].Directory);
        Assert.Equal(1, code);
        Assert.Contains("has keys: a snapshot is loaded into an empty cluster", told);
        for (int shard = 0; shard < 3; shard++)
        {
            using RespClient client = await other.ConnectAsync(shard);
            await client.DoAsync("FLUSHALL");
        }
        string damaged = Path.Combine(taken[0].Directory, "shard-1.rdb");
        byte[] bytes = await File.ReadAllBytesAsync(damaged);
        bytes[bytes.Length / 2] ^= 1;
        await File.WriteAllBytesAsync(damaged, bytes);
        (code, told) = await LoadAsync(other.Port(0), taken[0].Directory);
        Assert.Equal(1, code);
        Assert.Contains("shard-1.rdb is damaged", told);
        (code, told) = await LoadAsync(other.Port(0), workspace.Folder("nothing"));
        Assert.Equal(1, code);
        Assert.Contains("is no snapshot: it has no manifest.json", told);
    }

    [Fact]
    public async Task Expiries_ShiftedOrNone_AreSo()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "soon", "x", "PX", "60000");
        await client.DoAsync("SET", "ever", "y");
        string directory = await TakeAsync(workspace, deployment.Port);
        foreach ((string expiries, long min, long max) in ((string, long, long)[])[("shift", 50_000, 60_000), ("none", -1, -1)])
        {
            await client.DoAsync("FLUSHALL");
            (int code, string told) = await LoadAsync(deployment.Port, directory, "--expiries", expiries);
            Assert.True(code == 0, told);
            Assert.InRange((await client.DoAsync("PTTL", "soon")).AsInteger(), min, max);
            Assert.Equal("y", (await client.DoAsync("GET", "ever")).Text);
        }
    }

    [Fact]
    public async Task Refusals_AreByName_AndNothingIsLeft()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync(), user = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "v");
        await client.DoAsync("ACL", "SETUSER", "reader", "on", ">secret", "~*", "+@read", "+ping", "+info");
        await user.DoAsync("AUTH", "reader", "secret");
        RespValue refused = await user.CallAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0");
        Assert.StartsWith("NOPERM", refused.Text);
        Assert.Contains("there is no snapshot of that name", (await client.CallAsync("DPR.SNAPSHOT", "STATE", "x")).Text);
        Assert.Contains("it is DPR.SNAPSHOT BEGIN", (await client.CallAsync("DPR.SNAPSHOT", "BEGIN", "AGO")).Text);
        Assert.Contains("it is DPR.SNAPSHOT BEGIN", (await client.CallAsync("DPR.SNAPSHOT", "READ", "x", "0", "2000000")).Text);
        await client.DoAsync("MULTI");
        Assert.Contains("cannot be queued", (await client.CallAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0")).Text);
        await client.CallAsync("DISCARD");

        string to = workspace.Folder("to");
        (int code, string told) = await ProxyProcess.CommandAsync(
            ["snapshot", "--address", At(deployment.Port), "--to", to, "--version", "99999999999"]);
        Assert.Equal(1, code);
        Assert.Contains("is not committed", told);
        Assert.Empty(Directory.EnumerateFileSystemEntries(to));
        string directory = await TakeAsync(workspace, deployment.Port);
        string version = Path.GetFileName(directory).Split('-')[^1];
        // What a command that was killed has left is in nobody's way.
        string unfinished = Path.Combine(to, Path.GetFileName(directory) + ".unfinished");
        Directory.CreateDirectory(unfinished);
        await File.WriteAllTextAsync(Path.Combine(unfinished, "shard-0.rdb"), "half of it");
        (code, told) = await ProxyProcess.CommandAsync(["snapshot", "--address", At(deployment.Port), "--to", to, "--version", version]);
        Assert.True(code == 0, told);
        Assert.False(Directory.Exists(unfinished));
        (code, told) = await ProxyProcess.CommandAsync(["snapshot", "--address", At(deployment.Port), "--to", to, "--version", version]);
        Assert.Equal(1, code);
        Assert.Contains("is there already", told);
    }

    // The proxy is killed while a snapshot waits to be read: the next one has deleted what it left.
    [Fact]
    public async Task Proxy_Killed_LeavesNothing_AndTheNextMakesSnapshots()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string files = Path.Combine(deployment.DataDirectory, "snapshots");
        using (RespClient client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "v");
            string name = (await client.DoAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0")).Items[0].Text;
            await Eventually.AsyncTrue("it is ready", s_limit, async () =>
                (await client.DoAsync("DPR.SNAPSHOT", "STATE", name)).Items[0].Text == "ready");
            await client.DoAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0");
        }
        Assert.Single(Directory.EnumerateFiles(files));
        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync();
        await Eventually.AsyncTrue("what it left is deleted", s_limit, () => Task.FromResult(!Directory.Exists(files)
            && !Directory.Exists(Path.Combine(deployment.DataDirectory, "snapshot"))));
        string directory = await TakeAsync(workspace, deployment.Port);
        Assert.Equal("v", (await PlainAsync(workspace, directory, 0, "GET", "k")).Text);
        // Its file at the proxy has gone with the command.
        Assert.Empty(Directory.EnumerateFiles(files));
    }

    // The server that loads the snapshot stands still, as it does between two turns; nobody has it go on.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task ServerStandsStill_ProxyEnds_NoneIsLeft_AndTheNextMakesSnapshots(bool isKilled)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        for (int i = 0; i < 50; i++) { await client.DoAsync("SET", Text(i), new string('v', 1_000_000)); }
        string pid = Path.Combine(deployment.DataDirectory, "snapshot", "redis.pid");
        string process = "", state = "ready";
        while (state == "ready")
        {
            string name = (await client.DoAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0")).Items[0].Text;
            await Eventually.AsyncTrue("its server runs", s_limit, () => Task.FromResult(
                File.Exists(pid) && (process = File.ReadAllText(pid).Trim()).Length > 0));
            await ChildProcess.RunAsync("kill", ["-STOP", process]);
            state = (await client.DoAsync("DPR.SNAPSHOT", "STATE", name)).Items[0].Text;
        }
        if (isKilled)
        {
            deployment.Proxy.KillHard();
            await deployment.StartProxyAsync();
        }
        else { Assert.Equal(0, await deployment.Proxy.TerminateAsync()); }
        await Eventually.AsyncTrue("the server has ended", s_limit, () => Task.FromResult(!Directory.Exists($"/proc/{process}")));
        if (!isKilled) { await deployment.StartProxyAsync(); }
        string directory = await TakeAsync(workspace, deployment.Port);
        Assert.Equal("v", (await PlainAsync(workspace, directory, 0, "GETRANGE", "1", "0", "0")).Text);
    }

    internal static async Task<string> TakeAsync(Workspace workspace, int port, params string[] instant)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(
            ["snapshot", "--address", At(port), "--to", workspace.Folder("snapshots"), .. instant]);
        Assert.True(code == 0, told);
        return told.Split('\n').Single(l => l.StartsWith("the snapshot is in ", StringComparison.Ordinal))["the snapshot is in ".Length..];
    }

    private static Task<(int Code, string Output)> LoadAsync(int port, string directory, params string[] options) =>
        ProxyProcess.CommandAsync(["load", "--address", At(port), "--from", directory, .. options]);

    private static async Task<long> OfPlainAsync(Workspace workspace, string directory, int shard, string key) =>
        (await PlainAsync(workspace, directory, shard, "GET", key)) is { IsNull: false } value
            ? long.Parse(value.Text, CultureInfo.InvariantCulture) : 0;

    private static async Task<RespValue> PlainAsync(Workspace workspace, string directory, int shard, params string[] command)
    {
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder($"plain-{Guid.NewGuid():n}"),
            "--dir", directory, "--dbfilename", $"shard-{Text(shard)}.rdb");
        using RespClient client = await redis.ConnectAsync();
        return await client.DoAsync(command);
    }

    // A shard that has taken the same snapshot holds the same; it says which functions it has.
    private static async Task<RespValue> FunctionsOfAsync(Workspace workspace, string directory, List<Seen> keys)
    {
        using var own = new Workspace();
        await using var other = new ProxyDeployment(own, new ProxySetup());
        await other.StartAsync();
        (int code, string told) = await LoadAsync(other.Port, directory);
        Assert.True(code == 0, told);
        using RespClient client = await other.ConnectAsync();
        AssertSame(keys, await StoreContents.ReadAllAsync(client));
        return await client.DoAsync("FUNCTION", "LIST");
    }

    // Those that expire meanwhile are in none.
    internal static void AssertSame(List<Seen> expected, List<Seen> found)
    {
        long soon = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 10_000;
        static IEnumerable<Seen> Lasting(List<Seen> all, long soon) =>
            all.Where(s => s.ExpiresAtMs < 0 || s.ExpiresAtMs > soon).OrderBy(s => s.Database).ThenBy(s => s.Key, StringComparer.Ordinal);
        Assert.Equal(Lasting(expected, soon), Lasting(found, soon));
    }

    private static async Task<RespValue> AnywhereAsync(ClusterDeployment cluster, params string[] command)
    {
        for (int shard = 0; shard < cluster.Shards; shard++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            RespValue reply = await client.CallAsync(command);
            if (!reply.IsError) { return reply; }
        }
        throw new InvalidOperationException("no shard has it");
    }

    private static string At(int port) => $"127.0.0.1:{Text(port)}";

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
