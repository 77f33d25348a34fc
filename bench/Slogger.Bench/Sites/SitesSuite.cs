// Two sites, measured as the paper measures (sections 7.1 to 7.6): how far the backup lags, what shipping costs the primary, what failures
// do to the lag, how soon the backup takes over, how pipeline, pieces and log budget play together, and what snapshots every 500 ms would
// do instead.
using System.Diagnostics;
using System.Globalization;
using System.Text.RegularExpressions;
using Slogger.Bench.Cases;
using Slogger.Bench.Finders;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Sites;

internal sealed partial class SitesSuite(BenchOptions options, Results results)
{
    private const string Suite = "sites";
    private const double OneWayMs = 12.5;
    private const double PaperLagMs = 14.2 - OneWayMs;
    private static readonly TimeSpan s_warmUp = TimeSpan.FromSeconds(20), s_noticed = TimeSpan.FromSeconds(1);
    private readonly NoiseMeter _noise = new(options.NoiseCores, options.QuietPatience);

    public void Run()
    {
        string directory = SuiteDirectory.Create(options, Suite);
        string[] databases = [Path.Combine(directory, "sql0"), Path.Combine(directory, "sql1")];
        foreach (string database in databases) { Directory.CreateDirectory(database); }
        using PrivatePostgres primary = new(databases[0], options.PortBase + 900), backup = new(databases[1], options.PortBase + 901);
        (string, string) metadata = (Of(primary), Of(backup));
        Part("lag", d => Lag(d, metadata));
        Part("rising", d => Rising(d, metadata));
        Part("load", d => HalfLoad(d, metadata));
        Part("failover", d => FailOver(d, metadata));
        Part("failures", d => Failures(d, metadata));
        Part("pipeline", d => Pipeline(d, metadata));
        Part("snapshots", Snapshots);
        Part("steps", d => Steps(d, metadata));

        static string Of(PrivatePostgres server) =>
            string.Create(CultureInfo.InvariantCulture, $"postgres:Host=127.0.0.1;Port={server.Port};Username=postgres;Database=postgres");

        void Part(string name, Action<string> run)
        {
            if (options.Cases is { } cases && !cases.Contains(name)) { return; }
            Console.WriteLine($"\n== {Suite}: {name}");
            run(SuiteDirectory.Create(options, $"{Suite}-{name}"));
        }
    }

    private int Rounds => options.Rounds ?? 3;

    private double Seconds => options.RunSeconds ?? 5;

    private double IntervalMs => (options.VersionInterval ?? TimeSpan.FromMilliseconds(1)).TotalMilliseconds;

    private string Interval => string.Create(CultureInfo.InvariantCulture, $"--version-interval {IntervalMs}ms");

    // ---- 7.2: the lag, of two shards, and of four; with the delay and without. What is heard has gone there and come back: the paper
    // subtracts the way back, and to compare with other distances the way there is subtracted, too. ----

