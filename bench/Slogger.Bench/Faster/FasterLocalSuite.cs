// The FASTER store in this process: what the recipe and commits cost, how long commits take, how soon operations flow again after a
// rollback, and how long opening takes.
using System.Diagnostics;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;
using Slogger.Core.WorldLines;
using Slogger.Faster;
using Slogger.Faster.Commits;

namespace Slogger.Bench.Faster;

internal sealed class FasterLocalSuite(BenchOptions options, Results results)
{
    private const string Suite = "faster-local";
    private const int Threads = 2;
    private static readonly string[] s_contestants = ["plain FASTER", "store", "store, commit each 100 ms"];
    private readonly int _keys = options.RestoreKeys;
    private readonly string _directory = SuiteDirectory.Create(options, Suite);
    private int _stores;

    public void Run()
    {
        double seconds = options.RunSeconds ?? 3;
        int rounds = options.Rounds ?? 5;
        foreach (int size in options.Sizes ?? [8])
        {
            foreach (bool zipf in (bool[])[true, false]) Throughput(size, zipf, rounds, seconds);
        }

        var lines = new List<string> { "| commits each 50 ms | load, M ops/s | commits | p50 ms | p99 ms |",
            "| --- | ---: | ---: | ---: | ---: |" };
        double full = Commits("full load", 0, seconds, 80, lines);
        Commits("half load", full / 2, seconds, 30, lines);
        results.AddTable($"{Suite}: commit latency, 8 B, Zipf 0.99, {_keys} keys", lines);
        Rollbacks();
        Recoveries(9);
        foreach (int size in (int[])[8, 512]) Opening(size);
    }

    private void Throughput(int size, bool zipf, int rounds, double seconds)
    {
        string law = zipf ? "Zipf 0.99" : "uniform";
        using var plain = new PlainFaster(64 << 20, 31);
        using FasterStore store = NewStore(), committing = NewStore();
        using (LocalWorker worker = plain.NewWorker()) YcsbLoad.Fill(worker, _keys, size);
        Fill(store, size);
        Fill(committing, size);
        var rates = s_contestants.ToDictionary(c => c, _ => new List<double>());
        for (int round = 0; round <= rounds; round++)
        {
            double[] now = [Rate(plain.NewWorker, size, zipf, seconds), Rate(() => new StoreWorker(store), size, zipf, seconds), 0];
            using (new Committer(committing, TimeSpan.FromMilliseconds(100))) now[2] =
                Rate(() => new StoreWorker(committing), size, zipf, seconds);
            // The store without commits gives its log back between the runs.
            using (new Committer(store, TimeSpan.FromMilliseconds(100))) Thread.Sleep(300);
            // The first is to warm up.
            for (int c = 0; round > 0 && c < now.Length; c++) rates[s_contestants[c]].Add(now[c]);
        }

        List<string> lines = ["| contestant | M ops/s | of plain FASTER | of the store without commits |", "| --- | ---: | ---: | ---: |"];
        lines.AddRange(s_contestants.Select(
            c => $"| {c} | {Statistics.Median(rates[c]) / 1e6:0.00} | {Ratio(rates, c, s_contestants[0]):0.00} | "
                + $"{Ratio(rates, c, s_contestants[1]):0.00} |"));
        results.AddTable($"{Suite}: YCSB-A, {size} B, {law}, {Threads} threads, {_keys} keys, {rounds} rounds of {seconds} s", lines);
        foreach (string line in lines) Console.WriteLine("  " + line);
        double ratio = Ratio(rates, s_contestants[2], s_contestants[1]);
        string name = $"with a commit each 100 ms of without, {size} B, {law}";
        results.Add(size == 8 ? Figure.AtLeast(Suite, name, ratio, "", 0.70) : Figure.Information(Suite, name, ratio, ""));
    }

    private static double Ratio(Dictionary<string, List<double>> rates, string of, string to) =>
        Statistics.Median(rates[of].Zip(rates[to], (a, b) => a / b));

    private double Rate(Func<LocalWorker> newWorker, int size, bool zipf, double seconds)
    {
        using var load = new YcsbLoad(Threads, _keys, zipf, size, 0, newWorker);
        long before = load.Operations;
        var clock = Stopwatch.StartNew();
        Thread.Sleep(TimeSpan.FromSeconds(seconds));
        return (load.Operations - before) / clock.Elapsed.TotalSeconds;
    }

