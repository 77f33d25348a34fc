// slogger init, and that its files are what serve and the commands of two sites read.
using Slogger.Cli.Terminal;
using Slogger.Cli.Tests.Configuration;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Tests.Commands;

public sealed class InitCommandTests : IDisposable
{
    private readonly TempDirectory _temp = new();

    public void Dispose() => _temp.Dispose();

    private string At(string name) => Path.Combine(_temp.Path, name);

    [Fact]
    public async Task NothingIsSaid_OneShardOnThisMachine()
    {
        AppRun run = await AppRun.Of(["init", "--directory", _temp.Path]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        Assert.Contains($"slogger serve --config {At("site.json")} --shard 0", run.Output);
        ServeOptions options = Serve("site.json", 0);
        Assert.Equal(("127.0.0.1:6380", At("site/shard0"), "sqlite:" + At("site.db")),
            (Assert.Single(options.Listen).ToString(), options.DataDirectory, options.Metadata.Text));
        Assert.Equal("redis-server", Path.GetFileName(options.RedisServerPath));
        Assert.Single(Directory.GetFiles(_temp.Path));
    }

    [Fact]
    public async Task TwoSites_EachNamesTheOthersPortsAndTheSecret()
    {
        AppRun run = await AppRun.Of(["init", "--directory", _temp.Path, "--hosts", "a0,a1", "--backup-hosts", "b0, b1", "--metadata",
            "postgres:Host=a", "--backup-metadata", "postgres:Host=b", "--cluster", "shop", "--redis", "127.0.0.1:6379"]);
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        ServeOptions second = Serve("site-a.json", 1);
        Assert.Equal(("0.0.0.0:6380", "a1:6380", "a1:7400", "b1:7400"), (Assert.Single(second.Listen).ToString(),
            second.Announce!.ToString(), second.Site.Listen!.ToString(), Assert.Single(second.Site.Backups).ToString()));
        Assert.Equal((2, "shop", "/var/lib/slogger/shard1", TimeSpan.FromMilliseconds(1)),
            (second.Shards, second.Cluster, second.DataDirectory, second.ClockError));
        OptionsResult<ServeOptions> backup = ServeOptionsReader.ReadBackup(
            Layers.CommandLine(("config", At("site-b.json")), ("shard", "0")), new OptionLayer());
        Assert.Empty(backup.Errors);
        Assert.Equal(("b0:7400", "a0:7400"), (backup.Options!.Site.Listen!.ToString(),
            Assert.Single(backup.Options.Site.Backups).ToString()));
        Assert.Equal(65, new FileInfo(second.Site.SecretFile!).Length);
        Assert.Contains($"slogger backup --config {At("site-b.json")} --shard 1     # on b1", run.Output);
        Assert.Contains($"slogger seed --config {At("site-b.json")}", run.Output);
    }

    [Fact]
    public async Task SeveralOnOneMachine_TheirPortsCountUpOverBothSites()
    {
        await AppRun.Of(["init", "--directory", _temp.Path, "--hosts", "127.0.0.1,127.0.0.1", "--backup-hosts", "127.0.0.1,127.0.0.1"]);
        Assert.Equal(["127.0.0.1:6380 127.0.0.1:7400 127.0.0.1:7402", "127.0.0.1:6381 127.0.0.1:7401 127.0.0.1:7403"],
            Enumerable.Range(0, 2).Select(n => Serve("site-a.json", n)).Select(Ports));
        Assert.Equal(["127.0.0.1:6382 127.0.0.1:7402 127.0.0.1:7400", "127.0.0.1:6383 127.0.0.1:7403 127.0.0.1:7401"],
            Enumerable.Range(0, 2).Select(n => Serve("site-b.json", n)).Select(Ports));
        static string Ports(ServeOptions o) => $"{o.Listen[0]} {o.Site.Listen} {o.Site.Backups[0]}";
    }

    [Fact]
    public async Task APersonAnswers_WhatIsEmptyStaysAsOffered()
    {
        AppRun run = await AppRun.Of(["init", "--directory", _temp.Path], answers: "127.0.0.1,127.0.0.1\n\n\n\n");
        Assert.Equal((0, ""), (run.ExitCode, run.Error));
        Assert.Contains("[127.0.0.1]: ", run.Output);
        Assert.Contains("--shard 1", run.Output);
        Assert.Equal(2, Serve("site.json", 1).Shards);
    }

    [Theory]
    [InlineData("names 1, --hosts 2", "--hosts", "127.0.0.1,127.0.0.1", "--backup-hosts", "127.0.0.1")]
    [InlineData("is a file, and the site has 2 machines", "--hosts", "a,b", "--metadata", "sqlite:/tmp/x.db")]
    [InlineData("no --metadata is named", "--hosts", "a,b")]
    [InlineData("is no machine's name", "--hosts", "a:6380")]
    [InlineData("one Redis serves one shard", "--hosts", "127.0.0.1,127.0.0.1", "--redis", "127.0.0.1:6379")]
    [InlineData("without --backup-hosts", "--backup-metadata", "sqlite:/tmp/x.db")]
    [InlineData("both given", "--redis", "h:1", "--redis-server", "x")]
    public async Task WhatDoesNotFit_IsSaidAndNothingIsWritten(string what, params string[] args)
    {
        AppRun run = await AppRun.Of(["init", "--directory", _temp.Path, .. args]);
        Assert.Equal(ExitCodes.BadOptions, run.ExitCode);
        Assert.Contains(what, run.Error);
        Assert.Empty(Directory.GetFiles(_temp.Path));
    }

    [Fact]
    public async Task AFileIsThere_NothingIsWritten()
    {
        string path = _temp.File("site-secret", "mine");
        AppRun run = await AppRun.Of(["init", "--directory", _temp.Path, "--backup-hosts", "127.0.0.1"]);
        Assert.Equal(ExitCodes.Failed, run.ExitCode);
        Assert.Contains("exists already; nothing was written", run.Error);
        Assert.Equal("mine", File.ReadAllText(path));
        Assert.Single(Directory.GetFiles(_temp.Path));
    }

    [Fact]
    public async Task CommandsOfSites_TakeTheDatabaseFromTheFile()
    {
        await AppRun.Of(["init", "--directory", _temp.Path, "--backup-hosts", "127.0.0.1"]);
        AppRun run = await AppRun.Of(["drill", "--config", At("site-b.json")]);
        Assert.Equal(ExitCodes.BadOptions, run.ExitCode);
        Assert.Contains($"{At("site-b.db")} does not exist", run.Error);
    }

    private ServeOptions Serve(string file, int shard)
    {
        OptionsResult<ServeOptions> read = Layers.Serve(("config", At(file)), ("shard", $"{shard}"));
        Assert.Empty(read.Errors);
        return read.Options!;
    }
}
