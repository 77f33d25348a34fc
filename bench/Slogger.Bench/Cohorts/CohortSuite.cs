// A cohort of three on one machine: how soon another node serves, what a reply that waits for a majority takes, what it costs. Beside it
// one process without a cohort, of the same build and options.
using System.Diagnostics;
using System.Globalization;
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
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(30), s_calm = TimeSpan.FromSeconds(2);
    private readonly NoiseMeter _noise = new(options.NoiseCores, options.QuietPatience);

    public void Run()
    {
        Part("takeover", TakeOver);
        Part("latency", Latency);
        Part("throughput", Throughput);
        Part("conditional", Conditional);

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
        Of("by plan (slogger cohort lead)", _ => nodes.HandOver(), 50, null);
        results.AddTable($"{Suite}: from the kill, or the start of the command, until another node has acknowledged a write; detection "
            + $"included; {rounds} times each, {Rate:0} writes/s asked for, everything on {Environment.ProcessorCount} cores", lines);

        void Of(string what, Action<int> act, double median, double? p99)
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
                act(leader);
                took.Add(load.WaitMs(s_limit));
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
        var lines = new List<string> { "| | one process: op/s | CPU us/op | cohort of 3: op/s | CPU us/op | op/s, ratio | CPU, ratio |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: |" };
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var one = new CohortNodes(options, fleet, Path.Combine(directory, "of-1"), 1, Arguments);
        using var three = new CohortNodes(options, fleet, Path.Combine(directory, "of-3"), Nodes, Arguments);
        foreach (string operation in options.Operations ?? ["SET", "GET"])
        {
            foreach (int pipeline in options.Pipelines ?? [1, 16, 64])
            {
                var cell = new Cell(operation, 50, pipeline, 64);
                List<(double Rate, double CpuUs)> single = [], cohort = [];
                for (int round = 0; round < rounds; round++)
                {
                    single.Add(Measure(one, cell));
                    cohort.Add(Measure(three, cell));
                }
                double Of(List<(double Rate, double CpuUs)> all, Func<(double Rate, double CpuUs), double> what) =>
                    Statistics.Median(all.Select(what));
                (double rate1, double cpu1, double rate3, double cpu3) = (Of(single, s => s.Rate), Of(single, s => s.CpuUs), Of(cohort,
                    s => s.Rate), Of(cohort, s => s.CpuUs));
                lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {operation}, P={pipeline} | {rate1:0} | {cpu1:0.0} | {rate3:0} | "
                    + $"{cpu3:0.0} | {rate3 / rate1:0.00} | {cpu3 / cpu1:0.00} |"));
                Console.WriteLine("  " + lines[^1]);
                // Three nodes share the cores of one: operations a second say little here.
                results.Add(operation == "GET"
                    ? Figure.AtLeast(Suite, $"strong reads beside one process, P={pipeline}", rate3 / rate1, "", 0.97)
                    : Figure.Information(Suite, $"CPU of a write at three nodes beside one, P={pipeline}", cpu3 / cpu1, "",
                        "three logs and stores do the work of one"));
            }
        }
        results.AddTable($"{Suite}: 50 clients, 64 B, {rounds} alternating rounds, medians; CPU of all proxies and stores", lines);
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
        Sorted set = new(sets.Skip(times / 5)), put = new(puts.Skip(times / 5));
        results.AddTable($"{Suite}: one client, one after the other, {times} times each",
        [
            "| | p50 ms | p99 |", "| --- | ---: | ---: |",
            string.Create(CultureInfo.InvariantCulture, $"| SET | {set.At(0.5):0.00} | {set.At(0.99):0.00} |"),
            string.Create(CultureInfo.InvariantCulture, $"| DPR.CPUT | {put.At(0.5):0.00} | {put.At(0.99):0.00} |"),
        ]);
        results.Add(Figure.AtMost(Suite, "a conditional put beside SET, both committed, p50", put.At(0.5) / set.At(0.5), "", 1.1));

        static double Took(Action act)
        {
            long began = Stopwatch.GetTimestamp();
            act();
            return Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        }
    }
}
