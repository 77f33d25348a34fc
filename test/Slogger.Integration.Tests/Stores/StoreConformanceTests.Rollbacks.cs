// Another shard has lost what it had: this one goes back with it, while its clients go on.
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Stores;

public abstract partial class StoreConformanceTests
{
    [Fact]
    public async Task Rollback_OfASurvivorUnderLoad_RestoresTheBranchAndNothingNewer()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 2);
        using Journal dies = new(cluster, 0), survives = new(cluster, 1);
        int process = cluster.ProcessId(1);
        for (int round = 1; round <= 3; round++)
        {
            await dies.AppendAsync(10);
            await survives.AppendAsync(10);
            await survives.CommitAsync();
            await RollbackReadyAsync(cluster, 1);
            long lost = survives.Lost;
            await UnderLoadAsync(survives, async () =>
            {
                await KillAsync(cluster, 0);
                // In no cut: the other shard has closed its last version.
                await Task.Delay(300);
                await cluster.StartProxyAsync(0);
                await cluster.ServingAsync();
            });
            await survives.CheckAsync();
            await dies.CheckAsync();
            Assert.Equal((round, round), (survives.Rollbacks, dies.Rollbacks));
            Assert.True(survives.Lost > lost, "what was done while the other shard was away is above any branch");
            Assert.Equal(process, cluster.ProcessId(1));
            if (Store.GoesBackInPlace) { Assert.Equal(round, await cluster.NumberAsync(1, "rollbacks_in_place")); }
        }
    }

    // World-lines begin in short succession: the next branch may lie below what the survivor is still busy with.
    [Fact]
    public async Task Rollbacks_InShortSuccession_AndTheDeathOfTheSurvivor_LeaveTheBranch()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 2);
        using Journal dies = new(cluster, 0), survives = new(cluster, 1);
        for (int round = 1; round <= 2; round++)
        {
            await dies.AppendAsync(10);
            await survives.AppendAsync(10);
            await survives.CommitAsync();
            await RollbackReadyAsync(cluster, 1);
            int rollbacks = survives.Rollbacks;
            long line = survives.WorldLine;
            await UnderLoadAsync(survives, async () =>
            {
                for (int i = 0; i < 3; i++)
                {
                    await Task.Delay(100 * i);
                    await KillAndStartAsync(cluster, 0);
                }

                if (round == 2) { await KillAndStartAsync(cluster, 1); }
                await cluster.ServingAsync();
            });
            await survives.CheckAsync();
            await dies.CheckAsync();
            Assert.True(survives.WorldLine >= line + 3 && survives.Rollbacks > rollbacks, $"world-line {survives.WorldLine} after {line}");
        }

        // What is there is what the next process finds.
        await survives.CommitAsync();
        await KillAndStartAsync(cluster, 1);
        await cluster.ServingAsync();
        await survives.CheckAsync();
    }

    private async Task RollbackReadyAsync(ClusterDeployment cluster, int shard)
    {
        if (Store.GoesBackInPlace && !Store.IsEmbedded) { await cluster.RollbackReadyAsync(shard); }
    }
}