    private double Commits(string what, double rate, double seconds, double goalMs, List<string> lines)
    {
        using FasterStore store = NewStore();
        Fill(store, 8);
        double done;
        List<double> latencies;
        using (var committer = new Committer(store, TimeSpan.FromMilliseconds(50)))
        {
            using var load = new YcsbLoad(Threads, _keys, zipf: true, 8, rate, () => new StoreWorker(store));
            Thread.Sleep(500);
            committer.Clear();
            long before = load.Operations;
            var clock = Stopwatch.StartNew();
            Thread.Sleep(TimeSpan.FromSeconds(Math.Max(3, seconds)));
            done = (load.Operations - before) / clock.Elapsed.TotalSeconds;
            latencies = committer.LatenciesMs;
        }

        latencies.Sort();
        if (latencies.Count == 0) throw new BenchException("no commit was made: the machine is too busy");
        lines.Add($"| {what} | {done / 1e6:0.00} | {latencies.Count} | {latencies[latencies.Count / 2]:0.0} | "
            + $"{latencies[latencies.Count * 99 / 100]:0.0} |");
        results.Add(Figure.AtMost(Suite, $"commit latency p50, {what}", latencies[latencies.Count / 2], "ms", goalMs));
        return done;
    }

    // The paper's figure 16: one failure, then two in short succession.
    private void Rollbacks()
    {
        using FasterStore store = NewStore();
        Fill(store, 8);
        using var committer = new Committer(store, TimeSpan.FromMilliseconds(100));
        using var load = new YcsbLoad(Threads, _keys, zipf: true, 8, 0, () => new StoreWorker(store));
        Thread.Sleep(1000);
        var timeline = new List<(double Second, long Operations)>();
        var failures = new List<double>();
        double[] at = [3, 6, 6.3];
        var clock = Stopwatch.StartNew();
        Task back = Task.CompletedTask;
        while (clock.Elapsed.TotalSeconds < 9)
        {
            timeline.Add((clock.Elapsed.TotalSeconds, load.Operations));
            if (failures.Count < at.Length && clock.Elapsed.TotalSeconds >= at[failures.Count])
            {
                failures.Add(clock.Elapsed.TotalSeconds);
                back = Task.WhenAll(back, Task.Run(committer.GoBack));
            }

            Thread.Sleep(5);
        }

        back.GetAwaiter().GetResult();
        List<string> lines = ["| second | M ops/s | |", "| ---: | ---: | --- |"];
        for (double second = 0; second < 9; second += 0.25)
        {
            int failed = failures.Count(f => f >= second && f < second + 0.25);
            lines.Add($"| {second:0.00} | {RateIn(timeline, second, second + 0.25) / 1e6:0.00} | "
                + $"{string.Join(' ', Enumerable.Repeat("failure", failed))} |");
        }

        results.AddTable($"{Suite}: throughput each 250 ms around failures, 8 B, Zipf 0.99, commits each 100 ms", lines);
    }

    // Single failures, each well after the one before: how soon operations flow as before. The rate moves by itself, so that one failure
    // tells little.
    private void Recoveries(int count)
    {
        using FasterStore store = NewStore();
        Fill(store, 8);
        using var committer = new Committer(store, TimeSpan.FromMilliseconds(100));
        using var load = new YcsbLoad(Threads, _keys, zipf: true, 8, 0, () => new StoreWorker(store));
        Thread.Sleep(2000);
        var timesMs = new List<double>();
        for (int i = 0; i < count; i++)
        {
            var timeline = new List<(double Second, long Operations)>();
            var clock = Stopwatch.StartNew();
            double failed = 0;
            Task back = Task.CompletedTask;
            while (clock.Elapsed.TotalSeconds < 2.5)
            {
                timeline.Add((clock.Elapsed.TotalSeconds, load.Operations));
                if (failed == 0 && clock.Elapsed.TotalSeconds >= 1)
                {
                    failed = clock.Elapsed.TotalSeconds;
                    back = Task.Run(committer.GoBack);
                }

                Thread.Sleep(5);
            }

            back.GetAwaiter().GetResult();
            double before = RateIn(timeline, failed - 1, failed);
            timesMs.Add((timeline.Where(t => t.Second > failed).Select(t => t.Second)
                .FirstOrDefault(s => RateIn(timeline, s, s + 0.05) >= 0.9 * before, double.PositiveInfinity) - failed) * 1000);
        }

        timesMs.Sort();
        results.Add(Figure.AtMost(
            Suite, "rollback: until operations flow at 90 % of the rate of the second before, over 50 ms", timesMs[count / 2], "ms", 100,
            string.Create(System.Globalization.CultureInfo.InvariantCulture, $"median of {count}; {timesMs[0]:0} to {timesMs[^1]:0}")));
    }

