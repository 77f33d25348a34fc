// slogger find: a write that breaks what has always held is found by name, among the writes of clients that keep to it.
using System.Globalization;
using System.Text.Json;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

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
            Assert.Contains($"DECRBY {first} {Text(stolen)}", Commands(found));
            // So it is: true there, and not true before.
            long version = Version(found, "at"), before = Version(found, "before");
            Assert.True(before < version);
            Assert.True(await SumAsync(version) < 2000);
            Assert.True(await SumAsync(before) >= 2000);

            async Task<long> SumAsync(long asOf) => Number(await one.DoAsync("DPR.ASOF", "VERSION", Text(asOf), "GET", first))
                + Number(await two.DoAsync("DPR.ASOF", "VERSION", Text(asOf), "GET", second));
        }
    }

    // The same, and nobody says which accounts there are.
    [Fact]
    public async Task PlantedViolation_InTheWholeStore_IsFoundByName_InOrderAndByHalves()
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        RespClient[] shards = [await cluster.ConnectAsync(0), await cluster.ConnectAsync(1)];
        string[][] accounts = [.. Enumerable.Range(0, 2).Select(s => Enumerable.Range(0, 5).Select(a =>
            cluster.Key(s, $"account:{a}:")).ToArray())];
        for (int a = 0; a < 10; a++) { await shards[a % 2].DoAsync("SET", accounts[a % 2][a / 2], "1000"); }
        string start = Text((await shards[0].DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
        start = Text((await shards[1].DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
        int transfers = random.Next(40, 80), at = random.Next(transfers);
        string thief = accounts[0][random.Next(5)];
        for (int i = 0; i < transfers; i++)
        {
            string amount = Text(random.Next(1, 100));
            int from = random.Next(2);
            await shards[1 - from].DoAsync("INCRBY", accounts[1 - from][random.Next(5)], amount);
            await shards[from].DoAsync("DECRBY", accounts[from][random.Next(5)], amount);
            if (i == at) { await shards[0].DoAsync("DECRBY", thief, "333"); }
            if (random.Next(4) == 0) { await Task.Delay(random.Next(12)); }
        }
        const string Sum = """
            local sum = 0
            for _, key in ipairs(redis.call('KEYS', 'account:*')) do sum = sum + redis.call('GET', key) end
            return sum
            """;
        string[] what = ["--from", start, "--when", Sum, "--sum", "< 10000"];
        JsonElement first = await FindAsync(cluster, 1, [.. what, "--first"]);
        Assert.Contains($"DECRBY {thief} 333", Commands(first));
        Assert.True(first.GetProperty("is_first").GetBoolean());
        long version = Version(first, "at"), before = Version(first, "before");
        // It stays true, so there is one place only.
        JsonElement half = await FindAsync(cluster, 0, [.. what, "--bisect"]);
        Assert.Equal(version, Version(half, "at"));
        // Nothing was done between the one and the other.
        Assert.InRange(Version(half, "before"), before, version - 1);
        Assert.Contains($"DECRBY {thief} 333", Commands(half));
        Assert.False(half.GetProperty("is_first").GetBoolean());
        // As many as the number of versions has binary digits, both ends, and the last one once more.
        Assert.InRange(half.GetProperty("asked").GetInt32(), 3, 4 + 20);
        JsonElement steps = await FindAsync(cluster, 0, [.. what, "--first", "--step", "30ms"]);
        Assert.InRange(Version(steps, "before"), 0, before);
        Assert.True(Version(steps, "at") >= version);
        Assert.True(steps.GetProperty("asked").GetInt32() <= first.GetProperty("asked").GetInt32());
        foreach (RespClient shard in shards) { shard.Dispose(); }
    }

    [Fact]
    public async Task Condition_OfTheWholeStore_TrueForAWhile_AtOnce_OrWrong()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        using RespClient client = await cluster.ConnectAsync(1);
        await client.DoAsync("SET", cluster.Key(1, "a"), "1");
        string from = Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
        await client.DoAsync("FLUSHALL");
        await client.DoAsync("WAITAOF", "1", "0", "0");
        await Task.Delay(30);
        await client.DoAsync("SET", cluster.Key(1, "b"), "2");
        string[] empty = ["--when", "redis.call('DBSIZE')", "--sum", "== 0", "--from", from];
        // Which keys differ is not known across it, and it is found all the same.
        JsonElement found = await FindAsync(cluster, 0, [.. empty, "--first"]);
        Assert.Equal("flushall", Commands(found)[0].ToLowerInvariant());
        Assert.Equal(JsonValueKind.Null, found.GetProperty("commands")[0].GetProperty("key").ValueKind);
        await RefusedAsync(1, "the condition is not true at the end", [.. empty, "--bisect"]);
        // At the beginning already, and from the first version that is kept.
        found = await FindAsync(cluster, 0, "--when", "redis.call('DBSIZE')", "--sum", "== 1", "--from", from, "--bisect");
        Assert.Equal(JsonValueKind.Null, found.GetProperty("before").ValueKind);
        Assert.Equal(from, Text(Version(found, "at")));
        found = await FindAsync(cluster, 1, "--when", "redis.call('DBSIZE')", "--sum", "== 1", "--first");
        Assert.True(Version(found, "at") <= long.Parse(from, CultureInfo.InvariantCulture));

        await RefusedAsync(1, "was true at no version", "--when", "redis.call('DBSIZE') > 5", "--first", "--from", from);
        await RefusedAsync(1, "it is no Lua", "--when", "this is no Lua", "--first");
        await RefusedAsync(2, "a key is named", "--when", "true", "--first", "k");
        await RefusedAsync(2, "exclude each other", "--when", "true", "--first", "--bisect");
        await RefusedAsync(2, "--step goes with --first", "--when", "true", "--bisect", "--step", "1s");
        await RefusedAsync(2, "--step \"often\"", "--when", "true", "--first", "--step", "often");
        // Nobody is left who would be in the way.
        await RefusedAsync(1, "was true at no version", "--when", "redis.call('DBSIZE') > 5", "--first", "--from", from);
        Task RefusedAsync(int exitCode, string why, params string[] words) => RefusedByAsync(cluster, exitCode, why, words);
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
        Task RefusedAsync(int exitCode, string why, params string[] words) => RefusedByAsync(cluster, exitCode, why, words);
    }

    private static async Task RefusedByAsync(ClusterDeployment cluster, int exitCode, string why, string[] words)
    {
        (int code, string told) = await ProxyProcess.CommandAsync(["find", "--address", At(cluster, 0), .. words]);
        Assert.True(code == exitCode && told.Contains(why, StringComparison.Ordinal), $"{code}: {told}");
    }

    private static string[] Commands(JsonElement found) => [.. found.GetProperty("commands").EnumerateArray().Select(c =>
        string.Join(' ', c.GetProperty("command").EnumerateArray().Select(w => w.GetString())))];

    private static long Version(JsonElement found, string which) => found.GetProperty(which).GetProperty("version").GetInt64();

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
