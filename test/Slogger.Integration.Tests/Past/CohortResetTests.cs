// slogger reset among replicated shards. A leader is lost, or hands over, behind any step: whoever leads next has all of it, or nothing,
// and so have all shards.
using System.Text.Json;
using Microsoft.Data.Sqlite;
using Slogger.Integration.Tests.Cohorts;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.ResetSteps;
using Step = Slogger.Integration.Tests.Past.ResetStep;

namespace Slogger.Integration.Tests.Past;

public sealed class CohortResetTests(ITestOutputHelper output)
{
    // By their slots, of two shards.
    private const string Here = "{b}k", There = "{a}k";

    private enum Fate
    {
        /// <summary>The machine of a leader is lost.</summary>
        Killed,

        RedisKilled,

        HandedOver,

        /// <summary>It sleeps until another one leads.</summary>
        Stopped,

        /// <summary>Nothing happens to it: nobody asks any more.</summary>
        Forgotten,
    }

    [Fact]
    public async Task ShardAlone_IsSetBackAtAllNodes_AndTheResetCanBeUndone()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { Lease = "3s" };
        await nodes.StartAsync();
        int leader = await AllAsync(nodes);
        string version;
        using (RespClient client = await nodes.ConnectAsync(leader))
        {
            await client.DoAsync("SET", "word", "old");
            await client.DoAsync("HSET", "hash", "f", "old");
            version = await StoreView.VersionNowAsync(client);
            await client.DoAsync("SET", "word", "new");
            await client.DoAsync("DEL", "hash");
            await client.DoAsync("SET", "more", "new");
        }
        long line = await nodes.NumberAsync(leader, "worldline");
        // Also where a follower is named.
        int follower = nodes.Ports[(leader + 1) % CohortNodes.Count];

        JsonElement dry = await ResetAsync(follower, version, "--dry-run");
        Assert.Equal(3, dry.GetProperty("keys").GetInt64());
        await AreAsync(nodes, "$new _ $new");
        JsonElement report = await ResetAsync(follower, version);
        await AreAsync(nodes, "$old $old _");
        Assert.Equal(JsonValueKind.Null, report.GetProperty("world_line").ValueKind);
        await ResetAsync(follower, report.GetProperty("undo_version").GetRawText());
        await AreAsync(nodes, "$new _ $new");
        Assert.Equal(line, await nodes.NumberAsync(await nodes.LeaderAsync(), "worldline"));

