// The state of one Redis a minute ago. By Redis's own means: an append-only file with timestamps, of which a copy is cut at a second
// (redis-check-aof --truncate-to-timestamp) and loaded by another redis-server. And by the version log, of the same writes: one key by
// slogger get, all keys by slogger snapshot and a redis-server that loads the file. Both go on serving meanwhile.
using System.Diagnostics;
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench.Past;

/// <param name="options">Of the bench.</param>
/// <param name="results">Where figures go.</param>
/// <param name="fleet">Where servers run.</param>
/// <param name="directory">Of the suite.</param>
/// <param name="rounds">How many instants.</param>
internal sealed class AofPeer(BenchOptions options, Results results, CaseFleet fleet, string directory, int rounds)
{
    private const string Suite = "past", Counter = "counter";
    private const int ValueBytes = 100, Rate = 5000, AgoSeconds = 60, TickMs = 20;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5), s_patience = TimeSpan.FromSeconds(30);
    private static readonly string[] s_aof = ["--appendonly", "yes", "--aof-timestamp-enabled", "yes", "--appendfsync", "everysec",
        "--auto-aof-rewrite-percentage", "0"];

    // When a counter's writes were answered, in milliseconds since 1970.
    private readonly record struct Ticks(List<long> AtMs)
    {
        /// <summary>How far a state in which the counter is so lies from an instant: ahead of it, or (negative) behind.</summary>
        public double Beside(long counter, long instantMs)
        {
            long last = counter == 0 ? AtMs[0] : AtMs[(int)counter - 1], next = counter < AtMs.Count ? AtMs[(int)counter] : long.MaxValue;
            return last > instantMs ? last - instantMs : next <= instantMs ? next - instantMs : 0;
        }
    }

    public void Run()
    {
        int port = fleet.NextPort();
        string data = Path.Combine(directory, "aof");
        ManagedProcess redis = fleet.LaunchRedis("aof", port, data, s_aof);
        try
        {
            CaseFleet.WaitUntilUp(redis, port, "PING\r\n");
            using var shard = new PastShard(fleet, "peer", directory, "--checkpoint-every 256mb --log-budget 16gb");
            foreach (int server in (int[])[port, shard.Port]) { StoreFiller.Fill(server, 0, options.RestoreKeys, ValueBytes); }
            using var stop = new CancellationTokenSource();
            Task[] loads = [.. ((int[])[port, shard.Port]).Select(server => Task.Run(() =>
            {
                while (!stop.IsCancellationRequested) { PacedSets.Run(server, options.RestoreKeys, ValueBytes, Rate, 1); }
            }))];
            Task<Ticks> there = Task.Run(() => Count(port, stop.Token)), here = Task.Run(() => Count(shard.Port, stop.Token));
            long began = DateTimeOffset.UtcNow.ToUnixTimeMilliseconds();
            Thread.Sleep(TimeSpan.FromSeconds(AgoSeconds + rounds));
            List<(long InstantMs, Measured Aof, Measured Log)> measured = [];
            for (int round = 0; round < rounds; round++)
            {
                // In the middle of a second.
                long instant = ((DateTimeOffset.UtcNow.ToUnixTimeMilliseconds() / 1000) - AgoSeconds) * 1000 + 500;
                if (instant < began) { throw new BenchException("the instant lies before the load"); }
                measured.Add((instant, ByAof(data, instant, round), ByLog(shard.Port, instant, round)));
            }
            stop.Cancel();
            Task.WaitAll([.. loads, there, here]);
            Report(measured, there.Result, here.Result);
        }
        finally
        {
            redis.Stop(TimeSpan.FromSeconds(10));
        }
    }

    private readonly record struct Measured(double OneKeyMs, double AllKeysMs, double OfThatLoadMs, long Counter);

    private void Report(List<(long InstantMs, Measured Aof, Measured Log)> measured, Ticks there, Ticks here)
    {
        double Median(Func<(long InstantMs, Measured Aof, Measured Log), double> of) => Statistics.Median(measured.Select(of));
        string Aside(Func<(long InstantMs, Measured Aof, Measured Log), double> of) =>
            $"{measured.Min(of):0} to {measured.Max(of):0}";
        string ofAof = Aside(m => there.Beside(m.Aof.Counter, m.InstantMs)), ofLog = Aside(m => here.Beside(m.Log.Counter, m.InstantMs));
        List<string> lines =
        [
            "| the state a minute ago | one key, s | all keys in another Redis, s | of that loading | beside the instant, ms | service |",
            "| --- | ---: | ---: | ---: | ---: | --- |",
            string.Create(CultureInfo.InvariantCulture, $"| AOF: copy, redis-check-aof --truncate-to-timestamp, load "
                + $"| {Median(m => m.Aof.OneKeyMs) / 1000:0.00} | {Median(m => m.Aof.AllKeysMs) / 1000:0.00} "
                + $"| {Median(m => m.Aof.OfThatLoadMs) / 1000:0.00} | {ofAof} | goes on, of a copy; else it stops |"),
            string.Create(CultureInfo.InvariantCulture, $"| slogger get --at; slogger snapshot --at, load "
                + $"| {Median(m => m.Log.OneKeyMs) / 1000:0.00} | {Median(m => m.Log.AllKeysMs) / 1000:0.00} "
                + $"| {Median(m => m.Log.OfThatLoadMs) / 1000:0.00} | {ofLog} | goes on |"),
        ];
        foreach (string line in lines) { Console.WriteLine("  " + line); }
        void Add(string name, Func<(long InstantMs, Measured Aof, Measured Log), double> of, string note) =>
            results.Add(Figure.Information(Suite, $"{name} a minute ago, {note}", Median(of), "ms"));
        Add("one key", m => m.Log.OneKeyMs, "slogger get");
        Add("one key", m => m.Aof.OneKeyMs, "AOF cut and loaded");
        Add("all keys", m => m.Log.AllKeysMs, "slogger snapshot and loaded");
        Add("all keys", m => m.Aof.AllKeysMs, "AOF cut and loaded");
        results.AddTable($"{Suite}: a minute ago, {options.RestoreKeys} keys, {Rate} SETs a second, medians of {rounds} instants", lines);
    }

    // It answers any question only when all is loaded.
    private Measured ByAof(string data, long instantMs, int round)
    {
        long began = Stopwatch.GetTimestamp();
        string copy = Path.Combine(directory, $"aof-{round}"), files = Path.Combine(copy, "appendonlydir");
        Directory.CreateDirectory(files);
        foreach (string file in Directory.EnumerateFiles(Path.Combine(data, "appendonlydir")))
        {
            File.Copy(file, Path.Combine(files, Path.GetFileName(file)));
        }
        string second = (instantMs / 1000).ToString(CultureInfo.InvariantCulture);
        (string output, string errors, int code) = ManagedProcess.Run(["redis-check-aof", "--truncate-to-timestamp", second,
            Path.Combine(files, "appendonly.aof.manifest")], null, s_limit);
        if (code != 0) { throw new BenchException($"redis-check-aof ended with {code}: {output}{errors}"); }
        double cutMs = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        long counter = Load($"aof-loaded-{round}", copy, s_aof, out _);
        double allMs = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
        Directory.Delete(copy, recursive: true);
        return new(allMs, allMs, allMs - cutMs, counter);
    }

    private Measured ByLog(int port, long instantMs, int round)
    {
        string at = DateTimeOffset.FromUnixTimeMilliseconds(instantMs).UtcDateTime.ToString("yyyy-MM-ddTHH:mm:ss.fffZ",
            CultureInfo.InvariantCulture);
        double keyMs = Slogger(port, "get", "--at", at, Counter);
        string to = Path.Combine(directory, $"snapshot-{round}");
        double madeMs = Slogger(port, "snapshot", "--at", at, "--to", to);
        long counter = Load($"snapshot-loaded-{round}", Directory.GetDirectories(to).Single(), ["--dbfilename", "shard-0.rdb"],
            out double loadMs);
        Directory.Delete(to, recursive: true);
        return new(keyMs, madeMs + loadMs, loadMs, counter);
    }

    private double Slogger(int port, params string[] words)
    {
        long began = Stopwatch.GetTimestamp();
        (_, string errors, int code) = ManagedProcess.Run(
            [.. options.ProxyProgram, words[0], "--address", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{port}"),
                .. words[1..]], null, s_limit);
        return code == 0 ? Stopwatch.GetElapsedTime(began).TotalMilliseconds
            : throw new BenchException($"slogger {words[0]} ended with {code}: {errors}");
    }

    // A redis-server with these files, until it answers; then it ends. The counter as it has it.
    private long Load(string name, string files, string[] arguments, out double ms)
    {
        long began = Stopwatch.GetTimestamp();
        int port = fleet.NextPort();
        ManagedProcess redis = fleet.LaunchRedis(name, port, files, arguments);
        try
        {
            CaseFleet.WaitUntilUp(redis, port, "PING\r\n", s_limit);
            using var client = new RespClient(port, s_limit);
            string counter = client.Text("GET", Counter);
            ms = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
            return counter.Length == 0 ? 0 : long.Parse(counter, CultureInfo.InvariantCulture);
        }
        finally
        {
            redis.Stop(s_patience);
        }
    }

    private static Ticks Count(int port, CancellationToken stop)
    {
        using var client = new RespClient(port, s_limit);
        List<long> answered = [];
        while (!stop.IsCancellationRequested)
        {
            client.Expect("INCR", Counter);
            answered.Add(DateTimeOffset.UtcNow.ToUnixTimeMilliseconds());
            Thread.Sleep(TickMs);
        }
        return new(answered);
    }
}
