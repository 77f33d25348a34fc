// A cluster that grows and shrinks, and whose interval changes, under writers that work on all shards: whatever is killed on the way,
// what comes back is one consistent prefix, and nothing committed is lost (invariants I1, I2, I3, I5).
using System.Globalization;
using System.Text;
using Slogger.Client;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Moves;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Resp;
using RespValue = Slogger.Integration.Tests.Wire.RespValue;

namespace Slogger.Integration.Tests.Cluster;

public sealed class MembershipTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    private static int Seed =>
        int.TryParse(System.Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : System.Environment.TickCount & 0xFFFFFF;

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Cluster_GrowsAndShrinksUnderLoad_EveryFailureOnTheWayLeavesOnePrefix(bool usesPostgres)
    {
        Assert.SkipWhen(usesPostgres && PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres, joiners: 1);
        await cluster.StartAsync();
        await RunAsync(cluster,
        [
            ("the joiner dies before it has joined", _ => cluster.JoinUpToAsync("join-begun")),
            ("a store is killed while a dead joiner waits", _ => cluster.KillRedisAsync(0)),
            ("the joiner dies when it is admitted, with its store", async _ =>
            {
                await cluster.JoinUpToAsync("join-admitted");
                await SupervisedRedis.KillAsync(cluster.Data(2));
            }),
            ("the joiner comes back", _ => cluster.JoinAsync()),
            ("slots move to it, a store is killed", async writers =>
            {
                await MoveAsync(cluster, writers, 0, from: 0, to: 2);
                await cluster.KillRedisAsync(1);
            }),
            ("its store is killed", _ => cluster.KillRedisAsync(2)),
            ("it leaves too early", async _ =>
            {
                (int exit, string said) = await cluster.LeaveAsync();
                Assert.True(exit == 1 && said.Contains("owns", StringComparison.Ordinal), said);
            }),
            ("its proxy and its store are killed", async _ =>
            {
                cluster.KillProxy(2);
                await cluster.KillRedisAsync(2);
                await cluster.StartProxyAsync(2);
            }),
            ("slots move away again, another store is killed", async writers =>
            {
                await MoveAsync(cluster, writers, 0, from: 2, to: 1);
                await cluster.KillRedisAsync(0);
            }),
            ("it leaves", async _ =>
            {
                await cluster.MovesOverAsync();
                (int exit, string said) = await cluster.LeaveAsync();
                Assert.True(exit == 0, said);
                Assert.Equal(0, await cluster.ExitAsync(2, Generous));
            }),
            ("a store is killed when it is gone", _ => cluster.KillRedisAsync(1)),
        ]);
        using RespClient client = await cluster.ConnectAsync(0);
        Assert.Equal(2, (await client.DoAsync("CLUSTER", "SLOTS")).Items.Select(i => i.Items[2].Items[1].Number).Distinct().Count());
        await HasLeftAsync(cluster, 2);
    }

    [Fact]
    public async Task Leave_TheShardIsDead_TheClusterCommitsWithoutIt()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.JoinAsync();
        await cluster.ServingAsync();
        await RunAsync(cluster,
        [
            ("it dies, and is removed", async _ =>
            {
                cluster.KillProxy(2);
                await cluster.KillRedisAsync(2);
                (int exit, string said) = await cluster.LeaveAsync();
                Assert.True(exit == 0 && said.Contains("is dead", StringComparison.Ordinal), said);
            }),
            ("nothing", _ => Task.CompletedTask),
        ]);
        await WaitAsync(cluster, 0);
        InvalidOperationException refused = await Assert.ThrowsAsync<InvalidOperationException>(() => cluster.StartProxyAsync(2));
        Assert.Contains("numbers are not given out again", refused.Message, StringComparison.Ordinal);
    }

    // Before it serves nobody any more, before it ends, before it could say that it has left, and behind that.
    [Theory]
    [InlineData("leave-begun", true)]
    [InlineData("leave-allowed", true)]
    [InlineData("leave-closed", true)]
    [InlineData("leave-told", false)]
    public async Task Leave_TheProxyDiesOnTheWay_TheCommandFinishesIt(string point, bool isFoundDead)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.JoinAsync();
        cluster.KillProxy(2);
        await cluster.StartProxyAsync(2, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point });
        await cluster.ServingAsync();
        (int exit, string said) = await cluster.LeaveAsync();
        Assert.True(exit == 0 && said.Contains("is dead", StringComparison.Ordinal) == isFoundDead, said);
        Assert.Equal(137, await cluster.ExitAsync(2, Generous));
        await cluster.ServingAsync();
        await WaitAsync(cluster, 0);
        await WaitAsync(cluster, 1);
        await HasLeftAsync(cluster, 2);
        InvalidOperationException refused = await Assert.ThrowsAsync<InvalidOperationException>(() => cluster.StartProxyAsync(2));
        Assert.Contains("numbers are not given out again", refused.Message, StringComparison.Ordinal);
    }

    // The cut cannot come to what it answered, since another shard stands still: it counts, also when it is stopped.
    [Fact]
    public async Task Leave_StoppedBeforeTheCutHasCome_HasNotLeft()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.JoinAsync();
        await cluster.ServingAsync();
        Task<(int ExitCode, string Output)> leaving;
        // One that is put to sleep inside a transaction of SQLite keeps all others out: another moment, then.
        for (int i = 0; ; i++)
        {
            cluster.SuspendProxy(1);
            leaving = cluster.LeaveAsync();
            await Eventually.AsyncTrue("it is leaving, or cannot", Generous, () => Task.FromResult(IsLeaving() || leaving.IsCompleted));
            if (IsLeaving() || i == 4) { break; }
            cluster.ResumeProxy(1);
        }

        Assert.True(IsLeaving(), leaving.IsCompleted ? (await leaving).Output : cluster.Tail());
        Assert.Equal(0, await cluster.TerminateProxyAsync(2));
        Assert.Contains("so that it has not left", cluster.Tail(), StringComparison.Ordinal);
        cluster.ResumeProxy(1);
        // It is found dead, and a world-line says what is lost.
        (int exit, string said) = await leaving;
        Assert.True(exit == 0 && said.Contains("is dead", StringComparison.Ordinal), said);
        await cluster.ServingAsync();
        await WaitAsync(cluster, 0);
        await WaitAsync(cluster, 1);

        bool IsLeaving() => cluster.Tail().Contains("leaves cluster", StringComparison.Ordinal);
    }

    // A proxy that never comes, or has not come yet, is in nobody's way, and can be removed.
    [Fact]
    public async Task Join_TheJoinerIsNeverAdmitted_HoldsNobodyUp()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await cluster.JoinUpToAsync("join-begun");
        await WaitAsync(cluster, 0);
        await cluster.KillRedisAsync(1);
        Assert.Equal(2, await cluster.ServingAsync());
        await WaitAsync(cluster, 1);
        Assert.Contains("has not joined", (await cluster.MoveAsync("--slots", "0-5", "--to", "2")).Output, StringComparison.Ordinal);
        Assert.Equal(0, (await ProxyProcess.CommandAsync("leave", "--metadata", cluster.Metadata, "--shard", "2")).ExitCode);
        InvalidOperationException refused = await Assert.ThrowsAsync<InvalidOperationException>(() => cluster.StartProxyAsync(2));
        Assert.Contains("the next shard to join is 3", refused.Message, StringComparison.Ordinal);
    }

    [Fact]
    public async Task Join_TheRedisHoldsData_IsRefused()
    {
        using var workspace = new Workspace();
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("own"));
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1)
        {
            Store = shard => shard < 2 ? ["--redis-server", RedisProcess.Executable] : ["--redis", $"127.0.0.1:{redis.Port}"],
        };
        await cluster.StartAsync();
        using (RespClient direct = await RespClient.ConnectAsync(redis.Endpoint)) { await direct.DoAsync("SET", "a", "1"); }
        InvalidOperationException refused = await Assert.ThrowsAsync<InvalidOperationException>(() => cluster.JoinAsync());
        Assert.Contains("joins a cluster with an empty Redis", refused.Message, StringComparison.Ordinal);
        using (RespClient direct = await RespClient.ConnectAsync(redis.Endpoint)) { await direct.DoAsync("FLUSHALL"); }
        await cluster.JoinAsync();
        await cluster.ServingAsync();
        await WaitAsync(cluster, 2, "PING");
    }

    // Stock cluster clients learn of the shard by MOVED and CLUSTER SLOTS, Slogger.Client too; its sessions commit at it and without it.
    [Fact]
    public async Task Clients_AShardJoinsAndLeaves_TheyFollow()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using var plain = new MovingKeys(cluster, [.. MovingKeys.In(0, 99, 20, "p"), .. MovingKeys.In(9000, 9100, 5, "p")]);
        await using SloggerClient client = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = client.OpenSession();
        string[] keys = [.. MovingKeys.In(0, 99, 5, "s"), .. MovingKeys.In(9000, 9100, 5, "s")];
        using var stop = new CancellationTokenSource();
        Task running = Task.Run(() => plain.RunAsync(1, stop.Token));
        long count = 0;
        async Task IncrementAllAsync()
        {
            count++;
            foreach (string key in keys) { Assert.Equal(count, (await session.IncrementAsync(key)).Value); }
            await session.WaitForCommitAsync();
        }
        await IncrementAllAsync();
        await cluster.JoinAsync();
        await IncrementAllAsync();
        await cluster.ServingAsync();
        (int exit, string said) = await cluster.MoveAsync("--slots", "0-99", "--to", "2");
        Assert.True(exit == 0, said);
        await IncrementAllAsync();
        using (RespClient direct = await cluster.ConnectAsync(2)) { Assert.Equal("3", (await direct.DoAsync("GET", keys[0])).Text); }
        (exit, said) = await cluster.MoveAsync("--slots", "0-99", "--to", "1");
        Assert.True(exit == 0, said);
        await IncrementAllAsync();
        (exit, said) = await cluster.LeaveAsync();
        Assert.True(exit == 0, said);
        await IncrementAllAsync();
        await stop.CancelAsync();
        await running;
        await plain.CheckAsync();
        Assert.True(plain.Redirections > 0);
    }

    // What is durable moves on between a claim that is recorded and the question with the newest one. The claim that comes to be
    // recorded next is then older than the one with which the shard was admitted. Where the joiner already speaks with the
    // coordinator, that claim does not go to the metadata: so this sees a regression in about half of its runs. The simulator
    // sees it in each.
    [Fact]
    public async Task Join_VersionsBecomeDurableBeforeItAsks_ItGoesOn()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.JoinAsync(new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "join-asks+200" });
        await cluster.ServingAsync();
        Assert.Equal(0, (await cluster.MoveAsync("--slots", "5000-5100", "--to", "2")).ExitCode);
        using RespClient client = await cluster.ConnectAsync(2);
        await client.DoAsync("SET", "bar", "1");   // Slot 5061.
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
    }

    [Fact]
    public async Task Publish_AShardHasJoined_ReachesItsSubscribers()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false, joiners: 1);
        await cluster.StartAsync();
        await cluster.JoinAsync();
        await cluster.ServingAsync();
        using RespClient subscriber = await cluster.ConnectAsync(2), publisher = await cluster.ConnectAsync(0);
        await subscriber.DoAsync("SUBSCRIBE", "news");
        // Which shard has heard of which by now is not known: published until it comes.
        Task<RespValue> received = subscriber.ReadAsync(Generous);
        await Eventually.AsyncTrue("the message has come", Generous, async () =>
        {
            await publisher.DoAsync("PUBLISH", "news", "hello");
            return received.IsCompleted;
        });
        Assert.Equal("hello", (await received).Items[2].Text);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Interval_ChangedUnderLoad_EveryFailureLeavesOnePrefix(bool usesPostgres)
    {
        Assert.SkipWhen(usesPostgres && PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres);
        await cluster.StartAsync();
        await RunAsync(cluster,
        [
            ("1ms is asked for, a store is killed", async _ =>
            {
                await ChangeAsync(cluster, "1ms");
                await cluster.KillRedisAsync(0);
            }),
            ("a proxy that has agreed is killed, the others go over", async _ =>
            {
                cluster.KillProxy(1);
                await Task.Delay(3000);
                await cluster.StartProxyAsync(1);
            }),
            ("1ms is in force, a store is killed", async _ =>
            {
                await InForceAsync(cluster, 1000);
                await cluster.KillRedisAsync(2);
            }),
            ("10ms is asked for while a proxy sleeps beyond the change", async _ =>
            {
                await ChangeAsync(cluster, "10ms");
                cluster.SuspendProxy(0);
                await Task.Delay(4000);
                cluster.ResumeProxy(0);
            }),
            ("a proxy that sleeps agrees to nothing, and nothing changes", async _ =>
            {
                (int exit, string said) = (0, "");
                // One that is put to sleep inside a transaction of SQLite keeps all others out: another moment, then.
                for (int i = 0; i == 0 || (i < 20 && said.Contains("The metadata database", StringComparison.Ordinal)); i++)
                {
                    cluster.SuspendProxy(1);
                    (exit, said) = await cluster.ChangeIntervalAsync("2ms");
                    cluster.ResumeProxy(1);
                }
                Assert.Equal(1, exit);
                Assert.Contains("shard 1 did not agree", said, StringComparison.Ordinal);
            }),
            ("10ms is in force, a store and a proxy are killed", async _ =>
            {
                await InForceAsync(cluster, 10_000);
                await cluster.KillRedisAsync(1);
                cluster.KillProxy(2);
                await cluster.StartProxyAsync(2);
            }),
            ("5ms is asked for, everything is killed", async _ =>
            {
                await ChangeAsync(cluster, "5ms");
                for (int i = 0; i < 3; i++) { cluster.KillProxy(i); }
                for (int i = 0; i < 3; i++) { await cluster.KillRedisAsync(i); }
                for (int i = 0; i < 3; i++) { await cluster.StartProxyAsync(i); }
            }),
            ("5ms is in force", _ => InForceAsync(cluster, 5000)),
        ]);
        Assert.Equal(2, (await cluster.ChangeIntervalAsync("1us")).ExitCode);
    }

    private async Task RunAsync(ClusterDeployment cluster, IReadOnlyList<(string, Func<IReadOnlyList<ClusterWriter>, Task>)> course)
    {
        int seed = Seed;
        var run = new ClusterChaosRun(cluster, course.Count, seed, output.WriteLine) { Course = course };
        await run.RunAsync();
        output.WriteLine($"seed {seed}: {run.Summary()}");
        Assert.True(run.CommittedChecked > 0, "nothing was committed: nothing was shown");
    }

    // Moves all slots of the writers' keys that a shard has.
    private static async Task MoveAsync(ClusterDeployment cluster, IReadOnlyList<ClusterWriter> writers, int key, int from, int to)
    {
        int[] slots = [.. writers.Select(w => HashSlot.Of(Encoding.ASCII.GetBytes(w.Keys[key])).Number).Distinct().Order()];
        (int exit, string said) = await cluster.MoveAsync(
            "--slots", string.Join(',', slots), "--to", to.ToString(CultureInfo.InvariantCulture));
        Assert.True(exit == 0, $"from shard {from}: {said}");
    }

    private static async Task ChangeAsync(ClusterDeployment cluster, string to)
    {
        (int exit, string said) = await cluster.ChangeIntervalAsync(to);
        Assert.True(exit == 0, said);
    }

    // Shard 0 reads now and then who is in the cluster.
    private static Task HasLeftAsync(ClusterDeployment cluster, int shard) =>
        Eventually.AsyncTrue($"shard 0 says that shard {shard} has left", Generous, async () =>
        (await cluster.InfoAsync(0, $"shard{shard}"))?.StartsWith("left,", StringComparison.Ordinal) == true);

    private static Task InForceAsync(ClusterDeployment cluster, long microseconds) =>
        Eventually.AsyncTrue($"versions are of {microseconds} us", Generous, async () =>
    {
        for (int i = 0; i < cluster.Shards; i++)
        {
            if (await cluster.NumberAsync(i, "version_interval_us") != microseconds) { return false; }
        }

        return true;
    });

    // A world-line that was just begun may take the first try back.
    private static async Task WaitAsync(ClusterDeployment cluster, int shard, params string[] command)
    {
        RespValue waited = default!;
        for (int i = 0; i < 3; i++)
        {
            using RespClient client = await cluster.ConnectAsync(shard);
            try
            {
                RespValue reply = await client.CallAsync(command is [] ? ["SET", cluster.Key(shard, "k"), "1"] : command);
                waited = reply.IsError ? reply : await client.CallAsync("DPR.WAIT", "*", "20000");
                if (!waited.IsError || !waited.Text.StartsWith("ROLLBACK", StringComparison.Ordinal)) { break; }
            }
            catch (ConnectionLostException) when (i < 2)
            {
                // A command that was on its way when the world-line began has no answer.
                await cluster.ServingAsync();
            }
        }

        Assert.False(waited.IsError, waited.Compact);
        Assert.Equal(1, waited.Items[2].Number);
    }
}
