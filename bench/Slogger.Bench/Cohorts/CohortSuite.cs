// A cohort of three on one machine: how soon another node serves, what a reply that waits for a majority takes, what it costs. Beside it
// one process without a cohort, of the same build and options.
using System.Diagnostics;
using System.Globalization;
using System.Net.Sockets;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Cohorts;

internal sealed class CohortSuite(BenchOptions options, Results results)
{
    private const string Suite = "cohort";
    private const int Nodes = 3, Attempts = 5;
    private const double Rate = 20_000;
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(30), s_calm = TimeSpan.FromSeconds(2),
        s_warm = TimeSpan.FromSeconds(10);
    private readonly NoiseMeter _noise = new(options.NoiseCores, options.QuietPatience);

    public void Run()
    {
        Part("takeover", TakeOver);
        Part("latency", Latency);
        Part("throughput", Throughput);
        Part("conditional", Conditional);
        Part("wait", Wait);

        void Part(string name, Action<string> run)
        {
            if (options.Cases is { } cases && !cases.Contains(name)) { return; }
            Console.WriteLine($"\n== {Suite}: {name}");
            run(SuiteDirectory.Create(options, $"{Suite}-{name}"));
        }
    }

    private double Seconds => options.RunSeconds ?? 5;

    private string Arguments => string.Create(CultureInfo.InvariantCulture,
        $"--version-interval {(options.VersionInterval ?? TimeSpan.FromMilliseconds(1)).TotalMilliseconds}ms");

    // ---- How soon another node serves ----

