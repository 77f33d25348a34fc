// slogger get and slogger run: one version at all shards, each key from the shard that has it.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Past;

public sealed class PastCommandTests
{
    private const int Shards = 2;

    // One client writes at both shards in turn, the second never ahead of the first: so it is at any version of both.
    [Fact]
    public async Task TwoShards_UnderWrites_AreSeenAtOneVersion_AlsoWhenSlotsHaveMoved()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, Shards, usesPostgres: false);
        await cluster.StartAsync();
        string first = cluster.Key(0, "n"), second = cluster.Key(1, "n"), list = cluster.Key(1, "list");
        using var stop = new CancellationTokenSource();
        Task writing = WriteAsync(cluster, first, second, stop.Token);
        using (RespClient client = await cluster.ConnectAsync(1)) { await client.DoAsync("RPUSH", list, "a", "b"); }
        List<(long Version, long First, long Second)> seen = [];
        for (int i = 0; i < 8; i++)
        {
            await Task.Delay(60);
            // Of whichever proxy is asked.
            JsonElement report = await GetAsync(cluster, i % Shards, ["--ago", "0s"], first, second);
            seen.Add((report.GetProperty("version").GetInt64(), NumberOf(report, 0), NumberOf(report, 1)));
        }
        await stop.CancelAsync();
        await writing;
        Assert.All(seen, s => Assert.InRange(s.First - s.Second, 0, 1));
        Assert.True(seen[^1].First > seen[0].First, "nothing was written meanwhile");
        // Asked for again, in any order, each says the same.
        foreach ((long version, long a, long b) in seen.AsEnumerable().Reverse())
        {
            JsonElement report = await GetAsync(cluster, 0, ["--version", Text(version)], first, second);
            Assert.Equal((version, a, b), (report.GetProperty("version").GetInt64(), NumberOf(report, 0), NumberOf(report, 1)));
        }
        string[] run = ["run", "--address", At(cluster, 0), "--ago", "0s", "--"];
        (int code, string output) = await ProxyProcess.CommandAsync([.. run, "lrange", list, "0", "-1"]);
        Assert.Equal(0, code);
        Assert.EndsWith("UTC\na\nb\n", output);

        (code, output) = await ProxyProcess.CommandAsync([.. run, "set", list, "x"]);
        Assert.Equal(1, code);
        Assert.Contains("may change data", output);
        (code, output) = await ProxyProcess.CommandAsync(["get", "--address", At(cluster, 0), first]);
        Assert.Equal(2, code);
        Assert.Contains("by one of --at, --ago and --version", output);

        (code, output) = await cluster.MoveAsync("--slots", Text(cluster.SlotOf(first).Number), "--to", "1");
        Assert.True(code == 0, output);
        string[] get = ["get", "--address", At(cluster, 0)];
        await Eventually.AsyncTrue("the move is over, and the past is read", TimeSpan.FromMinutes(1), async () =>
        {
            (code, output) = await ProxyProcess.CommandAsync([.. get, "--ago", "0s", first]);
            return code == 0;
        });
        (code, output) = await ProxyProcess.CommandAsync([.. get, "--version", Text(seen[0].Version), first]);
        Assert.True(code == 0, output);
        Assert.Contains($"{first}: {Text(seen[0].First)}", output);
    }

    private static async Task WriteAsync(ClusterDeployment cluster, string first, string second, CancellationToken stop)
    {
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        while (!stop.IsCancellationRequested)
        {
            await one.DoAsync("INCR", first);
            await two.DoAsync("INCR", second);
        }
    }

    private static async Task<JsonElement> GetAsync(ClusterDeployment cluster, int shard, string[] instant, params string[] keys)
    {
        (int code, string output) = await ProxyProcess.CommandAsync(
            ["get", "--address", At(cluster, shard), "--json", .. instant, .. keys]);
        Assert.True(code == 0, output);
        return JsonDocument.Parse(output).RootElement;
    }

    private static long NumberOf(JsonElement report, int key)
    {
        JsonElement value = report.GetProperty("keys")[key].GetProperty("value");
        return value.ValueKind == JsonValueKind.Null ? 0 : long.Parse(value.GetString()!, CultureInfo.InvariantCulture);
    }

    private static string At(ClusterDeployment cluster, int shard) => $"127.0.0.1:{Text(cluster.Port(shard))}";

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