    private void Lag(string directory, (string, string) metadata)
    {
        var lines = new List<string> { "| shards, one way | samples | from the commit: mean ms | p50 | p99 | max | from the reply: mean "
            + "ms | p99 | reply to commit: p50 | p99 | from the commit, until the primary hears of it: mean |",
            "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |" };
        foreach (double oneWay in (double[])[OneWayMs, 0])
        {
            foreach (int shards in options.Clients ?? [2, 4])
            {
                using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
                using var pair = new SitePair(options, fleet, directory, metadata, shards, TimeSpan.FromMilliseconds(oneWay), Interval);
                // A process that has just begun compiles what a failover will need.
                pair.Rehearsed();
                using var watch = new WatermarkWatch(pair.SitePort(0));
                // What is new is compiled, and compiled again when it has run often.
                _ = LagProbe.Run(pair.PrimaryPort(0), pair.Key(0, "probe"), s_warmUp, 3);
                var all = new List<LagSample>();
                for (int round = 0; round < Rounds; round++)
                {
                    _ = _noise.WaitForQuiet();
                    all.AddRange(LagProbe.Run(pair.PrimaryPort(0), pair.Key(0, "probe"), TimeSpan.FromSeconds(Seconds), 3));
                }

                Sorted commit = new(all.SelectMany(s => Lag(s, s.Clock.Committed))), reply =
                    new(all.SelectMany(s => Lag(s, s.Clock.Replied)));
                Sorted answer = new(all.Select(s => s.FromReplyMs - s.FromCommitMs)), heard =
                    new(all.Select(s => s.FromCommitMs - (2 * oneWay)));
                double[] Lag(LagSample sample, long since) => watch.CameTo(sample.Version) is { } at
                    ? [((at - since) * 1000.0 / Stopwatch.Frequency) - oneWay] : [];
                lines.Add(string.Create(CultureInfo.InvariantCulture,
                    $"| {shards}, {oneWay} ms | {all.Count} | {commit.Mean:0.00} | {commit.At(0.5):0.00} | {commit.At(0.99):0.00} | "
                        + $"{commit.At(1):0.00} | {reply.Mean:0.00} | {reply.At(0.99):0.00} | {answer.At(0.5):0.00} | "
                        + $"{answer.At(0.99):0.00} | {heard.Mean:0.00} |"));
                Console.WriteLine("  " + lines[^1]);
                string what = string.Create(CultureInfo.InvariantCulture, $"{shards} shards, {oneWay} ms one way");
                results.Add(Figure.AtMost(Suite, $"lag from the commit, mean, {what}", commit.Mean, "ms", 1.0,
                    $"the paper: {PaperLagMs:0.0} (32 shards)"));
                results.Add(Figure.AtMost(Suite, $"lag from the commit, p99, {what}", commit.At(0.99), "ms", 3));
                results.Add(Figure.AtMost(Suite, $"lag from the reply, mean, {what}", reply.Mean, "ms", 3));
            }
        }

        results.AddTable($"{Suite}: lag less half the round trip, versions of {IntervalMs} ms, {Rounds} rounds of {Seconds} s, light load",
            lines);
    }

    // ---- 7.2: at rising load ----

    private void Rising(string directory, (string, string) metadata)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var pair = new SitePair(options, fleet, directory, metadata, 2, TimeSpan.FromMilliseconds(OneWayMs), Interval);
        var lines = new List<string> { "| SET/s asked for | reached | lag from the commit: mean ms | p50 | p99 |",
            "| ---: | ---: | ---: | ---: | ---: |" };
        var plot = new List<(string, double)>();
        string key = pair.Key(0, "probe");
        _ = LagProbe.Run(pair.PrimaryPort(0), key, s_warmUp, 3);
        foreach (int rate in (int[])[0, 1000, 2000, 5000, 10_000, 20_000, 30_000, 40_000, 60_000])
        {
            Task<PacedResult?> load = Task.Run(() => rate == 0 ? null : PacedRunner.Run(
                new PacedOptions { Port = pair.PrimaryPort(0), Connections = 20, RatePerSecond = rate, Seconds = Seconds + 1,
                    KeySpace = options.KeySpace, Key = key }, null));
            Thread.Sleep(1500);
            List<LagSample> samples = LagProbe.Run(pair.PrimaryPort(0), key, TimeSpan.FromSeconds(Seconds - 1), 3);
            PacedResult? result = load.Result;
            Sorted commit = new(samples.Select(s => s.FromCommitMs - (2 * OneWayMs)));
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {rate} | {result?.AchievedPerSecond ?? 0:0} | {commit.Mean:0.00} | {commit.At(0.5):0.00} | {commit.At(0.99):0.00} |"));
            plot.Add((rate.ToString(CultureInfo.InvariantCulture), Math.Max(0.01, commit.Mean)));
            Console.WriteLine("  " + lines[^1]);
            if (result is { } r && r.AchievedPerSecond < rate * 0.9) { break; }
        }

