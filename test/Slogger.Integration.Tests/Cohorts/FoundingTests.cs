// A shard that has had one process gets a cohort: its directory becomes one node's, and the other nodes are new.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class FoundingTests
{
    private const int Keys = 200;
    private const string HasAll = "has all", LacksCommitted = "lacks what was committed", IsToGoBack = "is to go back";

    [Fact]
    public async Task Shard_HadOneProcess_ItsDirectoryIsANodes_AllThatItHadIsAtAll_AndOutlivesIt()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        const int Old = 1;
        await nodes.StartAloneAsync(Old);
        await nodes.FillAsync(Old, "k", Keys);
        using (RespClient client = await nodes.ConnectAsync(Old))
        {
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        }
        Assert.Equal(0, await nodes.TerminateAsync(Old));

        await nodes.StartAsync();
        await nodes.SetAsync("again", "1");
        for (int i = 0; i < CohortNodes.Count; i++)
        {
            if (i != Old) { await nodes.FollowsAsync(i); }
            Assert.Empty(await nodes.MissingAsync(i, "k", Keys));
        }
        await nodes.KillAsync(Old);
        Assert.Empty(await nodes.MissingAsync(await nodes.LeaderAsync(but: Old), "k", Keys));
    }

    // The way out when the disks of a majority are lost for good, and of a cohort back to an older version. What only the others had is lost,
    // and nothing else.
    [Theory]
    [InlineData(HasAll)]
    [InlineData(LacksCommitted)]
    [InlineData(IsToGoBack)]
    public async Task Node_IsAllThatIsLeft_AndALossIsAccepted_ItServesAlone_AndIsACohortAgain(string what)
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int leader = await nodes.LeaderAsync();
        await nodes.FillAsync(leader, "k", Keys);
        await CommittedAsync(nodes, leader);
        long before = await nodes.NumberAsync(leader, "durable_version");
        int node = what == LacksCommitted ? (leader + 1) % CohortNodes.Count : leader;
        if (what == LacksCommitted)
        {
            await nodes.FollowsAsync(node);
            await nodes.KillAsync(node);
        }
        if (what != HasAll) { await nodes.FillAsync(leader, "lost", Keys); }
        await CommittedAsync(nodes, leader);
        for (int i = 0; i < CohortNodes.Count; i++)
        {
            await nodes.KillAsync(i);
            if (i != node) { Directory.Delete(nodes.Data(i), recursive: true); }
        }

        // Nothing is lost by mistake: not by a process alone, and not by a word that does not say so.
        Assert.Contains($"is that of node {CohortNodes.NameOf(node)} of a cohort of a, b, c", await nodes.AloneRefusedAsync(node),
            StringComparison.Ordinal);
        long newest = (await nodes.VersionsAsync(node)).Last;
        (int code, string said) = await nodes.RestoreAsync(node, "--version", $"{newest}", "--keep");
        Assert.Equal(1, code);
        Assert.Contains("--i-accept-loss", said, StringComparison.Ordinal);

        (code, said) = await nodes.RestoreAsync(node,
            [.. what == IsToGoBack ? (string[])["--version", $"{before}"] : ["--latest"], "--keep", "--i-accept-loss"]);
        Assert.True(code == 0, said);
        Assert.Contains(what == HasAll ? "nothing that the metadata knows to be committed" : "which were committed", said,
            StringComparison.Ordinal);
        Assert.Equal(1, (await nodes.RestoreAsync(node, "--latest")).ExitCode);
        Assert.Contains("a cohort cannot begin with that", await nodes.NodeRefusedAsync(node), StringComparison.Ordinal);

        await nodes.StartAloneAsync(node);
        Assert.Equal("2", await nodes.InfoAsync(node, "worldline"));
        Assert.Empty(await nodes.MissingAsync(node, "k", Keys));
        Assert.Equal(Keys, (await nodes.MissingAsync(node, "lost", Keys)).Count);
        await nodes.FillAsync(node, "alone", Keys);
        Assert.Equal(0, await nodes.TerminateAsync(node));

        await nodes.StartAsync();
        Assert.Equal(node, await nodes.LeaderAsync());
        for (int i = 0; i < CohortNodes.Count; i++)
        {
            if (i != node) { await nodes.ChangeAsync("add", i); }
        }
        int last = await nodes.LeaderAsync();
        await nodes.FillAsync(last, "again", Keys);
        await nodes.KillAsync(last);
        int next = await nodes.LeaderAsync(but: last);
        foreach (string prefix in (string[])["k", "alone", "again"]) { Assert.Empty(await nodes.MissingAsync(next, prefix, Keys)); }
    }

    // The recorded cut has all that was written.
    private static async Task CommittedAsync(CohortNodes nodes, int leader)
    {
        using RespClient client = await nodes.ConnectAsync(leader);
        await client.DoAsync("SET", "last", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
    }
}
