// The sample client in Python, which has only docs/reference/sessions.md to go by, against two proxies of one cluster.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Sessions;

public sealed class PythonSampleTests
{
    private const int Operations = 6000;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(120);

    // With the finder exact each shard goes back to a version of its own.
    [Theory]
    [InlineData("approximate")]
    [InlineData("exact")]
    [InlineData("hybrid")]
    public async Task Demo_OverTwoShardsOneOfWhichIsKilled_CommitsAllAndTellsOfTheRollback(string finder)
    {
        await RunAsync(finder, ["--operations", Operations.ToString(CultureInfo.InvariantCulture)], async (demo, workspace) =>
        {
            await demo.WaitForLineAsync(l => l.StartsWith("committed=", StringComparison.Ordinal), Generous);
            Assert.True(await SupervisedRedis.KillAsync(workspace.File("data1")));
            Assert.True(await demo.WaitForExitAsync(Generous), demo.Tail());
            Assert.True(demo.ExitCode == 0, demo.Tail());
            await demo.WaitForLineAsync(l => l.StartsWith("rollback world-line 2: survived=", StringComparison.Ordinal), Generous);
            string end = await demo.WaitForLineAsync(l => l.StartsWith("done committed=", StringComparison.Ordinal), Generous);
            Assert.True(long.Parse(end["done committed=".Length..], CultureInfo.InvariantCulture) >= Operations, end);
        });
    }

    // The first round is of 128 increments of each counter.
    [Fact]
    public Task Past_OfTheFirstRound_HasItsCountersAtBothShards() => RunAsync("approximate", ["--operations", "768", "--past"],
        async (demo, _) =>
    {
        Assert.True(await demo.WaitForExitAsync(Generous), demo.Tail());
        Assert.True(demo.ExitCode == 0, demo.Tail());
        await demo.WaitForLineAsync(l => l.StartsWith("committed=768 of=768", StringComparison.Ordinal), Generous);
        await demo.WaitForLineAsync(l => l.StartsWith("as of version=", StringComparison.Ordinal)
            && l.EndsWith(" counters=128,128", StringComparison.Ordinal), Generous);
    });

    private static async Task RunAsync(string finder, string[] options, Func<ChildProcess, Workspace, Task> check)
    {
        string python = Interpreter() ?? Skip("python3 is not installed");
        using var workspace = new Workspace();
        string metadata = "sqlite:" + workspace.File("metadata.db");
        var proxies = new ProxyProcess[2];
        try
        {
            for (int i = 0; i < 2; i++)
            {
                proxies[i] = await ProxyProcess.StartAsync(Workspace.FreePort(),
                [
                    "--redis-server", RedisProcess.Executable, "--data", workspace.Folder($"data{i}"), "--metadata", metadata,
                    "--shard", i.ToString(CultureInfo.InvariantCulture), "--shards", "2", "--finder", finder,
                ]);
            }

            using var demo = ChildProcess.Start("dpr_session.py", python,
                [Sample(), "--demo", .. options, .. proxies.Select(p => p.Endpoint.ToString()!)]);
            await check(demo, workspace);
        }
        finally
        {
            for (int i = 0; i < 2; i++)
            {
                proxies[i]?.Dispose();
                await SupervisedRedis.KillAsync(workspace.File($"data{i}"));
            }
        }
    }

    private static string Skip(string why)
    {
        Assert.Skip(why);
        return "";
    }

    private static string? Interpreter() => (Environment.GetEnvironmentVariable("PATH") ?? "").Split(':').Append("/usr/bin")
        .Select(folder => Path.Combine(folder, "python3")).FirstOrDefault(File.Exists);

    private static string Sample()
    {
        for (var folder = new DirectoryInfo(AppContext.BaseDirectory); folder is not null; folder = folder.Parent)
        {
            string path = Path.Combine(folder.FullName, "samples", "python", "dpr_session.py");
            if (File.Exists(path)) { return path; }
        }

        throw new InvalidOperationException("samples/python/dpr_session.py is not above " + AppContext.BaseDirectory);
    }
}
