// A cluster whose keys are cut into ranges, on real processes: what clients are told, what slogger move says, what is refused.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Resp;
using RespValue = Slogger.Integration.Tests.Wire.RespValue;

namespace Slogger.Integration.Tests.Ranges;

/// <summary>Three shards with ten ranges: 0 to 2, 3 to 6, 7 to 9.</summary>
public sealed class RangeCluster : IAsyncLifetime
{
    private readonly Workspace _workspace = new();

    public RangeCluster() => Shards = new(_workspace, shards: 3, usesPostgres: false) { Partitions = ClusterDeployment.TenRanges };

    internal ClusterDeployment Shards { get; }

    internal string File(string name) => _workspace.File(name);

    /// <inheritdoc />
    public async ValueTask InitializeAsync()
    {
        await Shards.StartAsync();
        await Shards.ServingAsync();
    }

    /// <inheritdoc />
    public async ValueTask DisposeAsync()
    {
        await Shards.DisposeAsync();
        _workspace.Dispose();
    }
}

public sealed class RangeClusterTests(RangeCluster cluster) : IClassFixture<RangeCluster>
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private ClusterDeployment Shards => cluster.Shards;

    [Fact]
    public async Task Requests_OfPlainClients_AreServedOrSentToTheRangesOwner()
    {
        using RespClient first = await Shards.ConnectAsync(0);
        Assert.Equal("+OK", (await first.CallAsync("SET", "2:a", "1")).Compact);
        Assert.Equal("+OK", (await first.CallAsync("MSET", "1:a", "1", "1:zzz", "2")).Compact);
        Assert.Equal("+OK", (await first.CallAsync("SET", "", "below all")).Compact);
        foreach ((string key, int partition, int shard) in new[] { ("3", 3, 1), ("3:{1}", 3, 1), ("6~", 6, 1), ("7", 7, 2), ("9", 9, 2),
            ("user", 9, 2) })
        {
            Assert.Equal($"MOVED {partition} 127.0.0.1:{Shards.Port(shard)}", (await first.CallAsync("GET", key)).Text);
        }

        // One rule: all keys in one range, whosever they are.
        Assert.StartsWith("CROSSSLOT ", (await first.CallAsync("MGET", "1:a", "2:a")).Text, StringComparison.Ordinal);
        await first.DoAsync("MULTI");
        await first.DoAsync("SET", "1:a", "3");
        await first.DoAsync("SET", "1:b", "4");
        Assert.Equal(["OK", "OK"], (await first.DoAsync("EXEC")).Items.Select(i => i.Text));
        await first.DoAsync("MULTI");
        await first.DoAsync("SET", "1:a", "5");
        await first.DoAsync("SET", "2:a", "5");
        Assert.StartsWith("CROSSSLOT ", (await first.CallAsync("EXEC")).Text, StringComparison.Ordinal);
        Assert.Equal("3", (await first.DoAsync("GET", "1:a")).Text);
        Assert.Equal("MOVED 5 127.0.0.1:" + Shards.Port(1), (await first.CallAsync("SET", "5", new string('x', 1 << 20))).Text);
        Assert.Equal(2, (await first.DoAsync("EVAL", "redis.call('SET', KEYS[1], 'x') return #KEYS", "2", "2:b", "2:c")).Number);
    }

    [Fact]
    public async Task Answers_OfAClusterWithRanges_NameItsNumbersAndSplitKeys()
    {
        using RespClient client = await Shards.ConnectAsync(1);
        Assert.Equal([0, 3, 7], (await client.DoAsync("CLUSTER", "SLOTS")).Items.Select(r => r.Items[0].Number));
        Assert.Equal([2, 6, 9], (await client.DoAsync("CLUSTER", "SLOTS")).Items.Select(r => r.Items[1].Number));
        Assert.Contains(" 3-6\n", (await client.DoAsync("CLUSTER", "NODES")).Text, StringComparison.Ordinal);
        string info = (await client.DoAsync("CLUSTER", "INFO")).Text;
        Assert.Contains("cluster_state:ok\r\ncluster_slots_assigned:10\r\n", info, StringComparison.Ordinal);
        Assert.Equal([0L, 4, 9], new[] { "", "42", "x" }.Select(k => client.DoAsync("CLUSTER", "KEYSLOT", k).Result.Number));
        // Other tests may have keys there.
        long before = (await client.DoAsync("CLUSTER", "COUNTKEYSINSLOT", "4")).Number;
        await client.DoAsync("MSET", "4:counted:x", "1", "4:counted:y", "1");
        Assert.Equal(before + 2, (await client.DoAsync("CLUSTER", "COUNTKEYSINSLOT", "4")).Number);
        Assert.Equal("ERR Invalid slot", (await client.CallAsync("CLUSTER", "COUNTKEYSINSLOT", "10")).Text);
        RespValue partitions = await client.DoAsync("DPR.PARTITIONS");
        Assert.Equal("range", partitions.Items[0].Text);
        Assert.Equal("123456789", string.Concat(partitions.Items[1].Items.Select(i => i.Text)));
        RespValue[] hello = [.. (await client.DoAsync("DPR.HELLO", "1", new string('a', 32))).Items];
        Assert.Equal("range", hello[Array.FindIndex(hello, h => h.Text == "partitions") + 1].Text);
        Assert.Equal("range,10", await Shards.InfoAsync(1, "partitions"));
        (int exit, string status) = await ProxyProcess.CommandAsync(["status", $"127.0.0.1:{Shards.Port(1)}", "--json"]);
        Assert.Equal(0, exit);
        Assert.Contains("\"partitions\": \"range,10\"", status, StringComparison.Ordinal);
    }

    [Fact]
    public async Task RedisCli_ThatFollowsMoved_ReachesEveryKey()
    {
        var keys = Enumerable.Range(0, 10).Select(i => Shards.KeyIn(i, "cli"));
        foreach (string key in keys)
        {
            (int exit, string text) = await ChildProcess.RunAsync(
                "redis-cli", ["-c", "-p", Shards.Port(0).ToString(CultureInfo.InvariantCulture), "SET", key, key]);
            Assert.True(exit == 0 && text.Split('\n').Contains("OK"), text);
        }

        await using SloggerClient client = await ClientCluster.ConnectAsync(Shards);
        await using SloggerSession session = client.OpenSession();
        foreach (string key in keys) { Assert.Equal(key, (await session.GetAsync(key)).Value); }
    }

    [Fact]
    public async Task Client_OfOneProxy_LearnsTheRangesAndGoesStraightToTheOwner()
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(Shards.Endpoint(2).ToString()!);
        Assert.Equal(ClusterDeployment.TenRanges, client.Partitions);
        await using SloggerSession session = client.OpenSession();
        int[] shards = [0, 0, 0, 1, 1, 1, 1, 2, 2, 2];
        for (int partition = 0; partition < 10; partition++)
        {
            string key = Shards.KeyIn(partition, "straight");
            Assert.Equal(shards[partition], (await session.SetAsync(key, partition)).Shard.Number);
            Result<Slogger.Resp.RespValue> both = await session.TransactionAsync([["SET", key + ":1", "a"], ["GET", key]]);
            Assert.Equal($"[OK, {partition}]", both.Value.ToString());
            Assert.Equal(shards[partition], both.Shard.Number);
        }

        // Nothing was sent on: each operation has one number.
        Assert.Equal(10 + (10 * 4), session.LastSent.Number);
        await Assert.ThrowsAsync<RedisErrorException>(async () =>
            await session.ExecuteAsync("MGET", Shards.KeyIn(1, "a"), Shards.KeyIn(2, "a")));
        await session.WaitForCommitAsync().WaitAsync(Generous);
    }

    [Theory]
    [InlineData("range:1,2,3", "made with --partitions range:1,2,3,4,5,6,7,8,9, not range:1,2,3,")]
    [InlineData("hash", "made with --partitions range:1,2,3,4,5,6,7,8,9, not hash,")]
    public async Task Start_WithOtherPartitions_IsRefusedClearly(string partitions, string what)
    {
        using ProxyProcess proxy = ProxyProcess.Launch(Workspace.FreePort(),
            ["--redis-server", RedisProcess.Executable, "--data", cluster.File("other"), "--metadata", Shards.Metadata, "--shard", "0",
                "--partitions", partitions]);
        Assert.NotEqual(0, await proxy.ExitAsync(Generous));
        Assert.Contains(what, proxy.Tail(), StringComparison.Ordinal);
        Assert.Contains("leave --partitions out", proxy.Tail(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Move_WhatCannotBe_IsRefusedInWords()
    {
        foreach ((string[] arguments, int exit, string what) in new (string[], int, string)[]
        {
            (["--partitions", "10", "--to", "1"], 1, "there are partitions 0 to 9, and no 10"),
            (["--slots", "0-99", "--to", "1"], 1, "there are partitions 0 to 9, and no 99"),
            (["--partitions", "10", "--cancel"], 1, "there are partitions 0 to 9"),
            (["--partitions", "x", "--to", "1"], 2, "--partitions \"x\" has \"x\""),
            (["--partitions", "1", "--slots", "1", "--to", "1"], 2, "both given"),
            (["--partitions", "1", "--to", "0"], 1, "owns"),
            (["--partitions", "1", "--cancel"], 1, "no unfinished move has any of the partitions 1"),
        })
        {
            (int found, string text) = await Shards.MoveAsync(arguments);
            Assert.True(exit == found, $"{string.Join(' ', arguments)}: {found}\n{text}");
            Assert.Contains(what, text, StringComparison.Ordinal);
        }

        (int listed, string owners) = await Shards.MoveAsync("--list");
        Assert.Equal(0, listed);
        Assert.Contains("partitions 0-2 (keys below \"3\"): shard 0", owners, StringComparison.Ordinal);
        Assert.Contains("partitions 3-6 (keys from \"3\", below \"7\"): shard 1", owners, StringComparison.Ordinal);
        Assert.Contains("partitions 7-9 (keys from \"7\"): shard 2", owners, StringComparison.Ordinal);
    }
}
