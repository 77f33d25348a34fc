// A cluster of several shards: one cut, one world-line, and after any failure one consistent prefix (invariants I1, I2, I3, I5).
// SLOGGER_CHAOS_SEED chooses the course; a failure prints it.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class ClusterChaosTests(ITestOutputHelper output)
{
    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    [Fact]
    public async Task Postgres_FourShards_EveryFailureLeavesOnePrefix()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        await RunAsync(shards: 4, usesPostgres: true, rounds: 14);
    }

    [Fact]
    public Task Sqlite_TwoShardsAndFastVersions_EveryFailureLeavesOnePrefix() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 6, "--version-interval", "1ms");

    // Each shard closes every so many versions as its saves take time: cuts are where they meet.
    [Fact]
    public Task Bgsave_TwoShards_EveryFailureLeavesOnePrefix() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 10, "--commit", "bgsave");

    // With --clock-error 0ms this breaks I1 within a few rounds.
    [Fact]
    public Task Sqlite_ClocksTwoMillisecondsApart_ClockErrorKeepsOnePrefix() =>
        RunAsync(shards: 2, usesPostgres: false, rounds: 6, TimeSpan.FromMilliseconds(2), "--clock-error", "2ms");

    [Fact]
    public async Task Commit_AnIdleShardAmongBusyOnes_HoldsNobodyUp()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(1);
        for (int i = 0; i < 20; i++)
        {
            await client.DoAsync("SET", cluster.Key(1, "k"), "1");
            // Far more than it takes: that it comes at all, without the other shards doing anything, is the point.
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].Number);
        }
    }

    [Fact]
    public async Task Commit_AShardIsDown_OperationsGoOnAndNothingIsCommitted()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        cluster.KillProxy(1);
        await Task.Delay(1500);
        string key = cluster.Key(0, "k");
        Assert.Equal("+OK", (await client.CallAsync("SET", key, "1")).Compact);
        Assert.Equal(0, (await client.DoAsync("DPR.WAIT", "*", "1000")).Items[2].Number);
        Assert.Equal("$1", (await client.CallAsync("GET", key)).Compact);
        await cluster.StartProxyAsync(1);
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number);
    }

    [Fact]
    public async Task Start_WrongNumberOfShards_IsRefusedClearly()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        foreach ((string[] options, string what) in new (string[], string)[]
        {
            (["--shards", "3", "--shard", "0"], "was made with 2 shards, not 3"),
            (["--shard", "2"], "there is no shard 2"),
        })
        {
            using ProxyProcess proxy = ProxyProcess.Launch(Workspace.FreePort(),
                ["--redis-server", RedisProcess.Executable, "--data", workspace.Folder("other"), "--metadata",
                    "sqlite:" + workspace.File("metadata.db"), .. options]);
            Assert.NotEqual(0, await proxy.ExitAsync(TimeSpan.FromSeconds(30)));
            Assert.Contains(what, proxy.Tail(), StringComparison.Ordinal);
        }
    }

    private Task RunAsync(int shards, bool usesPostgres, int rounds, params string[] options) =>
        RunAsync(shards, usesPostgres, rounds, TimeSpan.Zero, options);

    private async Task RunAsync(int shards, bool usesPostgres, int rounds, TimeSpan clockSkew, params string[] options)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres) { Options = options, ClockSkew = clockSkew };
        await cluster.StartAsync();
        var run = new ClusterChaosRun(cluster, rounds, Seed, output.WriteLine);
        await run.RunAsync();
        Assert.True(run.CommittedChecked > 0, "no writer ever heard of a commit");
    }
}
