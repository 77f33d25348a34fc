// slogger reset of more than a proxy keeps in memory: after a FLUSHALL all values are there again, and none if it does not come to its end.
using System.Buffers;
using System.Text.Json;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.ResetSteps;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class LargeResetTests(ITestOutputHelper output)
{
    // 150 MB.
    private const int Count = 1500;
    private const int Killed = 137;
    private const int AtOnce = 20;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(1);

    private static string Value(int i) => string.Concat(Enumerable.Repeat($"{i:00000}", 20_000));

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task FlushedStore_IsThereAgain_OrAsItWasIfTheProcessDies(bool isEmbedded)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 1, usesPostgres: false)
        {
            Embedded = isEmbedded ? 1 : 0, EmbeddedOptions = [.. EmbeddedPastTests.Shown, "--faster-memory", "2gb"],
            Options = ["--retention", "1h"],
        };
        await cluster.StartAsync();
        string version;
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            await WriteAllAsync(client);
            version = await VersionNowAsync(client);
            await client.DoAsync("FLUSHALL");
            await client.DoAsync("MSET", "since", "1", "value:3", "1");
            await client.DoAsync("WAITAOF", "1", "0", "0");
        }
        // Killed in the midst of the writes.
        cluster.KillProxy(0);
        await cluster.StartProxyAsync(0, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "reset-part-written" });
        (int code, string told) = await ProxyProcess.CommandAsync("reset", "--address", At(cluster.Port(0)), "--to", version);
        output.WriteLine(told);
        Assert.Equal(1, code);
        Assert.Contains($"{Count + 1} keys, ", told);
        Assert.Equal(Killed, await cluster.ExitAsync(0, s_limit));
        await cluster.StartProxyAsync(0);
        Assert.False(Directory.Exists(Path.Combine(cluster.Data(0), "reset")), "files are left");
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            Assert.Equal((2, "1"), ((await client.DoAsync("DBSIZE")).AsInteger(), (await client.DoAsync("GET", "since")).Text));
            if (!isEmbedded) { await RefusedForMemoryAsync(cluster, client, version); }
        }

        JsonElement report = await ResetAsync(cluster.Port(0), version);
        output.WriteLine(report.GetRawText());
        Assert.InRange(report.GetProperty("bytes").GetInt64(), Count * 100_000L, Count * 101_000L);
        Assert.InRange(report.GetProperty("expected_ms").GetInt64(), 1000, 60_000);
        using RespClient after = await cluster.ConnectAsync(0);
        Assert.Equal(Count, (await after.DoAsync("DBSIZE")).AsInteger());
        for (int i = 0; i < Count; i++) { Assert.Equal(Value(i), (await after.DoAsync("GET", $"value:{i}")).Text); }
    }

    // What is deleted makes room at once, and not when Redis gets to it: the values follow.
    [Fact]
    public async Task MemoryIsFullOfWhatCameSince_IsSetBack()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        for (int i = 0; i < 100; i++) { await client.DoAsync("SET", $"value:{i}", Value(i)); }
        string version = await VersionNowAsync(client);
        await client.DoAsync("FLUSHALL");
        for (int i = 0; i < 100; i++)
        {
            await client.DoAsync(["SADD", $"set:{i % 20}", .. Enumerable.Range(i * 5000, 5000).Select(m => $"member:{m}")]);
        }
        string used = (await client.DoAsync("INFO", "memory")).Text.Split("used_memory:")[1].Split("\r\n")[0];
        await client.DoAsync("CONFIG", "SET", "maxmemory", used);
        JsonElement report = await ResetAsync(deployment.Port, version);
        Assert.Equal(120, report.GetProperty("keys").GetInt64());
        using RespClient after = await deployment.ConnectAsync();
        Assert.Equal(100, (await after.DoAsync("DBSIZE")).AsInteger());
        for (int i = 0; i < 100; i++) { Assert.Equal(Value(i), (await after.DoAsync("GET", $"value:{i}")).Text); }
    }

    // A part of it was written when Redis had no more memory.
    private static async Task RefusedForMemoryAsync(ClusterDeployment cluster, RespClient client, string version)
    {
        await client.DoAsync("CONFIG", "SET", "maxmemory", "50mb");
        long line = await cluster.NumberAsync(0, "worldline");
        (int code, string told) = await ProxyProcess.CommandAsync("reset", "--address", At(cluster.Port(0)), "--to", version);
        Assert.Equal(1, code);
        Assert.Contains("OOM", told);
        // Clients are told of the world-line with which the part is undone.
        await Eventually.AsyncTrue("it serves again", s_limit, async () => await cluster.NumberAsync(0, "worldline") > line
            && await cluster.InfoAsync(0, "store_state") == "serving");
        using RespClient after = await cluster.ConnectAsync(0);
        Assert.Equal(2, (await after.DoAsync("DBSIZE")).AsInteger());
        Assert.Equal("1", (await after.DoAsync("GET", "value:3")).Text);
        await after.DoAsync("CONFIG", "SET", "maxmemory", "0");
    }

    private static async Task WriteAllAsync(RespClient client)
    {
        foreach (int[] some in Enumerable.Range(0, Count).Chunk(AtOnce))
        {
            var commands = new ArrayBufferWriter<byte>();
            foreach (int i in some) { RespClient.Append(commands, ["SET", $"value:{i}", Value(i)]); }
            await client.WriteAsync(commands.WrittenMemory);
            for (int i = 0; i < some.Length; i++) { Assert.Equal("OK", (await client.ReadAsync(s_limit)).Text); }
        }
    }
}
