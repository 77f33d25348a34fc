// What sessions cost: one client over 2 and 4 shards, in batches of 64 and 1024. The load is a program of its own
// (Slogger.Bench.Sessions), which uses Slogger.Client, or a client written by hand with or without the headers of sessions. In each
// round every contestant runs once; the others are frozen. Ratios are to the hand-written client at Redis itself.
using System.Globalization;
using System.Text.Json;
using Slogger.Bench.Cases;
using Slogger.Bench.Finders;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class SessionsSuite(BenchOptions options, Results results)
{
    private const string Suite = "sessions";
    private const string LoadPath = "bench/Slogger.Bench.Sessions/bin/Release/net10.0/Slogger.Bench.Sessions.dll";

    // Servers and the client that works on them. `log` without sessions is what the headers are to be compared with.
    private static readonly Contestant[] s_contestants =
    [
        new("raw", Kind.Raw, "plain"), new("none", Kind.None, "plain"), new("log", Kind.Log, "plain"),
        new("log headers", Kind.Log, "headers"), new("log session", Kind.Log, "session"),
    ];

    private enum Kind { Raw, None, Log }

    private sealed record Contestant(string Name, Kind Servers, string Client);

    /// <summary>What the load printed.</summary>
    private sealed record Measurement(double OperationsPerSecond, double P50Us, double P99Us, double AllocatedBytesPerOperation,
        double CpuSeconds);

    /// <summary>The shards of one kind.</summary>
    private sealed record Shards(string Endpoints, IReadOnlyList<ManagedProcess> Redis, IReadOnlyList<ManagedProcess> Proxies)
    {
        public IEnumerable<ManagedProcess> All => [.. Proxies, .. Redis];
    }

    public void Run()
    {
        if (!File.Exists(LoadPath))
        {
            throw new BenchException($"{LoadPath} does not exist: dotnet build -c Release bench/Slogger.Bench.Sessions");
        }
        string directory = SuiteDirectory.Create(options, Suite + "-sql");
        using PrivatePostgres? postgres = options.Metadata is null ? new(directory, options.PortBase + 900) : null;
        string metadata = options.Metadata ?? $"postgres:Host=127.0.0.1;Port={postgres!.Port};Username=postgres;Database=postgres";
        foreach (int shards in (int[])[2, 4]) { Run(shards, metadata); }
    }

    private void Run(int count, string metadata)
    {
        int rounds = options.Rounds ?? 5;
        double seconds = options.RunSeconds ?? 3;
        Console.WriteLine($"\n== {Suite}: {count} shards, {rounds} rounds of {seconds} s");
        string directory = SuiteDirectory.Create(options, $"{Suite}{count}");
        Layout layout = options.Layout ?? Layout.Pinned;
        using var fleet = new CaseFleet(options, layout, directory);
        var servers = new Dictionary<Kind, Shards>();
        try
        {
            foreach (Kind kind in Enum.GetValues<Kind>()) { servers[kind] = Start(fleet, directory, kind, count, metadata); }
            string title = $"{count} shards, {(layout == Layout.Pinned ? "pinned" : "unpinned")}, {rounds} rounds of {seconds} s, medians";
            bool Wants(string what) => options.Cases is null || options.Cases.Contains(what);
            foreach (int batch in (int[])[64, 1024])
            {
                if (Wants("throughput"))
                {
                    Measure(fleet, servers, s_contestants, "throughput", batch, count, rounds, seconds,
                        $"Sessions: operations per second, batches of {batch} ({title})");
                }
            }

            if (Wants("latency"))
            {
                Measure(fleet, servers, s_contestants, "latency", 1, count, rounds, seconds,
                    $"Sessions: completion, one operation at a time ({title})");
            }
            if (Wants("commit"))
            {
                Measure(fleet, servers, [s_contestants[^1]], "commit", 1, count, rounds, seconds,
                    $"Sessions: an operation and its commit, one at a time ({title}; metadata in {metadata.Split(':')[0]})");
            }
        }
        finally
        {
            foreach (ManagedProcess process in servers.Values.SelectMany(s => s.All)) { process.Thaw(); }
            foreach (ManagedProcess proxy in servers.Values.SelectMany(s => s.Proxies)) { proxy.Stop(TimeSpan.FromSeconds(10)); }
            foreach (ManagedProcess redis in servers.Values.SelectMany(s => s.Redis)) { redis.Kill(); }
        }
    }

    private Shards Start(CaseFleet fleet, string directory, Kind kind, int count, string metadata)
    {
        var redis = new List<ManagedProcess>();
        var proxies = new List<ManagedProcess>();
        var endpoints = new List<string>();
        for (int i = 0; i < count; i++)
        {
            int redisPort = fleet.NextPort(), port = kind == Kind.Raw ? redisPort : fleet.NextPort();
            string name = $"{kind}{i}".ToLowerInvariant();
            redis.Add(fleet.LaunchRedis("redis-" + name, redisPort, Path.Combine(directory, "redis-" + name)));
            CaseFleet.WaitUntilUp(redis[^1], redisPort, "PING\r\n");
            endpoints.Add(string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}"));
            if (kind == Kind.Raw) { continue; }
            string data = Path.Combine(directory, name + "-data");
            // Without versions there is nothing that shards share: each proxy stands alone.
            string arguments = kind == Kind.None ? "--commit none"
                : $"--commit log --shard {i} --shards {count} --cluster bench-{Environment.ProcessId}-{count}";
            List<string> command = [.. fleet.SloggerCommand(arguments, port, $"--redis 127.0.0.1:{redisPort}", data)];
            // One word, whatever is in it.
            if (kind == Kind.Log) { command.AddRange(["--metadata", metadata]); }
            proxies.Add(fleet.LaunchProcess(name, command));
            CaseFleet.WaitUntilUp(proxies[^1], port, "PING\r\n");
        }

        return new(string.Join(',', endpoints), redis, proxies);
    }

    private void Measure(CaseFleet fleet, Dictionary<Kind, Shards> servers, Contestant[] contestants, string what, int batch, int shards,
        int rounds, double seconds, string title)
    {
        var runs = contestants.ToDictionary(c => c, _ => new List<Measurement>());
        for (int round = 0; round < rounds; round++)
        {
            foreach (Contestant contestant in contestants)
            {
                Focus(servers, contestant.Servers);
                (Measurement found, double noise) = Once(fleet, servers[contestant.Servers], contestant, what, batch, seconds);
                runs[contestant].Add(found);
                results.Samples.Add(new Sample(Suite, $"{contestant.Name}, {shards} shards", new Cell(what, 1, batch, 64), round,
                    found.OperationsPerSecond,
                    0, found.P50Us / 1e3, found.P99Us / 1e3, 0, 0, noise, noise > options.NoiseCores));
            }
        }

        bool isThroughput = what == "throughput";
        List<string> lines = isThroughput
            ? ["| | k ops/s | to raw | spread | bytes allocated per operation |", "| --- | ---: | ---: | --- | ---: |"]
            : ["| | p50 us | p99 us | p50 to raw | spread |", "| --- | ---: | ---: | ---: | --- |"];
        foreach (Contestant contestant in contestants)
        {
            List<Measurement> all = runs[contestant];
            double[] ratios = [.. all.Zip(runs[contestants[0]], (a, raw) => isThroughput ? a.OperationsPerSecond / raw.OperationsPerSecond
                : a.P50Us / raw.P50Us)];
            string ratio = contestants.Length == 1 ? " | "
                : $"{Statistics.Median(ratios):0.00} | {ratios.Min():0.00} to {ratios.Max():0.00}";
            lines.Add(isThroughput
                ? $"| {contestant.Name} | {Statistics.Median(all.Select(m => m.OperationsPerSecond)) / 1e3:0} | {ratio} | "
                    + $"{Statistics.Median(all.Select(m => m.AllocatedBytesPerOperation)):0} |"
                : $"| {contestant.Name} | {Statistics.Median(all.Select(m => m.P50Us)):0} | "
                    + $"{Statistics.Median(all.Select(m => m.P99Us)):0} | {ratio} |");
            Console.WriteLine("  " + lines[^1]);
        }

        results.AddTable(title, lines);
        AddFigures(runs, what, batch, shards);
    }

    private void AddFigures(Dictionary<Contestant, List<Measurement>> runs, string what, int batch, int shards)
    {
        List<Measurement> Of(string name) => runs[s_contestants.First(c => c.Name == name)];
        switch (what)
        {
            case "throughput":
                // What sessions cost beside what the log costs.
                results.Add(Figure.AtLeast(Suite, $"{shards} shards, batches of {batch}: headers to none",
                    Ratio(Of("log headers"), Of("log"), m => m.OperationsPerSecond), "x", 0.95, "log with headers to log without"));
                results.Add(Figure.Information(Suite, $"{shards} shards, batches of {batch}: Slogger.Client to the client by hand",
                    Ratio(Of("log session"), Of("log headers"), m => m.OperationsPerSecond), "x", ""));
                break;
            case "latency":
                results.Add(Figure.AtMost(Suite, $"{shards} shards: completion with headers to the pass-through proxy",
                    Ratio(Of("log headers"), Of("none"), m => m.P50Us), "x", 1.05, "p50"));
                break;
            default:
                results.Add(Figure.AtMost(Suite, $"{shards} shards: commit latency p50",
                    Statistics.Median(Of("log session").Select(m => m.P50Us)) / 1e3, "ms", 15, "from the call to the end of the wait"));
                results.Add(Figure.Information(Suite, $"{shards} shards: commit latency p99",
                    Statistics.Median(Of("log session").Select(m => m.P99Us)) / 1e3, "ms", ""));
                break;
        }
    }

    private static double Ratio(List<Measurement> a, List<Measurement> b, Func<Measurement, double> of) =>
        Statistics.Median(a.Zip(b, (x, y) => of(x) / of(y)));

    private (Measurement Found, double NoiseCores) Once(CaseFleet fleet, Shards on, Contestant contestant, string what, int batch,
        double seconds)
    {
        double before = Foreign(on);
        long start = System.Diagnostics.Stopwatch.GetTimestamp();
        string[] command =
        [
            "dotnet", LoadPath, contestant.Client, what, on.Endpoints, batch.ToString(CultureInfo.InvariantCulture),
                seconds.ToString(CultureInfo.InvariantCulture),
            options.KeySpace.ToString(CultureInfo.InvariantCulture),
        ];
        (string output, string errors, int exitCode) = ManagedProcess.Run(
            command, fleet.LoadCore, TimeSpan.FromSeconds((seconds * 3) + 60));
        if (exitCode != 0) { throw new BenchException($"{contestant.Name}: {errors}"); }
        double noise = Math.Max(0, Foreign(on) - before) / System.Diagnostics.Stopwatch.GetElapsedTime(start).TotalSeconds;
        return (JsonSerializer.Deserialize<Measurement>(output)!, noise);
    }

    // CPU seconds of everybody who has no part in the run.
    private static double Foreign(Shards on)
    {
        MachineCpu machine = ProcFs.Machine();
        return machine.BusySeconds
            + machine.StolenSeconds - ProcFs.SelfAndReapedChildrenCpuSeconds() - on.All.Sum(p => ProcFs.CpuSeconds(p.Pid));
    }

    // Only these run: the proxies of the others are stopped first, so that they do not see their stores go silent.
    private void Focus(Dictionary<Kind, Shards> servers, Kind only)
    {
        if (!options.Freeze) { return; }
        foreach ((Kind kind, Shards shards) in servers)
        {
            if (kind == only) { continue; }
            foreach (ManagedProcess process in shards.All) { process.Freeze(); }
        }

        foreach (ManagedProcess process in servers[only].All.Reverse()) { process.Thaw(); }
    }
}
