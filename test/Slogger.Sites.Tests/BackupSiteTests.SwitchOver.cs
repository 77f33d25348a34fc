// slogger switchover, between these tests' primaries and their backup site.
using System.Diagnostics;
using System.Net;
using System.Text.Json;
using Slogger.Cli;
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.Time;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Proxy.Ports;
using Slogger.Sites.Failovers;

namespace Slogger.Sites.Tests;

public sealed partial class BackupSiteTests
{
    private readonly List<GrpcServer> _controls = [];
    private IMetadataStore? _primarySql;

    private string[] Both => ["--metadata", PrimarySpec, "--backup-metadata", Spec, "--cluster", "c", "--site-secret-file", SecretFile];

    private async Task<IMetadataStore> PrimarySiteAsync()
    {
        _primarySql = await PrimarySqlAsync();
        foreach (Primary primary in _primaries)
        {
            var control = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = Secret });
            new SiteControlService(_primarySql, "c", () => [], () => primary).AddTo(control);
            await control.StartAsync();
            await _primarySql.NoteSiteAddressAsync("c", ((IPrimaryShard)primary).Shard, $"127.0.0.1:{control.EndPoint.Port}");
            _controls.Add(control);
        }
        return _primarySql;
    }

    [Fact]
    public async Task SwitchOverCommand_OfTwoSites_LosesNothing()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(41), 200);
        // What nobody has recorded yet is not lost, either.
        foreach (Primary p in _primaries) { p.Write(new Random(42)); }
        Run run = await SloggerAsync(["switchover", .. Both]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains("nothing is lost", run.Output, StringComparison.Ordinal);
        await AssertSwitchedAsync(primary);
        Run again = await SloggerAsync(["switchover", "--json", .. Both]);
        Assert.True(again.ExitCode == 0, again.Error + again.Output);
        JsonElement facts = FactsOf(again);
        SiteState site = await _metadata.SiteAsync("c");
        Assert.Equal((false, (long)site.Epoch.Number, site.Final!.Value.Version.Number), (facts.GetProperty("is_called_off").GetBoolean(),
            facts.GetProperty("site_epoch").GetInt64(), facts.GetProperty("from").GetProperty("version").GetInt64()));
    }

    [Fact]
    public async Task SwitchOverCommand_OperationsDoNotEnd_IsCalledOffAndThePrimaryGoesOn()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(43), 50);
        _primaries[1].IsBusy = true;
        Run run = await SloggerAsync(["switchover", "--within", "1s", .. Both]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("was called off: it waited for", run.Error, StringComparison.Ordinal);
        Assert.Equal((SiteRole.Primary, SiteRole.Backup), ((await primary.SiteAsync("c")).Role, (await _metadata.SiteAsync("c")).Role));
        _primaries[1].IsBusy = false;
        await UntilAsync(() => _primaries.All(p => !p.IsHeld));
        await WriteAsync(new Random(44), 50);
        Assert.Equal(0, (await SloggerAsync(["switchover", .. Both])).ExitCode);
    }

    [Theory]
    [InlineData(51)]
    [InlineData(52)]
    [InlineData(53)]
    public async Task SwitchOverCommand_KilledAtAnyStep_IsGoneOnWithOrCalledOff(int seed)
    {
        Random random = new(seed);
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(random, 100);
        for (int i = 0; i < 5; i++)
        {
            using var kill = new CancellationTokenSource(TimeSpan.FromMilliseconds(random.Next(20, 150)));
            await SloggerAsync(kill.Token, ["switchover", .. Both]);
            if (random.Next(3) > 0) { continue; }
            Run off = await SloggerAsync(["switchover", "--call-off", .. Both]);
            SiteState here = await primary.SiteAsync("c"), there = await _metadata.SiteAsync("c");
            Assert.Equal(off.ExitCode == 0 ? (SiteRole.Primary, SiteRole.Backup) : (SiteRole.Deposed, SiteRole.Primary),
                (here.Role, there.Role));
        }
        Run run = await SloggerAsync(["switchover", .. Both]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        await AssertSwitchedAsync(primary);
    }

    // While clients are held a run is not begun anew: what is asked again is the one thing that has failed.
    [Fact]
    public async Task SwitchOverCommand_ADatabaseFailsWhileClientsAreHeld_TheSameRunGoesOn()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(45), 50);
        Process? holder = null;
        using var text = new StepWriter(line =>
        {
            if (line.Contains("the backup takes over", StringComparison.Ordinal)) { holder = HoldDatabase(); }
            else if (line.Contains("cannot be used, and is tried again", StringComparison.Ordinal)
                || line.Contains("Asking again", StringComparison.Ordinal))
            {
                holder?.StandardInput.Close();
            }
        });
        try
        {
            TextWriter output = TextWriter.Synchronized(text);
            int code = await SloggerApp.RunAsync(["switchover", .. Both],
                new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>() }).WaitAsync(Limit);
            Assert.True(code == 0, text.ToString());
        }
        finally
        {
            holder?.Kill();
            holder?.Dispose();
        }
        Assert.NotNull(holder);
        Assert.Contains("the backup's database cannot be used, and is tried again", text.ToString(), StringComparison.Ordinal);
        Assert.DoesNotContain("Asking again", text.ToString(), StringComparison.Ordinal);
        await AssertSwitchedAsync(primary);
    }

    // Another process that holds all locks of the file, until its input ends: nobody reads or writes.
    private Process HoldDatabase()
    {
        const string script = "import fcntl, sys\nf = open(sys.argv[1], 'r+b')\nfcntl.lockf(f, fcntl.LOCK_EX, 8, 120)\nprint('held', "
            + "flush=True)\nsys.stdin.read()";
        var holder = Process.Start(
            new ProcessStartInfo("python3", ["-c", script, Spec["sqlite:".Length..] + "-shm"]) { RedirectStandardInput = true,
                RedirectStandardOutput = true })!;
        Assert.Equal("held", holder.StandardOutput.ReadLine());
        return holder;
    }

    private sealed class StepWriter(Action<string> onLine) : StringWriter
    {
        public override void WriteLine(string? value)
        {
            base.WriteLine(value);
            onLine(value ?? "");
        }
    }

    [Fact]
    public async Task SwitchOverCommand_SomethingStandsInTheWay_HoldsNobody()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(61), 50);
        await _controls[2].StopAsync(CancellationToken.None);
        Run silent = await SloggerAsync(["switchover", .. Both]);
        Assert.Equal(1, silent.ExitCode);
        Assert.Contains("at the primary, the process of shard 2", silent.Error, StringComparison.Ordinal);
        await _metadata.ChangeSiteAsync("c", s => s.Reseed(new(1), 1));
        Run seeding = await SloggerAsync(["switchover", .. Both]);
        Assert.Contains("being seeded", seeding.Error, StringComparison.Ordinal);
        Run swapped = await SloggerAsync("switchover", "--metadata", Spec, "--backup-metadata", PrimarySpec, "--cluster", "c",
            "--site-secret-file", SecretFile);
        Assert.Contains("is no primary", swapped.Error, StringComparison.Ordinal);
        Assert.Equal(0, (await primary.SiteAsync("c")).HandOver.Number);
    }

    private async Task AssertSwitchedAsync(IMetadataStore primary)
    {
        SiteState here = await primary.SiteAsync("c"), there = await _metadata.SiteAsync("c");
        Assert.Equal((SiteRole.Deposed, SiteRole.Primary, there.Epoch), (here.Role, there.Role, here.Epoch));
        // Everything that the primaries have.
        Assert.All(_primaries, p =>
            Assert.True(p.Log.End.Closed <= there.Final!.Value.Version
                || p.Log.EndOffset == p.Log.BoundaryAtOrBelow(there.Final.Value.Version)!.Value.Offset));
        AssertTakenOver(there, default, _cuts.Recorded);
    }

    // Clients are the tests' writers: while it is held none of them writes, since they wait for the command. What is under way is what was
    // not closed.
    private sealed partial class Primary : IPrimaryShard
    {
        public bool IsBusy { get; set; }

        public bool IsHeld { get; private set; }

        ShardId IPrimaryShard.Shard => Log.Shard;

        public SiteEpoch SiteEpoch => SiteEpoch.First;

        Task IPrimaryShard.Serving => Task.CompletedTask;

        WorldPoint IPrimaryShard.Watermark => Shipper.Status.Watermark;

        string IPrimaryShard.ShippingState => $"{Shipper.Status.State}";

        public bool IsAttached { get; private set; }

        bool IPrimaryShard.Attach() => IsAttached = true;

        async Task<WorldPoint?> IPrimaryShard.HoldAllAsync(long number, CancellationToken stop)
        {
            SiteState site = await _site._primarySql!.SiteAsync("c", stop);
            bool isHeld = site.Role == SiteRole.HandingOver && site.HandOver.Number == number;
            lock (_site._cuts)
            {
                if (isHeld && !IsHeld)
                {
                    Log.AppendBoundary(new(Log.WorldLine, Log.End.Closed.Next, Log.EndOffset, 0, HybridTimestamp.Of(++_time, 0)));
                }
                IsHeld = isHeld;
                if (!IsHeld || IsBusy) { return null; }
                // Versions go on at all shards alike, as the grid has it.
                Core.Versions.VersionNumber last = _site._primaries.Max(p => p.Log.End.Closed)!;
                if (Log.End.Closed < last) { Log.AppendEmptyRun(last, HybridTimestamp.Of(++_time, 0)); }
                Log.Sync();
                _site.RecordCut();
                return Log.DurableEnd is var end ? new(end.WorldLine, end.Closed) : null;
            }
        }
    }
}
