// Slots that move from a cohort and to one, while its leader dies at a step of that: the next leader goes on, nothing is lost, and what
// others see has one owner.
using System.Globalization;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Moves;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class MovingSlotsTests(ITestOutputHelper output)
{
    private const string Failpoint = "SLOGGER_TEST_FAILPOINT";
    private const int Moving = 40, Dies = 0;

    [Theory]
    [InlineData(true, "move-changes-sent")]
    [InlineData(true, "move-leaving")]
    [InlineData(false, "move-copied")]
    [InlineData(false, "move-landed")]
    public async Task Move_TheLeaderDiesAtAStep_TheNextGoesOn(bool isFromCohort, string step)
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace)
        {
            OptionsOf = _ => ["--shards", "2", "--shard", "0"],
            EnvironmentOf = node => node == Dies ? new Dictionary<string, string> { [Failpoint] = step } : null,
        };
        await using var other = new OtherShard(workspace, nodes);
        // Of the lower half, which is the cohort's, or of the upper one.
        int first = isFromCohort ? 0 : 16_184, last = first + 199, stays = isFromCohort ? 1000 : 9000;
        string slots = string.Create(CultureInfo.InvariantCulture, $"{first}-{last}"), to = isFromCohort ? "1" : "0";
        try
        {
            await nodes.StartAsync();
            await other.Process.ReadyAsync();
            if (await nodes.LeaderAsync() != Dies)
            {
                await nodes.FollowsAsync(Dies);
                await nodes.LeadAsync(Dies);
            }

            string[] keys = [.. MovingKeys.In(first, last, Moving, "w"), .. MovingKeys.In(stays, stays + 999, 5, "w")];
            using var writer = new MovingKeys([.. nodes.Ports, other.Process.Port], keys);
            using var stop = new CancellationTokenSource();
            Task running = Task.Run(() => writer.RunAsync(1, stop.Token));
            (int code, string said) = await MoveAsync(nodes, "--slots", slots, "--to", to, "--no-wait");
            Assert.True(code == 0, said);
            await nodes.EventuallyAsync($"the leader dies at {step}", () => Task.FromResult(nodes.HasExited(Dies)));
            await nodes.KillRedisAsync(Dies);
            await nodes.LeaderAsync(but: Dies);
            await MovesOverAsync(nodes);
            await Task.Delay(200);
            await stop.CancelAsync();
            await running;
            await writer.CheckAsync();

            Assert.True(writer.Redirections > 0);
            Assert.Contains($"slots {slots}: shard {to}", (await MoveAsync(nodes, "--list")).Output, StringComparison.Ordinal);
            // Followers have it, too, and nothing of what has left.
            int leader = await nodes.LeaderAsync(), follower = CohortNodes.Count - leader - Dies;
            await nodes.SetAsync(MovingKeys.In(1000, 2000, 1, "mark")[0], "1");
            await nodes.EventuallyAsync("a follower has what came after", async () =>
                (await nodes.AskAsync(follower, "GET", MovingKeys.In(1000, 2000, 1, "mark")[0]))?.Compact == "$1");
            string[] has = [.. (await nodes.AskAsync(follower, "KEYS", "w*"))!.Items.Select(i => i.Text)];
            Assert.NotEmpty(has);
            Assert.All(has, key => Assert.Equal(isFromCohort, Array.IndexOf(keys, key) >= Moving));
            foreach (string key in has)
            {
                Assert.Equal((await nodes.AskAsync(leader, "LRANGE", key, "0", "-1"))!.Compact,
                    (await nodes.AskAsync(follower, "LRANGE", key, "0", "-1"))!.Compact);
            }
        }
        catch (Exception)
        {
            output.WriteLine(other.Process.Tail());
            output.WriteLine(nodes.Tail());
            throw;
        }
    }

    // What only the leader has is not in a version in which slots may land: the next leader would own them, and not have their keys.
    [Fact]
    public async Task Move_OnlyTheLeaderHasTheCopy_TheNextGoesOn_WithAllKeys()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace)
        {
            OptionsOf = _ => ["--shards", "2", "--shard", "0"], Lease = "4s",
        };
        await using var other = new OtherShard(workspace, nodes);
        try
        {
            await nodes.StartAsync();
            await other.Process.ReadyAsync();
            int leader = await nodes.LeaderAsync();
            int[] followers = [.. Enumerable.Range(0, CohortNodes.Count).Where(n => n != leader)];
            foreach (int follower in followers) { await nodes.FollowsAsync(follower); }
            string[] keys = MovingKeys.In(16_184, 16_383, Moving, "w");
            using var writer = new MovingKeys([.. nodes.Ports, other.Process.Port], keys);
            using var stop = new CancellationTokenSource(TimeSpan.FromSeconds(1));
            await writer.RunAsync(1, stop.Token);

            foreach (int follower in followers) { ChildProcess.Suspend(nodes.ProcessId(follower)); }
            (int code, string said) = await MoveAsync(nodes, "--slots", "16184-16383", "--to", "0", "--no-wait");
            Assert.True(code == 0, said);
            // Until it hears that nobody follows any more it copies.
            await using (IMetadataStore metadata = MetadataStoreFactory.Create(nodes.Metadata))
            {
                for (long until = Environment.TickCount64 + 3000; Environment.TickCount64 < until; await Task.Delay(20))
                {
                    Assert.DoesNotContain((await metadata.OwnershipAsync(CohortNodes.Cluster)).Moves, m => m.State == MoveState.Landed);
                }
            }
            await nodes.KillAsync(leader);
            foreach (int follower in followers) { ChildProcess.Resume(nodes.ProcessId(follower)); }
            await nodes.LeaderAsync(but: leader);
            await MovesOverAsync(nodes);
            await writer.CheckAsync();
            Assert.Contains("slots 16184-16383: shard 0", (await MoveAsync(nodes, "--list")).Output, StringComparison.Ordinal);
        }
        catch (Exception)
        {
            output.WriteLine(other.Process.Tail());
            output.WriteLine(nodes.Tail());
            throw;
        }
    }

    // As a cluster grows by a shard with a cohort: its log begins in the middle of the cluster's life.
    [Fact]
    public async Task Shard_HasJoined_BecomesACohort_SlotsMoveToIt_AndItOutlivesItsNodes()
    {
        const int Old = 1, Keys = 50;
        const string First = "{b}k", Second = "{a}k";       // by their slots, 3300 and 15495
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace) { OptionsOf = _ => ["--shard", "2"] };
        await using OtherShard lower = new(workspace, nodes, shard: 0), upper = new(workspace, nodes, shard: 1);
        try
        {
            await FillAsync(lower, First, Keys);
            await FillAsync(upper, Second, Keys);
            await nodes.StartAloneAsync(Old, "--join", "--shard", "2");
            await MovedAsync(nodes, "3000-3999");
            Assert.Equal(0, await nodes.TerminateAsync(Old));

            await nodes.StartAsync();
            for (int i = 0; i < CohortNodes.Count; i++)
            {
                await nodes.FollowsOrLeadsAsync(i);
                Assert.Empty(await nodes.MissingAsync(i, First, Keys));
            }
            int leader = await nodes.LeaderAsync();
            await nodes.KillAsync(leader);
            int next = await nodes.LeaderAsync(but: leader);
            await MovedAsync(nodes, "15000-15999");
            await nodes.StartAsync(leader);
            await nodes.FollowsAsync(leader);
            await nodes.KillAsync(next);
            int last = await nodes.LeaderAsync(but: next);
            foreach (string prefix in (string[])[First, Second]) { Assert.Empty(await nodes.MissingAsync(last, prefix, Keys)); }
            using RespClient client = await upper.Process.ConnectAsync();
            Assert.StartsWith("-MOVED", (await client.CallAsync("GET", $"{Second}:0")).Compact, StringComparison.Ordinal);
        }
        catch (Exception)
        {
            output.WriteLine(lower.Process.Tail());
            output.WriteLine(upper.Process.Tail());
            output.WriteLine(nodes.Tail());
            throw;
        }
    }

    private static async Task FillAsync(OtherShard shard, string prefix, int count)
    {
        await shard.Process.ReadyAsync();
        using RespClient client = await shard.Process.ConnectAsync();
        for (int i = 0; i < count; i++)
        {
            Assert.Equal("+OK", (await client.CallAsync("SET", $"{prefix}:{i}", $"{i}")).Compact);
        }
    }

    private static Task MovedAsync(CohortNodes nodes, string slots) => nodes.EventuallyAsync($"slots {slots} have moved", async () =>
        (await MoveAsync(nodes, "--slots", slots, "--to", "2")).ExitCode == 0);

    private static Task<(int ExitCode, string Output)> MoveAsync(CohortNodes nodes, params string[] arguments) =>
        ProxyProcess.CommandAsync(["move", "--metadata", nodes.Metadata, "--cluster", CohortNodes.Cluster, .. arguments]);

    private static async Task MovesOverAsync(CohortNodes nodes)
    {
        await using IMetadataStore metadata = MetadataStoreFactory.Create(nodes.Metadata);
        await nodes.EventuallyAsync("all moves are over", async () => (await metadata.OwnershipAsync(CohortNodes.Cluster)).Moves.IsEmpty);
    }
}
