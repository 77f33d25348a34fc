// Ranges of keys that move under the load of sessions, with and without kills: nothing is lost, doubled or out of order.
// SLOGGER_CHAOS_SEED chooses the course of the random rounds; a failure prints it.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Ranges;

public sealed class RangeMoveTests(ITestOutputHelper output)
{
    private const int Sessions = 5;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Fact]
    public async Task Move_RangesThereAndBackUnderSessions_NothingIsLostDoubledOrReordered()
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        ChainWriter[] writers = Writers(cluster, client);
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(stop.Token)))];
        foreach ((string partitions, string to) in new[] { ("3-5", "0"), ("1,3,5", "2"), ("1,3,5", "1"), ("4", "1") })
        {
            await MoveAsync(cluster, partitions, to);
            Assert.DoesNotContain(running, r => r.IsFaulted);
        }

        await stop.CancelAsync();
        await Task.WhenAll(running);
        foreach (ChainWriter writer in writers)
        {
            Assert.Equal(0, writer.Rollbacks);
            Assert.True(writer.Last > 0);
            await writer.CheckAsync();
        }

        output.WriteLine($"{writers.Sum(w => w.Last)} numbers");
        // What moved is at its new owner alone.
        using RespClient old = await cluster.ConnectAsync(0), now = await cluster.ConnectAsync(1);
        Assert.Equal(0, (await old.DoAsync("CLUSTER", "COUNTKEYSINSLOT", "4")).Number);
        Assert.Equal(Sessions, (await now.DoAsync("CLUSTER", "COUNTKEYSINSLOT", "4")).Number);
        Assert.Contains("partitions 1 (keys from \"1\", below \"2\"): shard 1", (await cluster.MoveAsync("--list")).Output,
            StringComparison.Ordinal);
    }

    [Theory]
    [InlineData(0)]
    [InlineData(1)]
    [InlineData(2)]
    public async Task Move_AndAStoreIsKilled_SessionsKeepAPrefix(int victim)
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        await using SloggerClient client = await ClientCluster.ConnectAsync(
            cluster, o => o with { GiveUpAfter = TimeSpan.FromSeconds(60) });
        ChainWriter[] writers = Writers(cluster, client);
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(stop.Token)))];
        await GoOnAsync("all have begun", writers, running);
        (int exit, string text) = await cluster.MoveAsync("--partitions", "3-5", "--to", "0", "--no-wait");
        Assert.True(exit == 0, text);
        await cluster.KillRedisAsync(victim);
        await Eventually.AsyncTrue("a world-line has begun", Generous, async () => await cluster.ServingAsync() > 1);
        await cluster.MovesOverAsync();
        Assert.Contains("partitions 0-5 (keys below \"6\"): shard 0", (await cluster.MoveAsync("--list")).Output, StringComparison.Ordinal);
        await GoOnAsync("all go on", writers, running);
        await stop.CancelAsync();
        await Task.WhenAll(running);
        foreach (ChainWriter writer in writers) { await writer.CheckAsync(); }
        output.WriteLine($"{writers.Sum(w => w.Last)} numbers, {writers.Sum(w => w.Lost)} lost, {writers.Sum(w => w.Rollbacks)} rollbacks");
        using RespClient owner = await cluster.ConnectAsync(0);
        Assert.Equal(Sessions, (await owner.DoAsync("CLUSTER", "COUNTKEYSINSLOT", "4")).Number);
    }

    // The old owner is shard 1, the new one shard 0.
    [Theory]
    [InlineData(0, "move-copied")]
    [InlineData(1, "move-last-changes-sent")]
    [InlineData(0, "move-landed")]
    [InlineData(1, "move-discarded")]
    public async Task Move_OfRangesAndAProxyDiesAtAStep_SessionsGoOnWhenItIsBack(int victim, string step)
    {
        using var workspace = new Workspace();
        await using ClusterDeployment cluster = await StartAsync(workspace);
        cluster.KillProxy(victim);
        await cluster.StartProxyAsync(victim, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = step });
        await cluster.ServingAsync();
        await using SloggerClient client = await ClientCluster.ConnectAsync(
            cluster, o => o with { GiveUpAfter = TimeSpan.FromSeconds(60) });
        ChainWriter[] writers = Writers(cluster, client);
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(stop.Token)))];
        await GoOnAsync("all have begun", writers, running);
        Assert.Equal(0, (await cluster.MoveAsync("--partitions", "3-5", "--to", "0", "--no-wait")).ExitCode);
        Assert.True(await cluster.ExitAsync(victim, Generous) is not null,
            $"the proxy of shard {victim} did not come to {step}\n{cluster.Tail()}");
        await cluster.StartProxyAsync(victim);
        await cluster.MovesOverAsync();
        Assert.Contains("partitions 0-5 (keys below \"6\"): shard 0", (await cluster.MoveAsync("--list")).Output, StringComparison.Ordinal);
        await GoOnAsync("all go on", writers, running);
        await stop.CancelAsync();
        await Task.WhenAll(running);
        foreach (ChainWriter writer in writers)
        {
            Assert.Equal(0, writer.Rollbacks);
            await writer.CheckAsync();
        }
    }

    [Fact]
    public async Task Sessions_OfRangesUnderRandomFailures_AreToldWhatIsInTheStores()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3,
            usesPostgres: false) { Partitions = ClusterDeployment.TenRanges };
        await cluster.StartAsync();
        var run = new ClientChaosRun(cluster, rounds: 6, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.Committed > 0, "nothing was committed");
    }

    [Fact]
    public async Task Cluster_OfRangesUnderRandomFailuresAndMoves_KeepsOnePrefix()
    {
        int seed = Seed;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3,
            usesPostgres: false) { Partitions = ClusterDeployment.TenRanges };
        await cluster.StartAsync();
        var run = new ClusterChaosRun(cluster, rounds: 8, seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.CommittedChecked > 0, "no writer ever heard of a commit");
    }

    private static async Task GoOnAsync(string what, ChainWriter[] writers, Task[] running)
    {
        const int Enough = 20;
        long[] from = [.. writers.Select(w => w.Last)];
        await Eventually.AsyncTrue(
            what, Generous, () => Task.FromResult(running.Any(r => r.IsFaulted) || writers.Zip(from)
                .All(w => w.First.Last > w.Second + Enough)));
    }

    // Each writes to all ranges, from the last to the first and round again.
    private static ChainWriter[] Writers(ClusterDeployment cluster, SloggerClient client) =>
        [.. Enumerable.Range(0, Sessions).Select(w => string.Create(CultureInfo.InvariantCulture, $"chain{w}")).Select(name =>
            new ChainWriter(name, client.OpenSession(),
                [.. Enumerable.Range(0, cluster.Partitions.Count).Reverse().Select(p => cluster.KeyIn(p, name))]))];

    private static async Task MoveAsync(ClusterDeployment cluster, string partitions, string to)
    {
        (int exit, string text) = await cluster.MoveAsync("--partitions", partitions, "--to", to);
        Assert.True(exit == 0, text + cluster.Tail());
        Assert.Contains("is done", text, StringComparison.Ordinal);
    }

    private static async Task<ClusterDeployment> StartAsync(Workspace workspace)
    {
        var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Partitions = ClusterDeployment.TenRanges };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        return cluster;
    }
}
