// The commands of two sites, as they are given, at the site of these tests.
using System.Diagnostics;
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text.Json;
using System.Text.RegularExpressions;
using Slogger.Cli;
using Slogger.Cli.Terminal;
using Slogger.Core.Identities;
using Slogger.Core.Sites;
using Slogger.Core.WorldLines;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

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

    private static double Number(string text, string expression) =>
        double.Parse(Regex.Match(text, expression) is { Success: true } found ? found.Groups[1].Value
            : throw new Xunit.Sdk.XunitException($"no {expression} in {text}"), CultureInfo.InvariantCulture);

    private static Task<Run> SloggerAsync(CancellationToken stop, params IEnumerable<string> args) =>
        SloggerAsync(stop, Stopwatch.GetTimestamp(), args);

    private static async Task<Run> SloggerAsync(CancellationToken stop, long began, IEnumerable<string> args)
    {
        StringWriter output = new(), error = new();
        var host = new AppHost { Began = began, Output = TextWriter.Synchronized(output), Error = TextWriter.Synchronized(error),
            Environment = new Dictionary<string, string>(), Stop = stop };
        int code = await SloggerApp.RunAsync([.. args], host).WaitAsync(Limit);
        return new(code, output.ToString(), error.ToString());
    }

    // All that a program reads; the steps are beside it.
    private static JsonElement FactsOf(Run run)
    {
        using JsonDocument json = JsonDocument.Parse(run.Output);
        return json.RootElement.Clone();
    }

    // While a command still writes. The writer that threads share locks itself.
    private static string TextOf(StringWriter text, TextWriter shared)
    {
        lock (shared) { return text.ToString(); }
    }

    private async Task<IMetadataStore> PrimarySqlAsync()
    {
        IMetadataStore sql = MetadataStoreFactory.Create(PrimarySpec);
        await sql.InitializeAsync();
        await sql.GetOrCreateClusterAsync("c", new() { ShardCount = Streams, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        // One process has started at least.
        await sql.TakeShardEpochAsync("c", new(0), "the primary's");
        return sql;
    }

    private string PrimarySpec => $"sqlite:{Path.Combine(_directory, "primary.db")}";

    [Fact]
    public async Task FailoverCommand_Attested_TakesOverAndSaysWhatWasKeptAndHowLongItTook()
    {
        await WriteAsync(new Random(21), 200);
        WorldPoint told = _processes.Max(p => p!.Watermark), recorded = _cuts.Recorded;
        await using IMetadataStore primary = await PrimarySqlAsync();
        // Of some streams more is here than the site can go on from.
        for (int i = 0; i < 20; i++) { foreach (Primary p in _primaries.Take(1)) { p.Write(new Random(20 + i)); } }
        await UntilAsync(() => _processes[0]!.Logs[0].Log.DurableEnd.Closed > _cuts.Recorded.Version);
        long started = Stopwatch.GetTimestamp();
        TimeSpan asIfStarted = TimeSpan.FromSeconds(1000);
        Run run = await SloggerAsync(CancellationToken.None, started - (long)(asIfStarted.TotalSeconds * Stopwatch.Frequency),
            ["failover", Attest, "--primary-metadata", PrimarySpec, .. Site]);
        TimeSpan whole = asIfStarted + Stopwatch.GetElapsedTime(started);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        SiteState site = await _metadata.SiteAsync("c");
        AssertTakenOver(site, told, recorded);
        double rto = Number(run.Output, "RTO: ([0-9.]+) ms, from the command's start until every shard served clients");
        Assert.InRange(rto, asIfStarted.TotalMilliseconds, whole.TotalMilliseconds);
        string parts = Regex.Match(run.Output, "of these: (.*)").Groups[1].Value;
        Assert.Matches("ms to start and to reach the database, .* ms to see whether anything stands in the way, .* ms to rehearse it .*, "
            + ".* ms for the process of shard .* to take over", parts);
        Assert.InRange(Regex.Matches(parts, "([0-9.]+) ms").Sum(m => double.Parse(m.Groups[1].Value, CultureInfo.InvariantCulture)),
            rto - 1, rto + 1);
        Assert.True(Number(run.Output, "RPO: ([0-9.]+) ms are lost") is > 0 and < 1000, run.Output);
        Assert.Matches("stages, ms: taken [0-9.]+, frozen [0-9.]+, decided [0-9.]+, brought there [0-9.]+, open [0-9.]+, serving [0-9.]+",
            run.Output);
        Assert.Contains($"are lost. Everything up to version {site.Final!.Value.Version} is kept; it ended at the primary at ", run.Output,
            StringComparison.Ordinal);
        Assert.True((await _metadata.TakeoverTimesAsync("c")).Failover > TimeSpan.Zero);
        Assert.Contains("all shards are open", run.Output, StringComparison.Ordinal);
        Assert.Contains("has noted that its site is deposed", run.Output, StringComparison.Ordinal);
        SiteState deposed = await primary.SiteAsync("c");
        Assert.Equal((SiteRole.Deposed, new SiteEpoch(1)), (deposed.Role, deposed.Epoch));

        Run again = await SloggerAsync(["failover", Attest, .. Site]);
        Assert.Equal(0, again.ExitCode);
        Assert.Contains("is the primary already", again.Output, StringComparison.Ordinal);
        JsonElement before = FactsOf(await SloggerAsync(["failover", Attest, "--json", .. Site]));
        Assert.True(before.GetProperty("was_over_before").GetBoolean());
        Assert.Equal(site.Final!.Value.Version.Number, before.GetProperty("from").GetProperty("version").GetInt64());
        // And the site that was deposed has nothing to take over with.
        Run wrong = await SloggerAsync("failover", Attest, "--metadata", PrimarySpec, "--cluster", "c");
        Assert.Equal(1, wrong.ExitCode);
        Assert.Contains("slogger seed", wrong.Error, StringComparison.Ordinal);
    }

    // Nothing listens at the primary's database; or it takes connections and does not answer, as when its machine is cut off in the middle.
    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task FailoverCommand_ThePrimarysDatabaseCannotBeAsked_WhatIsLostIsALowerBound(bool isSilent)
    {
        await WriteAsync(new Random(29), 50);
        using var silent = new TcpListener(IPAddress.Loopback, 0);
        silent.Start();
        int port = ((IPEndPoint)silent.LocalEndpoint).Port;
        if (!isSilent) { silent.Stop(); }
        Run run = await SloggerAsync(
            ["failover", Attest, "--primary-metadata", $"postgres:Host=127.0.0.1;Port={port};Username=u;Database=d;Timeout=30", .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Matches("RPO: at least [0-9.]+ ms are lost\\. Everything up to version", run.Output);
        Assert.Contains("What the primary did after that is not known: its database (--primary-metadata) could not be asked", run.Output,
            StringComparison.Ordinal);
        Assert.Matches(isSilent ? "the primary's database does not answer: its site has yet to hear"
            : "the primary's database cannot note that its site is deposed", run.Output);
    }

    [Fact]
    public async Task FailoverCommand_WithoutThePrimarysDatabase_WhatIsLostIsALowerBound()
    {
        await WriteAsync(new Random(30), 50);
        Run run = await SloggerAsync(["failover", Attest, .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Matches("RPO: at least [0-9.]+ ms are lost\\. Everything up to version", run.Output);
        Assert.Contains("What the primary did after that is not known: with --primary-metadata its database is asked", run.Output,
            StringComparison.Ordinal);
    }

    [Fact]
    public async Task FailoverCommand_ForAProgram_IsOneObjectAndTheStepsAreOnStderr()
    {
        await WriteAsync(new Random(30), 50);
        Run run = await SloggerAsync(["failover", Attest, "--json", .. Site]);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains("all shards are open", run.Error, StringComparison.Ordinal);
        JsonElement facts = FactsOf(run);
        SiteState site = await _metadata.SiteAsync("c");
        Assert.Equal((false, (long)site.Epoch.Number, Streams, Streams), (facts.GetProperty("was_over_before").GetBoolean(),
            facts.GetProperty("site_epoch").GetInt64(), facts.GetProperty("shards").GetInt32(),
            facts.GetProperty("shards_taken").GetInt32()));
        double rto = facts.GetProperty("rto_ms").GetDouble(), parts =
            facts.GetProperty("rto_parts").EnumerateArray().Sum(p => p.GetProperty("took_ms").GetDouble());
        Assert.InRange(parts, rto - 1, rto + 1);
        Assert.True(facts.GetProperty("rpo_ms").GetDouble() >= 0);
        Assert.Contains("--primary-metadata", facts.GetProperty("unasked").GetString(), StringComparison.Ordinal);
        Assert.Equal(JsonValueKind.Null, facts.GetProperty("primary").ValueKind);
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
        Task<int> waiting = SloggerApp.RunAsync(["failover", .. Site],
            new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>(), Stop = stop.Token });
        await UntilAsync(() => waiting.IsCompleted || TextOf(text, output).Contains("may hold a site lease", StringComparison.Ordinal));
        Assert.False(waiting.IsCompleted, TextOf(text, output));
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
        // It might just have been starting.
        Assert.Matches("nothing listens there: .*Asking again, for [0-9]+ s more", refused.Output);
        Assert.Contains("the process of shard 2", refused.Error, StringComparison.Ordinal);
        Assert.Contains("--lose-shard 2", refused.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);

        Run run = await SloggerAsync(["failover", Attest, "--lose-shard", "2", "--timeout", "1s", .. Site]);
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
            foreach (string point in (string[])["held", "watermark", "applied"])
            {
                Assert.Equal(_cuts.Recorded.Version.Number, s.GetProperty(point).GetProperty("version").GetInt64());
            }
            Assert.True(s.GetProperty("silent_us").GetInt64() >= 0);
        });
        await _processes[1]!.DisposeAsync();
        _processes[1] = null;
        Run without = await SloggerAsync(["status", "--site", .. Site]);
        Assert.Matches("shard 2: [0-9.:]+ does not answer", without.Output);
        Assert.Equal(1, without.ExitCode);
        Assert.Contains("the site could not take over now: the process of shard 2", without.Error, StringComparison.Ordinal);
        string[] rows = [.. without.Output.Split('\n').Where(l => l.StartsWith("│ ", StringComparison.Ordinal) && char.IsAsciiDigit(l[2]))];
        Assert.Equal([true, true, false], rows.Select(r => r.Contains("follows", StringComparison.Ordinal)));
        Assert.Contains("unknown", rows[^1], StringComparison.Ordinal);
        using JsonDocument lost = JsonDocument.Parse((await SloggerAsync(["status", "--site", "--json", .. Site])).Output);
        Assert.Equal(["Counts", "Counts", "Unknown"], lost.RootElement.GetProperty("streams").EnumerateArray()
            .Select(s => s.GetProperty("phase").GetString()));
        Assert.Contains("shard 2", lost.RootElement.GetProperty("obstacle").GetString(), StringComparison.Ordinal);
        // And whoever waits for the streams is not told that all follow.
        using var stop = new CancellationTokenSource();
        StringWriter seeding = new();
        TextWriter shared = TextWriter.Synchronized(seeding);
        Task<int> waiting = SloggerApp.RunAsync(["seed", .. Site],
            new AppHost { Output = shared, Error = TextWriter.Null, Environment = new Dictionary<string, string>(), Stop = stop.Token });
        await UntilAsync(() => waiting.IsCompleted || TextOf(seeding, shared)
            .Contains("shard 2: its slogger backup does not answer", StringComparison.Ordinal));
        Assert.DoesNotContain("all streams follow", TextOf(seeding, shared), StringComparison.Ordinal);
        await stop.CancelAsync();
        await waiting.WaitAsync(Limit);
    }

    [Fact]
    public async Task StatusCommand_NobodyIsThere_ShowsEveryShardAsUnknownAndFails()
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        string[] of = ["status", "--site", "--metadata", PrimarySpec, "--cluster", "c", "--site-secret-file", SecretFile];
        Run well = await SloggerAsync(of);
        Assert.True(well.ExitCode == 0, well.Error + well.Output);
        foreach (GrpcServer control in _controls) { await control.StopAsync(CancellationToken.None); }
        Run dead = await SloggerAsync(of);
        Assert.Equal(1, dead.ExitCode);
        Assert.Equal(Streams, dead.Output.Split('\n').Count(l => l.StartsWith('│') && l.Contains("unknown", StringComparison.Ordinal)));
        Assert.Contains("it is not known whether the primary's shard 0 serves", dead.Error, StringComparison.Ordinal);
        for (int p = 0; p < _processes.Length; p++)
        {
            await _processes[p]!.DisposeAsync();
            _processes[p] = null;
        }
        Run backup = await SloggerAsync(["status", "--site", .. Site]);
        Assert.Equal(1, backup.ExitCode);
        Assert.Equal(Streams, backup.Output.Split('\n').Count(l => l.StartsWith('│') && l.Contains("unknown", StringComparison.Ordinal)));
    }

    // What is not known to be lost is not to be given up.
    [Fact]
    public async Task FailoverCommand_LosesAShardThatAnswers_IsRefused()
    {
        await WriteAsync(new Random(26), 50);
        Run run = await SloggerAsync(["failover", Attest, "--lose-shard", "2", .. Site]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("shard 2 is not to be given up: its process answers, and it can take over", run.Error, StringComparison.Ordinal);
        string other = Path.Combine(_directory, "other");
        File.WriteAllText(other, "another-secret");
        Run wrong = await SloggerAsync("failover", Attest, "--lose-shard", "2", "--metadata", Spec, "--cluster", "c", "--site-secret-file",
            other);
        Assert.Equal(1, wrong.ExitCode);
        Assert.Contains("shard 2 is not to be given up", wrong.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
        // One that is being seeded holds nothing.
        await _metadata.ChangeSiteAsync("c", s => s.Reseed(new(2), 1));
        Run given = await SloggerAsync(["failover", Attest, "--lose-shard", "2", .. Site]);
        Assert.True(given.ExitCode == 0, given.Error + given.Output);
    }

    // A process that is stopped, or whose machine is busy, takes connections and says nothing; one that starts says that it cannot
    // answer yet. Either still has what it holds.
    [Theory]
    [InlineData("silent", "It has not answered within 2 s, though it is there")]
    [InlineData("starting", "It is there, and cannot answer yet")]
    [InlineData("empty", "answers, and does not receive its stream yet")]
    public async Task FailoverCommand_LosesAShardWhoseProcessIsThere_IsRefusedAndSaysToEndIt(string how, string said)
    {
        await WriteAsync(new Random(47), 50);
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        listener.Start();
        await using var starting = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = Secret });
        starting.AddUnary(Grpc.Shipping.SiteControlMethods.Status, (_, _) => how == "empty"
            ? Task.FromResult(new Grpc.Shipping.V1.StatusReply())
            : throw new Grpc.RpcException(StatusCode.Unavailable, "this process cannot read the site's metadata"));
        await starting.StartAsync();
        int port = how == "silent" ? ((IPEndPoint)listener.LocalEndpoint).Port : starting.EndPoint.Port;
        await _metadata.NoteSiteAddressAsync("c", new(2), $"127.0.0.1:{port}");
        Run run = await SloggerAsync(["failover", Attest, "--lose-shard", "2", "--timeout", "1s", .. Site]);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains("shard 2 is not to be given up: the process of shard 2 (127.0.0.1:", run.Error, StringComparison.Ordinal);
        Assert.Contains(said, run.Error, StringComparison.Ordinal);
        Assert.Contains("end that process for good first", run.Error, StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
    }

    // As while a process is started again.
    [Fact]
    public async Task FailoverCommand_LosesAShardWhoseProcessComesBack_AsksToTheEndOfTheTimeAndIsRefused()
    {
        await WriteAsync(new Random(48), 50);
        string address = (await _metadata.SiteAddressesAsync("c"))[new(2)];
        await _metadata.NoteSiteAddressAsync("c", new(2), $"127.0.0.1:{FreePort()}");
        StringWriter text = new();
        TextWriter output = TextWriter.Synchronized(text);
        var host = new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>() };
        Task<int> running = SloggerApp.RunAsync(["failover", Attest, "--lose-shard", "2", "--timeout", "2m", .. Site], host);
        await UntilAsync(() => running.IsCompleted || TextOf(text, output).Contains("Asking again, for ", StringComparison.Ordinal));
        Assert.False(running.IsCompleted, TextOf(text, output));
        await _metadata.NoteSiteAddressAsync("c", new(2), address);
        Assert.Equal(1, await running.WaitAsync(Limit));
        Assert.Contains("shard 2 is not to be given up: its process answers, and it can take over", TextOf(text, output),
            StringComparison.Ordinal);
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
    }

    // What was done is told all the same, and not begun anew.
    [Fact]
    public async Task FailoverCommand_TheDatabaseFailsAfterTheTakeover_TellsWhatItTookAndCost()
    {
        await WriteAsync(new Random(49), 50);
        Process? holder = null;
        using var text = new StepWriter(line =>
        {
            if (line.Contains("all shards are open", StringComparison.Ordinal)) { holder = HoldDatabase(); }
            else if (line.Contains("Asking again", StringComparison.Ordinal)) { holder?.StandardInput.Close(); }
        });
        try
        {
            TextWriter output = TextWriter.Synchronized(text);
            var host = new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>() };
            int code = await SloggerApp.RunAsync(["failover", Attest, "--timeout", "2m", .. Site], host).WaitAsync(Limit);
            Assert.True(code == 0, text.ToString());
        }
        finally
        {
            holder?.Kill();
            holder?.Dispose();
        }
        Assert.NotNull(holder);
        Assert.Contains("Asking again", text.ToString(), StringComparison.Ordinal);
        Assert.Contains("RPO: ", text.ToString(), StringComparison.Ordinal);
        Assert.DoesNotContain("is the primary already", text.ToString(), StringComparison.Ordinal);
    }

    [Theory]
    [InlineData("secret", "it does not let us in: the secret is missing or wrong")]
    [InlineData("silent", "it has not answered within 2 s, though it is there")]
    [InlineData("starting", "it is there, and cannot answer yet")]
    [InlineData("down", "nothing listens there")]
    public async Task FailoverCommand_AProcessDoesNotAnswer_SaysWhyAndAdvisesALossOnlyWhereNobodyIs(string how, string said)
    {
        await WriteAsync(new Random(27), 50);
        using var listener = new TcpListener(IPAddress.Loopback, 0);
        await using var starting = new GrpcServer(new() { Listen = new(IPAddress.Loopback, 0), Secret = Secret });
        starting.AddUnary(Grpc.Shipping.SiteControlMethods.Status,
            (_, _) => throw new Grpc.RpcException(StatusCode.Unavailable, "this process cannot read the site's metadata"));
        await starting.StartAsync();
        if (how != "down") { listener.Start(); }
        int port = how == "starting" ? starting.EndPoint.Port : how == "silent" ? ((IPEndPoint)listener.LocalEndpoint).Port : FreePort();
        if (how != "secret") { await _metadata.NoteSiteAddressAsync("c", new(2), $"127.0.0.1:{port}"); }
        string other = Path.Combine(_directory, "other");
        File.WriteAllText(other, "another-secret");
        Run run = await SloggerAsync("failover", Attest, "--timeout", "1s", "--metadata", Spec, "--cluster", "c", "--site-secret-file",
            how == "secret" ? other : SecretFile);
        Assert.Equal(1, run.ExitCode);
        Assert.Contains(said, run.Error, StringComparison.Ordinal);
        Assert.Equal(how == "down", run.Error.Contains("--lose-shard", StringComparison.Ordinal));
        Assert.Equal(SiteRole.Backup, (await _metadata.SiteAsync("c")).Role);
        Run drill = await SloggerAsync("drill", "--timeout", "1s", "--metadata", Spec, "--cluster", "c", "--site-secret-file",
            how == "secret" ? other : SecretFile);
        Assert.Contains(how is "secret" or "silent" ? "the drill itself has failed, and says nothing of the site"
            : "the site could not take over now", drill.Error, StringComparison.Ordinal);
    }

    private static int FreePort()
    {
        using var free = new TcpListener(IPAddress.Loopback, 0);
        free.Start();
        return ((IPEndPoint)free.LocalEndpoint).Port;
    }

    // A machine that is busy: its process answers at last.
    [Theory]
    [InlineData("status", "--site")]
    [InlineData("drill")]
    [InlineData("switchover")]
    public async Task Command_AProcessIsBusy_IsAskedAgain(params string[] command)
    {
        await using IMetadataStore primary = await PrimarySiteAsync();
        await WriteAsync(new Random(28), 50);
        using var busy = new TcpListener(IPAddress.Loopback, 0);
        busy.Start();
        string address = (await _metadata.SiteAddressesAsync("c"))[new(2)];
        await _metadata.NoteSiteAddressAsync("c", new(2), $"127.0.0.1:{((IPEndPoint)busy.LocalEndpoint).Port}");
        StringWriter text = new();
        TextWriter output = TextWriter.Synchronized(text);
        string[] site = command[0] == "switchover" ? Both : Site;
        Task<int> running = SloggerApp.RunAsync([.. command, "--timeout", "2m", .. site],
            new AppHost { Output = output, Error = output, Environment = new Dictionary<string, string>() });
        await UntilAsync(() => running.IsCompleted || TextOf(text, output).Contains("Asking again, for ", StringComparison.Ordinal));
        Assert.False(running.IsCompleted, TextOf(text, output));
        await _metadata.NoteSiteAddressAsync("c", new(2), address);
        Assert.True(await running.WaitAsync(Limit) == 0, text.ToString());
    }

    [Fact]
    public async Task DrillCommand_OfABackupThatIsWell_SaysWhatWouldBeKeptAndChangesNothing()
    {
        await WriteAsync(new Random(34), 200);
        WorldPoint held = _cuts.Recorded;
        SiteState before = await _metadata.SiteAsync("c");
        TimeSpan asIfStarted = TimeSpan.FromSeconds(1000);
        long started = Stopwatch.GetTimestamp();
        long began = started - (long)(asIfStarted.TotalSeconds * Stopwatch.Frequency);
        Run run = await SloggerAsync(CancellationToken.None, began, ["drill", .. Site]);
        TimeSpan whole = asIfStarted + Stopwatch.GetElapsedTime(started);
        Assert.True(run.ExitCode == 0, run.Error + run.Output);
        Assert.Contains($"a failover now would go on from {held}", run.Output, StringComparison.Ordinal);
        for (int s = 0; s < Streams; s++) { Assert.Contains($"shard {s}: whole up to {held}", run.Output, StringComparison.Ordinal); }
        Assert.Contains("no failover of this site has been measured yet", run.Output, StringComparison.Ordinal);
        // It counts what a failover counts, from the command's start on.
        double first = Number(run.Output, "RTO \\(estimated, from the command's start until every shard serves clients\\): ([0-9.]+) ms");
        double noted = (await _metadata.TakeoverTimesAsync("c")).Drill.TotalMilliseconds;
        Assert.InRange(first - noted, asIfStarted.TotalMilliseconds, whole.TotalMilliseconds);
        string parts = Regex.Match(run.Output, "of these: (.* ms) to take over").Groups[1].Value;
        double sum = Regex.Matches(parts, "([0-9.]+) ms").Sum(m => double.Parse(m.Groups[1].Value, CultureInfo.InvariantCulture));
        Assert.InRange(sum, first - 1, first + 1);
        Assert.Contains("RPO (measured): ", run.Output, StringComparison.Ordinal);
        // As if a failover had then taken a quarter of a minute longer.
        await _metadata.NoteFailoverAsync("c", TimeSpan.FromMilliseconds(noted + 15_000));
        Run corrected = await SloggerAsync(["drill", .. Site]);
        Assert.Contains("corrected by the last failover here, which took", corrected.Output, StringComparison.Ordinal);
        double estimate = (await _metadata.TakeoverTimesAsync("c")).Drill.TotalMilliseconds + 15_000;
        Assert.InRange(Number(corrected.Output, "([0-9.]+) ms to take over"), estimate - 0.1, estimate + 0.1);
        Run program = await SloggerAsync(["drill", "--json", .. Site]);
        Assert.Equal((0, ""), (program.ExitCode, program.Error));
        JsonElement facts = FactsOf(program);
        Assert.True(facts.GetProperty("would_succeed").GetBoolean());
        JsonElement keeps = facts.GetProperty("keeps"), takes = facts.GetProperty("takes");
        Assert.Equal(held.Version.Number, keeps.GetProperty("from").GetProperty("version").GetInt64());
        Assert.Equal(Streams, keeps.GetProperty("streams").GetArrayLength());
        Assert.Equal(takes.GetProperty("rto_ms").GetDouble(), takes.GetProperty("looked_ms").GetDouble()
            + takes.GetProperty("rehearsed_ms").GetDouble() + takes.GetProperty("takeover_ms").GetDouble(), tolerance: 0.01);
        Assert.Equal(noted + 15_000, takes.GetProperty("last_failover_ms").GetDouble(), tolerance: 0.01);
        Assert.All(facts.GetProperty("logs").EnumerateArray(), l => Assert.Equal(JsonValueKind.Null, l.GetProperty("flaw").ValueKind));
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
        string file = Directory.GetFiles(Path.Combine(_directory, "backup2"), "*", SearchOption.AllDirectories)
            .Where(f => new FileInfo(f).Length > 12_000).Order(StringComparer.Ordinal).First();
        byte[] bytes = File.ReadAllBytes(file);
        long end = _processes[1]!.Logs[0].Log.DurableEnd.Offset;
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
        Run program = await SloggerAsync(["drill", "--json", .. Site]);
        Assert.Equal((1, run.Error), (program.ExitCode, program.Error));
        Assert.False(FactsOf(program).GetProperty("would_succeed").GetBoolean());
        Assert.Contains(FactsOf(program).GetProperty("logs").EnumerateArray(), l => l.GetProperty("shard").GetString() == "2"
            && l.GetProperty("flaw").GetString() is { Length: > 0 });
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
        Run run = await SloggerAsync("seed", "--no-wait", "--metadata", PrimarySpec, "--primary-metadata", Spec, "--cluster", "c",
            "--site-secret-file", SecretFile);
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
        JsonElement followed = FactsOf(await SloggerAsync(["seed", "--json", .. Site]));
        Assert.Equal((true, Streams),
            (followed.GetProperty("can_take_over").GetBoolean(), followed.GetProperty("streams").GetArrayLength()));
        Assert.All(followed.GetProperty("streams").EnumerateArray(), s => Assert.True(s.GetProperty("is_done").GetBoolean()));
        Run unknown = await SloggerAsync(["seed", "--shard", "3", .. Site]);
        Assert.Contains("there is no shard 3", unknown.Error, StringComparison.Ordinal);
        Run run = await SloggerAsync(["seed", "--shard", "1", "--no-wait", "--primary-metadata", PrimarySpec, .. Site]);
        Assert.True(run.ExitCode == 0, run.Error);
        Assert.Contains("generation 2", run.Output, StringComparison.Ordinal);
        Assert.Equal((2L, StreamPhase.Empty), ((await _metadata.SiteAsync("c")).Streams[1] is var s ? (s.Generation, s.Phase) : default));
        // And the primary's process of that shard was told to ship, and no other.
        Assert.Equal([false, true, false], _primaries.Select(p => p.IsAttached));
        JsonElement again = FactsOf(await SloggerAsync(["seed", "--shard", "1", "--no-wait", "--json", .. Site]));
        JsonElement anew = Assert.Single(again.GetProperty("reseeded").EnumerateArray());
        Assert.Equal((1, false, JsonValueKind.Null), (anew.GetProperty("shard").GetInt32(), again.GetProperty("can_take_over").GetBoolean(),
            again.GetProperty("follows_epoch").ValueKind));
    }

    // Given at the same time as the first process is started: there is no database yet, then no cluster, then nobody has its shard.
    [Fact]
    public async Task SeedCommand_BeforeTheSiteIsThere_WaitsForIt()
    {
        string spec = $"sqlite:{Path.Combine(_directory, "later.db")}";
        StringWriter said = new();
        TextWriter shared = TextWriter.Synchronized(said);
        Task<int> seeding = SloggerApp.RunAsync(["seed", "--no-wait", "--metadata", spec, "--cluster", "later"],
            new AppHost { Output = TextWriter.Null, Error = shared, Environment = new Dictionary<string, string>() });
        Task SaysAsync(string what) => UntilAsync(
            () => seeding.IsCompleted || TextOf(said, shared).Contains(what, StringComparison.Ordinal));
        await SaysAsync("does not exist. Asking again");
        await using IMetadataStore metadata = MetadataStoreFactory.Create(spec);
        await metadata.InitializeAsync();
        await SaysAsync("knows no cluster \"later\". Asking again");
        await metadata.GetOrCreateClusterAsync("later", new() { ShardCount = 1, Grid = [new(new(1), 1_700_000_000_000_000, 5000)] });
        await SaysAsync("has taken a shard yet. Asking again");
        Assert.False(seeding.IsCompleted, TextOf(said, shared));
        await metadata.TakeStreamsAsync("later", new(0));
        Assert.True(await seeding.WaitAsync(Limit) == 0, TextOf(said, shared));

        Run never = await SloggerAsync("seed", "--timeout", "1s", "--metadata", spec + "x", "--cluster", "later");
        Assert.Equal(1, never.ExitCode);
        Assert.Contains("later.dbx does not exist", never.Error, StringComparison.Ordinal);
        Assert.False(File.Exists(Path.Combine(_directory, "later.dbx")));
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
        // Its log is a proxy's: in lines of JSON, and for a collector.
        StringWriter lines = new();
        var host = new AppHost
        {
            Output = TextWriter.Null, Error = TextWriter.Synchronized(lines), Stop = again.Token,
            Environment = new Dictionary<string, string> { ["OTEL_EXPORTER_OTLP_LOGS_ENDPOINT"] = "collector" },
        };
        string[] command = ["watermark", "--log-format", "json", "--site-listen", $"127.0.0.1:{_watermarkPort}"];
        Task<int> logged = SloggerApp.RunAsync([.. command, .. Site], host);
        await WriteAsync(new Random(33), 100);
        await UntilAsync(() => _processes.All(p => p!.Watermark == _cuts.Recorded));
        await again.CancelAsync();
        Assert.Equal(0, await logged.WaitAsync(Limit));
        string[] messages = [.. lines.ToString().TrimEnd().Split('\n').Select(MessageOf)];
        Assert.Contains(messages, m => m.Contains("\"collector\" is no address of a collector", StringComparison.Ordinal));
        Assert.Contains(messages, m => m.StartsWith("ready: the watermark of 3 streams", StringComparison.Ordinal));

        static string MessageOf(string line)
        {
            using JsonDocument json = JsonDocument.Parse(line);
            return json.RootElement.GetProperty("message").GetString()!;
        }
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
