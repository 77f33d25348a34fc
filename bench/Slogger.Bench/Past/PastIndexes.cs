// What indexes of keys cost, and what they give: the throughput of a shard with --retention beside one without, in turn; and the first
// questions about the past of a process that knows nothing yet, of a log of a gigabyte, with and without them. The files are in memory.
using System.Diagnostics;
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Past;

/// <param name="options">Of the bench.</param>
/// <param name="results">Where figures go.</param>
/// <param name="fleet">Where shards run.</param>
/// <param name="directory">Of the suite.</param>
/// <param name="rounds">How many.</param>
/// <param name="seconds">How long each measures.</param>
internal sealed class PastIndexes(BenchOptions options, Results results, CaseFleet fleet, string directory, int rounds, double seconds)
{
    private const string Suite = "past", Retention = "--retention 24h --log-budget 16gb";
    private const int Clients = 50, OverheadBytes = 64, ValueBytes = 100, SeldomEvery = 200_000;
    private const long LogBytes = 1L << 30;
    private static readonly int[] s_pipelines = [1, 16, 64];
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5);

    private readonly record struct Run(double Rate, double CpuUs);

    /// <summary>A B, B A: without and with.</summary>
    public void RunOverhead()
    {
        using var without = new PastShard(fleet, "plain", directory, "--log-budget 16gb");
        using var with = new PastShard(fleet, "retention", directory, Retention);
        List<string> lines =
        [
            "| SET, 64 B, 50 clients | without, a second | with --retention | of that | CPU per operation, with indexes, of that without |",
            "| --- | ---: | ---: | ---: | ---: |",
        ];
        foreach (int pipeline in s_pipelines)
        {
            var cell = new Cell("SET", Clients, pipeline, OverheadBytes);
            List<Run> plain = [], indexed = [];
            for (int round = 0; round < rounds; round++)
            {
                bool isFirst = round % 2 == 0;
                if (isFirst) { plain.Add(Load(without, cell, false)); }
                indexed.Add(Load(with, cell, true));
                if (!isFirst) { plain.Add(Load(without, cell, false)); }
            }
            double ofRate = Statistics.Median([.. indexed.Select((r, i) => r.Rate / plain[i].Rate)]);
            double ofCpu = Statistics.Median([.. indexed.Select((r, i) => r.CpuUs / plain[i].CpuUs)]);
            double rate = Statistics.Median([.. plain.Select(r => r.Rate)]), rateWith = Statistics.Median([.. indexed.Select(r => r.Rate)]);
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| P={pipeline} | {rate:0} | {rateWith:0} | {ofRate:0.000} | {ofCpu:0.000} |"));
            Console.WriteLine($"  {lines[^1]}");
            results.Add(Figure.AtLeast(Suite, $"--retention: throughput of SET, P={pipeline}", ofRate, "", 0.98, $"CPU {ofCpu:0.000}"));
        }
        results.AddTable($"{Suite}: retention with indexes of keys, medians of {rounds} rounds", lines);
    }

    /// <summary>The first question of a process, and the next ones.</summary>
    public void RunCold()
    {
        List<string> lines =
        [
            "| question about a log of 1 GB | first, without, ms | next | first, with indexes, ms | next |",
            "| --- | ---: | ---: | ---: | ---: |",
        ];
        const string Rare = " --checkpoint-every 2gb";
        double[] without = Ask("cold-plain", "--log-budget 16gb" + Rare, false), with = Ask("cold-indexed", Retention + Rare, true);
        string[] questions = ["the history of a key that is written seldom", "a key as of an instant near the end"];
        for (int i = 0; i < questions.Length; i++)
        {
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {questions[i]} | {without[2 * i]:0.0} | {without[(2 * i) + 1]:0.0} | {with[2 * i]:0.0} | {with[(2 * i) + 1]:0.0} |"));
            Console.WriteLine($"  {lines[^1]}");
            results.Add(Figure.Information(Suite, $"{questions[i]}, first question", with[2 * i], "ms", $"without {without[2 * i]:0.0}"));
        }
        results.AddTable($"{Suite}: first questions of a process", lines);
    }

    private Run Load(PastShard shard, Cell cell, bool isIndexed)
    {
        List<double> rates = [];
        double cpu = shard.CpuSeconds;
        long done = 0;
        for (long began = Stopwatch.GetTimestamp(); Stopwatch.GetElapsedTime(began).TotalSeconds < seconds;)
        {
            int operations = 100_000 * Math.Min(cell.Pipeline, 8);
            rates.Add(RedisBenchmark.Run(cell, shard.Port, operations, options.KeySpace, [], fleet.LoadCore).OperationsPerSecond);
            done += operations;
        }
        if (isIndexed) { AwaitIndexes(shard); }
        return new(Statistics.Median(rates), (shard.CpuSeconds - cpu) * 1e6 / done);
    }

    private double[] Ask(string name, string with, bool isIndexed)
    {
        using var shard = new PastShard(fleet, name, directory, with);
        var cell = new Cell("SET", Clients, 64, ValueBytes);
        string version;
        using (RespClient client = shard.Connect())
        {
            while (LogSizeOf(shard) < LogBytes)
            {
                client.Expect("SET", "seldom", "value");
                _ = RedisBenchmark.Run(cell, shard.Port, SeldomEvery, options.RestoreKeys, [], fleet.LoadCore);
            }
            // Before the checkpoint with which the process ends.
            version = ((long)(client.Call("DPR.ASOF", "AGO", "0") as object?[] ?? [])[1]!).ToString(CultureInfo.InvariantCulture);
        }
        if (isIndexed) { AwaitIndexes(shard); }
        List<double>[] times = [[], [], [], []];
        for (int round = 0; round < rounds; round++)
        {
            shard.Restart();
            using RespClient client = shard.Connect();
            string[][] questions = [["DPR.HISTORY", "seldom", "TO", version], ["DPR.ASOF", "VERSION", version, "GET", "seldom"]];
            for (int i = 0; i < times.Length; i++)
            {
                long began = Stopwatch.GetTimestamp();
                _ = client.Call(questions[i / 2]);
                times[i].Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
            }
        }
        return [.. times.Select(t => Statistics.Median(t))];
    }

    // They are made when others leave time for it: what is owed is paid before the next is measured.
    private static void AwaitIndexes(PastShard shard)
    {
        for (long began = Stopwatch.GetTimestamp(); Count(shard, "*.kix") < Count(shard, "*.slog") - 2; Thread.Sleep(100))
        {
            if (Stopwatch.GetElapsedTime(began) > s_limit) { throw new BenchException("the segments are not indexed"); }
        }
    }

    private static int Count(PastShard shard, string pattern) => Directory.EnumerateFiles(shard.LogDirectory, pattern).Count();

    private static long LogSizeOf(PastShard shard) =>
        Directory.EnumerateFiles(shard.LogDirectory, "*.slog").Sum(f => new FileInfo(f).Length);
}
