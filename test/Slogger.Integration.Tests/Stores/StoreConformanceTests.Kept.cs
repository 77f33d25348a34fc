// What is kept on disk: all that a recovery can need, exact to the operation, and not for ever; and what happens when the disk takes
// nothing.
using System.Globalization;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Stores;

public abstract partial class StoreConformanceTests
{
    [Fact]
    public async Task Kept_Versions_AreExact_AndWhatIsPrunedIsGone()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        using var journal = new Journal(cluster, 0);
        var cuts = new List<long>();
        for (int i = 0; i < 12; i++)
        {
            await journal.AppendAsync(8);
            cuts.Add(await journal.CommitAsync());
        }

        // Pruning follows the cut, which goes on.
        await Task.Delay(500);
        await KillAsync(cluster, 0);
        string[] newest = await Store.AtAsync(cluster, 0, null, journal.Keys, workspace)
            ?? throw new InvalidDataException("nothing can be restored");
        journal.Check(newest, cuts[^1]);
        var gone = new List<long>();
        foreach (long cut in cuts)
        {
            if (await Store.AtAsync(cluster, 0, cut, journal.Keys, workspace) is { } rows) { journal.Check(rows, cut); }
            else { gone.Add(cut); }
        }

        // The oldest go first.
        Assert.Equal(cuts.Take(gone.Count), gone);
        Assert.Equal(Store.PrunesBehindTheCut, gone.Count > 0);
        await cluster.StartProxyAsync(0);
        await journal.CheckAsync();
        Assert.Equal(0, journal.Lost);
    }

    // A commit that the disk refuses is none: nothing of it is reported, and nothing that was is touched. When there is room again all goes
    // on.
    [Fact]
    public async Task Commit_TheDiskIsFull_IsNotReportedAndHurtsNothing()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        using var workspace = new Workspace();
        string mount = workspace.Folder("shard0");
        (int exitCode, string output) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=300m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + output);
        try
        {
            await using ClusterDeployment cluster = await StartAsync(
                workspace, shards: 1, Store.IsEmbedded ? ["--faster-memory", "256mb"] : []);
            Assert.Equal(mount, cluster.Data(0));
            using var journal = new Journal(cluster, 0);
            await journal.AppendAsync(50);
            await journal.CommitAsync();
            string ballast = Path.Combine(mount, "ballast");
            await ChildProcess.RunAsync("dd", ["if=/dev/zero", "of=" + ballast, "bs=64k"]);
            await FillUntilRefusedAsync(cluster);
            bool ended = cluster.IsDown(0);
            if (!ended)
            {
                // Operations go on.
                using RespClient client = await cluster.ConnectAsync(0);
                Assert.Equal("+PONG", (await client.DoAsync("PING")).Compact);
            }

            File.Delete(ballast);
            if (ended) { await cluster.StartProxyAsync(0); }
            await journal.AppendAsync(10);
            await journal.CheckAsync();
            await journal.CommitAsync();
            await KillAndStartAsync(cluster, 0);
            await journal.CheckAsync();
            Assert.Equal(0, journal.Lost);
        }
        finally
        {
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    // Some room may be there already: a log has its next file ahead.
    private static async Task FillUntilRefusedAsync(ClusterDeployment cluster)
    {
        for (int i = 0; i < 150; i++)
        {
            try
            {
                using RespClient client = await cluster.ConnectAsync(0);
                string key = cluster.Key(0, string.Create(CultureInfo.InvariantCulture, $"filler{i % 20}"));
                await client.DoAsync("SET", key, new string((char)('a' + (i % 26)), 1 << 20));
                if ((await client.DoAsync("DPR.WAIT", "*", "2000")).Items[2].Number == 0) { return; }
            }
            catch (ConnectionLostException)
            {
                // It has ended, which says it as well.
                Assert.NotNull(await cluster.ExitAsync(0, Generous));
                return;
            }
        }

        Assert.Fail("150 MB were committed on a full disk");
    }
}
