// Slogger.Client with the exact and the hybrid finder, whose cuts and branches have one version for each shard.
// SLOGGER_CHAOS_SEED chooses the course of the random rounds; a failure prints it.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientFinderTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Theory]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task Sessions_UnderRandomFailures_AreToldWhatIsInTheStores(string finder)
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        var run = new ClientChaosRun(cluster, rounds: 5, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.Committed > 0, "nothing was committed");
    }

    // Each step is awaited before the next, over two shards in turn, so counters say exactly what survived; and as the session told each
    // shard what it had seen at the other, what survived is a prefix.
    [Theory]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task Store_IsKilled_WhatSurvivedIsAPrefixAndWhatWasCommittedIsInIt(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = client.OpenSession();
        string[] keys = [cluster.Key(0, "a"), cluster.Key(1, "a")];
        var answered = new List<(Result<long> Result, int Shard)>();
        RollbackException? rollback = null;
        Task? killing = null;
        bool isUncertain = false;
        long committed = 0;
        for (int i = 0; rollback is null; i++)
        {
            try
            {
                answered.Add((await session.IncrementAsync(keys[i % 2]).AsTask().WaitAsync(Generous), i % 2));
                if (i == 100)
                {
                    await session.WaitForCommitAsync().WaitAsync(Generous);
                    committed = session.CommittedUpTo.Number;
                }

                if (i == 300) { killing = cluster.KillRedisAsync(1); }
            }
            catch (RollbackException e)
            {
                rollback = e;
            }
            catch (UncertainException)
            {
                isUncertain = true;
            }
        }

        await killing!;
        output.WriteLine(rollback.Message);
        Assert.InRange(committed, 101, rollback.Survived.Number);
        session.Resume(rollback);
        isUncertain |= rollback.FateOf(rollback.Operation) == OperationFate.Uncertain;
        OperationFate[] fates = [.. answered.Select(a => rollback.FateOf(a.Result.Sequence))];
        Assert.True(!fates.SkipWhile(f => f == OperationFate.Survived).Contains(OperationFate.Survived),
            "an operation survived, and one before it did not");
        for (int shard = 0; shard < 2; shard++)
        {
            long survived = answered.Where((a, i) => a.Shard == shard && fates[i] == OperationFate.Survived).Select(a => a.Result.Value)
                .DefaultIfEmpty().Max();
            long there = long.Parse((await session.GetAsync(keys[shard]).AsTask().WaitAsync(Generous)).Value
                ?? "0", CultureInfo.InvariantCulture);
            Assert.True(there == survived || (isUncertain && there == survived + 1),
                $"shard {shard}: {there}, and {survived} are said to have survived: {rollback.Message}");
        }

        await session.WaitForCommitAsync().WaitAsync(Generous);
    }

    // What these finders are for: a dead shard holds up only who depends on it.
    [Theory]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task DeadShard_SessionsThatDoNotDependOnIt_Commit(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        int coordinator = -1;
        await Eventually.AsyncTrue("there is a coordinator", Generous,
            async () => (coordinator = await cluster.CoordinatorAsync() ?? -1) >= 0);
        int dead = (coordinator + 1) % 3, first = (dead + 1) % 3, second = (dead + 2) % 3;
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster, o => o with { GiveUpAfter = Generous });
        await using SloggerSession free = client.OpenSession(), held = client.OpenSession();
        await held.SetAsync(cluster.Key(dead, "k"), "0").AsTask().WaitAsync(Generous);
        await held.WaitForCommitAsync().WaitAsync(Generous);
        cluster.KillProxy(dead);
        for (int i = 0; i < 10; i++)
        {
            await free.SetAsync(cluster.Key(first, "k"), i).AsTask().WaitAsync(Generous);
            await free.SetAsync(cluster.Key(second, "k"), i).AsTask().WaitAsync(Generous);
        }

        Task<Result<bool>> away = held.SetAsync(cluster.Key(dead, "k"), "1", OperationFlags.Idempotent).AsTask();
        await free.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal((20L, false), (free.CommittedUpTo.Number, away.IsCompleted));
        await cluster.StartProxyAsync(dead);
        await away.WaitAsync(Generous);
        await held.WaitForCommitAsync().WaitAsync(Generous);
    }
}
