// What further directories of the log bring where syncs are slow: the product's log and the threads that sync it, in this process, with
// a version of 20 KB at even intervals. How often commits come, and how long a version waits for its own.
using System.Diagnostics;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Proxy.Shards;

namespace Slogger.Bench.Disks;

internal sealed class DisksSuite(BenchOptions options, Results results)
{
    private const string Suite = "disks";
    private const int VersionBytes = 20_000;

    private readonly record struct Commits(double PerSecond, double P50Ms, double P99Ms);

    public void Run()
    {
        int rounds = options.Rounds ?? 5;
        TimeSpan interval = options.VersionInterval ?? TimeSpan.FromMilliseconds(1);
        string root = SuiteDirectory.Create(options, Suite);
        List<string> lines =
        [
            "| a sync takes, ms more | directories | commits/s | to a version's commit, p50 ms | p99 ms |",
            "| ---: | ---: | ---: | ---: | ---: |",
        ];
        foreach (int syncMs in (int[])[0, 5])
        {
            Dictionary<int, Commits> medians = [];
            int[] directories = [1, 2, 4];
            var runs = directories.ToDictionary(n => n, _ => new List<Commits>());
            for (int round = 0; round < rounds; round++)
            {
                foreach (int n in directories)
                {
                    string place = Path.Combine(root, "run");
                    runs[n].Add(Measure(place, n, TimeSpan.FromMilliseconds(syncMs), interval));
                    Directory.Delete(place, recursive: true);
                }
            }
            foreach (int n in directories)
            {
                medians[n] = new(Statistics.Median(runs[n].Select(r => r.PerSecond)), Statistics.Median(runs[n].Select(r => r.P50Ms)),
                    Statistics.Median(runs[n].Select(r => r.P99Ms)));
                lines.Add($"| {syncMs} | {n} | {medians[n].PerSecond:0} | {medians[n].P50Ms:0.0} | {medians[n].P99Ms:0.0} |");
            }
            double[] ratios = [.. runs[2].Zip(runs[1], (two, one) => two.PerSecond / one.PerSecond)];
            string name = $"commits a second, 2 directories of 1, syncs of {syncMs} ms more";
            string note = $"{ratios.Min():0.00} to {ratios.Max():0.00}";
            results.Add(syncMs > 0 ? Figure.AtLeast(Suite, name, Statistics.Median(ratios), "", 1.8, note)
                : Figure.Information(Suite, name, Statistics.Median(ratios), "", note));
        }
        results.AddTable(
            $"{Suite}: versions of {interval.TotalMilliseconds} ms and {VersionBytes} bytes, medians of {rounds} rounds", lines);
    }

    private Commits Measure(string root, int directories, TimeSpan sync, TimeSpan interval)
    {
        using VersionLog log = VersionLog.Open(new()
        {
            Directory = Path.Combine(root, "log"),
            MoreDirectories = [.. Enumerable.Range(1, directories - 1).Select(i => Path.Combine(root, $"log{i}"))],
            Shard = new ShardId(0), Files = new SlowDisks(sync),
        });
        log.Begin(new StreamOrigin("bench", 0, 0), WorldLine.First, new VersionNumber(1));
        var closed = new List<long>();
        var waits = new List<double>();
        int commits = 0;
        using var ending = new CancellationTokenSource();
        // By one thread at a time.
        using var syncer = new LogSyncer(log, durable =>
        {
            int until = (int)(durable?.Version.Number ?? 0);
            if (until == waits.Count) { return; }
            commits++;
            lock (closed)
            {
                for (int i = waits.Count; i < until; i++) { waits.Add(Stopwatch.GetElapsedTime(closed[i]).TotalMilliseconds); }
            }
        }, e => throw new BenchException(e.Message));
        syncer.Start(ending.Token);
        byte[] bytes = new byte[VersionBytes];
        new Random(1).NextBytes(bytes);
        long began = Stopwatch.GetTimestamp();
        double seconds = options.RunSeconds ?? 3;
        for (long version = 1; Stopwatch.GetElapsedTime(began).TotalSeconds < seconds; version++)
        {
            log.Append(bytes);
            lock (closed)
            {
                closed.Add(Stopwatch.GetTimestamp());
                log.AppendBoundary(new Boundary(WorldLine.First, new VersionNumber(version), log.EndOffset, 0, default));
            }
            syncer.Request();
            TimeSpan rest = (interval * version) - Stopwatch.GetElapsedTime(began);
            if (rest > TimeSpan.Zero) { Thread.Sleep(rest); }
        }
        double took = Stopwatch.GetElapsedTime(began).TotalSeconds;
        ending.Cancel();
        syncer.Join();
        double[] sorted = [.. waits.Order()];
        return new(commits / took, sorted[sorted.Length / 2], sorted[sorted.Length * 99 / 100]);
    }
}