    private void TakeOver(string directory)
    {
        int rounds = options.Rounds ?? 20;
        var lines = new List<string> { "| what goes | writes/s before | median ms | p99 | lowest | highest | error replies |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |" };
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var nodes = new CohortNodes(options, fleet, Path.Combine(directory, "trio"), Nodes, Arguments);
        Of("the leader's proxy and Redis (kill -9)", nodes.Kill, 200, 500);
        Of("the leader's Redis (kill -9)", nodes.KillStore, 50, null);
        Of("by plan (slogger cohort lead)", _ => nodes.HandOver(), 50, null, isPause: true);
        results.AddTable($"{Suite}: takeovers, each until another node acknowledges; {rounds} times, {Rate:0} writes/s asked for", lines);

        void Of(string what, Action<int> act, double median, double? p99, bool isPause = false)
        {
            var took = new List<double>();
            var before = new List<double>();
            long refused = 0;
            for (int round = 0; round < rounds; round++)
            {
                nodes.Settle();
                using var load = new TakeoverLoad([.. Enumerable.Range(0, Nodes).Select(nodes.Port)], Rate);
                Thread.Sleep(s_calm);
                long counted = load.Count;
                long began = Stopwatch.GetTimestamp();
                Thread.Sleep(s_calm / 2);
                before.Add((load.Count - counted) / Stopwatch.GetElapsedTime(began).TotalSeconds);
                int leader = nodes.Leader();
                load.Away(nodes.Port(leader));
                string at = string.Create(CultureInfo.InvariantCulture, $"{DateTime.UtcNow:HH:mm:ss.fff}");
                act(leader);
                took.Add(load.WaitMs(s_limit, isPause));
                Console.WriteLine(string.Create(CultureInfo.InvariantCulture, $"    {at}: {took[^1]:0} ms"));
                refused += load.Refused;
            }
            Sorted all = new(took);
            lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {what} | {Statistics.Median(before):0} | {all.At(0.5):0} | "
                + $"{all.At(0.99):0} | {all.At(0):0} | {all.At(1):0} | {refused} |"));
            Console.WriteLine("  " + lines[^1]);
            results.Add(Figure.AtMost(Suite, $"{what}: to the next leader's first acknowledgement, median", all.At(0.5), "ms", median,
                "the paper: 400 behind a detection of 2000"));
            if (p99 is { } most) { results.Add(Figure.AtMost(Suite, $"{what}: the same, p99", all.At(0.99), "ms", most)); }
        }
    }

    // ---- What a committed reply takes ----

    private void Latency(string directory)
    {
        var lines = new List<string> { "| | SET/s | p50 ms | p99 | max |", "| --- | ---: | ---: | ---: | ---: |" };
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        var medians = new Dictionary<(int, double), double>();
        foreach (int count in (int[])[1, Nodes])
        {
            using var nodes = new CohortNodes(options, fleet, Path.Combine(directory, $"of-{count}"), count, Arguments);
            nodes.WarmUp(s_warm);
            int port = nodes.Port(count == 1 ? 0 : nodes.Leader());
            foreach (double rate in (double[])[200, 5_000])
            {
                _ = _noise.WaitForQuiet();
                PacedResult result = PacedRunner.Run(new PacedOptions
                {
                    Port = port, Connections = count == 1 ? 0 : 20, RatePerSecond = count == 1 ? 0 : rate, ProbeConnections = count == 1
                        ? 8 : 0, Seconds = Seconds, KeySpace = options.KeySpace, ProbeGapMs = 8000 / rate,
                }, null);
                // Without a cohort a reply is early, and the wait behind it is what a committed one takes.
                LatencySummary took = count == 1 ? result.Commits : result.Requests;
                medians[(count, rate)] = took.P50Us;
                string what = count == 1 ? "one process, SET to DPR.WAIT" : "cohort of 3, SET";
                lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {what} | {rate:0} | {took.P50Us / 1e3:0.00} | "
                    + $"{took.P99Us / 1e3:0.00} | {took.MaxUs / 1e3:0.00} |"));
                Console.WriteLine("  " + lines[^1]);
                if (count == 1) { continue; }
                results.Add(Figure.AtMost(Suite, $"a committed SET beside one process, p50, {rate:0}/s", took.P50Us / medians[(1, rate)], "",
                    1.3));
                results.Add(Figure.AtMost(Suite, $"a committed SET, p50, {rate:0}/s", took.P50Us / 1e3, "ms", 2));
                results.Add(Figure.AtMost(Suite, $"a committed SET, p99, {rate:0}/s", took.P99Us / 1e3, "ms", 6));
            }
        }
        results.AddTable($"{Suite}: until a write is committed, {Seconds} s each, everything on {Environment.ProcessorCount} cores", lines);
    }

    // ---- What it costs ----

    private void Throughput(string directory)
    {
        int rounds = options.Rounds ?? 3;
        var lines = new List<string> { "| | one process: op/s | CPU us/op | cohort of 3: op/s | CPU us/op | early replies: op/s | CPU us/op "
            + "| cohort / one: op/s | CPU | early / one: op/s | CPU | committed / early: op/s | CPU |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |" };
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var one = new CohortNodes(options, fleet, Path.Combine(directory, "of-1"), 1, Arguments);
        using var three = new CohortNodes(options, fleet, Path.Combine(directory, "of-3"), Nodes, Arguments);
        using var early = new CohortNodes(options, fleet, Path.Combine(directory, "of-3-early"), Nodes, Arguments + " --replies early");
        CohortNodes[] all = [one, three, early];
        foreach (CohortNodes nodes in all) { nodes.WarmUp(s_warm); }
        foreach (string operation in options.Operations ?? ["SET", "GET"])
        {
            foreach (int pipeline in options.Pipelines ?? [1, 16, 64])
            {
                var cell = new Cell(operation, 50, pipeline, 64);
                List<(double Rate, double CpuUs)>[] measured = [[], [], []];
                for (int round = 0; round < rounds; round++)
                {
                    for (int i = 0; i < all.Length; i++) { measured[i].Add(Measure(all, i, cell)); }
                }
                double[] rate = [.. measured.Select(m => Statistics.Median(m.Select(r => r.Rate)))];
                double[] cpu = [.. measured.Select(m => Statistics.Median(m.Select(r => r.CpuUs)))];
                lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {operation}, P={pipeline} | {rate[0]:0} | {cpu[0]:0.0} | "
                    + $"{rate[1]:0} | {cpu[1]:0.0} | {rate[2]:0} | {cpu[2]:0.0} | {rate[1] / rate[0]:0.00} | {cpu[1] / cpu[0]:0.00} | "
                    + $"{rate[2] / rate[0]:0.00} | {cpu[2] / cpu[0]:0.00} | {rate[1] / rate[2]:0.00} | {cpu[1] / cpu[2]:0.00} |"));
                Console.WriteLine("  " + lines[^1]);
                Judge(operation, pipeline, rate, cpu);
            }
        }
        results.AddTable($"{Suite}: 50 clients, 64 B, {rounds} alternating rounds, medians; CPU of all proxies and stores", lines);
    }

    private void Judge(string operation, int pipeline, double[] rate, double[] cpu)
    {
        string at = $"P={pipeline}";
        if (operation == "GET")
        {
            results.Add(Figure.AtLeast(Suite, $"strong reads beside one process, {at}", rate[1] / rate[0], "", 0.97));
            return;
        }
        // Three nodes share the cores of one: operations a second say little here.
        results.Add(Figure.Information(Suite, $"CPU of a write at three nodes beside one, {at}", cpu[1] / cpu[0], "",
            "three logs and stores do the work of one"));
        results.Add(Figure.AtLeast(Suite, $"early replies beside one process, {at}", rate[2] / rate[0], "", 0.9));
        results.Add(Figure.AtLeast(Suite, $"committed replies beside early ones, {at}", rate[1] / rate[2], "", 0.9));
    }

    // The others do not share the cores meanwhile.
    private (double Rate, double CpuUs) Measure(CohortNodes[] all, int which, Cell cell)
    {
        CohortNodes[] others = [.. all.Where((_, i) => i != which)];
        foreach (CohortNodes other in others) { other.Freeze(true); }
        try
        {
            all[which].Settle();
            return Measure(all[which], cell);
        }
        finally
        {
            foreach (CohortNodes other in others) { other.Freeze(false); }
        }
    }

    private (double Rate, double CpuUs) Measure(CohortNodes nodes, Cell cell)
    {
        long operations = (long)(Seconds * (cell.Pipeline == 1 ? 10_000 : 60_000));
        for (int attempt = 1; ; attempt++)
        {
            _ = _noise.WaitForQuiet();
            int port = nodes.Port(nodes.Count == 1 ? 0 : nodes.Leader());
            double before = nodes.CpuSeconds;
            try
            {
                BenchmarkLine line = RedisBenchmark.Run(cell, port, operations, options.KeySpace, [], null);
                return (line.OperationsPerSecond, (nodes.CpuSeconds - before) * 1e6 / operations);
            }
            catch (BenchException e) when (attempt < Attempts)
            {
                // A busy machine may have taken the leader's lease.
                Console.WriteLine($"  -- again: {e.Message.Split('\n')[^1]}");
            }
        }
    }

    // ---- A conditional put ----

    private void Conditional(string directory)
    {
        int times = (int)(Seconds * 200);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var nodes = new CohortNodes(options, fleet, Path.Combine(directory, "trio"), Nodes, Arguments);
        nodes.WarmUp(s_warm);
        using var client = new RespClient(nodes.Port(nodes.Leader()), s_limit);
        string version = ((object?[])((object?[])client.Call("DPR.GETV", "c")!)[0]!)[1]!.ToString()!;
        List<double> sets = [], puts = [];
        for (int i = 0; i < times; i++)
        {
            sets.Add(Took(() => client.Call("SET", "s", "v")));
            puts.Add(Took(() =>
            {
                object?[] reply = (object?[])client.Call("DPR.CPUT", "c", version, "v")!;
                if (reply[0] is not 1L) { throw new BenchException("DPR.CPUT: somebody else has written"); }
                version = reply[1]!.ToString()!;
            }));
        }
        (double set, double put) = Compare("SET", sets, "DPR.CPUT", puts);
        results.Add(Figure.AtMost(Suite, "a conditional put beside SET, both committed, p50", put / set, "", 1.1));
    }

    // ---- Beside what Redis has for it ----

    private void Wait(string directory)
    {
        int times = (int)(Seconds * 200);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var nodes = new CohortNodes(options, fleet, Path.Combine(directory, "trio"), Nodes, Arguments);
        nodes.WarmUp(s_warm);
        List<ManagedProcess> redis = [];
        int primary = fleet.NextPort();
        try
        {
            for (int i = 0; i < Nodes; i++)
            {
                redis.Add(fleet.LaunchRedis($"redis-{i}", i == 0 ? primary : fleet.NextPort(), Path.Combine(directory, $"redis-{i}"),
                    ["--appendonly", "yes", "--appendfsync", "always", .. i == 0 ? (string[])[]
                        : ["--replicaof", "127.0.0.1", primary.ToString(CultureInfo.InvariantCulture)]]));
            }
            using RespClient plain = Ready(primary), client = new(nodes.Port(nodes.Leader()), s_limit);
            List<double> sets = [], waits = [];
            for (int i = 0; i < times; i++)
            {
                sets.Add(Took(() => client.Call("SET", "s", "v")));
                waits.Add(Took(() =>
                {
                    plain.Call("SET", "s", "v");
                    if (plain.Integer("WAIT", "1", "1000") < 1) { throw new BenchException("WAIT 1: no replica has it"); }
                }));
            }
            (double set, double wait) = Compare("SET at a cohort", sets, "SET and WAIT 1, appendfsync always", waits);
            results.Add(Figure.AtMost(Suite, "a committed SET beside SET and WAIT 1 with appendfsync always, p50", set / wait, "", 1));
        }
        finally
        {
            foreach (ManagedProcess process in redis) { process.Kill(); }
        }
    }

    // Both of its replicas are there.
    private static RespClient Ready(int primary)
    {
        for (DateTime end = DateTime.UtcNow + s_limit; ; Thread.Sleep(20))
        {
            RespClient? client = null;
            try
            {
                client = new RespClient(primary, s_limit);
                if (client.Integer("WAIT", "2", "100") == 2) { return client; }
            }
            catch (Exception e) when (e is IOException or SocketException or BenchException && DateTime.UtcNow < end)
            {
                // It starts.
            }
            client?.Dispose();
            if (DateTime.UtcNow > end) { throw new BenchException("the replicas of Redis do not come"); }
        }
    }

    // One client, one after the other; the medians.
    private (double A, double B) Compare(string a, List<double> tookA, string b, List<double> tookB)
    {
        Sorted first = new(tookA.Skip(tookA.Count / 5)), second = new(tookB.Skip(tookB.Count / 5));
        results.AddTable($"{Suite}: one client, in turn, {tookA.Count} times each",
        [
            "| | p50 ms | p99 |", "| --- | ---: | ---: |",
            string.Create(CultureInfo.InvariantCulture, $"| {a} | {first.At(0.5):0.00} | {first.At(0.99):0.00} |"),
            string.Create(CultureInfo.InvariantCulture, $"| {b} | {second.At(0.5):0.00} | {second.At(0.99):0.00} |"),
        ]);
        return (first.At(0.5), second.At(0.5));
    }

    private static double Took(Action act)
    {
        long began = Stopwatch.GetTimestamp();
        act();
        return Stopwatch.GetElapsedTime(began).TotalMilliseconds;
    }
}