        async Task AreAsync(CohortNodes nodes, string expected)
        {
            for (int i = 0; i < CohortNodes.Count; i++)
            {
                string found = "";
                await nodes.EventuallyAsync($"node {CohortNodes.NameOf(i)} has {expected}", async () =>
                {
                    found = string.Join(' ', (await nodes.AskAsync(i, "GET", "word"))?.Compact,
                        (await nodes.AskAsync(i, "HGET", "hash", "f"))?.Compact, (await nodes.AskAsync(i, "GET", "more"))?.Compact);
                    return found == expected;
                });
            }
        }
    }

    [Fact]
    public async Task ShardAlone_LosesItsLeaderBehindAnyStep_AllOfItIsThere_OrNothing()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { Lease = "3s" };
        await nodes.StartAsync();
        await AllAsync(nodes);
        foreach ((Step last, Fate fate) in ((Step, Fate)[])[(Step.AllWritten, Fate.HandedOver), (Step.Held, Fate.Forgotten),
            (Step.AllWritten, Fate.Forgotten), (Step.AllWritten, Fate.Killed), (Step.AllClosed, Fate.Killed), (Step.Committed, Fate.Killed),
            (Step.AllWritten, Fate.RedisKilled), (Step.Committed, Fate.Forgotten)])
        {
            await RoundAsync([nodes], ["k"], last, fate, victim: 0);
        }
    }

    [Fact]
    public Task TwoReplicatedShards_LoseALeaderBehindAnyStep_AllOfItIsThere_OrNothing() => OfTwoAsync(
        (Step.OneClosed, Fate.Killed, 1), (Step.Held, Fate.Killed, 0), (Step.OneWritten, Fate.Killed, 0), (Step.OneWritten, Fate.Killed, 1),
        (Step.AllWritten, Fate.Killed, 1), (Step.OneClosed, Fate.Killed, 0), (Step.AllClosed, Fate.Killed, 0),
        (Step.Committed, Fate.Killed, 1));

    [Fact]
    public Task TwoReplicatedShards_LoseARedis_HandOver_OrAreForgotten_AllOfItIsThere_OrNothing() => OfTwoAsync(
        (Step.OneClosed, Fate.HandedOver, 1), (Step.OneWritten, Fate.RedisKilled, 0), (Step.OneClosed, Fate.RedisKilled, 1),
        (Step.AllWritten, Fate.HandedOver, 0), (Step.OneClosed, Fate.Stopped, 1), (Step.OneWritten, Fate.Forgotten, 0),
        (Step.Committed, Fate.RedisKilled, 0));

    // With early replies whoever leads next begins a world-line anyway, unless it is told that nothing is lost.
    [Fact]
    public async Task ShardAlone_RepliesEarly_LosesItsLeader_AllOfItIsThere_OrNothing()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { Lease = "3s", OptionsOf = _ => ["--replies", "early"] };
        await nodes.StartAsync();
        foreach ((Step last, Fate fate) in ((Step, Fate)[])[(Step.AllWritten, Fate.Killed), (Step.AllWritten, Fate.HandedOver),
            (Step.Committed, Fate.Forgotten)])
        {
            await RoundAsync([nodes], ["k"], last, fate, victim: 0);
        }
    }

    // The other shard has no cohort. Here the command itself manages it.
    [Fact]
    public async Task LeaderDies_BeforeItWritesAnything_NothingIsSetBack_AndTheNextResetIsDone()
    {
        using var workspace = new Workspace();
        bool dies = true;
        await using var nodes = new CohortNodes(workspace)
        {
            Lease = "3s", OptionsOf = _ => ["--shards", "2", "--shard", "0"],
            EnvironmentOf = _ => dies ? new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "reset-marked" } : null,
        };
        await using var other = new OtherShard(workspace, nodes);
        await nodes.StartAsync();
        await other.Process.ReadyAsync();
        int leader = await AllAsync(nodes);
        await WriteAsync("old");
        string version = await CommonVersionAsync(other.Process.Port, There);
        await WriteAsync("new");
        long line = await nodes.NumberAsync(leader, "worldline");

        (int code, string told) = await ProxyProcess.CommandAsync(["reset", "--address", At(other.Process.Port), "--to", version]);
        Assert.True(code == 1, told);
        await nodes.EventuallyAsync("it has ended", () => Task.FromResult(nodes.HasExited(leader)));
        dies = false;
        await nodes.StartAsync(leader);
        Assert.Equal("$new $new", await ReadAsync());
        Assert.True(await nodes.NumberAsync(await nodes.LeaderAsync(), "worldline") > line);
        foreach (int i in Enumerable.Range(0, CohortNodes.Count).Where(i => i != leader)) { await nodes.StartAsync(i); }
        leader = await AllAsync(nodes);
        line = await nodes.NumberAsync(leader, "worldline");
        JsonElement report = await ResetAsync(nodes.Ports[(leader + 1) % CohortNodes.Count], version);
        Assert.Equal("$old $old", await ReadAsync());
        Assert.Equal(line + 1, report.GetProperty("world_line").GetInt64());

        async Task WriteAsync(string value)
        {
            await nodes.SetAsync(Here, value);
            using RespClient client = await other.Process.ConnectAsync();
            await client.DoAsync("SET", There, value);
        }

        async Task<string> ReadAsync()
        {
            string here = (await ReadOfAsync(nodes, Here)).Compact, there = "";
            await nodes.EventuallyAsync("the other shard answers", async () =>
            {
                try
                {
                    using RespClient client = await other.Process.ConnectAsync();
                    there = (await client.DoAsync("GET", There)).Compact;
                    return true;
                }
                catch (Exception e) when (e is ConnectionLostException or InvalidDataException)
                {
                    return false;
                }
            });
            return $"{here} {there}";
        }
    }

    private async Task OfTwoAsync(params (Step Last, Fate Fate, int Victim)[] rounds)
    {
        using var workspace = new Workspace();
        await using CohortNodes one = OfShard("0"), two = OfShard("1");
        await Task.WhenAll(one.StartAsync(), two.StartAsync());
        await AllAsync(one);
        await AllAsync(two);
        await OneAfterTheOtherAsync(one, two);
        foreach ((Step last, Fate fate, int victim) in rounds) { await RoundAsync([one, two], [Here, There], last, fate, victim); }

        CohortNodes OfShard(string shard) => new(workspace)
        {
            Prefix = $"shard-{shard}-", Lease = "3s", OptionsOf = _ => ["--shards", "2", "--shard", shard],
        };
    }

    // As the command does it, and undoes it; clients are told.
    private static async Task OneAfterTheOtherAsync(CohortNodes one, CohortNodes two)
    {
        int leader = await one.LeaderAsync(), port = two.Ports[await two.LeaderAsync()];
        await SetAsync("old");
        string version = await CommonVersionAsync(port, There);
        await SetAsync("new");
        using RespClient told = await one.ConnectAsync(leader);
        await told.DoAsync("DPR.COMMITTED");
        JsonElement report = await ResetAsync(port, version);
        Assert.StartsWith($"ROLLBACK worldline={report.GetProperty("world_line").GetInt64()}", (await told.CallAsync("GET", Here)).Text);
        Assert.Equal("$old $old", await ReadAsync());
        await ResetAsync(port, report.GetProperty("undo_version").GetRawText());
        Assert.Equal("$new $new", await ReadAsync());

        async Task SetAsync(string value)
        {
            await one.SetAsync(Here, value);
            await two.SetAsync(There, value);
        }

        async Task<string> ReadAsync() => $"{(await ReadOfAsync(one, Here)).Compact} {(await ReadOfAsync(two, There)).Compact}";
    }

    private async Task RoundAsync(CohortNodes[] shards, string[] keys, Step last, Fate fate, int victim)
    {
        string round = $"{last}-{fate}-{victim}", before = $"new-{round}", set = $"old-{round}";
        CohortNodes nodes = shards[victim];
        int leader = -1;
        // On a busy machine another node may be elected meanwhile: then it has not come to that step.
        await nodes.EventuallyAsync($"{round} is reached", async () =>
        {
            foreach (CohortNodes each in shards) { await AllAsync(each); }
            int[] leaders = [.. await Task.WhenAll(shards.Select(s => s.LeaderAsync()))];
            leader = leaders[victim];
            for (int i = 0; i < shards.Length; i++) { await shards[i].SetAsync(keys[i], set); }
            string version = await CommonVersionAsync(shards[0].Ports[leaders[0]], keys[0]);
            for (int i = 0; i < shards.Length; i++) { await shards[i].SetAsync(keys[i], before); }
            RespClient[] clients = [.. await Task.WhenAll(shards.Select((s, i) => s.ConnectAsync(leaders[i])))];
            try
            {
                await GoToAsync(clients, version, last);
                return true;
            }
            catch (Exception e) when (e is ConnectionLostException or InvalidDataException)
            {
                output.WriteLine($"{round}: again, since {e.Message}");
                return false;
            }
            finally
            {
                foreach (RespClient client in clients) { client.Dispose(); }
            }
        });
        switch (fate)
        {
            case Fate.Killed:
                await nodes.KillAsync(leader);
                break;
            case Fate.RedisKilled:
                await nodes.KillRedisAsync(leader);
                break;
            case Fate.HandedOver:
                await nodes.LeadAsync((leader + 1) % CohortNodes.Count);
                break;
            case Fate.Stopped:
                Suspend(nodes, leader);
                await nodes.LeaderAsync(but: leader);
                ChildProcess.Resume(nodes.ProcessId(leader));
                break;
        }
        string[] found = new string[shards.Length];
        for (int i = 0; i < shards.Length; i++) { found[i] = (await ReadOfAsync(shards[i], keys[i])).Text; }
        output.WriteLine($"{round}: {string.Join(' ', found)}");
        Assert.Single(found.Distinct());
        Assert.Contains(found[0], Allowed(last, before, set));
        if (fate == Fate.Killed) { await nodes.StartAsync(leader); }
        for (int i = 0; i < shards.Length; i++)
        {
            CohortNodes each = shards[i];
            await AllAsync(each);
            for (int node = 0; node < CohortNodes.Count; node++)
            {
                await each.EventuallyAsync($"node {CohortNodes.NameOf(node)} has the same", async () =>
                    (await each.AskAsync(node, "GET", keys[i]))?.Text == found[i]);
            }
        }
    }

    // Not while it holds SQLite's lock: nobody else could write then.
    private static void Suspend(CohortNodes nodes, int node)
    {
        for (ChildProcess.Suspend(nodes.ProcessId(node)); !MayWrite(); ChildProcess.Suspend(nodes.ProcessId(node)))
        {
            ChildProcess.Resume(nodes.ProcessId(node));
        }

        bool MayWrite()
        {
            using var database = new SqliteConnection($"Data Source={nodes.Metadata["sqlite:".Length..]};Pooling=False");
            database.Open();
            using SqliteCommand command = database.CreateCommand();
            (command.CommandText, command.CommandTimeout) = ("BEGIN IMMEDIATE; ROLLBACK", 2);
            try
            {
                command.ExecuteNonQuery();
                return true;
            }
            catch (SqliteException e) when (e.SqliteErrorCode == 5)
            {
                return false;
            }
        }
    }

    // What a client finds that is let in. Held clients wait.
    private static async Task<RespValue> ReadOfAsync(CohortNodes nodes, string key)
    {
        RespValue? found = null;
        await nodes.EventuallyAsync($"{key} is read", async () =>
        {
            try
            {
                using RespClient client = await nodes.ConnectAsync(await nodes.LeaderAsync());
                found = await client.DoAsync("GET", key);
                return true;
            }
            catch (Exception e) when (e is ConnectionLostException or InvalidDataException or TimeoutException)
            {
                return false;
            }
        });
        return found!;
    }

    // All nodes are there. Gives who leads.
    private static async Task<int> AllAsync(CohortNodes nodes)
    {
        for (int i = 0; i < CohortNodes.Count; i++) { await nodes.FollowsOrLeadsAsync(i); }
        return await nodes.LeaderAsync();
    }
}
