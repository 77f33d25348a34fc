// Versions that are longer than the time for which other shards hurry: a commit comes for each client that waits, one time after the other.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class LongVersionTests
{
    [Theory]
    [InlineData("approximate")]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task Wait_InOneVersionAfterTheOther_IsAnsweredEachTime(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Finder = finder,
            Options = ["--version-interval", "600ms"] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(1);
        for (int i = 0; i < 5; i++)
        {
            await client.DoAsync("SET", cluster.Key(1, "long"), "1");
            await client.SendAsync("DPR.WAIT", "*", "60000");
            RespValue reply = await client.ReadAsync(TimeSpan.FromSeconds(90));
            Assert.True(reply.Items[2].Number == 1, $"wait {i}: {reply.Compact}\n{cluster.Tail()}");
        }
    }
}
