// The commands of two sites, as they are given, at the site of these tests.
using System.Net;
using System.Net.Sockets;
using System.Text.Json;
using Slogger.Cli;
using Slogger.Core.Shipping;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Metadata;

namespace Slogger.Sites.Tests;

public sealed partial class BackupSiteTests
{
    private const string Attest = "--i-attest-the-primary-is-down";

    private sealed record Run(int ExitCode, string Output, string Error);

    private string[] Site => ["--metadata", Spec, "--cluster", "c", "--site-secret-file", SecretFile];

    private string SecretFile
    {
        get
        {
            string file = Path.Combine(_directory, "secret");
            File.WriteAllText(file, Secret);
            return file;
        }
    }

    private static Task<Run> SloggerAsync(params IEnumerable<string> args) => SloggerAsync(CancellationToken.None, args);

    private static async Task<Run> SloggerAsync(CancellationToken stop, params IEnumerable<string> args)
    {
        StringWriter output = new(), error = new();
        var host = new AppHost { Output = TextWriter.Synchronized(output), Error = TextWriter.Synchronized(error), Environment = new Dictionary<string, string>(), Stop = stop };
        int code = await SloggerApp.RunAsync([.. args], host).WaitAsync(Limit);
        return new(code, output.ToString(), error.ToString());
    }

