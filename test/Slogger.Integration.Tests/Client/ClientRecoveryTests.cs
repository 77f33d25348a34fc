// Slogger.Client when processes are killed: what it tells its caller is what is in the stores.
// SLOGGER_CHAOS_SEED chooses the course of the random rounds; a failure prints it.
using System.Globalization;
using Slogger.Client;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Client;

public sealed class ClientRecoveryTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Fact]
    public async Task Sessions_UnderRandomFailures_AreToldWhatIsInTheStores()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false);
        await cluster.StartAsync();
        var run = new ClientChaosRun(cluster, rounds: 10, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.Committed > 0, "nothing was committed");
    }

    [Fact]
    public async Task Store_IsKilled_EveryCallFailsUntilResumedAndFatesAreRight()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession busy = client.OpenSession(), idle = client.OpenSession();
        string[] keys = [cluster.Key(0, "a"), cluster.Key(1, "a")];
        string kept = cluster.Key(1, "kept");
        await idle.SetAsync(kept, "1");
        await idle.WaitForCommitAsync().WaitAsync(Generous);

        // Each increment of one shard's counter is followed by one of the other's, so counters say exactly what survived.
        var answered = new List<(Result<long> Result, int Shard)>();
        RollbackException? rollback = null;
        Task? killing = null;
        long? uncertain = null;
        for (int i = 0; rollback is null; i++)
        {
            try
            {
                answered.Add((await busy.IncrementAsync(keys[i % 2]).AsTask().WaitAsync(Generous), i % 2));
                if (i == 300) { killing = cluster.KillRedisAsync(1); }
            }
            catch (RollbackException e)
            {
                rollback = e;
            }
            catch (UncertainException e)
            {
                uncertain = e.Sequence.Number;
            }
        }

        await killing!;
        output.WriteLine(rollback.Message);
        Assert.Same(busy.Rollback!.Rollback, rollback.Rollback);
        await Assert.ThrowsAsync<RollbackException>(async () => await busy.GetAsync(keys[0]));
        await Assert.ThrowsAsync<RollbackException>(() => busy.WaitForCommitAsync());
        busy.Resume(rollback);
        busy.Resume(rollback);
        Assert.Null(busy.Rollback);
        for (int shard = 0; shard < 2; shard++)
        {
            long survived = answered.Where(a => a.Shard == shard && rollback.FateOf(a.Result.Sequence) == OperationFate.Survived)
                .Select(a => a.Result.Value).DefaultIfEmpty().Max();
            string? now = (await busy.GetAsync(keys[shard]).AsTask().WaitAsync(Generous)).Value;
            long there = long.Parse(now ?? "0", CultureInfo.InvariantCulture);
            bool mayBeMore = uncertain is not null || rollback.FateOf(rollback.Operation) == OperationFate.Uncertain;
            Assert.True(there == survived || (mayBeMore && there == survived + 1),
                $"shard {shard}: {there}, and {survived} are said to have survived: {rollback.Message}");
        }

        Assert.Equal(rollback.WorldLine, busy.WorldLine);
        await busy.WaitForCommitAsync().WaitAsync(Generous);
        // Who has lost nothing is not held up.
        Assert.Null(idle.Rollback);
        Assert.Equal("1", (await idle.GetAsync(kept)).Value);
        Assert.Equal(rollback.WorldLine, idle.WorldLine);
        await idle.WaitForCommitAsync().WaitAsync(Generous);
    }

    [Fact]
    public async Task Proxy_IsKilledAndStarted_WhatIsIdempotentIsSentAgainAndTheRestIsUncertain()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(
            cluster, o => o with { GiveUpAfter = TimeSpan.FromSeconds(60) });
        await using SloggerSession session = client.OpenSession(new() { BatchMax = 8 });
        string counter = cluster.Key(0, "counter"), other = cluster.Key(1, "other"), set = cluster.Key(0, "set");
        await session.IncrementAsync(counter);
        var once = new List<Task<Result<long>>>();
        var again = new List<Task<Result<bool>>>();
        cluster.SuspendProxy(0);
        for (int i = 0; i < 100; i++)
        {
            once.Add(session.IncrementAsync(counter).AsTask());
            again.Add(session.SetAsync(set, i, OperationFlags.Idempotent).AsTask());
        }

        // The other shard's operations go on meanwhile.
        for (int i = 0; i < 50; i++) { await session.IncrementAsync(other).AsTask().WaitAsync(Generous); }
        cluster.KillProxy(0);
        await cluster.StartProxyAsync(0);
        await Task.WhenAll(again).WaitAsync(Generous);
        int answered = 0, executed = 0;
        foreach (Task<Result<long>> task in once)
        {
            try
            {
                await task.WaitAsync(Generous);
                answered++;
            }
            catch (ReplyLostException e)
            {
                executed++;
                Assert.DoesNotContain(session.Exceptions, x => x.Kind == ExceptionKind.Uncertain && x.Range.First <= e.Sequence
                    && e.Sequence <= x.Range.Last);
            }
            catch (UncertainException e)
            {
                Assert.Contains(session.Exceptions, x => x.Kind == ExceptionKind.Uncertain && x.Range.First <= e.Sequence
                    && e.Sequence <= x.Range.Last);
            }
        }

        Assert.InRange(answered, 0, 99);
        Assert.Equal("99", (await session.GetAsync(set)).Value);
        long value = (await session.IncrementAsync(counter)).Value;
        Assert.InRange(value, answered + executed + 2, 102);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        Assert.Equal(session.LastSent, session.CommittedUpTo);
        Assert.Null(session.Rollback);
    }

    [Fact]
    public async Task Shard_ThatStaysAway_FailsItsOperationsAndNoOthers()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster, o => o with { GiveUpAfter = TimeSpan.FromSeconds(1) });
        await using SloggerSession session = client.OpenSession();
        string here = cluster.Key(0, "k"), away = cluster.Key(1, "k");
        await session.SetAsync(away, "1");
        cluster.KillProxy(1);
        Task<Result<long>> other = session.IncrementAsync(here).AsTask();
        SloggerException error = await Assert.ThrowsAnyAsync<SloggerException>(
            async () => await session.SetAsync(away, "2").AsTask().WaitAsync(Generous));
        Assert.True(error is ShardUnreachableException or UncertainException, error.ToString());
        ShardUnreachableException unsent = await Assert.ThrowsAsync<ShardUnreachableException>(
            async () => await session.SetAsync(away, "3").AsTask().WaitAsync(Generous));
        Assert.Contains(cluster.Endpoint(1).ToString()!, unsent.Message, StringComparison.Ordinal);
        await other;
        await cluster.StartProxyAsync(1);
        await session.SetAsync(away, "4").AsTask().WaitAsync(Generous);
        Assert.Equal("4", (await session.GetAsync(away)).Value);
        await session.WaitForCommitAsync().WaitAsync(Generous);
    }
}
