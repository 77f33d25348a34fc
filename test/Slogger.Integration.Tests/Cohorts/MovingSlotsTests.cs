// Slots that move from a cohort and to one, while its leader dies at a step of that: the next leader goes on, nothing is lost, and what
// others see has one owner.
using System.Globalization;
using Slogger.Integration.Tests.Moves;
using Slogger.Integration.Tests.Processes;
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

    private static Task<(int ExitCode, string Output)> MoveAsync(CohortNodes nodes, params string[] arguments) =>
        ProxyProcess.CommandAsync(["move", "--metadata", nodes.Metadata, "--cluster", CohortNodes.Cluster, .. arguments]);

    private static async Task MovesOverAsync(CohortNodes nodes)
    {
        await using IMetadataStore metadata = MetadataStoreFactory.Create(nodes.Metadata);
        await nodes.EventuallyAsync("all moves are over", async () => (await metadata.OwnershipAsync(CohortNodes.Cluster)).Moves.IsEmpty);
    }
}
