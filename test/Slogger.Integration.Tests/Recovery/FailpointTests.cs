// The proxy dies between two steps of a recovery, at each of them; once in a recovery while it runs, once in the one at its next
// start. The start after that must come back to a right prefix, and be able to lose its Redis again.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Recovery;

public sealed class FailpointTests
{
    private const int Killed = 137;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private static readonly Dictionary<string, string> Nowhere = [];

    [Theory]
    [InlineData(false, "world-line-recorded")]
    [InlineData(false, "branch-written")]
    [InlineData(false, "origin-recorded")]
    [InlineData(false, "restore-running")]
    [InlineData(false, "restore-at-target")]
    [InlineData(false, "restored")]
    [InlineData(false, "attached")]
    [InlineData(false, "identity-written")]
    [InlineData(false, "clients-told")]
    [InlineData(true, "world-line-recorded")]
    [InlineData(true, "restore-running")]
    [InlineData(true, "restored")]
    [InlineData(true, "attached")]
    [InlineData(true, "clients-told")]
    public Task Log_KilledWithinARecovery_TheNextStartRecovers(bool attached, string point) => KillWithinAsync("log", attached, point);

    [Theory]
    [InlineData(false, "world-line-recorded")]
    [InlineData(false, "restore-at-target")]
    [InlineData(false, "snapshot-kept")]
    [InlineData(true, "world-line-recorded")]
    [InlineData(true, "origin-recorded")]
    [InlineData(true, "note-written")]
    [InlineData(true, "restore-running")]
    [InlineData(true, "restore-at-target")]
    [InlineData(true, "restored")]
    [InlineData(true, "snapshot-kept")]
    [InlineData(true, "identity-written")]
    [InlineData(true, "clients-told")]
    public Task Bgsave_KilledWithinARecovery_TheNextStartRecovers(bool attached, string point) =>
        KillWithinAsync("bgsave", attached, point);

    [Theory]
    [InlineData("")]
    [InlineData("checkpoint-kept")]
    [InlineData("history-begun")]
    public async Task Backlog_OverflowsWhileTheProxyIsAway_ACheckpointGoesOnWithTheSameHistory(string point)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        var list = new CountedList(deployment);
        await list.CommitAsync(100);
        await list.PushAsync(50);
        deployment.Proxy.KillHard();
        using (var direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("CONFIG", "SET", "repl-backlog-size", "16384");
            for (int i = 0; i < 100; i++)
            {
                await direct.DoAsync("SET", $"direct{i}", new string('d', 1000));
            }
        }

        if (point.Length > 0)
        {
            using var dying = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions, At(point));
            int? exitCode = await dying.ExitAsync(Generous);
            Assert.True(exitCode == Killed, $"exit code {exitCode} at {point}\n{dying.Tail()}");
        }

        await deployment.StartProxyAsync(Nowhere);
        // After history-begun the log ends where Redis stands.
        Assert.Contains(point == "history-begun" ? "nothing was lost" : "by a fresh checkpoint", deployment.Tail(),
            StringComparison.Ordinal);
        await list.CheckAsync("after the gap", least: 150);
        await list.CommitAsync(50);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync("after the loss of Redis", least: 200);
        using var client = await deployment.ConnectAsync();
        Assert.Equal(101, (await client.DoAsync("DBSIZE")).AsInteger());
    }

    [Fact]
    public async Task Backlog_OverflowsWhileTheProxyIsAway_NothingIsReportedCommittedThatIsNotRecorded()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        // Long versions: the next record is far away.
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true, Postgres: true, VersionInterval: "3s"));
        await deployment.StartAsync();
        await new CountedList(deployment).CommitAsync(10);
        deployment.Proxy.KillHard();
        using (var direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("CONFIG", "SET", "repl-backlog-size", "16384");
            for (int i = 0; i < 100; i++)
            {
                await direct.DoAsync("SET", $"direct{i}", new string('d', 1000));
            }
        }

        // As if the proxy had died before the last record: what is durable is ahead of what is recorded.
        Assert.Equal(1, await SqlAsync("UPDATE slogger_shards SET cut_version = cut_version - 1 RETURNING 1"));
        await deployment.StartProxyAsync();
        Assert.Contains("by a fresh checkpoint", deployment.Tail(), StringComparison.Ordinal);
        using var client = await deployment.ConnectAsync();
        long told = (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
        long recorded = await SqlAsync("SELECT cut_version FROM slogger_shards");
        Assert.True(told <= recorded, $"version {told} is said to be committed, recorded is {recorded}");

        async Task<long> SqlAsync(string text)
        {
            var (_, output) = await ChildProcess.RunAsync(Path.Combine(PostgresProcess.Programs!, "psql"),
                ["-h", "127.0.0.1", "-p", $"{deployment.Postgres.Port}", "-U", "postgres", "-d", "postgres", "-qtAc", text]);
            return long.Parse(output.Split('\n').Last(l => l.Length > 0 && char.IsAsciiDigit(l[0])), CultureInfo.InvariantCulture);
        }
    }

    private static async Task KillWithinAsync(string commit, bool attached, string point)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: attached) { Commit = commit, Environment = At(point) });
        await deployment.StartAsync();
        var list = new CountedList(deployment);
        await list.CommitAsync(100);
        await list.PushAsync(100);
        await deployment.KillRedisAsync();
        if (attached)
        {
            await deployment.Redis.RestartAsync();
        }

        int? exitCode = await deployment.Proxy.ExitAsync(Generous);
        Assert.True(exitCode == Killed, $"exit code {exitCode} at {point}\n{deployment.Tail()}");
        try
        {
            // Dies there again, or finds that all was done.
            await deployment.StartProxyAsync(At(point));
            deployment.Proxy.KillHard();
        }
        catch (InvalidOperationException e)
        {
            Assert.DoesNotContain("Unhandled", e.Message, StringComparison.Ordinal);
        }

        await deployment.StartProxyAsync(Nowhere);
        await list.CheckAsync($"killed at {point}");
        await list.CommitAsync(50);
        await list.PushAsync(20);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync($"Redis lost again after {point}");
        await list.CommitAsync(10);
    }

    private static Dictionary<string, string> At(string point) => new() { ["SLOGGER_TEST_FAILPOINT"] = point };
}
