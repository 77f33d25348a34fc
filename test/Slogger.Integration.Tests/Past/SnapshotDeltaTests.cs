// slogger snapshot --from: on top of the snapshot that it rests on it holds what clients saw, forward and back, and over several of them.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class SnapshotDeltaTests(ITestOutputHelper output)
{
    // What differs is not in keys alone.
    private static readonly string[] s_unconfined = ["SWAPDB", "FLUSHDB", "FUNCTION"];

    [Fact]
    public async Task RandomCommands_ChainsThatGoForwardAndBack_HoldWhatClientsSaw()
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
            for (int n = random.Next(20, 300); n > 0; n--)
            {
                IReadOnlyList<string[]> next = commands.Next();
                if (next.Any(c => s_unconfined.Contains(c[0]))) { continue; }
                foreach (string[] command in next) { await client.CallAsync(command); }
            }
            await client.CallAsync("DISCARD");
            // Some that expire soon, and are in the files of one moment and not of another.
            for (int n = 0; n < 5; n++)
            {
                await client.DoAsync("SET", $"short:{random.Next(5)}", Text(i), "PX", Text(random.Next(1, 200)));
            }
            moments.Add((Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger()),
                await StoreContents.ReadAllAsync(client)));
        }
        using var own = new Workspace();
        await using var other = new ProxyDeployment(own, new ProxySetup());
        await other.StartAsync();
        using RespClient loaded = await other.ConnectAsync();
        int[] order = [.. Enumerable.Range(0, moments.Count).OrderBy(_ => random.Next())];
        string below = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", moments[order[0]].Version);
        foreach (int moment in order[1..])
        {
            string above = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", moments[moment].Version, "--from", below);
            await loaded.DoAsync("FLUSHALL");
            (int code, string told) = await LoadAsync(other.Port, above);
            Assert.True(code == 0, told);
            Assert.Contains($"{DatabaseSizes(await StoreContents.ReadAllAsync(loaded))} keys loaded", told);
            SnapshotTests.AssertSame(moments[moment].Keys, await StoreContents.ReadAllAsync(loaded));
            below = above;
            if (random.Next(2) == 0) { continue; }
            // Where nothing expires any more, each key counts that was alive, and none that was not.
            string whole = await SnapshotTests.TakeAsync(own, deployment.Port, "--version", moments[moment].Version);
            Assert.Equal(await WithoutExpiriesAsync(whole), await WithoutExpiriesAsync(above));
        }

        async Task<IEnumerable<Seen>> WithoutExpiriesAsync(string directory)
        {
            await loaded.DoAsync("FLUSHALL");
            (int code, string told) = await LoadAsync(other.Port, directory, "--expiries", "none");
            Assert.True(code == 0, told);
            return (await StoreContents.ReadAllAsync(loaded)).OrderBy(s => s.Database).ThenBy(s => s.Key, StringComparer.Ordinal);
        }
    }

    // Nothing names it between the two lower instants, and the first snapshot has it no more.
    [Fact]
    public async Task KeyThatExpired_AndWasDeletedLater_IsThereAtAnInstantBefore()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await Eventually.AsyncTrue("the past has begun", TimeSpan.FromMinutes(1), async () =>
            !(await client.CallAsync("DPR.ASOF", "AGO", "0", "GET", "k")).IsError);
        string alive = "", expired = "", deleted = "";
        for (int i = 0; deleted.Length == 0; i++)
        {
            Assert.True(i < 50, "Redis deletes each key as soon as it has expired");
            long expires = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() + 200;
            await client.DoAsync("SET", "k", "v", "PXAT", Text(expires));
            await Task.Delay(TimeSpan.FromMilliseconds(expires + 50 - DateTimeOffset.UtcNow.ToUnixTimeMilliseconds()));
            Assert.True((await client.DoAsync("GET", "k")).IsNull);
            string last = await VersionNowAsync(client);
            expired = Text((await client.DoAsync("DPR.ASOF", "TIME", Text(expires + 5))).Items[1].AsInteger());
            IReadOnlyList<RespValue> done = (await client.DoAsync("DPR.HISTORY", "k")).Items[3].Items;
            Assert.Equal("[$DEL,$k]", done[^1].Items[4].Compact);
            alive = Text(done[^2].Items[0].AsInteger());
            if (done[^1].Items[0].AsInteger() > long.Parse(expired, CultureInfo.InvariantCulture)) { deleted = last; }
        }
        string snapshot = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", deleted);
        snapshot = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", expired, "--from", snapshot);
        snapshot = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--version", alive, "--from", snapshot);
        using var own = new Workspace();
        await using var other = new ProxyDeployment(own, new ProxySetup());
        await other.StartAsync();
        (int code, string told) = await LoadAsync(other.Port, snapshot, "--expiries", "none");
        Assert.True(code == 0, told);
        using RespClient loaded = await other.ConnectAsync();
        Assert.Equal("v", (await loaded.DoAsync("GET", "k")).Text);
    }

    // Of two shards, put into three; the bases have moved, to beside it.
    [Fact]
    public async Task TwoShards_AChain_IsThatOfAllKeys_AndThreeShardsTakeIt()
    {
        using var workspace = new Workspace();
        using var apart = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        for (int i = 0; i < 2000; i++) { await Of(i).DoAsync("SET", cluster.Key(i % 2, $"key:{i}"), Text(i)); }
        string first = await SnapshotTests.TakeAsync(workspace, cluster.Port(0));
        for (int i = 0; i < 100; i++) { await Of(i).DoAsync("SET", cluster.Key(i % 2, $"key:{i}"), "changed"); }
        for (int i = 100; i < 150; i++) { await Of(i).DoAsync("DEL", cluster.Key(i % 2, $"key:{i}")); }
        // The same as before, and taken all the same.
        for (int i = 150; i < 200; i++) { await Of(i).DoAsync("SET", cluster.Key(i % 2, $"key:{i}"), Text(i)); }
        for (int i = 0; i < 10; i++) { await Of(i).DoAsync("HSET", cluster.Key(i % 2, $"new:{i}"), "f", "v"); }
        string second = await SnapshotTests.TakeAsync(workspace, cluster.Port(1), "--from", first);
        JsonElement[] shards = [.. Manifest(second).GetProperty("shards").EnumerateArray()];
        Assert.Equal(160, shards.Sum(s => s.GetProperty("keys").GetInt64()));
        Assert.Equal(50, shards.Sum(s => s.GetProperty("removed").GetProperty("keys").GetInt64()));
        await one.DoAsync("FLUSHALL");
        string third = await SnapshotTests.TakeAsync(workspace, cluster.Port(0), "--from", second);
        Assert.Equal(0, Manifest(third).GetProperty("shards").EnumerateArray().Sum(s => s.GetProperty("keys").GetInt64()));
        // Back to the second instant, from the third.
        string version = Path.GetFileName(second).Split('-')[^1];
        string back = await TakeAsync(apart, cluster.Port(0), "--version", version, "--from", third);
        string all = await TakeAsync(new Workspace(), cluster.Port(0), "--version", version);

        // What is at hand for a plain Redis: the values load, and the removals are commands.
        await PlainTakesAsync(workspace, second);

        string moved = workspace.Folder("moved");
        foreach (string directory in (string[])[first, second, third, back])
        {
            Directory.Move(directory, Path.Combine(moved, Path.GetFileName(directory) + (directory == back ? "-back" : "")));
        }
        await using var other = new ClusterDeployment(new Workspace(), 3, usesPostgres: false);
        await other.StartAsync();
        foreach (string directory in (string[])[Path.Combine(moved, Path.GetFileName(back) + "-back"), Path.Combine(moved,
            Path.GetFileName(second))])
        {
            for (int shard = 0; shard < 3; shard++)
            {
                using RespClient client = await other.ConnectAsync(shard);
                await client.DoAsync("FLUSHALL");
            }
            (int code, string told) = await LoadAsync(other.Port(1), directory);
            Assert.True(code == 0, told);
            Assert.Contains("1960 keys loaded", told);
            string again = await TakeAsync(new Workspace(), other.Port(2));
            Assert.Equal(await BackupPastTests.DigestAsync(workspace, all, 2), await BackupPastTests.DigestAsync(workspace, again, 3));
        }

        RespClient Of(int i) => i % 2 == 0 ? one : two;
    }

    [Fact]
    public async Task WhatDoesNotFit_IsRefusedByName()
    {
        using var workspace = new Workspace();
        using var elsewhere = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "first");
        await client.DoAsync("SET", "gone", "x");
        string first = await SnapshotTests.TakeAsync(workspace, deployment.Port);
        await client.DoAsync("SET", "k", "second");
        await client.DoAsync("DEL", "gone");
        string second = await SnapshotTests.TakeAsync(workspace, deployment.Port, "--from", first);

        // Of another cluster, though of the same name.
        await using var other = new ProxyDeployment(elsewhere, new ProxySetup());
        await other.StartAsync();
        using RespClient stranger = await other.ConnectAsync();
        await stranger.DoAsync("SET", "k", "strange");
        await Task.Delay(500);
        (int code, string told) = await TryTakeAsync(workspace, other.Port, first);
        Assert.Equal(1, code);
        Assert.True(told.Contains("is a snapshot of another cluster", StringComparison.Ordinal)
            || told.Contains("is not committed", StringComparison.Ordinal) || told.Contains("is not kept", StringComparison.Ordinal), told);
        Assert.Contains("leave --from out", told);
        (code, told) = await TryTakeAsync(workspace, deployment.Port, workspace.Folder("nothing"));
        Assert.Equal(1, code);
        Assert.Contains("is no snapshot: it has no manifest.json", told);

        await client.DoAsync("FUNCTION", "LOAD", RandomCommands.Library);
        (code, told) = await TryTakeAsync(workspace, deployment.Port, second);
        Assert.Equal(1, code);
        Assert.Contains("functions were changed", told);
        Assert.Contains("without --from", told);
        Assert.Contains("it is DPR.SNAPSHOT BEGIN", (await client.CallAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0", "SINCE", "x")).Text);
        // Nothing of these is left.
        Assert.Equal(2, Directory.GetDirectories(workspace.Folder("snapshots")).Length);

        // What a chain is made of.
        string manifest = Path.Combine(first, "manifest.json"), text = await File.ReadAllTextAsync(manifest);
        await File.WriteAllTextAsync(manifest, text + "\n");
        Assert.Contains("is another snapshot", await LoadRefusedAsync(other.Port, second));
        await File.WriteAllTextAsync(manifest, text);
        Directory.Move(first, first + ".away");
        Assert.Contains("which is neither at", await LoadRefusedAsync(other.Port, second));
        Directory.Move(first + ".away", first);
        string removed = Path.Combine(second, "shard-0.removed");
        string commands = await File.ReadAllTextAsync(removed);
        await File.WriteAllTextAsync(removed, commands.Replace("gone", "lost", StringComparison.Ordinal));
        Assert.Contains("shard-0.removed is damaged", await LoadRefusedAsync(other.Port, second));
        await File.WriteAllTextAsync(removed, commands);
        await stranger.DoAsync("FLUSHALL");
        (code, told) = await LoadAsync(other.Port, second);
        Assert.True(code == 0, told);
        Assert.Equal("second", (await stranger.DoAsync("GET", "k")).Text);
        Assert.Equal(0, (await stranger.DoAsync("EXISTS", "gone")).AsInteger());
    }

    private static int DatabaseSizes(List<Seen> keys) => keys.Count(k => k.Type != "none");

    private static async Task PlainTakesAsync(Workspace workspace, string directory)
    {
        JsonElement shard = Manifest(directory).GetProperty("shards").EnumerateArray().Single(s => s.GetProperty("shard").GetInt64() == 0);
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("plain"),
            "--dir", directory, "--dbfilename", shard.GetProperty("file").GetString()!);
        using RespClient client = await redis.ConnectAsync();
        Assert.Equal(shard.GetProperty("keys").GetInt64(), (await client.DoAsync("DBSIZE")).AsInteger());
        JsonElement removed = shard.GetProperty("removed");
        await client.WriteAsync(await File.ReadAllBytesAsync(Path.Combine(directory, removed.GetProperty("file").GetString()!)));
        for (long i = removed.GetProperty("keys").GetInt64(); i > 0; i--)
        {
            Assert.False((await client.ReadAsync()).IsError);
        }
        Assert.Equal("PONG", (await client.DoAsync("PING")).Text);
    }

    private static JsonElement Manifest(string directory) =>
        JsonDocument.Parse(File.ReadAllText(Path.Combine(directory, "manifest.json"))).RootElement;

    private static Task<string> TakeAsync(Workspace workspace, int port, params string[] options) =>
        SnapshotTests.TakeAsync(workspace, port, options);

    private static Task<(int Code, string Output)> TryTakeAsync(Workspace workspace, int port, string from) =>
        ProxyProcess.CommandAsync(["snapshot", "--address", At(port), "--to", workspace.Folder("snapshots"), "--from", from]);

    private static Task<(int Code, string Output)> LoadAsync(int port, string directory, params string[] options) =>
        ProxyProcess.CommandAsync(["load", "--address", At(port), "--from", directory, .. options]);

    private static async Task<string> LoadRefusedAsync(int port, string directory)
    {
        (int code, string told) = await LoadAsync(port, directory);
        Assert.Equal(1, code);
        Assert.Contains("nothing was loaded", told);
        return told;
    }

    private static string At(int port) => string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}");
}
