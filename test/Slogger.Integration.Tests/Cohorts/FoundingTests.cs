// A shard that has had one process gets a cohort: its directory becomes one node's, and the other nodes are new.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cohorts;

public sealed class FoundingTests
{
    private const int Keys = 200;

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

    // The way out when the disks of a majority are lost for good.
    [Fact]
    public async Task Node_IsAllThatIsLeft_ServesAlone_WithoutItsCohort()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int left = await nodes.LeaderAsync();
        await nodes.FillAsync(left, "k", Keys);
        for (int i = 0; i < CohortNodes.Count; i++) { await nodes.KillAsync(i); }

        await nodes.StartAloneAsync(left);
        using RespClient client = await nodes.ConnectAsync(left);
        string[] keys = [.. Enumerable.Range(0, Keys).Select(i => $"k:{i}")];
        Assert.All((await client.DoAsync(["MGET", .. keys])).Items, (value, i) => Assert.Equal($"{i}", value.Text));
        Assert.Equal("OK", (await client.DoAsync("SET", "alone", "1")).Text);
    }
}