    private static double RateIn(List<(double Second, long Operations)> timeline, double from, double to)
    {
        List<(double Second, long Operations)> within = [.. timeline.Where(t => t.Second >= from && t.Second <= to + 0.006)];
        return within.Count < 2 ? 0 : (within[^1].Operations - within[0].Operations) / (within[^1].Second - within[0].Second);
    }

    private void Opening(int size)
    {
        string directory;
        using (FasterStore store = NewStore(out directory))
        {
            Fill(store, size);
            store.CommitAsync(new(1), store.Open.Next).GetAwaiter().GetResult();
        }

        var clock = Stopwatch.StartNew();
        using FasterStore again = FasterStore.OpenAt(OptionsOf(directory));
        if (again.Statistics().Keys != _keys) throw new BenchException($"{again.Statistics().Keys} keys were found, not {_keys}");
        results.Add(Figure.Information(Suite, $"opening with {_keys} keys of {size} B", clock.Elapsed.TotalSeconds, "s"));
    }

    private void Fill(FasterStore store, int size)
    {
        using var worker = new StoreWorker(store);
        YcsbLoad.Fill(worker, _keys, size);
        store.Keep(store.CommitAsync(new(1), store.Open.Next).GetAwaiter().GetResult().Point);
    }

    private FasterStore NewStore() => NewStore(out _);

    private FasterStore NewStore(out string directory)
    {
        directory = Path.Combine(_directory, $"store-{++_stores}");
        return FasterStore.OpenAt(OptionsOf(directory));
    }

    private static FasterOptions OptionsOf(string directory) =>
        new() { Directory = directory, MemoryBytes = 2L << 30, IndexBytes = 64 << 20 };
}

/// <summary>Commits at an interval, and keeps the newest few.</summary>
internal sealed class Committer : IDisposable
{
    private readonly FasterStore _store;
    private readonly Lock _gate = new();
    private readonly Task _running;
    private readonly List<double> _latenciesMs = [];
    private WorldLine _line;
    private int _goingBack;
    private volatile bool _stop;

    public Committer(FasterStore store, TimeSpan interval)
    {
        _store = store;
        _line = store.Commits[^1].Point.WorldLine;
        _running = Task.Run(() => RunAsync(interval));
    }

    public List<double> LatenciesMs
    {
        get { lock (_gate) return [.. _latenciesMs]; }
    }

    public void Clear()
    {
        lock (_gate) _latenciesMs.Clear();
    }

    /// <summary>As after another shard's failure: to the newest commit, in the next world-line.</summary>
    public async Task GoBack()
    {
        Interlocked.Increment(ref _goingBack);
        try
        {
            WorldLine line;
            CommitRecord to = _store.Commits[0];
            lock (_gate) line = _line = _line.Next;
            await _store.RollbackAsync(to.Point, line, new(_store.Open.Number + 1000), () => { }).ConfigureAwait(false);
        }
        finally
        {
            Interlocked.Decrement(ref _goingBack);
        }
    }

    public void Dispose()
    {
        _stop = true;
        _running.GetAwaiter().GetResult();
    }

    private async Task RunAsync(TimeSpan interval)
    {
        long next = Stopwatch.GetTimestamp();
        while (!_stop)
        {
            next += (long)(interval.TotalSeconds * Stopwatch.Frequency);
            TimeSpan wait = Stopwatch.GetElapsedTime(Stopwatch.GetTimestamp(), next);
            if (wait > TimeSpan.Zero) await Task.Delay(wait).ConfigureAwait(false);
            else next = Stopwatch.GetTimestamp();
            // The first commit of a world-line is the rollback's.
            if (Volatile.Read(ref _goingBack) > 0) continue;
            long start = Stopwatch.GetTimestamp();
            WorldLine line;
            lock (_gate) line = _line;
            if (_store.BeginCommit(line, _store.Open.Next) is not { } durable) continue;
            CommitRecord commit = await durable.ConfigureAwait(false);
            lock (_gate) _latenciesMs.Add(Stopwatch.GetElapsedTime(start).TotalMilliseconds);
            if (Volatile.Read(ref _goingBack) == 0) _store.Keep(commit.Point);
        }
    }
}