    private async Task<IMetadataStore> PrimarySqlAsync()
    {
        IMetadataStore sql = MetadataStoreFactory.Create(PrimarySpec);
        await sql.InitializeAsync();
        await sql.GetOrCreateClusterAsync("c", new() { ShardCount = Streams, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        return sql;
    }

    private string PrimarySpec => $"sqlite:{Path.Combine(_directory, "primary.db")}";

    [Fact]
    public async Task FailoverCommand_Attested_TakesOverAndSaysWhatWasKeptAndHowLongItTook()
    {
        await WriteAsync(new Random(21), 200);
        WorldPoint told = _processes.Max(p => p!.Watermark), recorded = _cuts.Recorded;
        await using IMetadataStore primary = await PrimarySqlAsync();
        Run run = await SloggerAsync(["failover", Attest, "--primary-metadata", PrimarySpec, .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        SiteState site = await _metadata.SiteAsync("c");
        AssertTakenOver(site, told, recorded);
        Assert.Matches($"RTO: [0-9.]+ ms, from the command's arrival at the process of shard .*{Streams - 1}.* until every shard served clients", run.Output);
        Assert.Matches("stages, ms: taken [0-9.]+, frozen [0-9.]+, decided [0-9.]+, brought there [0-9.]+, open [0-9.]+, serving [0-9.]+", run.Output);
        Assert.Contains($"RPO: everything up to version {site.Final!.Value.Version} is kept, which ended at the primary at ", run.Output, StringComparison.Ordinal);
        Assert.Contains("all shards are open", run.Output, StringComparison.Ordinal);
        Assert.Contains("has noted that its site is deposed", run.Output, StringComparison.Ordinal);
        SiteState deposed = await primary.SiteAsync("c");
        Assert.Equal((SiteRole.Deposed, new SiteEpoch(1)), (deposed.Role, deposed.Epoch));

        Run again = await SloggerAsync(["failover", Attest, .. Site]);
        Assert.Equal(0, again.ExitCode);
        Assert.Contains("is the primary already", again.Output, StringComparison.Ordinal);
        // And the site that was deposed has nothing to take over with.
        Run wrong = await SloggerAsync("failover", Attest, "--metadata", PrimarySpec, "--cluster", "c");
        Assert.Equal(1, wrong.ExitCode);
        Assert.Contains("slogger seed", wrong.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task FailoverCommand_NeitherAttestedNorLeased_IsRefusedAndTheBackupGoesOn()
    {
        await WriteAsync(new Random(22), 50);
        Run run = await SloggerAsync(["failover", .. Site]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains(Attest, run.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
        await WriteAsync(new Random(23), 50);
    }

    [Fact]
    public async Task FailoverCommand_WithALease_WaitsForItUntilAttested()
    {
        // One that does not run out here.
        _lease = TimeSpan.FromHours(1);
        for (int p = 0; p < _processes.Length; p++)
        {
            await _processes[p]!.DisposeAsync();
            await StartAsync(p);
        }
        for (int s = 0; s < Streams; s++)
        {
            await _primaries[s].DisposeAsync();
            _primaries[s] = new(this, s);
        }
        await WriteAsync(new Random(24), 50);
        using var stop = new CancellationTokenSource();
        StringWriter text = new();
        TextWriter output = TextWriter.Synchronized(text);
        Task<int> waiting = SloggerApp.RunAsync(["failover", .. Site], new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>(), Stop = stop.Token });
        await UntilAsync(() =>
        {
            lock (output) { return waiting.IsCompleted || text.ToString().Contains("may hold a site lease", StringComparison.Ordinal); }
        });
        Assert.False(waiting.IsCompleted, text.ToString());
        await stop.CancelAsync();
        Assert.Equal(1, await waiting.WaitAsync(Limit));
        SiteState site = await _metadata.SiteAsync("c");
        Assert.Equal((SiteRole.FailingOver, (WorldPoint?)null), (site.Role, site.Final));
        // Somebody who knows better goes on with it.
        Run run = await SloggerAsync(["failover", Attest, .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
    }

    // Nothing is taken while something that can be known stands in the way.
    [Fact]
    public async Task FailoverCommand_AProcessIsGone_IsRefusedUntilItsShardIsGivenUp()
    {
        await WriteAsync(new Random(25), 50);
        await _processes[1]!.DisposeAsync();
        _processes[1] = null;
        Run refused = await SloggerAsync(["failover", Attest, .. Site]);
        Assert.Equal(1, refused.ExitCode);
        Assert.Contains("the process of shard 2", refused.Error, StringComparison.Ordinal);
        Assert.Contains("--lose-shard 2", refused.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);

        Run run = await SloggerAsync(["failover", Attest, "--lose-shard", "2", .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains("2 of 3 shards", run.Output, StringComparison.Ordinal);
        SiteState site = await _metadata.SiteAsync("c");
        Assert.Equal((SiteRole.Primary, true), (site.Role, site.Streams[2].IsLost));
    }

    [Fact]
    public async Task StatusCommand_OfASite_ShowsEachStream()
    {
        await WriteAsync(new Random(31), 100);
        await UntilAsync(() => _processes.All(p => p!.Stores.All(s => s.At == _cuts.Recorded)));
        Run run = await SloggerAsync(["status", "--site", .. Site]);
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.Contains("site epoch 0: backup", run.Output, StringComparison.Ordinal);
        using JsonDocument json = JsonDocument.Parse((await SloggerAsync(["status", "--site", "--json", .. Site])).Output);
        JsonElement[] streams = [.. json.RootElement.GetProperty("streams").EnumerateArray()];
        Assert.Equal(Streams, streams.Length);
        Assert.All(streams, s =>
        {
            Assert.Equal("Counts", s.GetProperty("phase").GetString());
            foreach (string point in (string[])["held", "watermark", "applied"]) { Assert.Equal(_cuts.Recorded.Version.Number, s.GetProperty(point).GetProperty("version").GetInt64()); }
            Assert.True(s.GetProperty("silent_us").GetInt64() >= 0);
        });
        await _processes[1]!.DisposeAsync();
        _processes[1] = null;
        Run without = await SloggerAsync(["status", "--site", .. Site]);
        Assert.Matches("shard 2: [0-9.:]+ does not answer", without.Output);
    }

    [Fact]
    public async Task DrillCommand_OfABackupThatIsWell_SaysWhatWouldBeKeptAndChangesNothing()
    {
        await WriteAsync(new Random(34), 200);
        WorldPoint held = _cuts.Recorded;
        SiteState before = await _metadata.SiteAsync("c");
        Run run = await SloggerAsync(["drill", .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains($"a failover now would go on from {held}", run.Output, StringComparison.Ordinal);
        for (int s = 0; s < Streams; s++) { Assert.Contains($"shard {s}: whole up to {held}", run.Output, StringComparison.Ordinal); }
        Assert.Matches("RTO \\(estimated.*\\): [0-9.]+ ms", run.Output);
        SiteState after = await _metadata.SiteAsync("c");
        Assert.Equal((before.Epoch, before.Role), (after.Epoch, after.Role));
        Assert.Equal(before.Streams, after.Streams);
        await WriteAsync(new Random(35), 50);
        await UntilAsync(() => _processes.All(p => p!.Watermark == _cuts.Recorded));
    }

    // A bit that has turned on the disk, in what has long been synced.
    [Fact]
    public async Task DrillCommand_ALogThatIsDamaged_FailsAndSaysWhich()
    {
        await WriteAsync(new Random(36), 300);
        string file = Directory.GetFiles(Path.Combine(_directory, "backup2"), "*", SearchOption.AllDirectories).Where(f => new FileInfo(f).Length > 12_000).Order(StringComparer.Ordinal).First();
        byte[] bytes = File.ReadAllBytes(file);
        long end = _processes[1]!.Logs[0].Log.DurablePosition;
        using (FileStream log = new(file, FileMode.Open, FileAccess.Write, FileShare.ReadWrite))
        {
            log.Position = 10_000;
            log.WriteByte((byte)(bytes[10_000] ^ 4));
        }
        Assert.True(end > 12_000, $"{end}");
        Run run = await SloggerAsync(["drill", .. Site]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("shard 2: cannot be brought to", run.Output, StringComparison.Ordinal);
        Assert.Contains("shard 1: whole up to", run.Output, StringComparison.Ordinal);
        Assert.Contains("slogger seed --shard", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task DrillCommand_AProcessIsGone_FailsAsAFailoverWould()
    {
        await WriteAsync(new Random(37), 50);
        await _processes[1]!.DisposeAsync();
        _processes[1] = null;
        Run run = await SloggerAsync(["drill", .. Site]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("the process of shard 2", run.Error, StringComparison.Ordinal);
    }

    [Fact]
    public async Task SeedCommand_AtADeposedSite_MakesItTheBackupOfTheOneThatServes()
    {
        await WriteAsync(new Random(38), 50);
        await using IMetadataStore old = await PrimarySqlAsync();
        Run early = await SloggerAsync("seed", "--metadata", PrimarySpec, "--cluster", "c");
        Assert.Contains("only a backup, or a site that was deposed, is seeded", early.Error, StringComparison.Ordinal);
        Assert.Equal(0, (await SloggerAsync(["failover", Attest, "--primary-metadata", PrimarySpec, .. Site])).ExitCode);
        Run unsaid = await SloggerAsync("seed", "--metadata", PrimarySpec, "--cluster", "c");
        Assert.Equal(1, unsaid.ExitCode);
        Assert.Contains("--primary-metadata", unsaid.Error, StringComparison.Ordinal);
        Run lower = await SloggerAsync("seed", "--metadata", PrimarySpec, "--cluster", "c", "--of-epoch", "0");
        Assert.Contains("only one of a later epoch", lower.Error, StringComparison.Ordinal);
        Run run = await SloggerAsync("seed", "--no-wait", "--metadata", PrimarySpec, "--primary-metadata", Spec, "--cluster", "c", "--site-secret-file", SecretFile);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains("slogger backup --shard 2", run.Output, StringComparison.Ordinal);
        SiteState site = await old.SiteAsync("c");
        Assert.Equal((SiteRole.Backup, new SiteEpoch(1), Streams), (site.Role, site.Epoch, site.Streams.Length));
        Assert.All(site.Streams, s => Assert.Equal(StreamPhase.Empty, s.Phase));
    }

    [Fact]
    public async Task SeedCommand_AtABackup_ShowsHowFarItIsAndSeedsAnewWhatIsNamed()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(39), 50);
        Run all = await SloggerAsync(["seed", .. Site]);
        Assert.True(all.ExitCode == 0, all.Error);
        Assert.Contains("all streams follow", all.Output, StringComparison.Ordinal);
        Run unknown = await SloggerAsync(["seed", "--shard", "3", .. Site]);
        Assert.Contains("there is no shard 3", unknown.Error, StringComparison.Ordinal);
        Run run = await SloggerAsync(["seed", "--shard", "1", "--no-wait", "--primary-metadata", PrimarySpec, .. Site]);
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.Contains("generation 2", run.Output, StringComparison.Ordinal);
        Assert.Equal((2L, StreamPhase.Empty), ((await _metadata.SiteAsync("c")).Streams[1] is var s ? (s.Generation, s.Phase) : default));
        // And the primary's process of that shard was told to ship, and no other.
        Assert.Equal([false, true, false], _primaries.Select(p => p.IsAttached));
    }

    // The site's processes follow another one's watermark; it may come and go.
    [Fact]
    public async Task WatermarkCommand_AsARoleByItself_IsFollowed()
    {
        using var stop = new CancellationTokenSource();
        using (var free = new TcpListener(IPAddress.Loopback, 0))
        {
            free.Start();
            _watermarkPort = ((IPEndPoint)free.LocalEndpoint).Port;
        }
        for (int p = 0; p < _processes.Length; p++)
        {
            await _processes[p]!.DisposeAsync();
            await StartAsync(p);
        }
        Task<Run> role = SloggerAsync(stop.Token, ["watermark", "--site-listen", $"127.0.0.1:{_watermarkPort}", .. Site]);
        await WriteAsync(new Random(32), 100);
        WorldPoint before = _processes[0]!.Watermark;
        await stop.CancelAsync();
        Run run = await role;
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.True(before > default(WorldPoint));
        using var again = new CancellationTokenSource();
        role = SloggerAsync(again.Token, ["watermark", "--site-listen", $"127.0.0.1:{_watermarkPort}", .. Site]);
        await WriteAsync(new Random(33), 100);
        await UntilAsync(() => _processes.All(p => p!.Watermark == _cuts.Recorded));
        await again.CancelAsync();
        await role;
    }

    [Fact]
    public async Task FailoverCommand_WithoutTheSecret_SaysSo()
    {
        await WriteAsync(new Random(26), 20);
        Run run = await SloggerAsync("failover", Attest, "--metadata", Spec, "--cluster", "c");
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("--site-secret-file", run.Error, StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("no metadata is named", "failover")]
    [InlineData("no metadata is named", "switchover")]
    [InlineData("no backup-metadata is named", "switchover")]
    [InlineData("is out of range", "switchover", "--within", "1ms")]
    [InlineData("no metadata is named", "seed")]
    [InlineData("no metadata is named", "drill")]
    [InlineData("are both given", "seed", "--metadata", "postgres:Host=x", "--primary-metadata", "postgres:Host=y", "--of-epoch", "1")]
    [InlineData("are the same database", "seed", "--metadata", "postgres:Host=x", "--primary-metadata", "postgres:Host=x")]
    [InlineData("no address is given", "watermark", "--metadata", "postgres:Host=x")]
    [InlineData("no metadata is named", "status", "--site")]
    [InlineData("together with --site", "status", "--site", "127.0.0.1:6380")]
    [InlineData("without --site", "status", "--metadata", "postgres:Host=x")]
    [InlineData("does not exist", "failover", "--metadata", "sqlite:/nowhere/at/all.db")]
    [InlineData("is not a shard's number", "failover", "--metadata", "sqlite:/nowhere/at/all.db", "--lose-shard", "x")]
    public async Task Command_WrongArguments_SaysWhatToDo(string why, params string[] args)
    {
        Run run = await SloggerAsync(args);
        Assert.Equal(2, run.ExitCode);
        Assert.Contains(why, run.Error, StringComparison.Ordinal);
        Assert.Contains("what to do: ", run.Error, StringComparison.Ordinal);
    }
}
