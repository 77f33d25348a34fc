// A log that lies in several directories (--log-dirs): nothing committed is lost by kill -9, it is restored and trimmed as any other, and a
// list of directories that does not fit it is refused.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class LogDirectoriesTests(ITestOutputHelper output)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);

    [Theory]
    [InlineData(1, "5ms")]
    [InlineData(2, "1ms")]
    public async Task Supervised_KilledAtRandom_ComesBackToAnExactPrefix(int directories, string interval)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(
            workspace, new ProxySetup(VersionInterval: interval) { LogDirectories = directories });
        // Several directories cannot be copied at one moment.
        ChaosOptions options = ChaosOptions.FromEnvironment() with { ReplayEvery = 0, Report = output.WriteLine };
        ChaosReport report = await new ChaosRun(deployment, options).RunAsync();
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.True(report.CommittedChecked > 0, "no writer ever heard of a commit\n" + report.Text);
        Assert.All(deployment.LogDirectories, d => Assert.NotEmpty(Segments(d)));
    }

    [Fact]
    public async Task Log_InTwoDirectories_IsRestoredFromThemAndFromACopy()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { LogDirectories = 1 });
        await deployment.StartAsync();
        for (int life = 0; life < 3; life++)
        {
            await WriteAsync(deployment, life);
            deployment.Proxy.KillHard();
            if (life > 0) { await deployment.KillRedisAsync(); }
            await deployment.RecoverAsync();
        }
        await WriteAsync(deployment, 3);
        string digest = await DigestAsync(deployment);
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());

        // Without being told where the log is.
        await RestoredAsync(deployment.DataDirectory, [], digest, workspace.Folder("fresh"));

        string copy = workspace.Folder("copy"), ofLog = workspace.Folder("copy-of-log");
        Copy(deployment.DataDirectory, copy);
        string[] restore = ["restore", "--data", copy, "--latest", "--redis", "127.0.0.1:1"];
        (int code, string text) = await ProxyProcess.CommandAsync(restore);
        Assert.NotEqual(0, code);
        Assert.Contains($"{deployment.LogDirectory(1)} belongs to the version log in {Path.Combine(deployment.DataDirectory, "log")}, of "
            + $"which {Path.Combine(copy, "log")} is a copy", text, StringComparison.Ordinal);
        Copy(deployment.LogDirectory(1), ofLog);
        await RestoredAsync(copy, ["--log-dirs", ofLog], digest, workspace.Folder("fresh-of-copy"));

        // What was restored from is as it was.
        await deployment.StartProxyAsync();
        Assert.Equal(digest, await DigestAsync(deployment));
    }

    [Fact]
    public async Task Serve_WithAListThatDoesNotFit_IsRefusedByName_AndWithAnotherDirectoryGoesOn()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { LogDirectories = 1 });
        await deployment.StartAsync();
        await WriteAsync(deployment, 0);
        string digest = await DigestAsync(deployment), first = deployment.LogDirectory(1), second = deployment.LogDirectory(2);

        await using var other = new ProxyDeployment(
            workspace, new ProxySetup { DataDirectory = workspace.File("other-data"), Options = ["--log-dirs", first] });
        await RefusedAsync(other.ServeOptions, $"The directory {first} of the version log is in use by another process");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        await RefusedAsync(other.ServeOptions, $"{first} belongs to another version log: that of shard 0 in");

        string[] options = [.. deployment.ServeOptions];
        int at = Array.IndexOf(options, "--log-dirs");
        await RefusedAsync([.. options[..at], .. options[(at + 2)..]],
            $"has a file in {first}, which is not among the directories that are given");
        await RefusedAsync([.. options[..at], "--log-dirs", second, .. options[(at + 2)..]],
            $"has a file in {first}, which is not among the directories that are given");
        await RefusedAsync(options.Select(o => o == "log" ? "none" : o), "--log-dirs needs --commit log");
        string away = first + "-away";
        Directory.Move(first, away);
        await RefusedAsync(options, $"{first} has no slogger-log.json");
        Directory.Delete(first, recursive: true);
        Directory.Move(away, first);

        using ProxyProcess proxy = await ProxyProcess.StartAsync(Workspace.FreePort(),
            [.. options[..at], "--log-dirs", $"{second},{first}", .. options[(at + 2)..]]);
        using (RespClient client = await proxy.ConnectAsync())
        {
            Assert.Equal(digest, (await client.DoAsync("DEBUG", "DIGEST")).Text);
            await client.DoAsync("SET", "later", "1");
            await client.DoAsync("WAITAOF", "1", "0", "0");
        }
        Assert.NotEmpty(Segments(second));
        Assert.Equal(0, await proxy.TerminateAsync());
    }

    [Fact]
    public async Task Log_ThatIsTrimmed_IsDeletedInAllDirectories()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup
        {
            LogDirectories = 2, Options = ["--checkpoint-every", "1mb", "--log-budget", "4mb"],
        });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        string oldest = Segments(Path.Combine(deployment.DataDirectory, "log"))[0], filler = new('x', 100_000);
        await Eventually.AsyncTrue("older log is deleted", s_limit, async () =>
        {
            for (int n = 0; n < 20; n++) { await client.DoAsync("SET", $"filler:{n}", filler); }
            return !Segments(Path.Combine(deployment.DataDirectory, "log")).Contains(oldest);
        });
        await Eventually.AsyncTrue("its other files, too", s_limit, () =>
            Task.FromResult(!deployment.LogDirectories.SelectMany(Segments).Contains(oldest)));
        string digest = await DigestAsync(deployment);
        deployment.Proxy.KillHard();
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        Assert.Equal(digest, await DigestAsync(deployment));
    }

    private static async Task WriteAsync(ProxyDeployment deployment, int round)
    {
        using RespClient client = await deployment.ConnectAsync();
        for (int i = 0; i < 200; i++)
        {
            await client.DoAsync("SET", $"key:{round}:{i}", new string((char)('a' + round), i * 10));
            if (i % 20 == 0) { await client.DoAsync("WAITAOF", "1", "0", "0"); }
        }
        await deployment.WaitCommittedAsync();
    }

    private static async Task<string> DigestAsync(ProxyDeployment deployment)
    {
        using RespClient client = await deployment.ConnectAsync();
        return (await client.DoAsync("DEBUG", "DIGEST")).Text;
    }

    private static async Task RestoredAsync(string data, string[] options, string digest, string folder)
    {
        using RedisProcess fresh = await RedisProcess.StartAsync(folder);
        (int code, string text) = await ProxyProcess.CommandAsync(["restore", "--data", data, "--latest", .. options, "--metadata",
            "sqlite:" + Path.Combine(data, "metadata.db"), "--redis",
            string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{fresh.Port}")]);
        Assert.True(code == 0, text);
        using RespClient client = await fresh.ConnectAsync();
        Assert.Equal(digest, (await client.DoAsync("DEBUG", "DIGEST")).Text);
    }

    private static async Task RefusedAsync(IEnumerable<string> options, string because)
    {
        using ProxyProcess proxy = ProxyProcess.Launch(Workspace.FreePort(), options);
        int? code = await proxy.ExitAsync(s_limit);
        Assert.True(code is > 0, proxy.Tail());
        Assert.Contains(because, proxy.Tail(), StringComparison.Ordinal);
    }

    private static void Copy(string from, string to)
    {
        foreach (string file in Directory.GetFiles(from, "*", SearchOption.AllDirectories).Where(f => Path.GetFileName(f) != "lock"))
        {
            string target = Path.Combine(to, Path.GetRelativePath(from, file));
            Directory.CreateDirectory(Path.GetDirectoryName(target)!);
            File.Copy(file, target);
        }
    }

    // By number, without the directory's.
    private static List<string> Segments(string directory) =>
        [.. Directory.GetFiles(directory, "*.slog").Select(f => Path.GetFileName(f)[.."0000000001-000000000001".Length])
            .Order(StringComparer.Ordinal)];
}
