// The past of one shard under load: how long a read of one key takes as of an instant before, and what a snapshot of all keys costs the
// clients meanwhile. Beside it the same load on Redis alone, which makes a BGSAVE. With and without are measured in turn. Then what
// retention costs, and first questions (PastIndexes); what goes from one instant to another (PastSteps); and what Redis has for it
// (AofPeer).
using System.Diagnostics;
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Past;

internal sealed class PastSuite(BenchOptions options, Results results)
{
    private const string Suite = "past";
    private const int ValueBytes = 100, Clients = 50, Reads = 2000, Instants = 20;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5);

    private readonly int _rounds = options.Rounds ?? 5;
    private readonly double _seconds = options.RunSeconds ?? 8;

    private readonly List<string> _lines =
    [
        "| SET, 50 clients, closed loop | without, a second | with | of that | p99 without, ms | p99 with | of that | made in, s |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
    ];

    public void Run()
    {
        string directory = SuiteDirectory.Create(options, Suite);
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        Console.WriteLine($"\n== {Suite}: {options.RestoreKeys} keys of {ValueBytes} B, {_rounds} rounds of {_seconds} s");
        if (Wants("copies"))
        {
            RunShard(fleet, directory);
            RunRedis(fleet, directory);
            results.AddTable($"{Suite}: clients while all keys are copied, medians of {_rounds} rounds", _lines);
        }
        var indexes = new PastIndexes(options, results, fleet, directory, _rounds, _seconds);
        if (Wants("retention")) { indexes.RunOverhead(); }
        if (Wants("first")) { indexes.RunCold(); }
        if (Wants("steps")) { new PastSteps(options, results, fleet, directory, _rounds, _seconds).Run(); }
        if (Wants("aof")) { new AofPeer(options, results, fleet, directory, _rounds).Run(); }

        bool Wants(string part) => options.Cases?.Contains(part) ?? true;
    }

    private void RunShard(CaseFleet fleet, string directory)
    {
        using var shard = new PastShard(fleet, "shard", directory, "--checkpoint-every 256mb");
        using RespClient client = shard.Connect();
        StoreFiller.Fill(shard.Port, 0, options.RestoreKeys, ValueBytes);
        List<long> versions = [];
        for (int i = 0; i < Instants; i++)
        {
            _ = RedisBenchmark.Run(new Cell("SET", Clients, 16, ValueBytes), shard.Port, 20_000, options.RestoreKeys, [], fleet.LoadCore);
            versions.Add((long)Now(client)[1]!);
        }
        Read(client, "one instant", _ => versions[0]);
        Read(client, $"{Instants} instants in turn", i => versions[i % Instants]);
        Compare(fleet, "slogger snapshot", shard.Port, () => Snapshot(shard.Port), isGoal: true);
    }

    private void RunRedis(CaseFleet fleet, string directory)
    {
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis("redis-alone", port, Path.Combine(directory, "alone"));
        try
        {
            CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
            StoreFiller.Fill(port, 0, options.RestoreKeys, ValueBytes);
            Compare(fleet, "BGSAVE of Redis alone", port, () => Save(port), isGoal: false);
        }
        finally
        {
            redis.Stop(TimeSpan.FromSeconds(10));
        }
    }

    private void Read(RespClient client, string which, Func<int, long> versionOf)
    {
        var random = new Random(1);
        var times = new List<double>();
        for (int i = -50; i < Reads; i++)
        {
            string key = "key:" + random.Next(options.RestoreKeys).ToString("D12", CultureInfo.InvariantCulture);
            long began = Stopwatch.GetTimestamp();
            _ = client.Text("DPR.ASOF", "VERSION", versionOf(Math.Max(0, i)).ToString(CultureInfo.InvariantCulture), "GET", key);
            // The first ones have the checkpoint and the log indexed.
            if (i >= 0) { times.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds); }
        }
        times.Sort();
        (double median, double high) = (times[times.Count / 2], times[times.Count * 99 / 100]);
        Console.WriteLine($"  a key as of {which}: p50 {median:0.00} ms, p99 {high:0.00} ms");
        string name = $"a key as of {which}, p50";
        results.Add(which == "one instant" ? Figure.AtMost(Suite, name, median, "ms", 1, $"p99 {high:0.00}")
            : Figure.Information(Suite, name, median, "ms", $"p99 {high:0.00}"));
    }

    // A B A B: the load alone, and the load while copies are made, one after the other. A copy is made without a fork of the live Redis: a
    // pair in which that was forked, for a checkpoint of the shard, is measured again.
    private void Compare(CaseFleet fleet, string what, int port, Func<double> copy, bool isGoal)
    {
        List<double> rate = [], rateWith = [], p99 = [], p99With = [], took = [];
        int again = 0;
        while (rate.Count < _rounds)
        {
            long forks = Forks(port);
            Load(fleet, port, rate, p99);
            using var stop = new CancellationTokenSource();
            Task copying = Task.Run(() =>
            {
                while (!stop.IsCancellationRequested) { took.Add(copy()); }
            });
            Load(fleet, port, rateWith, p99With);
            stop.Cancel();
            copying.GetAwaiter().GetResult();
            if (isGoal && Forks(port) != forks && again++ < _rounds)
            {
                foreach (List<double> figures in (List<double>[])[rate, rateWith, p99, p99With]) { figures.RemoveAt(figures.Count - 1); }
                Console.WriteLine($"  {what}: measured again, since the shard took a checkpoint meanwhile");
                continue;
            }
            Console.WriteLine($"  {what}: {rateWith[^1] / rate[^1]:0.00} of the throughput, p99 {p99With[^1] / p99[^1]:0.00}, "
                + $"made in {took[^1]:0.0} s");
        }
        double ofRate = Statistics.Median([.. rateWith.Select((r, i) => r / rate[i])]);
        double ofP99 = Statistics.Median([.. p99With.Select((p, i) => p / p99[i])]);
        _lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {what} | {Statistics.Median(rate):0} | {Statistics.Median(rateWith):0} | "
            + $"{ofRate:0.00} | {Statistics.Median(p99):0.00} | {Statistics.Median(p99With):0.00} | {ofP99:0.00} | "
            + $"{Statistics.Median(took):0.0} |"));
        string throughput = $"{what}: throughput while it is made", tail = $"{what}: p99 while it is made";
        string note = again == 0 ? "" : $"{again} measured again, since the shard took a checkpoint";
        results.Add(isGoal ? Figure.AtLeast(Suite, throughput, ofRate, "", 0.97, note) : Figure.Information(Suite, throughput, ofRate, ""));
        results.Add(isGoal ? Figure.AtMost(Suite, tail, ofP99, "", 1.2) : Figure.Information(Suite, tail, ofP99, ""));
        results.Add(Figure.Information(Suite, $"{what}: made in", Statistics.Median(took), "s"));
    }

    private static long Forks(int port)
    {
        const string Field = "total_forks:";
        using var client = new RespClient(port, s_limit);
        string line = client.Text("INFO", "stats").Split("\r\n").First(l => l.StartsWith(Field, StringComparison.Ordinal));
        return long.Parse(line[Field.Length..], CultureInfo.InvariantCulture);
    }

    private void Load(CaseFleet fleet, int port, List<double> rate, List<double> p99)
    {
        long began = Stopwatch.GetTimestamp();
        List<double> rates = [], tails = [];
        while (Stopwatch.GetElapsedTime(began).TotalSeconds < _seconds)
        {
            BenchmarkLine line = RedisBenchmark.Run(new Cell("SET", Clients, 1, ValueBytes), port, 100_000, options.RestoreKeys, [],
                fleet.LoadCore);
            rates.Add(line.OperationsPerSecond);
            tails.Add(line.P99Ms);
        }
        rate.Add(Statistics.Median(rates));
        p99.Add(Statistics.Median(tails));
    }

    private static double Snapshot(int port)
    {
        using var client = new RespClient(port, s_limit);
        long began = Stopwatch.GetTimestamp();
        string name = client.Strings("DPR.SNAPSHOT", "BEGIN", "AGO", "0")[0];
        while (client.Strings("DPR.SNAPSHOT", "STATE", name)[0] != "ready") { Thread.Sleep(50); }
        double seconds = Stopwatch.GetElapsedTime(began).TotalSeconds;
        client.Expect("DPR.SNAPSHOT", "END", name);
        return seconds;
    }

    private static double Save(int port)
    {
        using var client = new RespClient(port, s_limit);
        long began = Stopwatch.GetTimestamp();
        client.Expect("BGSAVE");
        while (client.Text("INFO", "persistence").Contains("rdb_bgsave_in_progress:1", StringComparison.Ordinal)) { Thread.Sleep(50); }
        return Stopwatch.GetElapsedTime(began).TotalSeconds;
    }

    private static object?[] Now(RespClient client) => client.Call("DPR.ASOF", "AGO", "0") as object?[] ?? [];
}
