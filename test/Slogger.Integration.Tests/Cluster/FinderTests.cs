// The exact and the hybrid finder, the coordinator's role, leases, and recovery from a dead shard: with real processes.
using System.Globalization;
using Slogger.Core.Identities;
using Slogger.Core.Sessions;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sessions;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

public sealed class FinderTests(ITestOutputHelper output)
{
    private static int Seed =>
        int.TryParse(Environment.GetEnvironmentVariable("SLOGGER_CHAOS_SEED"), NumberStyles.None, CultureInfo.InvariantCulture,
            out int seed) ? seed : Environment.TickCount & 0xFFFFFF;

    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task Postgres_ThreeShards_SessionsFindAPrefixAfterEveryFailure(string finder)
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 3, usesPostgres: true) { Finder = finder };
        await cluster.StartAsync();
        var run = new ClusterChaosRun(cluster, rounds: 8, Seed, output.WriteLine);
        await run.RunAsync();
        output.WriteLine(run.Summary());
        Assert.True(run.CommittedChecked > 0, "no writer ever heard of a commit");
    }

    // What the paper's exact finder is for: a slow shard holds up only who depends on it.
    [Theory]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task DeadShard_SessionsThatDoNotDependOnIt_GoOnCommitting(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 3, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await CoordinatedAsync(cluster);
        int dead = (await cluster.CoordinatorAsync() + 1)!.Value % 3, first = (dead + 1) % 3, second = (dead + 2) % 3;
        cluster.KillProxy(dead);
        using SessionClient a = await SessionClient.ConnectAsync(cluster.Endpoint(first));
        using SessionClient b = await SessionClient.ConnectAsync(cluster.Endpoint(second));
        SessionId id = SessionClient.NewId();
        Dictionary<string, RespValue> hello = await a.HelloAsync(id);
        Assert.Equal(finder, hello["finder"].Text);
        Assert.Equal(3, hello["shards"].AsInteger());
        var session = new ClientSession(id, new(hello["worldline"].AsInteger()), new ClientSessionOptions { TrackDependencies = true });
        for (int i = 0; i < 10; i++)
        {
            foreach ((SessionClient client, int shard) in new[] { (a, first), (b, second) })
            {
                Assert.True(session.TryBegin(new ShardId(shard), 1, out BatchHeader header));
                await client.SendAsync(header, ["SET", cluster.Key(shard, "k"), $"{i}"]);
                BatchOutcome outcome = await client.ReadAsync(1);
                Assert.Null(outcome.Refusal);
                Assert.Equal(ReplyOutcome.Completed, session.OnReply(new ShardId(shard), header.First, outcome.Reply));
            }
        }

        await Eventually.AsyncTrue("what does not depend on the dead shard is committed", Limit, async () =>
        {
            RespValue cut = await a.Wire.DoAsync("DPR.CUT", "SHARDS");
            session.OnCommitted(new(cut.Items[0].Number),
                [.. cut.Items.Skip(1).Select(v => new Slogger.Core.Versions.VersionNumber(v.Number))]);
            return session.Committed == session.Begun;
        });
        Assert.True(cluster.IsDown(dead));
    }

    [Fact]
    public async Task Coordinator_Killed_AnotherTakesTheRole()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 3, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        int first = await CoordinatedAsync(cluster);
        cluster.KillProxy(first);
        await Eventually.AsyncTrue("another coordinates", Limit, async () => await cluster.CoordinatorAsync() is { } now && now != first);
        await cluster.StartProxyAsync(first);
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(first);
        await client.DoAsync("SET", cluster.Key(first, "k"), "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number);
        await Eventually.AsyncTrue("it is connected to the other", Limit,
            async () => await cluster.InfoAsync(first, "coordinator") == "connected");
    }

    [Fact]
    public async Task Finder_AnotherThanTheClusters_IsRefusedClearly()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false) { Finder = "hybrid" };
        await cluster.StartAsync();
        using ProxyProcess proxy = Launch(workspace, "--shard", "1", "--finder", "exact");
        Assert.NotEqual(0, await proxy.ExitAsync(TimeSpan.FromSeconds(30)));
        Assert.Contains("was made with --finder hybrid, not exact", proxy.Tail(), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Status_AShardDies_OthersSaySinceWhen()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await Eventually.AsyncTrue("both are up", Limit, async () =>
            (await cluster.InfoAsync(0, "shard1"))?.StartsWith("up,", StringComparison.Ordinal) == true);
        cluster.KillProxy(1);
        await Eventually.AsyncTrue("it is down", Limit, async () =>
            (await cluster.InfoAsync(0, "shard1"))?.StartsWith("down,since_s=", StringComparison.Ordinal) == true);
        (int exit, string text) = await ProxyProcess.CommandAsync("status", cluster.Endpoint(0).ToString()!);
        Assert.Equal(0, exit);
        Assert.Contains("down,since_s=", text, StringComparison.Ordinal);
        await cluster.StartProxyAsync(1);
        await Eventually.AsyncTrue("it is up again", Limit,
            async () => (await cluster.InfoAsync(0, "shard1"))?.StartsWith("up,", StringComparison.Ordinal) == true);
    }

    [Fact]
    public async Task Deposed_ProxyWhoseShardIsTaken_StopsAndSaysWhy()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using ProxyProcess another = Launch(workspace, "--shard", "1");
        await Eventually.AsyncTrue("the first proxy of the shard has ended", Limit, () => Task.FromResult(cluster.IsDown(1)));
        Assert.Contains("has been taken by another proxy", cluster.Tail(), StringComparison.Ordinal);
        another.KillHard();
        await SupervisedRedis.KillAsync(workspace.Folder("other"));
    }

    [Theory]
    [InlineData("approximate")]
    [InlineData("hybrid")]
    public async Task Recover_DeadShard_OthersGoOnInANewWorldLineAndItComesBack(string finder)
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 3, usesPostgres: false) { Finder = finder };
        await cluster.StartAsync();
        long before = await cluster.ServingAsync();
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            await client.DoAsync("SET", cluster.Key(0, "committed"), "1");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number);
        }

        cluster.KillProxy(2);
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            await client.DoAsync("SET", cluster.Key(0, "not"), "1");
        }

        (int exit, string text) = await ProxyProcess.CommandAsync(
            "recover", "--shard", "2", "--metadata", "sqlite:" + workspace.File("metadata.db"));
        output.WriteLine(text);
        Assert.Equal(0, exit);
        await Eventually.AsyncTrue("the others are in the new world-line", Limit, async () =>
        {
            try
            {
                return (await cluster.CutAsync(0)).WorldLine > before && (await cluster.CutAsync(1)).WorldLine > before;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
        await cluster.StartProxyAsync(2);
        Assert.Equal(before + 1, await cluster.ServingAsync());
        using (RespClient client = await cluster.ConnectAsync(0))
        {
            Assert.Equal("$1", (await client.CallAsync("GET", cluster.Key(0, "committed"))).Compact);
            await client.DoAsync("SET", cluster.Key(0, "after"), "1");
            if (finder == "approximate") { Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "30000")).Items[2].Number); }
        }
    }

    [Fact]
    public async Task Recover_ShardLivesOrIsUnknown_IsRefusedAndChangesNothing()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await cluster.StartAsync();
        long before = await cluster.ServingAsync();
        string metadata = "sqlite:" + workspace.File("metadata.db");
        foreach ((string[] options, string what) in new (string[], string)[]
        {
            (["--shard", "1", "--metadata", metadata], "shard 1 lives"),
            (["--shard", "2", "--metadata", metadata], "there is no shard 2"),
            (["--shard", "1", "--cluster", "other", "--metadata", metadata], "knows no cluster \"other\""),
            (["--metadata", metadata], "no shard is given"),
            (["--shard", "1", "--metadata", metadata + ".not"], "does not exist"),
        })
        {
            (int exit, string text) = await ProxyProcess.CommandAsync(["recover", .. options]);
            Assert.NotEqual(0, exit);
            Assert.Contains(what, text, StringComparison.Ordinal);
        }

        Assert.Equal(before, await cluster.ServingAsync());
    }

    private static async Task<int> CoordinatedAsync(ClusterDeployment cluster)
    {
        int? shard = null;
        await Eventually.AsyncTrue("somebody coordinates", Limit, async () => (shard = await cluster.CoordinatorAsync()) is not null);
        return shard!.Value;
    }

    private static ProxyProcess Launch(Workspace workspace, params string[] options) => ProxyProcess.Launch(Workspace.FreePort(),
        ["--redis-server", RedisProcess.Executable, "--data", workspace.Folder("other"), "--metadata",
            "sqlite:" + workspace.File("metadata.db"), .. options]);
}
