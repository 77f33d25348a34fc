// A cohort whose shard is one of two; the other one has a process alone, which answers early. So the other one can lose what was answered,
// and have this one go back with it: with its followers, whose stores must not have gone further than the recorded cut.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class SeveralShardsTests(ITestOutputHelper output)
{
    private const int Keys = 200;

    // By their slots.
    private const string Here = "{b}", There = "{a}";

    [Fact]
    public async Task OtherShard_IsLeftByATakeover_TakesAllNodesBackByALoss_AndGoesOnWithTheLastNode()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace)
        {
            OptionsOf = _ => ["--shards", "2", "--shard", "0", "--reads-stale-max", "10s"],
        };
        await using var other = new OtherShard(workspace, nodes);
        ProxyProcess alone = other.Process;
        try
        {
            await nodes.StartAsync();
            await alone.ReadyAsync();
            await ATakeoverAsync(nodes, alone);
            await ALossOfTheOtherAsync(nodes, alone, other.Data);
            await ALossOfAMajorityAsync(nodes, alone);
        }
        catch (Exception)
        {
            output.WriteLine(alone.Tail());
            output.WriteLine(nodes.Tail());
            throw;
        }
    }

    private static async Task ATakeoverAsync(CohortNodes nodes, ProxyProcess alone)
    {
        int first = await nodes.LeaderAsync();
        await nodes.FillAsync(first, Here + "k", Keys);
        long line = await nodes.NumberAsync(first, "worldline");
        using RespClient client = await alone.ConnectAsync();
        await LedToAsync(nodes, client, first);

        await nodes.KillAsync(first);
        int next = await nodes.LeaderAsync(but: first);

        Assert.Empty(await nodes.MissingAsync(next, Here + "k", Keys));
        Assert.Equal(line, await nodes.NumberAsync(next, "worldline"));
        await LedToAsync(nodes, client, next);
        // The cut goes on, for which both are needed.
        Assert.Equal("+OK", (await client.CallAsync("SET", There + "k", "1")).Compact);
        Assert.Equal(1, (await client.CallAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        await nodes.StartAsync(first);
        await nodes.FollowsAsync(first);
        // Any node sends a client to the other shard.
        using RespClient follower = await nodes.ConnectAsync(first);
        Assert.Equal($"-MOVED 15495 127.0.0.1:{Text(alone.Port)}", (await follower.CallAsync("GET", There + "k")).Compact);
        Assert.Equal(2, (await follower.CallAsync("CLUSTER", "SLOTS")).Items.Count);
    }

    private static async Task ALossOfTheOtherAsync(CohortNodes nodes, ProxyProcess alone, string data)
    {
        int leader = await nodes.LeaderAsync();
        long line = await nodes.NumberAsync(leader, "worldline");
        // Its Redis may have had time to tell all that it had done.
        for (int i = 0; await nodes.NumberAsync(leader, "worldline") == line; i++)
        {
            Task<int> appending = AppendAsync(nodes, leader);
            await LoseAsync(nodes, alone, data, i);
            await appending;
            leader = await nodes.LeaderAsync();
        }
        await nodes.SetAsync(Here + "after", "1");
        string? list = null;
        for (int i = 0; i < CohortNodes.Count; i++)
        {
            int node = (leader + i) % CohortNodes.Count;
            await nodes.EventuallyAsync($"node {CohortNodes.NameOf(node)} has what came after", async () =>
                (await nodes.AskAsync(node, "GET", Here + "after"))?.Compact == "$1");
            Assert.Empty(await nodes.MissingAsync(node, Here + "k", Keys));
            string? own = (await nodes.AskAsync(node, "LRANGE", Here + "list", "0", "-1"))?.Compact;
            Assert.Equal(list ??= own, own);
        }
    }

    // The other shard serves while one node goes on by itself, without what it lacks.
    private static async Task ALossOfAMajorityAsync(CohortNodes nodes, ProxyProcess alone)
    {
        int leader = await nodes.LeaderAsync(), left = (leader + 1) % CohortNodes.Count;
        await nodes.FollowsAsync(left);
        await nodes.KillAsync(left);
        await nodes.SetAsync(Here + "lost", "1");
        using RespClient client = await alone.ConnectAsync();
        Assert.Equal("+OK", (await client.CallAsync("SET", There + "kept", "1")).Compact);
        Assert.Equal(1, (await client.CallAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        long line = await nodes.NumberAsync(leader, "worldline");
        for (int i = 0; i < CohortNodes.Count; i++) { await nodes.KillAsync(i); }

        (int code, string said) = await nodes.RestoreAsync(left, "--latest", "--keep", "--i-accept-loss");
        Assert.True(code == 0, said);
        await nodes.StartAloneAsync(left, "--shards", "2", "--shard", "0");
        Assert.True(await nodes.NumberAsync(left, "worldline") > line);
        Assert.Empty(await nodes.MissingAsync(left, Here + "k", Keys));
        Assert.Equal("_", (await nodes.AskAsync(left, "GET", Here + "lost"))?.Compact);
        await nodes.EventuallyAsync("the other shard goes on with it", async () =>
        {
            try
            {
                using RespClient again = await alone.ConnectAsync();
                return (await again.CallAsync("GET", There + "kept")).Compact == "$1"
                    && (await again.CallAsync("SET", There + "more", "1")).Compact == "+OK"
                    && (await again.CallAsync("DPR.WAIT", "*", "5000")) is { IsError: false } reply && reply.Items[2].AsInteger() == 1;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
    }

    // While both shards are written to.
    private static async Task LoseAsync(CohortNodes nodes, ProxyProcess alone, string data, int round)
    {
        await nodes.EventuallyAsync("the other shard takes writes, and loses its Redis", async () =>
        {
            try
            {
                using RespClient client = await alone.ConnectAsync();
                for (int i = 0; i < 5_000; i++) { await client.SendAsync("SET", There + Text(i), Text(round)); }
                for (int i = 0; i < 5_000; i++)
                {
                    if ((await client.ReadAsync(CohortNodes.Generous)).IsError) { return false; }
                }
                return await SupervisedRedis.KillAsync(data);
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
        await nodes.EventuallyAsync("the other shard serves again", async () =>
        {
            try
            {
                using RespClient client = await alone.ConnectAsync();
                return !(await client.CallAsync("SET", There + "again", "1")).IsError;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
    }

    // Until the connection ends, or all is done: it is taken back with the other shard's loss.
    private static async Task<int> AppendAsync(CohortNodes nodes, int leader)
    {
        int answered = 0;
        try
        {
            using RespClient client = await nodes.ConnectAsync(leader);
            for (; answered < 2_000; answered++)
            {
                if ((await client.CallAsync("RPUSH", Here + "list", Text(answered))).IsError) { break; }
            }
        }
        catch (ConnectionLostException)
        {
            // As it says.
        }
        return answered;
    }

    private static Task LedToAsync(CohortNodes nodes, RespClient client, int node) => nodes.EventuallyAsync(
        $"clients are led to node {CohortNodes.NameOf(node)}", async () =>
            (await client.CallAsync("GET", Here + "k:1")).Compact == $"-MOVED 3300 {nodes.Endpoint(node)}");

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
