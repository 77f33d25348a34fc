// How long after its reply a write is committed: SET and DPR.WAIT * on the same connection, from the one's reply to
// the other's, while paced SETs of 50 other clients load the proxy to half of what it can do.
using System.Diagnostics;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Suites;

internal sealed class CommitSuite(BenchOptions options, Results results)
{
    private const string Suite = "commit";
    private const int Clients = 50;
    private const int Probes = 8;
    private readonly RunMeter _meter = new(options);

    public void Run()
    {
        int rounds = options.Rounds ?? 5;
        double seconds = options.RunSeconds ?? 10;
        Console.WriteLine($"\n== {Suite}: pinned, {rounds} rounds of {seconds} s, {Probes} probes");
        string directory = SuiteDirectory.Create(options, Suite);
        var lines = new List<string>
        {
            $"The disk, 4 KB appended and fdatasync'ed 300 times: {DiskText(directory)}", "",
            "| SET to committed, ms | load/s | waits | p50 | p90 | p99 | p99.9 | max | SET p99 |",
                "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |",
        };
        Console.WriteLine("  " + lines[0]);
        foreach (string name in options.Cases ?? ["log5", "log1", .. options.Extra.Select(e => e.Label)])
        {
            using var fleet = new CaseFleet(options, Layout.Pinned, directory);
            if (fleet.TryStart(name) is not { Spec.Kind: CaseKind.Slogger } started)
            {
                continue;
            }

            try
            {
                fleet.Fill(64, secondDatabaseToo: false);
                double full = PacedRunner.FullRate("SET", Clients, started.Port, options.KeySpace, fleet.LoadCore);
                Measure(fleet, started, Math.Floor(full / 2), "DPR.WAIT * 5000", "half load", rounds, seconds, lines, withGoals: true);
                Measure(fleet, started, 0, "DPR.WAIT * 5000", "idle otherwise", Math.Min(rounds, 2), seconds, lines, withGoals: false);
                Measure(fleet, started, Math.Floor(full / 2), "WAITAOF 1 0 5000", "half load, by WAITAOF", 1, seconds, lines,
                    withGoals: false);
            }
            catch (BenchException e)
            {
                Console.WriteLine($"  -- {name}: {e.Message}");
            }
        }

        lines.AddRange(["", $"The disk afterwards: {DiskText(directory)}"]);
        results.AddTable($"{Suite} (pinned, {rounds} rounds of {seconds} s, medians)", lines);
    }

    private void Measure(
        CaseFleet fleet, RunningCase on, double rate, string wait, string title, int rounds, double seconds, List<string> lines,
            bool withGoals)
    {
        var runs = new List<PacedResult>();
        int noisyRuns = 0;
        for (int round = 0; round < rounds; round++)
        {
            Native.SyncDisks();
            var paced = new PacedOptions
            {
                Port = on.Port, Connections = Clients, RatePerSecond = rate, ProbeConnections = Probes, WaitCommand = wait,
                Seconds = seconds, KeySpace = options.KeySpace, Seed = round + 1,
            };
            (PacedResult result, RunCost cost, bool noisy) = _meter.Measure(on, () => PacedRunner.Run(paced, fleet.LoadCore));
            if (result.Errors > 0)
            {
                throw new BenchException($"{title}: {result.Errors} error replies, the first: {result.FirstError}");
            }

            runs.Add(result);
            noisyRuns += noisy ? 1 : 0;
            results.Samples.Add(new Sample(Suite, $"{on.Name} {title}", new Cell("SET+" + wait.Split(' ')[0], Clients, 1, 64), round,
                result.AchievedPerSecond,
                result.Commits.MeanUs / 1e3, result.Commits.P50Us / 1e3, result.Commits.P99Us / 1e3, 0, 0, cost.NoiseCores, noisy));
        }

        double Ms(Func<PacedResult, double> us) => Statistics.Median(runs.Select(us)) / 1e3;
        lines.Add($"| {on.Name}, {title} | {Statistics.Median(runs.Select(r => r.AchievedPerSecond)):0} | "
            + $"{runs.Sum(r => r.Commits.Count)} | {Ms(r => r.Commits.P50Us):0.00} "
            + $"| {Ms(r => r.Commits.P90Us):0.00} | {Ms(r => r.Commits.P99Us):0.00} | {Ms(r => r.Commits.P999Us):0.00} | "
            + $"{Ms(r => r.Commits.MaxUs):0.00} | {Ms(r => r.Requests.P99Us):0.00} |");
        Console.WriteLine("  " + lines[^1]);
        (double? p50Goal, double? p99Goal) = !withGoals ? (null, null) : on.Name switch
        {
            "log5" => (10.0, 25.0),
            "log1" => (4.0, (double?)null),
            _ => ((double?)null, (double?)null),
        };
        string note = $"{rate / 1e3:0} k/s" + PacedRunner.Shortfall(Statistics.Median(runs.Select(r => r.AchievedPerSecond)), rate);
        bool disturbed = noisyRuns * 2 > rounds;
        AddFigure($"commit latency p50, {on.Name}, {title}", Ms(r => r.Commits.P50Us), p50Goal, note, disturbed);
        AddFigure($"commit latency p99, {on.Name}, {title}", Ms(r => r.Commits.P99Us), p99Goal, note, disturbed);
    }

    private void AddFigure(string name, double value, double? goal, string note, bool disturbed)
    {
        Figure figure = goal is { } g ? Figure.AtMost(Suite, name, value, "ms", g, note)
            : Figure.Information(Suite, name, value, "ms", note);
        results.Add(figure with { Disturbed = disturbed });
    }

    // Commit latency can be no better than the disk's: print what it does when nothing else writes.
    private static string DiskText(string directory)
    {
        string file = Path.Combine(directory, "disk-probe");
        var histogram = new LatencyHistogram();
        using (var stream = new FileStream(file, FileMode.Create, FileAccess.Write, FileShare.Read, 0))
        {
            byte[] block = new byte[4096];
            for (int i = 0; i < 300; i++)
            {
                stream.Write(block);
                long start = Stopwatch.GetTimestamp();
                _ = Native.FileDataSync((int)stream.SafeFileHandle.DangerousGetHandle());
                histogram.Record((long)Stopwatch.GetElapsedTime(start).TotalNanoseconds);
            }
        }

        File.Delete(file);
        return $"p50 {histogram.QuantileNs(0.5) / 1e6:0.00} ms, p99 {histogram.QuantileNs(0.99) / 1e6:0.00} ms, max "
            + $"{histogram.MaxNs / 1e6:0.00} ms";
    }
}
