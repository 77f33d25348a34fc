using System.Diagnostics;
using Microsoft.Extensions.Logging;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Commands;

public sealed class ServeAndRestoreTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    private string Data => _temp.Below("data");

    public void Dispose() => _temp.Dispose();

    [Fact]
    public async Task Serve_GoodOptions_RunsTheProxyInALockedDirectory()
    {
        bool locked = false;
        AppRun run = await AppRun.Of(
            ["serve", "--redis", "127.0.0.1:6379", "--data", Data, "--listen=127.0.0.1:0", "--listen", "unix:/s", "--version-interval",
                "1ms"],
            whileServing: options => locked = DataDirectory.OpenForServe(options).Opened is null);
        Assert.Equal(0, run.ExitCode);
        Assert.True(locked);
        Assert.Equal(["127.0.0.1:0", "unix:/s"], run.Served!.Listen.Select(address => address.ToString()));
        Assert.Equal(TimeSpan.FromMilliseconds(1), run.Served.VersionInterval);
        Assert.Contains("stopped", run.Error);
        Assert.Empty(run.Output);
    }

    [Fact]
    public async Task Serve_ProxyFails_ExitsWithOneAndForgetsAFailedFirstStart()
    {
        string[] args = ["serve", "--redis", "127.0.0.1:6379", "--data", Data];
        AppRun failed = await AppRun.Of(args, exit: ProxyExit.Failed("the port is in use", "take another"));
        Assert.Equal(1, failed.ExitCode);
        Assert.Contains("slogger: the port is in use", failed.Error);
        Assert.Contains("what to do: take another", failed.Error);
        AppRun other = await AppRun.Of(["serve", "--redis-server", "/bin/sh", "--data", Data]);
        Assert.Equal(0, other.ExitCode);
        AppRun refused = await AppRun.Of(args);
        Assert.Equal(2, refused.ExitCode);
        Assert.Contains("belongs to a supervised Redis", refused.Error);
        Assert.Null(refused.Served);
    }

    [Fact]
    public async Task Serve_Throws_ShowsWhatALineMayHoldAndExitsWithOne()
    {
        AppRun run = await AppRun.Of(["serve", "--redis", "h:1", "--data", Data],
            whileServing: _ => throw new InvalidDataException("odd" + new string('x', 100_000)));
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("unexpected failure", run.Error);
        Assert.Contains("odd", run.Error);
        Assert.Contains("more characters were cut)", run.Error);
        Assert.True(run.Error.Length < 20_000, "a line has a bound");
    }

    [Fact]
    public async Task Serve_WarningsAndPasswords_AreLoggedAndHidden()
    {
        AppRun run = await AppRun.Of(
            ["serve", "--redis", "h:1", "--data", Data, "--listen", "0.0.0.0:1"],
            new() { ["SLOGGER_METADATA"] = "postgres:Host=db;Password=s3cret", ["SLOGGER_COMMITT"] = "x" });
        Assert.Equal(0, run.ExitCode);
        Assert.Contains("s3cret", run.Served!.Metadata.Text);
        Assert.DoesNotContain("s3cret", run.Error);
        Assert.Contains("did you mean SLOGGER_COMMIT?", run.Error);
        Assert.Contains("reachable from other machines", run.Error);
    }

    [Theory]
    [InlineData("did you mean --listen?", "--lisen", "127.0.0.1:1")]
    [InlineData("one word too many", "extra")]
    [InlineData("given 2 times", "--commit", "log", "--commit", "none")]
    [InlineData("Required argument missing", "--commit")]
    [InlineData("is not one of log, bgsave, none", "--commit=LOGS")]
    [InlineData("is not an option of slogger serve", "--latest")]
    [InlineData("\"@x\" is not one of", "--commit", "@x")]
    public async Task Serve_BadOptions_ExitWithTwoAndStartNothing(string expected, params string[] args)
    {
        AppRun run = await AppRun.Of(["serve", "--redis", "h:1", "--data", Data, .. args]);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains(expected, run.Error);
        Assert.Contains("what to do", run.Error);
        Assert.Null(run.Served);
        Assert.False(Directory.Exists(Data));
    }

    [Fact]
    public async Task Serve_FlagDenied_GoesOverTheFile()
    {
        string config = _temp.File("c.json", """{ "redis-tls": true, "redis": "h:1" }""");
        Assert.NotNull((await AppRun.Of(["serve", "--config", config, "--data", Data])).Served!.RedisTls);
        Assert.Null((await AppRun.Of(["serve", "--config", config, "--data", Data, "--redis-tls", "false"])).Served!.RedisTls);
        Assert.NotNull((await AppRun.Of(["serve", "--redis", "h:1", "--redis-tls", "--data", Data])).Served!.RedisTls);
    }

    [Fact]
    public async Task Restore_TakesStoreClusterAndShardFromTheDirectory()
    {
        await AppRun.Of(["serve", "--redis", "127.0.0.1:7777", "--data", Data, "--cluster", "c", "--shard", "2"]);
        AppRun run = await AppRun.Of(["restore", "--data", Data, "--version", "42"]);
        Assert.Equal(0, run.ExitCode);
        Assert.Equal(("127.0.0.1:7777", "c", 2, 42L),
            (run.Restored!.Redis!.ToString(), run.Restored.Cluster, run.Restored.Shard.Number, run.Restored.Version!.Value.Number));
        AppRun elsewhere = await AppRun.Of(["restore", "--data", Data, "--latest", "--redis-server", "/bin/sh"]);
        Assert.Equal(("/bin/sh", null, null), (elsewhere.Restored!.RedisServerPath, elsewhere.Restored.Redis, elsewhere.Restored.Version));
    }

    [Theory]
    [InlineData("none of --version, --latest and --list")]
    [InlineData("both given", "--version", "1", "--latest")]
    [InlineData("not a version", "--version", "x")]
    [InlineData("does not exist", "--latest")]
    public async Task Restore_BadOptions_ExitWithTwo(string expected, params string[] args)
    {
        AppRun run = await AppRun.Of(["restore", "--data", Data, .. args]);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains(expected, run.Error);
        Assert.Null(run.Restored);
    }

    [Fact]
    public async Task Help_ListsEveryOptionWithItsHelp()
    {
        foreach ((string command, OptionCommands which) in new[] { ("serve", OptionCommands.Serve), ("restore", OptionCommands.Restore) })
        {
            AppRun run = await AppRun.Of([command, "--help"]);
            Assert.Equal((0, ""), (run.ExitCode, run.Error));
            string flat = string.Join(' ', run.Output.Split((char[]?)null, StringSplitOptions.RemoveEmptyEntries));
            Assert.All(OptionCatalog.For(which),
                option => Assert.Contains($"{option.Switch} {option.ValueName}".TrimEnd() + " " + option.Help, flat));
            Assert.All(run.Output.Split('\n'), line => Assert.True(line.Length <= 120, line));
        }

        Assert.All(StatusOptions.All, option => Assert.Contains(option.Switch, AppRun.Of(["status", "--help"]).Result.Output));
    }

    [Theory]
    [InlineData(0, "slogger serve", "--help")]
    [InlineData(0, "slogger 0.", "--version")]
    [InlineData(2, "slogger serve")]
    [InlineData(2, "", "serv")]
    [InlineData(2, "", "--frobnicate")]
    public async Task Root_HelpVersionAndUnknown(int exitCode, string output, params string[] args)
    {
        AppRun run = await AppRun.Of(args);
        Assert.Equal(exitCode, run.ExitCode);
        Assert.Contains(output, run.Output);
        Assert.Equal(output.Length == 0, run.Error.Length > 0);
    }

    [Fact]
    public void Log_WriterStuck_DropsAndSaysSo()
    {
        using BlockingWriter writer = new();
        using (LineLog log = new(writer, LogLevel.Information))
        {
            log.Debug("not shown");
            log.Info("first");
            writer.Entered.WaitOne();
            for (int i = 0; i < LineLog.QueueLines + 10; i++)
            {
                log.Warn("two\nlines");
            }

            writer.Go.Set();
        }

        string text = writer.ToString();
        Assert.Contains("info  first", text);
        Assert.Contains("10 log lines were dropped", text);
        Assert.Contains("warn  two\n    lines", text);
        Assert.DoesNotContain("not shown", text);
    }

    [Fact]
    public async Task Process_BadOption_ExitsWithTwo()
    {
        // The real executable, once: streams and exit code.
        ProcessStartInfo start = new(Path.Combine(AppContext.BaseDirectory, "slogger"), ["serve", "--redis", "h:1", "--shard", "x"])
        {
            RedirectStandardError = true,
            RedirectStandardOutput = true,
        };
        using Process process = Process.Start(start)!;
        string error = await process.StandardError.ReadToEndAsync();
        await process.WaitForExitAsync();
        Assert.Equal(2, process.ExitCode);
        Assert.Contains("--shard \"x\" is not a whole number", error);
    }

    private sealed class BlockingWriter : StringWriter
    {
        public ManualResetEvent Go { get; } = new(false);

        public AutoResetEvent Entered { get; } = new(false);

        public override void WriteLine(string? value)
        {
            Entered.Set();
            Go.WaitOne();
            base.WriteLine(value);
        }
    }
}