        results.AddTable($"{Suite}: lag at rising load of one of two shards, both sites and the load on "
            + $"{Environment.ProcessorCount} cores", [.. lines, "", .. TextPlot.Bars("SET/s", "mean lag in ms", plot)]);
    }

    // ---- 7.6: failover ----

    private void FailOver(string directory, (string, string) metadata)
    {
        int shards = options.Clients?[0] ?? 4;
        List<double> open = [], serving = [], whole = [];
        var lines = new List<string> { "| round | open in SQL ms | open for clients ms | the command, from its start to its end ms | |",
            "| ---: | ---: | ---: | ---: | --- |" };
        for (int round = 0; round < (options.Rounds ?? 7); round++)
        {
            using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
            using var pair = new SitePair(options, fleet, directory, metadata, shards, TimeSpan.FromMilliseconds(OneWayMs), Interval);
            using var stop = new CancellationTokenSource();
            Task load = Task.Run(() => LagProbe.Run(pair.PrimaryPort(0), pair.Key(0, "probe"), TimeSpan.FromMinutes(5), 0, stop.Token));
            pair.Rehearsed();
            Thread.Sleep(TimeSpan.FromSeconds(Seconds));
            stop.Cancel();
            pair.LosePrimary();
            load.ContinueWith(_ => { }, TaskScheduler.Default).Wait();
            // Somebody has to notice. What dies does so beside the failover otherwise.
            Thread.Sleep(s_noticed);
            long began = Stopwatch.GetTimestamp();
            string said = pair.FailOver();
            whole.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
            open.Add(Said(OpenExpression()));
            serving.Add(Said(TookExpression()));
            double Said(Regex what) => what.Match(said) is { Success: true } m
                ? double.Parse(m.Groups[1].Value, CultureInfo.InvariantCulture)
                : throw new BenchException($"slogger failover does not say how long it took:\n{said}");
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {round + 1} | {open[^1]:0.0} | {serving[^1]:0.0} | {whole[^1]:0} | "
                    + $"{said.Split('\n').FirstOrDefault(l => l.Contains("stages", StringComparison.Ordinal))?.Trim()} |"));
            Console.WriteLine("  " + lines[^1]);
        }

        Add("from the command's arrival to all open for clients", serving, shards > 4 ? 20 : 7, "the paper: 7");
        Add("from the command's arrival to all open in SQL", open, null, "the site is the primary");
        Add("from the start of slogger failover to its end", whole, null,
            "the command's own start, and its looking for obstacles, included");
        void Add(string what, List<double> times, double? goal, string note)
        {
            string all = $"lowest {times.Min():0.0}, highest {times.Max():0.0}{(note.Length > 0 ? "; " : "")}{note}";
            string name = $"failover of {shards} shards, {what}, median";
            results.Add(goal is { } most ? Figure.AtMost(Suite, name, Statistics.Median(times), "ms", most, all)
                : Figure.Information(Suite, name, Statistics.Median(times), "ms", all));
        }
        results.AddTable($"{Suite}: failover of {shards} shards", lines);
    }

    [GeneratedRegex(@"\bopen ([0-9.]+)")]
    private static partial Regex OpenExpression();

    [GeneratedRegex(@"\bserving ([0-9.]+)")]
    private static partial Regex TookExpression();

    // ---- 7.4: failures ----

    private void Failures(string directory, (string, string) metadata)
    {
        using var fleet = new CaseFleet(options, options.Layout ?? Layout.Unpinned, directory);
        using var pair = new SitePair(options, fleet, directory, metadata, 2, TimeSpan.FromMilliseconds(OneWayMs), Interval);
        var lines = new List<string> { "| what was killed, for half a second | rounds | back to normal after it serves again, ms: median "
            + "| lowest | highest |", "| --- | ---: | ---: | ---: | ---: |" };
        foreach (int shard in (int[])[0, 1]) { _ = LagProbe.Run(pair.PrimaryPort(shard), pair.Key(shard, "probe"), s_warmUp / 2, 3); }
        // The role is in the backup's process of shard 0; the probed shard is the other one where that is possible.
        foreach ((string what, int probed, Action kill, Action start, Func<bool> serves) in ((string, int, Action, Action, Func<bool>)[])
        [
            ("shipper (the primary's process of shard 1)", 0, () => pair.Primary(1)
                .Kill(), () => pair.LaunchPrimary(1), () => Answers(pair.PrimaryPort(1))),
            ("receiver (the backup's process of shard 1)", 0, () => pair.Backup(1)
                .Kill(), () => pair.LaunchBackup(1), () => Answers(pair.BackupPort(1))),
            ("watermark and receiver (the backup's process of shard 0)", 1, () => pair.Backup(0)
                .Kill(), () => pair.LaunchBackup(0), () => Answers(pair.BackupPort(0))),
        ])
        {
            var back = new List<double>();
            List<LagSample> last = [];
            for (int round = 0; round < Rounds; round++)
            {
                using var stop = new CancellationTokenSource();
                long began = Stopwatch.GetTimestamp();
                Task<List<LagSample>>[] probes = [.. Enumerable.Range(0, 8).Select(i => Task.Factory.StartNew(
                    () => LagProbe.Run(pair.PrimaryPort(probed), pair.Key(probed, "probe"), TimeSpan.FromMinutes(2), 16, stop.Token),
                        TaskCreationOptions.LongRunning))];
                Thread.Sleep(1500);
                kill();
                Thread.Sleep(500);
                start();
                while (!serves()) { Thread.Sleep(1); }
                double served = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
                Thread.Sleep(2000);
                stop.Cancel();
                last = [.. probes.SelectMany(p => p.Result).OrderBy(s => s.AtMs)];
                // Normal is what nine in ten came to before. Written after this moment, all but one in ten of a fifth of a second do so
                // again.
                double normal = new Sorted(last.Where(s => s.AtMs + s.FromReplyMs < 1500).Select(s => s.FromReplyMs)).At(0.9);
                double[] late = [.. last.Where(s => s.AtMs + s.FromReplyMs > 1500).Where(s => s.FromReplyMs > normal * 1.5)
                    .Select(s => s.AtMs + s.FromReplyMs)];
                double[] lasting = [.. late.Where(
                    end => last.Count(s => Math.Abs(s.AtMs + s.FromReplyMs - end) < 100 && s.FromReplyMs > normal * 1.5) > 0.1 * last.Count(
                        s => Math.Abs(s.AtMs + s.FromReplyMs - end) < 100))];
                back.Add(Math.Max(0, lasting.DefaultIfEmpty(served).Max() - served));
                pair.Following();
            }

            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {what} | {back.Count} | {Statistics.Median(back):0} | {back.Min():0} | {back.Max():0} |"));
            Console.WriteLine("  " + lines[^1]);
            results.Add(Figure.AtMost(Suite, $"lag back to normal after the restart of the {what}, median", Statistics.Median(back), "ms",
                300, "the paper: 300"));
            lines.AddRange(["", .. Course(last), ""]);
            lines.AddRange(["| what was killed | rounds | back to normal after it serves again, ms: median | lowest | highest |",
                "| --- | ---: | ---: | ---: | ---: |"]);
        }

        results.AddTable($"{Suite}: failures (the paper's figure 12)", lines[..^2]);
    }

    // The lag over time, by when it was known.
    private static IReadOnlyList<string> Course(List<LagSample> samples) => TextPlot.Bars("s", "longest lag from the reply, ms",
        [.. samples.GroupBy(s => (int)((s.AtMs + s.FromReplyMs) / 200)).OrderBy(g => g.Key)
            .Select(g => ((g.Key * 0.2).ToString("0.0", CultureInfo.InvariantCulture), g.Max(s => s.FromReplyMs)))]);

    private static bool Answers(int port)
    {
        try
        {
            using var client = new RespClient(port, TimeSpan.FromSeconds(5));
            return client.Raw("PING\r\n").StartsWith("+PONG", StringComparison.Ordinal);
        }
        catch (Exception e) when (e is IOException or System.Net.Sockets.SocketException)
        {
            return false;
        }
    }
}
