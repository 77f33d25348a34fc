// What goes from one instant to another: a snapshot of what was written, the steps of a rolling store, and how much log an hour is.
using System.Diagnostics;
using System.Globalization;
using Slogger.Bench.Cases;
using Slogger.Bench.Load;
using Slogger.Bench.Report;
using Slogger.Bench.Suites;

namespace Slogger.Bench.Past;

/// <param name="options">Of the bench.</param>
/// <param name="results">Where figures go.</param>
/// <param name="fleet">Where shards run.</param>
/// <param name="directory">Of the suite.</param>
/// <param name="rounds">How many.</param>
/// <param name="seconds">How long each measures.</param>
internal sealed class PastSteps(BenchOptions options, Results results, CaseFleet fleet, string directory, int rounds, double seconds)
{
    private const string Suite = "past";
    private const int Changed = 10_000, ValueBytes = 100, StepsMax = 1000, Rate = 5000, ReachBytes = 250, IndexBytes = 8;
    private const double HourSeconds = 3600, Gigabyte = 1e9;

    public void Run()
    {
        using (var shard = new PastShard(fleet, "steps", directory, "--checkpoint-every 256mb --log-budget 16gb"))
        using (RespClient client = shard.Connect())
        {
            StoreFiller.Fill(shard.Port, 0, options.RestoreKeys, ValueBytes);
            Differences(shard, client);
            Roll(shard, client);
        }
        Reach();
    }

    // The keys that were written since the end of a version, of all.
    private void Differences(PastShard shard, RespClient client)
    {
        var random = new Random(1);
        List<double> times = [];
        // The first one has indexes made, and is not counted. Each takes little.
        for (int round = -1; round < 5 * rounds; round++)
        {
            string since = Now(client);
            int first = random.Next(options.RestoreKeys - Changed);
            RollbackSuite.Fill(shard.Port,
                [.. Enumerable.Range(first, Changed).Select(k => PacedSets.Set(k, ValueBytes, (char)('b' + (round % 20))))]);
            long began = Stopwatch.GetTimestamp();
            string name = client.Strings("DPR.SNAPSHOT", "BEGIN", "AGO", "0", "SINCE", since)[0];
            IReadOnlyList<string> state;
            while ((state = client.Strings("DPR.SNAPSHOT", "STATE", name))[0] != "ready") { Thread.Sleep(1); }
            double ms = Stopwatch.GetElapsedTime(began).TotalMilliseconds;
            if (state[4] != Changed.ToString(CultureInfo.InvariantCulture)) { throw new BenchException($"{state[4]} keys were taken"); }
            client.Expect("DPR.SNAPSHOT", "END", name);
            if (round >= 0) { times.Add(ms); }
        }
        results.Add(Figure.AtMost(Suite, $"snapshot of {Changed} keys that were written", Statistics.Median(times), "ms", 100,
            $"of {options.RestoreKeys}; {times.Min():0} to {times.Max():0}"));
    }

    // From each version that something was written in to the next.
    private void Roll(PastShard shard, RespClient client)
    {
        string from = Now(client);
        PacedSets.Run(shard.Port, options.RestoreKeys, ValueBytes, Rate, seconds);
        string name = client.Text("DPR.ROLL", "BEGIN", "FROM", from, "TO", Now(client));
        long next = To(client, name, from);
        List<double> times = [];
        while (next != 0 && times.Count < StepsMax)
        {
            long began = Stopwatch.GetTimestamp();
            next = To(client, name, next.ToString(CultureInfo.InvariantCulture));
            times.Add(Stopwatch.GetElapsedTime(began).TotalMilliseconds);
        }
        client.Expect("DPR.ROLL", "END", name);
        if (times.Count == 0) { throw new BenchException("there was no version to go to"); }
        times.Sort();
        results.Add(Figure.AtMost(Suite, "a step of a rolling store to the next version", Statistics.Median(times), "ms", 2,
            $"{times.Count} steps of some {Rate / 200} SETs; p99 {times[times.Count * 99 / 100]:0.00}"));
    }

    // Where it is there: the next version at which something may differ.
    private static long To(RespClient client, string name, string version)
    {
        while (true)
        {
            IReadOnlyList<string> at = client.Strings("DPR.ROLL", "TO", name, version);
            if (at[0] == "1") { return long.Parse(at[3], CultureInfo.InvariantCulture); }
        }
    }

    private void Reach()
    {
        string log;
        long written;
        using (var shard = new PastShard(fleet, "reach", directory, "--log-budget 16gb"))
        {
            log = shard.LogDirectory;
            written = PacedSets.Run(shard.Port, options.RestoreKeys, ReachBytes, Rate, seconds);
        }
        long bytes = Directory.EnumerateFiles(log, "*.slog").Sum(UsedBytes);
        double perHour = (double)bytes / written * Rate * HourSeconds / Gigabyte, indexes = IndexBytes * Rate * HourSeconds / Gigabyte;
        results.Add(Figure.Information(Suite, $"log of an hour at {Rate} SETs a second of {ReachBytes} B", perHour, "GB",
            $"from {written} SETs; indexes of keys {indexes:0.00} GB more"));
    }

    // The last file has room that is not used: zeros.
    private static long UsedBytes(string segment)
    {
        using FileStream file = File.OpenRead(segment);
        byte[] piece = new byte[1 << 20];
        long used = 0;
        for (int read; (read = file.Read(piece)) > 0;)
        {
            int last = piece.AsSpan(0, read).LastIndexOfAnyExcept((byte)0);
            if (last >= 0) { used = file.Position - read + last + 1; }
        }
        return used;
    }

    private static string Now(RespClient client) => client.Strings("DPR.ASOF", "AGO", "0")[1];
}
