// What happens around the proxy: SQL dies and returns, the clock is set back, an attached Redis comes back with other
// data, the proxy is stopped in order, plain clients are told instead of closed.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class MisfortuneTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Sql_DownAndBack_OperationsGoOnAndWaitsWait()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Postgres: true));
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        using var waiting = await deployment.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());

        deployment.Postgres.KillHard();
        await Task.Delay(500); // Whatever was being recorded has failed by now.
        for (int i = 0; i < 1000; i++)
        {
            Assert.Equal("+OK", (await client.CallAsync("SET", "a", $"{i}")).Compact);
        }

        var timedOut = await client.DoAsync("DPR.WAIT", "*", "500");
        Assert.Equal(0, timedOut.Items[2].AsInteger());
        await waiting.DoAsync("SET", "b", "2");
        await waiting.SendAsync("DPR.WAIT", "*", "60000");
        await Task.Delay(300);
        await deployment.Postgres.RestartAsync();
        Assert.Equal(1, (await waiting.ReadAsync(Generous)).Items[2].AsInteger());
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
    }

    // After an outage everything is started at once, and the database may be the last.
    [Fact]
    public async Task Start_WhileSqlIsDown_WaitsForIt()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Postgres: true));
        await deployment.StartAsync();
        using (var before = await deployment.ConnectAsync()) { await before.DoAsync("SET", "a", "1"); }
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        deployment.Postgres.KillHard();
        using ProxyProcess waiting = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions);
        await Eventually.AsyncTrue("it says that it waits", Generous,
            () => Task.FromResult(waiting.Tail().Contains("the start waits for the metadata", StringComparison.Ordinal)));
        Assert.False(waiting.HasExited);
        await deployment.Postgres.RestartAsync();
        await waiting.ReadyAsync();
        using var after = await deployment.ConnectAsync();
        Assert.Equal("$1", (await after.CallAsync("GET", "a")).Compact);
    }

    [Fact]
    public async Task Clock_SetBackWhileRunningAndBetweenStarts_VersionsGoOn()
    {
        string? library = new[] { "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1",
            "/usr/lib/aarch64-linux-gnu/faketime/libfaketime.so.1" }
            .FirstOrDefault(File.Exists);
        Assert.SkipWhen(library is null, "libfaketime is not installed (apt-get install faketime)");
        using var workspace = new Workspace();
        string clock = workspace.File("clock");
        await File.WriteAllTextAsync(clock, "+0\n");
        var setup = new ProxySetup(Attached: true)
        {
            Environment = new Dictionary<string, string>
            {
                ["LD_PRELOAD"] = library!,
                ["FAKETIME_TIMESTAMP_FILE"] = clock,
                ["FAKETIME_NO_CACHE"] = "1",
                ["FAKETIME_DONT_FAKE_MONOTONIC"] = "1",
            },
        };
        await using var deployment = new ProxyDeployment(workspace, setup);
        await deployment.StartAsync();
        long before = await CommitAsync(deployment);
        await File.WriteAllTextAsync(clock, "-3600\n");
        long running = await CommitAsync(deployment);
        Assert.True(running > before, $"cut {before}, then {running} with the clock an hour back");

        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync();
        long restarted = await CommitAsync(deployment);
        Assert.True(restarted >= running, $"cut {running}, then {restarted} after a restart with the clock an hour back");
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        Assert.True(await CommitAsync(deployment) >= restarted);
        using var client = await deployment.ConnectAsync();
        Assert.Equal("$4", (await client.CallAsync("GET", "n")).Compact);
    }

    [Fact]
    public async Task Attached_RedisWithForeignData_IsNeverOverwritten()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        await CommitAsync(deployment);
        deployment.Proxy.KillHard();
        deployment.Redis.KillHard();
        await deployment.Redis.RestartAsync();
        using (var direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("SET", "foreign", "data");
        }

        using (var refused = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions))
        {
            int? exitCode = await refused.ExitAsync(Generous);
            Assert.True(exitCode is not null and not 0, $"exit code {exitCode}\n{refused.Tail()}");
            Assert.Contains("from-redis", refused.Tail(), StringComparison.Ordinal);
            Assert.Contains("from-log", refused.Tail(), StringComparison.Ordinal);
        }

        using (var direct = await deployment.Redis.ConnectAsync())
        {
            Assert.Equal("$data", (await direct.CallAsync("GET", "foreign")).Compact);
        }

        using var proxy = await ProxyProcess.StartAsync(deployment.Port, [.. deployment.ServeOptions, "--seed", "from-log"]);
        using var client = await proxy.ConnectAsync();
        Assert.Equal("_", (await client.CallAsync("GET", "foreign")).Compact);
        Assert.Equal("$1", (await client.CallAsync("GET", "n")).Compact);
    }

    [Fact]
    public async Task FirstStart_NonEmptyRedis_IsTakenOverAndSurvivesItsLoss()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Options = ["--seed", "from-redis"] });
        // The Redis has to be there before the proxy: started empty, filled, then the data directory is made new.
        await deployment.StartAsync();
        deployment.Proxy.KillHard();
        Directory.Delete(deployment.DataDirectory, recursive: true);
        Directory.CreateDirectory(deployment.DataDirectory);
        using (var direct = await deployment.Redis.ConnectAsync())
        {
            for (int i = 0; i < 2000; i++)
            {
                await direct.DoAsync("SET", $"old{i}", $"{i}");
            }
        }

        await deployment.StartProxyAsync();
        await CommitAsync(deployment);
        var before = await ObservedState.ReadAsync(deployment.Endpoint);
        Assert.Equal(2001, before.Entries.Count);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        var after = await ObservedState.ReadAsync(deployment.Endpoint);
        Assert.Equal([], ObservedState.Differences(before.Entries, after.Entries));
    }

    [Fact]
    public async Task Sigterm_UnderLoad_KeepsEverythingAnsweredAndExitsZero()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup())
        {
            Faults = [ProxyDeployment.AllFaults.First(f => f.Name == "sigterm")],
        };
        var options = new ChaosOptions(Rounds: 3, Seed: 3, ReplayEvery: 0) { Report = output.WriteLine };
        var report = await new ChaosRun(deployment, options).RunAsync();
        Assert.True(report.Violations.Count == 0, report.Text);
    }

    // Before the front end has a connection to its store, or just when it has.
    [Theory]
    [InlineData("log")]
    [InlineData("bgsave")]
    [InlineData("faster")]
    public async Task Stop_RightBehindTheStart_IsInOrder(string commit)
    {
        using var workspace = new Workspace();
        int port = Workspace.FreePort();
        string data = workspace.File("data");
        string[] store = commit == "faster" ? ["--faster-memory", "256mb"]
            : ["--redis-server", RedisProcess.Executable, "--commit", commit];
        for (int i = 0; i < 8; i++)
        {
            using var proxy = await ProxyProcess.StartAsync(port, ["--data", data, .. store]);
            Assert.Equal(0, await proxy.TerminateAsync());
            Assert.DoesNotContain("could not be committed in time", proxy.Tail(), StringComparison.Ordinal);
        }
    }

    [Theory]
    [InlineData("close", false)]
    [InlineData("error", false)]
    [InlineData("close", true)]
    public async Task Rollback_IdleClient_LearnsOfItOnceAsConfigured(string onRollback, bool usesDpr)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Options = ["--on-rollback", onRollback] });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        await client.DoAsync("SELECT", "0");
        await deployment.WaitCommittedAsync();
        if (usesDpr)
        {
            await client.DoAsync("DPR.WORLDLINE");
        }

        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        if (!usesDpr && onRollback == "close")
        {
            Assert.True(await client.IsClosedWithinAsync(Generous));
            return;
        }

        var first = await client.CallAsync("GET", "a");
        Assert.StartsWith("-ROLLBACK worldline=", first.Compact, StringComparison.Ordinal);
        Assert.Contains("survived=2", first.Text, StringComparison.Ordinal);
        if (!usesDpr)
        {
            Assert.True(await client.IsClosedWithinAsync(Generous));
            return;
        }

        Assert.Equal("+OK", (await client.ResumeAsync(first)).Compact);
        Assert.Equal("$1", (await client.CallAsync("GET", "a")).Compact);
        Assert.Equal("+OK", (await client.CallAsync("SET", "a", "2")).Compact);
    }

    [Fact]
    public async Task Restore_AnEarlierVersion_GivesThatVersionsState()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        await CommitAsync(deployment);
        long version;
        using (var client = await deployment.ConnectAsync())
        {
            version = (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
            await Task.Delay(50);
            for (int i = 0; i < 5; i++)
            {
                await client.DoAsync("INCR", "n");
            }
        }

        await deployment.WaitCommittedAsync();
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        using var fresh = await RedisProcess.StartAsync(workspace.Folder("fresh"));
        var (exitCode, text) = await ProxyProcess.CommandAsync("restore", "--data", deployment.DataDirectory,
            "--version", version.ToString(CultureInfo.InvariantCulture), "--redis", $"127.0.0.1:{fresh.Port}");
        Assert.True(exitCode == 0, text);
        using var restored = await fresh.ConnectAsync();
        Assert.Equal("$1", (await restored.CallAsync("GET", "n")).Compact);
    }

    /// <summary>Adds one to "n", waits for its commit, returns the version of the cut.</summary>
    private static async Task<long> CommitAsync(ProxyDeployment deployment)
    {
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("INCR", "n");
        var reply = await client.DoAsync("DPR.WAIT", "*", "20000");
        Assert.True(reply.Items[2].AsInteger() == 1, $"{reply}\n{deployment.Tail()}");
        return (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
    }
}
