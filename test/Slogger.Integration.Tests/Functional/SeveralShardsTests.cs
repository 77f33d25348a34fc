// Three proxies with a Redis each, as people run them: clients of Redis Cluster find their way, and every key is where it
// belongs. What single answers look like is compared with Redis Cluster in Slogger.Proxy.Tests.
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

/// <summary>Three shards, started once for the tests of the class.</summary>
public sealed class ThreeShards : IAsyncLifetime
{
    public const int Count = 3;
    private readonly Workspace _workspace = new();

    internal List<RedisProcess> Stores { get; } = [];

    internal List<ProxyProcess> Proxies { get; } = [];

    /// <inheritdoc />
    public async ValueTask InitializeAsync()
    {
        for (int shard = 0; shard < Count; shard++)
        {
            Stores.Add(await RedisProcess.StartAsync(_workspace.Folder($"redis{shard}")));
            Proxies.Add(await ProxyProcess.StartAsync(Workspace.FreePort(), Options(shard)));
        }

        await Eventually.AsyncTrue("every shard knows all", TimeSpan.FromSeconds(30), async () =>
        {
            foreach (var proxy in Proxies)
            {
                using var client = await proxy.ConnectAsync();
                if (!(await client.DoAsync("CLUSTER", "INFO")).Text.Contains("cluster_size:3", StringComparison.Ordinal)) { return false; }
            }

            return true;
        });
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        foreach (var proxy in Proxies)
        {
            await proxy.TerminateAsync();
            proxy.Dispose();
        }

        foreach (var store in Stores) { store.Dispose(); }
        _workspace.Dispose();
    }

    private string[] Options(int shard) =>
    [
        "--redis", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{Stores[shard].Port}"), "--data",
            _workspace.File($"data{shard}"),
        "--metadata", "sqlite:" + _workspace.File("metadata.db"), "--shards", $"{Count}", "--shard", $"{shard}",
    ];
}

public sealed class SeveralShardsTests(ThreeShards shards) : IClassFixture<ThreeShards>
{
    private static readonly SlotMap Even = SlotMap.Even(ThreeShards.Count);

    [Fact]
    public async Task Keys_SetThroughAClientThatFollowsMoved_AreAllOnTheirOwners()
    {
        const int Keys = 10_000;
        await ClearAsync();
        using var client = await ClusterClient.ConnectAsync(shards.Proxies[0].Port);
        // The half of them without knowing where they belong.
        for (int i = 0; i < Keys; i++)
        {
            if (i == Keys / 2) { client.Misguide(shards.Proxies[1].Port); }
            await client.DoAsync($"key:{i}", "SET", $"key:{i}", $"{i}");
        }

        Assert.InRange(client.Redirections, 1000, Keys);
        long[] expected = new long[ThreeShards.Count];
        for (int i = 0; i < Keys; i++)
        {
            int owner = Owner($"key:{i}");
            expected[owner]++;
            using var direct = i % 500 == 0 ? await shards.Stores[owner].ConnectAsync() : null;
            if (direct is not null) { Assert.Equal($"{i}", (await direct.DoAsync("GET", $"key:{i}")).Text); }
            Assert.Equal($"{i}", (await client.DoAsync($"key:{i}", "GET", $"key:{i}")).Text);
        }

        for (int shard = 0; shard < ThreeShards.Count; shard++)
        {
            using var direct = await shards.Stores[shard].ConnectAsync();
            Assert.Equal(expected[shard], (await direct.DoAsync("DBSIZE")).Number);
        }
    }

    [Fact]
    public async Task RedisCli_OnAnyShard_FindsEveryKey()
    {
        await ClearAsync();
        foreach (string key in (string[])["a", "b", "c", "d", "foo", "{b}x"])
        {
            Assert.EndsWith("OK", await CliAsync(0, "-c", "SET", key, "of-" + key), StringComparison.Ordinal);
            for (int shard = 0; shard < ThreeShards.Count; shard++)
            {
                Assert.EndsWith("of-" + key, await CliAsync(shard, "-c", "GET", key), StringComparison.Ordinal);
            }
        }

        string check = await CliAsync(0, "--cluster", "check", $"127.0.0.1:{shards.Proxies[0].Port}");
        Assert.Contains("All 16384 slots covered", check, StringComparison.Ordinal);
        Assert.Contains("All nodes agree about slots configuration", check, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Pipelines_OfAllKeysToEveryShard_AreAnsweredInOrder()
    {
        await ClearAsync();
        for (int seed = 1; seed <= 10; seed++)
        {
            var random = new Random(seed);
            int shard = random.Next(ThreeShards.Count);
            using var client = await shards.Proxies[shard].ConnectAsync();
            var bytes = new System.Buffers.ArrayBufferWriter<byte>();
            var expected = new List<string>();
            for (int i = 0; i < 500; i++)
            {
                string key = $"k{random.Next(100)}";
                bool isOwn = Owner(key) == shard;
                string[] request = random.Next(4) == 0 ? ["EVAL", $"return {i}", "1", key]
                    : random.Next(3) == 0 ? ["ECHO", $"{i}"] : ["GETRANGE", key, $"{i}", $"{i}"];
                RespClient.Append(bytes, request);
                string moved = $"-MOVED {HashSlot.Of(Encoding.ASCII.GetBytes(key))} 127.0.0.1:{shards.Proxies[Owner(key)].Port}";
                expected.Add(request[0] == "ECHO" ? $"${i}" : !isOwn ? moved : request[0] == "EVAL" ? $":{i}" : "$");
            }

            await client.WriteAsync(bytes.WrittenMemory);
            foreach (string reply in expected)
            {
                string found = (await client.ReadAsync()).Compact;
                Assert.True(reply == found, $"seed {seed}: {found}, expected {reply}");
            }
        }
    }

    [Fact]
    public async Task Writes_OnAllShards_AreCommitted()
    {
        using var client = await ClusterClient.ConnectAsync(shards.Proxies[0].Port);
        for (int i = 0; i < 100; i++) { await client.DoAsync($"c{i}", "SET", $"c{i}", "1"); }
        foreach (var proxy in shards.Proxies)
        {
            Assert.Equal("[:1,:0]", (await (await client.ToAsync(proxy.Port)).DoAsync("WAITAOF", "1", "0", "20000")).Compact);
        }
    }

    [Fact]
    public async Task Transaction_WithAForeignKey_DoesNothing()
    {
        await ClearAsync();
        using var client = await shards.Proxies[Owner("b")].ConnectAsync();
        await client.DoAsync("MULTI");
        await client.DoAsync("SET", "b", "1");
        Assert.StartsWith("-MOVED", (await client.CallAsync("SET", "a", "1")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-EXECABORT", (await client.CallAsync("EXEC")).Compact, StringComparison.Ordinal);
        Assert.Equal("_", (await client.DoAsync("GET", "b")).Compact);
    }

    private static int Owner(string key) => Even.Owner(HashSlot.Of(Encoding.ASCII.GetBytes(key))).Number;

    private async Task ClearAsync()
    {
        foreach (var proxy in shards.Proxies)
        {
            using var client = await proxy.ConnectAsync();
            await client.DoAsync("FLUSHALL");
        }
    }

    private async Task<string> CliAsync(int shard, params string[] arguments)
    {
        string[] where = arguments[0] == "--cluster" ? [] : ["-p", $"{shards.Proxies[shard].Port}"];
        return (await ChildProcess.RunAsync("redis-cli", [.. where, .. arguments])).Output.TrimEnd();
    }
}
