// slogger find: a write that breaks what has always held is found by name, among the writes of clients that keep to it.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Past;

public sealed class FindTests(ITestOutputHelper output)
{
    private const string Balance = "tonumber(redis.call('GET', KEYS[1]) or 0)";

    // Each transfer gives before it takes: the sum never falls below what there was, at no version of both shards.
    [Fact]
    public async Task PlantedViolation_AmongTransfersBetweenShards_IsFoundByName()
    {
        int seeds = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEEDS"), CultureInfo.InvariantCulture, out int n) ? n : 6;
        int begin = int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_TEST_SEED"), CultureInfo.InvariantCulture, out int given)
            ? given : Random.Shared.Next(1_000_000);
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient one = await cluster.ConnectAsync(0), two = await cluster.ConnectAsync(1);
        for (int seed = begin; seed < begin + seeds; seed++)
        {
            output.WriteLine($"seed {seed}");
            var random = new Random(seed);
            string first = cluster.Key(0, $"account:{seed}"), second = cluster.Key(1, $"account:{seed}");
            await one.DoAsync("SET", first, "1000");
            await two.DoAsync("SET", second, "1000");
            // It has no sum before both are there.
            string start = Text((await one.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
            start = Text((await two.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
            int transfers = random.Next(10, 60), at = random.Next(transfers), stolen = random.Next(200, 400);
            for (int i = 0; i < transfers; i++)
            {
                string amount = Text(random.Next(1, 100));
                (RespClient from, string source, RespClient to, string target) = random.Next(2) == 0
                    ? (one, first, two, second) : (two, second, one, first);
                await to.DoAsync("INCRBY", target, amount);
                await from.DoAsync("DECRBY", source, amount);
                if (i == at) { await one.DoAsync("DECRBY", first, Text(stolen)); }
                if (random.Next(4) == 0) { await Task.Delay(random.Next(12)); }
            }
            JsonElement found = await FindAsync(cluster, seed % 2, "--from", start, "--when", Balance, "--sum", "< 2000", first, second);
            string[] commands = [.. found.GetProperty("commands").EnumerateArray().Select(c =>
                string.Join(' ', c.GetProperty("command").EnumerateArray().Select(w => w.GetString())))];
            Assert.Contains($"DECRBY {first} {Text(stolen)}", commands);
            // So it is: true there, and not true before.
            long version = found.GetProperty("at").GetProperty("version").GetInt64();
            long before = found.GetProperty("before").GetProperty("version").GetInt64();
            Assert.True(before < version);
            Assert.True(await SumAsync(version) < 2000);
            Assert.True(await SumAsync(before) >= 2000);

            async Task<long> SumAsync(long asOf) => Number(await one.DoAsync("DPR.ASOF", "VERSION", Text(asOf), "GET", first))
                + Number(await two.DoAsync("DPR.ASOF", "VERSION", Text(asOf), "GET", second));
        }
    }

    [Fact]
    public async Task Condition_OfOneKey_TrueNever_AtOnce_OrWrong()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        string key = cluster.Key(1, "k");
        using RespClient client = await cluster.ConnectAsync(1);
        await client.DoAsync("SET", key, "1");
        string from = Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
        await client.DoAsync("RENAME", key, $"{{{key}}}b");
        await client.DoAsync("WAITAOF", "1", "0", "0");

        // What took the key away names it, too.
        JsonElement found = await FindAsync(cluster, 0, "--when", "return redis.call('EXISTS', KEYS[1]) == 0", "--from", from, key);
        Assert.Equal("RENAME", found.GetProperty("commands")[0].GetProperty("command")[0].GetString());
        // At the beginning already.
        found = await FindAsync(cluster, 0, "--when", $"{Balance} == 1", "--from", from, key);
        Assert.Equal(JsonValueKind.Null, found.GetProperty("before").ValueKind);
        Assert.Equal(from, Text(found.GetProperty("at").GetProperty("version").GetInt64()));

        // The word alone makes it no chunk.
        found = await FindAsync(cluster, 0, "--when", "redis.call('EXISTS', KEYS[1]) == 0 and 'returned' -- so", "--from", from, key);
        Assert.Equal("RENAME", found.GetProperty("commands")[0].GetProperty("command")[0].GetString());

        await RefusedAsync(1, "was true at no version", "--when", $"{Balance} == 5", key);
        await RefusedAsync(1, "it is no Lua", "--when", "this is no Lua", key);
        await RefusedAsync(1, "which is no number", "--when", "'text'", "--sum", "> 1", key);
        await RefusedAsync(2, "is no condition", "--when", Balance, "--sum", "about 5", key);
        await RefusedAsync(2, "no key is named", "--when", Balance);
        await RefusedAsync(2, "it is not said what is looked for", key);
        async Task RefusedAsync(int exitCode, string why, params string[] words)
        {
            (int code, string told) = await ProxyProcess.CommandAsync(["find", "--address", At(cluster, 0), .. words]);
            Assert.Equal((exitCode, true), (code, told.Contains(why, StringComparison.Ordinal)));
        }
    }

    private static async Task<JsonElement> FindAsync(ClusterDeployment cluster, int shard, params string[] words)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(["find", "--address", At(cluster, shard), "--json", .. words]);
        Assert.True(code == 0, told);
        return JsonDocument.Parse(told[told.IndexOf('{')..]).RootElement;
    }

    private static string At(ClusterDeployment cluster, int shard) => $"127.0.0.1:{Text(cluster.Port(shard))}";

    private static long Number(RespValue value) => long.Parse(value.Text, CultureInfo.InvariantCulture);

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
