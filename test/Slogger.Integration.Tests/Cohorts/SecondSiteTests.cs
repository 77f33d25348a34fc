// A cohort whose log is shipped to a second site: by whoever leads, and by the next one after a takeover, without seeding it anew.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class SecondSiteTests
{
    private const int Keys = 200;

    [Fact]
    public async Task Backup_IsShippedToByEachLeader_AndTakesOverFromAllNodes()
    {
        using var workspace = new Workspace();
        int receives = Workspace.FreePort(), answers = Workspace.FreePort();
        int[] commands = [.. Enumerable.Range(0, CohortNodes.Count).Select(_ => Workspace.FreePort())];
        await using var nodes = new CohortNodes(workspace)
        {
            OptionsOf = node => ["--site-listen", At(commands[node]), "--backup", At(receives)],
        };
        string data = workspace.File("backup"), metadata = "sqlite:" + workspace.File("backup.db");
        ProxyProcess backup = Start();
        try
        {
            await nodes.StartAsync();
            int first = await nodes.LeaderAsync();
            await nodes.FillAsync(first, "one", Keys);
            await HasAllAsync(nodes, backup, "one");
            Assert.Equal(1, CountOf(backup, "is seeded with"));

            await nodes.KillAsync(first);
            int next = await nodes.LeaderAsync(but: first);
            await nodes.FillAsync(next, "two", Keys);
            await HasAllAsync(nodes, backup, "two");
            Assert.Equal(1, CountOf(backup, "is seeded with"));

            // Its log has gone through two reigns by now.
            backup.KillHard();
            await SupervisedRedis.KillAsync(data);
            backup.Dispose();
            backup = Start();
            await nodes.StartAsync(first);
            await nodes.FollowsAsync(first);
            Assert.Equal(0, await nodes.TerminateAsync(next));
            int third = await nodes.LeaderAsync(but: next);
            await nodes.FillAsync(third, "three", Keys);
            await HasAllAsync(nodes, backup, "three");
            Assert.Equal(0, CountOf(backup, "is seeded with"));

            // A mistake: the primary still runs. Who leads ends, and so does who would lead next.
            (int code, string said) = await ProxyProcess.CommandAsync("failover", "--metadata", metadata, "--cluster", CohortNodes.Cluster,
                "--i-attest-the-primary-is-down");
            Assert.True(code == 0, said);
            await nodes.EventuallyAsync("no node leads any more", async () =>
            {
                bool leads = false;
                for (int i = 0; i < CohortNodes.Count; i++) { leads |= await nodes.InfoAsync(i, "node_role") == "leads"; }
                return !leads && nodes.HasExited(third);
            });
            await nodes.StartAsync(third);
            await nodes.EventuallyAsync("a node that starts ends", () => Task.FromResult(nodes.HasExited(third)));
            Assert.True(nodes.HasSaid(third, "another site has taken over cluster"), "it has another reason");
            foreach (string prefix in (string[])["one", "two", "three"]) { await HasAllAsync(nodes, backup, prefix); }
            using RespClient client = await backup.ConnectAsync();
            Assert.Equal("+OK", (await client.CallAsync("SET", "of-the-backup", "1")).Compact);
        }
        catch (Exception e)
        {
            throw new InvalidOperationException($"{e.Message}\n{backup.Tail()}\n{nodes.Tail()}", e);
        }
        finally
        {
            backup.KillHard();
            await SupervisedRedis.KillAsync(data);
            backup.Dispose();
        }

        ProxyProcess Start() => ProxyProcess.Launch(answers,
        [
            "--redis-server", RedisProcess.Executable, "--data", data, "--metadata", metadata, "--cluster", CohortNodes.Cluster,
            "--site-listen", At(receives), "--failover-rehearsal", "off",
        ], command: "backup");
    }

    private static Task HasAllAsync(CohortNodes nodes, ProxyProcess backup, string prefix) => nodes.EventuallyAsync(
        $"the backup has all of {prefix}", async () =>
        {
            try
            {
                using RespClient client = await backup.ConnectAsync();
                for (int i = Keys - 1; i >= 0; i--)
                {
                    if ((await client.CallAsync("GET", $"{prefix}:{Text(i)}")).Compact != "$" + Text(i)) { return false; }
                }
                return true;
            }
            catch (Exception e) when (e is ConnectionLostException or TimeoutException)
            {
                return false;
            }
        });

    private static int CountOf(ProxyProcess process, string text) => process.Tail().Split(text).Length - 1;

    private static string At(int port) => "127.0.0.1:" + Text(port);

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
