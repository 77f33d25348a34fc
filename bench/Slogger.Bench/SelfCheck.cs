// `selfcheck`: what the bench's own arithmetic must be right about, since every figure passes through it.
using System.Text;
using Slogger.Bench.Load;
using Slogger.Bench.Report;

namespace Slogger.Bench;

internal static class SelfCheck
{
    public static int Run()
    {
        HistogramErrorIsBelowOnePercent();
        ReplyScannerFindsTheSameEndUnderEverySplit();
        MedianAndRatiosAreByRound();
        CsvOfRedisBenchmarkIsRead();
        Console.WriteLine("selfcheck: ok");
        return 0;
    }

    private static void HistogramErrorIsBelowOnePercent()
    {
        const int seed = 7;
        var random = new Random(seed);
        long[] values = [.. Enumerable.Range(0, 50_000).Select(_ => (long)Math.Exp(random.NextDouble() * 24))];
        var histogram = new LatencyHistogram();
        foreach (long v in values)
        {
            histogram.Record(v);
        }

        Array.Sort(values);
        foreach (double share in (double[])[0.001, 0.5, 0.9, 0.99, 0.999, 1])
        {
            long exact = values[Math.Max(0, (int)Math.Ceiling(share * values.Length) - 1)];
            long got = histogram.QuantileNs(share);
            Check(got >= exact && got <= (exact * 1.01) + 1, $"histogram (seed {seed}): quantile {share} is {got}, exactly {exact}");
        }

        Check(histogram.MaxNs == values[^1], "histogram: the maximum is exact");
    }

    private static void ReplyScannerFindsTheSameEndUnderEverySplit()
    {
        string[] replies =
        [
            "+OK\r\n", "-ERR no\r\n", ":12\r\n", "$5\r\nhello\r\n", "$0\r\n\r\n", "$-1\r\n", "*0\r\n", "*-1\r\n", "_\r\n", "#t\r\n",
                ",1.5\r\n", "(12345\r\n",
            "*2\r\n$1\r\na\r\n:1\r\n", "*2\r\n*1\r\n+a\r\n*0\r\n", "%1\r\n+a\r\n*2\r\n:1\r\n$-1\r\n", "~1\r\n+x\r\n", "=7\r\ntxt:abc\r\n",
                "!3\r\nERR\r\n", ">2\r\n+a\r\n+b\r\n",
        ];
        foreach (string reply in replies)
        {
            byte[] bytes = Encoding.ASCII.GetBytes(reply);
            for (int cut = 0; cut < bytes.Length; cut++)
            {
                Check(ReplyScanner.Length(bytes.AsSpan(0, cut), out _) == -1, $"scanner: {cut} bytes of {reply.Trim()} are not a reply");
            }

            byte[] followed = [.. bytes, .. "+OK\r\n"u8];
            Check(ReplyScanner.Length(followed, out bool isError) == bytes.Length, $"scanner: the end of {reply.Trim()}");
            Check(isError == (reply[0] is '-' or '!'), $"scanner: is {reply.Trim()} an error");
        }
    }

    private static void MedianAndRatiosAreByRound()
    {
        Check(Statistics.Median([3, 1, 2]) == 2 && Statistics.Median([4, 1, 2, 3]) == 2.5, "median");
        var cell = new Cell("GET", 1, 1, 64);
        Sample Of(string label, int round, double rate) => new("s", label, cell, round, rate, 0, 0, 0, 0, 0, 0, false);
        // The second round was slow for both: the ratio of that round still counts as 2.
        var query = new SampleQuery([Of("a", 0, 200), Of("b", 0, 100), Of("a", 1, 20), Of("b", 1, 10), Of("a", 2, 180), Of("b", 2, 100)]);
        Check(query.Compare("a", "b", cell) is { Median: 2, Lowest: 1.8, Highest: 2 }, "ratios are taken within a round");
        Check(query.Compare("a", "missing", cell) is null, "a missing contestant gives no ratio");
    }

    private static void CsvOfRedisBenchmarkIsRead()
    {
        const string csv = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n"
            + "\"SET\",\"123456.78\",\"0.200\",\"0.050\",\"0.190\",\"0.300\",\"0.400\",\"1.000\"\n";
        Check(RedisBenchmark.ParseCsv(csv, "SET") is { OperationsPerSecond: 123456.78, MeanMs: 0.2, P50Ms: 0.19, P99Ms: 0.4 }, "CSV");
        Check(RedisBenchmark.ParseCsv(csv, "GET") is null, "CSV of another operation");
    }

    private static void Check(bool condition, string what)
    {
        if (!condition)
        {
            throw new BenchException($"selfcheck failed: {what}");
        }
    }
}
