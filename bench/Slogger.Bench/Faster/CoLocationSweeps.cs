// A session and a shard in another process: how throughput and latency depend on the size of batches (the paper's figure 13), and what it
// costs that a share of the operations is remote (figure 15). As there, a window of 16 batches is under way; half of the operations are
// reads.
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Bench.Report;
using Slogger.Client;
using Slogger.Hosting;

namespace Slogger.Bench.Faster;

internal sealed class CoLocationSweeps(BenchOptions options, Results results, string suite, ISloggerShard shard)
{
    private const int WindowBatches = 16, KeyCount = 4096, SampleEvery = 64;
    private static readonly int[] s_batchSizes = [1, 4, 16, 64, 128, 256, 512, 1024];
    private static readonly int[] s_shareBatches = [1, 64, 512];
    private static readonly double[] s_shares = [0, 0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1];
    private readonly double _seconds = options.RunSeconds ?? 3;

    /// <summary>All operations at the other shard.</summary>
    public async Task BatchSizesAsync()
    {
        var lines = new List<string> { "| batch | K ops/s | p50 ms | p99 ms |", "| ---: | ---: | ---: | ---: |" };
        var bars = new List<(string, double)>();
        foreach (int batch in s_batchSizes)
        {
            Outcome run = await RunAsync(batch, 1).ConfigureAwait(false);
            lines.Add(string.Create(CultureInfo.InvariantCulture,
                $"| {batch} | {run.Rate / 1000:0.0} | {run.Latency(50):0.00} | {run.Latency(99):0.00} |"));
            bars.Add((batch.ToString(CultureInfo.InvariantCulture), run.Rate));
            Console.WriteLine("  " + lines[^1]);
        }

        results.AddTable($"{suite}: one session, all operations at a shard in another process, by the size of batches (figure 13), 8 B",
            [.. lines, "", .. TextPlot.Bars("batch", "ops/s", bars)]);
    }

    /// <summary>More and more of them.</summary>
    public async Task RemoteSharesAsync()
    {
        var lines = new List<string> { "| remote, % | " + string.Join(" | ", s_shareBatches.Select(b => $"K ops/s, batches of {b}"))
            + " |", "| ---: |" + string.Concat(Enumerable.Repeat(" ---: |", s_shareBatches.Length)) };
        var bars = new List<(string, double)>();
        foreach (double share in s_shares)
        {
            var rates = new List<double>();
            foreach (int batch in s_shareBatches)
            {
                rates.Add((await RunAsync(batch, share).ConfigureAwait(false)).Rate);
                bars.Add((string.Create(CultureInfo.InvariantCulture, $"{share * 100:0.0} %, {batch}"), rates[^1]));
            }

            lines.Add(string.Create(CultureInfo.InvariantCulture, $"| {share * 100:0.0} | ")
                + string.Join(" | ", rates.Select(r => (r / 1000).ToString("0.0", CultureInfo.InvariantCulture))) + " |");
            Console.WriteLine("  " + lines[^1]);
        }

        results.AddTable($"{suite}: one session in the shard's process, a share of its operations at another shard (figure 15), 8 B",
            [.. lines, "", .. TextPlot.Bars("remote, batch", "ops/s", bars)]);
    }

    private async Task<Outcome> RunAsync(int batch, double share)
    {
        LocalSession session = shard.OpenSession(new() { BatchMax = batch, Window = batch * WindowBatches });
        await using (session.ConfigureAwait(false))
        {
            byte[][] here = Keys(session, local: true), there = Keys(session, local: false);
            byte[] value = new byte[8], into = new byte[8];
            var window = new ValueTask[batch * WindowBatches];
            var latencies = new List<Task<double>>();
            var random = new Random(17);
            long done = 0, remote = 0;
            var clock = Stopwatch.StartNew();
            for (; clock.Elapsed.TotalSeconds < _seconds; )
            {
                for (int i = 0; i < 256; i++, done++)
                {
                    bool isRead = (done & 1) == 0;
                    byte[][] keys = random.NextDouble() < share ? there : here;
                    byte[] key = keys[random.Next(KeyCount)];
                    if (keys == here)
                    {
                        if (isRead) session.TryGet(key, into, out _, out _);
                        else session.Set(key, value);
                        continue;
                    }

                    // The window is full when its oldest operation is unanswered.
                    long place = remote++ % window.Length;
                    await window[place].ConfigureAwait(false);
                    bool isSample = remote % SampleEvery == 0;
                    long begun = isSample ? Stopwatch.GetTimestamp() : 0;
                    Task<double>? sample = null;
                    if (isRead) window[place] = Begin(session.Remote.GetBytesAsync(key), begun, ref sample);
                    else window[place] = Begin(session.Remote.SetAsync(key, value), begun, ref sample);
                    if (sample is not null) latencies.Add(sample);
                }
            }

            foreach (ValueTask operation in window) await operation.ConfigureAwait(false);
            double seconds = clock.Elapsed.TotalSeconds;
            await session.WaitForCommitAsync().ConfigureAwait(false);
            return new(done / seconds, [.. (await Task.WhenAll(latencies).ConfigureAwait(false)).Order()]);
        }
    }

    private static ValueTask Begin<T>(ValueTask<Result<T>> operation, long begun, ref Task<double>? sample)
    {
        if (begun == 0) return Answered(operation);
        sample = Timed(operation, begun);
        return new(sample);
    }

    private static async ValueTask Answered<T>(ValueTask<Result<T>> operation) => await operation.ConfigureAwait(false);

    private static async Task<double> Timed<T>(ValueTask<Result<T>> operation, long begun)
    {
        await operation.ConfigureAwait(false);
        return Stopwatch.GetElapsedTime(begun).TotalMilliseconds;
    }

    private static byte[][] Keys(LocalSession session, bool local) =>
        [.. Enumerable.Range(0, 1_000_000)
            .Select(i => Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"k{i:0000000}")))
                .Where(k => session.IsLocal(k) == local).Take(KeyCount)];

    private sealed record Outcome(double Rate, double[] LatenciesMs)
    {
        public double Latency(int percent) => LatenciesMs.Length == 0 ? double.NaN : LatenciesMs[LatenciesMs.Length * percent / 100];
    }
}
