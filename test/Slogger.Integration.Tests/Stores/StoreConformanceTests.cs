// What a store has to do so that a shard can stand on it: the laws of docs/internals/STORES.md, a test each, against real processes that
// are killed with -9. One class of tests, one small subclass for each store. In the partial files: rollbacks of survivors, what is kept.
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Stores;

public sealed class LogStoreTests : StoreConformanceTests
{
    private protected override StoreUnderTest Store => StoreUnderTest.Log;
}

public sealed class BgsaveStoreTests : StoreConformanceTests
{
    private protected override StoreUnderTest Store => StoreUnderTest.Bgsave;
}

public sealed class FasterStoreTests : StoreConformanceTests
{
    private protected override StoreUnderTest Store => StoreUnderTest.Faster;
}

public abstract partial class StoreConformanceTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private protected abstract StoreUnderTest Store { get; }

    // ---- Versions: what is in them ----

    // All of its processes die under load. What comes back is, operation by operation, what had a version up to the branch.
    [Fact]
    public async Task Version_Ends_WhatCameBeforeIsInItAndNothingAfter()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        using var journal = new Journal(cluster, 0);
        // It is in the first world-line, however long the load takes to begin.
        await journal.AppendAsync(1);
        for (int round = 0; round < 5; round++)
        {
            await UnderLoadAsync(journal, async () =>
            {
                await Task.Delay(100 + (70 * round));
                await KillAndStartAsync(cluster, 0);
            });
            await journal.CheckAsync();
            Assert.Equal(round + 1, journal.Rollbacks);
        }
    }

    [Fact]
    public async Task Commit_IsReported_AllUpToItSurvivesKill9()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        using var journal = new Journal(cluster, 0);
        long last = 0;
        for (int round = 0; round < 5; round++)
        {
            for (int i = 0; i <= round; i++) { await journal.AppendAsync(7); }
            long cut = await journal.CommitAsync();
            Assert.True(cut > last, $"the cut was {last}, and is {cut} after a commit");
            last = cut;
            await KillAndStartAsync(cluster, 0);
            await journal.CheckAsync();
            Assert.Equal(0, journal.Lost);
        }
    }

    // Whatever ends a process, and however long nothing happens: no version comes twice, and none of a world-line is at or below where that
    // began. The journal looks at the version of every operation.
    [Fact]
    public async Task Versions_AcrossAllEnds_NeverComeTwice()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        using var journal = new Journal(cluster, 0);
        long line = 0, version = 0;
        foreach (string end in (string[])["stop", "all", "idle", "store", "proxy", "stop", "all"])
        {
            await journal.AppendAsync(5);
            if (end == "idle") { await Task.Delay(1500); }
            else { await EndAsync(cluster, end); }
            await journal.AppendAsync(5);
            Assert.True((journal.WorldLine, journal.LastVersion).CompareTo((line, version)) > 0,
                $"version {journal.LastVersion} of world-line {journal.WorldLine} comes after {version} of {line} ({end})");
            (line, version) = (journal.WorldLine, journal.LastVersion);
            await journal.CheckAsync();
        }
    }

    [Fact]
    public async Task Stop_InOrder_LosesNothing()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        using var journal = new Journal(cluster, 0);
        for (int round = 0; round < 4; round++)
        {
            await journal.AppendAsync(20);
            await EndAsync(cluster, "stop");
            // All of it was committed by the stop, in versions that were said before.
            Assert.True((await cluster.CutAsync(0)).Version >= journal.LastVersion);
            await journal.CheckAsync();
            // A Redis that was stopped with its proxy has lost its memory: a world-line begins, with the last version.
            Assert.Equal(0, journal.Lost);
        }
    }

    // ---- World-lines ----

    [Fact]
    public async Task Batch_OfAnotherWorldLine_IsRefusedAndNotExecuted()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace, shards: 1);
        SessionId session = SessionClient.NewId();
        string key = cluster.Key(0, "k");
        long open;
        using (SessionClient before = await SessionClient.ConnectAsync(cluster.Endpoint(0)))
        {
            await before.SendAsync(SessionClient.HeaderOf(session, 1, 0, 1, 1), ["SET", key, "1"]);
            BatchOutcome outcome = await before.ReadAsync(1);
            Assert.Null(outcome.Refusal);
            Assert.Equal(1, (await before.Wire.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
            // No earlier version than it asks for; and none that nobody can have seen.
            open = outcome.Reply.Versions.Span[^1].Version.Number + 5;
            await before.SendAsync(SessionClient.HeaderOf(session, 1, open, 2, 1), ["GET", key]);
            Assert.True((await before.ReadAsync(1)).Reply.Versions.Span[^1].Version.Number >= open);
            await before.SendAsync(SessionClient.HeaderOf(session, 1, open + 1_000_000, 3, 1), ["SET", key, "ahead"]);
            Assert.StartsWith("SLOGGER AHEAD ", (await before.ReadAsync(1)).Refusal, StringComparison.Ordinal);
        }

        await KillAndStartAsync(cluster, 0);
        await cluster.ServingAsync();
        long number = 4;
        foreach ((long line, string refusal) in ((long, string)[])[(1, "ROLLBACK "), (3, "ERR SLOGGER ")])
        {
            using SessionClient client = await SessionClient.ConnectAsync(cluster.Endpoint(0));
            await client.SendAsync(SessionClient.HeaderOf(session, line, 0, number++, 1), ["SET", key, $"of world-line {line}"]);
            Assert.StartsWith(refusal, (await client.ReadAsync(1)).Refusal, StringComparison.Ordinal);
            using RespClient plain = await cluster.ConnectAsync(0);
            Assert.Equal("$1", (await plain.DoAsync("GET", key)).Compact);
        }

        using SessionClient after = await SessionClient.ConnectAsync(cluster.Endpoint(0));
        await after.SendAsync(SessionClient.HeaderOf(session, 2, 0, number, 1), ["APPEND", key, "+"]);
        Assert.Null((await after.ReadAsync(1)).Refusal);
    }

    // ---- The store, with its processes ----

    private async Task<ClusterDeployment> StartAsync(Workspace workspace, int shards, params string[] options)
    {
        var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false)
        {
            Embedded = Store.IsEmbedded ? shards : 0,
            Program = Store.Program,
            RedisOptions = ["--commit", Store.Mode],
            Options = options,
        };
        try
        {
            await cluster.StartAsync();
            await cluster.ServingAsync();
            Assert.Equal(Store.Mode, await cluster.InfoAsync(0, "mode"));
            return cluster;
        }
        catch
        {
            await cluster.DisposeAsync();
            throw;
        }
    }

    // All that there is of a shard.
    private static async Task KillAsync(ClusterDeployment cluster, int shard)
    {
        cluster.KillProxy(shard);
        if (!cluster.IsEmbedded(shard)) { await cluster.KillRedisAsync(shard); }
    }

    private static async Task KillAndStartAsync(ClusterDeployment cluster, int shard)
    {
        await KillAsync(cluster, shard);
        await cluster.StartProxyAsync(shard);
    }

    private static async Task EndAsync(ClusterDeployment cluster, string end)
    {
        switch (end)
        {
            case "stop":
                Assert.Equal(0, await cluster.TerminateProxyAsync(0));
                await cluster.StartProxyAsync(0);
                break;
            case "proxy":
                cluster.KillProxy(0);
                await cluster.StartProxyAsync(0);
                break;
            case "store":
                await cluster.KillRedisAsync(0);
                break;
            default:
                await KillAndStartAsync(cluster, 0);
                break;
        }
    }

    private static async Task UnderLoadAsync(Journal journal, Func<Task> what)
    {
        using var stop = new CancellationTokenSource();
        Task load = Task.Run(() => journal.RunAsync(stop.Token));
        try
        {
            await what();
        }
        finally
        {
            await stop.CancelAsync();
            await load;
        }
    }
}
