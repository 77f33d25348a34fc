// Shards with embedded stores in a cluster, beside such with a Redis: one cut, one world-line, and after any failure one prefix (invariants
// I1, I2, I3, I5). SLOGGER_CHAOS_SEED chooses the course; a failure prints it.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Embedded;

public sealed class EmbeddedClusterTests(ITestOutputHelper output)
{
    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Theory]
    [InlineData(2, 1)]
    [InlineData(3, 3)]
    public async Task Failures_OfAnyShard_LeaveOnePrefix(int shards, int embedded)
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false) { Embedded = embedded };
        await cluster.StartAsync();
        var run = new ClusterChaosRun(cluster, rounds: 8, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.CommittedChecked > 0, "no writer ever heard of a commit");
    }

    [Fact]
    public async Task AnotherShardsStoreDies_TheEmbeddedOneGoesBackInPlace()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 1 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        ClusterWriter[] writers = [.. Enumerable.Range(0, 3).Select(i => new ClusterWriter(i, cluster, i))];
        for (int round = 1; round <= 4; round++)
        {
            using var stop = new CancellationTokenSource();
            Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(writers, stop.Token)))];
            await Task.Delay(300);
            await cluster.KillRedisAsync(0);
            await cluster.ServingAsync();
            await stop.CancelAsync();
            await Task.WhenAll(running);
            (bool isInPlace, string what) = Assert.Single(cluster.TakeRollbacks());
            output.WriteLine(what);
            Assert.True(isInPlace, what);
            Assert.Equal(round, await cluster.NumberAsync(1, "rollbacks_in_place"));
            var survived = new Dictionary<ClusterWriter, long>();
            foreach (ClusterWriter writer in writers) { survived[writer] = await writer.SurvivedAsync(); }
            foreach (ClusterWriter writer in writers) { Assert.Null(writer.Unsupported(survived)); }
            foreach (ClusterWriter writer in writers) { writer.ContinueFrom(survived[writer], isBranch: true); }
        }
    }

    // What goes back while operations go on must also be what the next process finds.
    [Fact]
    public async Task Survivor_KilledAfterItWentBack_FindsNothingOfWhatWasTakenBack()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 2 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        for (int round = 0; round < 3; round++)
        {
            string key = cluster.Key(1, $"k{round}");
            using (RespClient client = await cluster.ConnectAsync(1))
            {
                await client.DoAsync("SET", key, "committed");
                Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number);
                // Nothing is in the cut from here on: the other shard is away.
                cluster.KillProxy(0);
                for (int i = 0; i < 500; i++) { await client.DoAsync("SET", key, "lost"); }
                await Task.Delay(200);
                await client.DoAsync("APPEND", key, "!");
            }

            await cluster.StartProxyAsync(0);
            await cluster.ServingAsync();
            if (round > 0) { await cluster.KillRedisAsync(1); }
            await cluster.ServingAsync();
            using RespClient after = await cluster.ConnectAsync(1);
            Assert.Equal("$committed", (await after.CallAsync("GET", key)).Compact);
        }
    }

    [Fact]
    public async Task Sessions_UnderRandomFailures_AreToldWhatIsInTheStores()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Embedded = 2 };
        await cluster.StartAsync();
        var run = new ClientChaosRun(cluster, rounds: 8, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.Committed > 0, "nothing was committed");
    }

    // Clients learn the slots from whatever shard they reach first.
    [Fact]
    public async Task Client_OfEmbeddedShardsAlone_FindsTheKeysOfAll()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 2 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using (RespClient plain = await cluster.ConnectAsync(1))
        {
            Assert.Equal(2, (await plain.DoAsync("CLUSTER", "SLOTS")).Items.Count);
            await plain.DoAsync("SET", cluster.Key(1, "one"), "1");
            Assert.Equal(1, (await plain.DoAsync("CLUSTER", "COUNTKEYSINSLOT", cluster.SlotOf(cluster.Key(1, "one")).ToString())).Number);
        }

        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = client.OpenSession();
        for (int i = 0; i < 2; i++) { await session.SetAsync(cluster.Key(i, "k"), i); }
        await session.WaitForCommitAsync().WaitAsync(TimeSpan.FromSeconds(60));
        for (int i = 0; i < 2; i++) { Assert.Equal("$" + i, await ClientCluster.GetAsync(cluster, i, cluster.Key(i, "k"))); }
    }

    [Fact]
    public async Task Move_OfSlotsFromOrToAnEmbeddedStore_IsRefused()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 1 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        foreach ((string slots, string to) in ((string, string)[])[("0-9", "1"), ("16000", "0")])
        {
            (int exitCode, string text) = await cluster.MoveAsync("--slots", slots, "--to", to);
            Assert.Equal(1, exitCode);
            Assert.Contains("Slots do not move to or from shard 1: its store is FASTER", text, StringComparison.Ordinal);
        }
    }
}
