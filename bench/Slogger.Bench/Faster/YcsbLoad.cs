// YCSB's workload A in this process: half reads, half writes, of keys of eight bytes, evenly or by Zipf's law with 0.99. Which key comes
// when is worked out before, so that a store is measured and not a random number generator.
using System.Buffers.Binary;

namespace Slogger.Bench.Faster;

internal sealed class YcsbLoad : IDisposable
{
    private const int Sequence = 1 << 20, Batch = 64;
    private readonly Thread[] _threads;
    private readonly Counter[] _counts;
    private volatile bool _stop;
    private volatile Exception? _failure;

    /// <param name="threads">How many.</param>
    /// <param name="keys">How many there are.</param>
    /// <param name="zipf">By Zipf's law.</param>
    /// <param name="valueBytes">Of each value.</param>
    /// <param name="rate">Operations a second of all threads; 0: as many as there can be.</param>
    /// <param name="newWorker">A thread's way to the store.</param>
    public YcsbLoad(int threads, int keys, bool zipf, int valueBytes, double rate, Func<LocalWorker> newWorker)
    {
        _counts = [.. Enumerable.Range(0, threads).Select(_ => new Counter())];
        _threads = [.. Enumerable.Range(0, threads)
            .Select(t => new Thread(() => Run(t, Keys(keys, zipf, t), valueBytes, rate / threads, newWorker)) { IsBackground = true })];
        foreach (Thread thread in _threads) thread.Start();
        // They have their keys, and run.
        while (Operations < threads * 1000L && _failure is null) Thread.Sleep(1);
    }

    // A cache line each.
    private sealed class Counter
    {
        private readonly long[] _padded = new long[16];

        public ref long Value => ref _padded[8];
    }

    public long Operations => _counts.Sum(c => Volatile.Read(ref c.Value));

    /// <summary>Writes each key once.</summary>
    public static void Fill(LocalWorker worker, int keys, int valueBytes)
    {
        Span<byte> key = stackalloc byte[8];
        byte[] value = new byte[valueBytes];
        for (int k = 0; k < keys; k++)
        {
            BinaryPrimitives.WriteInt64LittleEndian(key, k);
            worker.Write(key, value);
        }
    }

    public void Dispose()
    {
        _stop = true;
        foreach (Thread thread in _threads) thread.Join();
        if (_failure is { } failure) throw new BenchException($"the load has failed: {failure.Message}");
    }

    private static int[] Keys(int keys, bool zipf, int seed)
    {
        var random = new Random(seed);
        int[] sequence = new int[Sequence];
        var law = zipf ? new Zipf(keys, 0.99) : null;
        for (int i = 0; i < Sequence; i++) sequence[i] = law?.Next(random) ?? random.Next(keys);
        return sequence;
    }

    private void Run(int thread, int[] keys, int valueBytes, double rate, Func<LocalWorker> newWorker)
    {
        try
        {
            using LocalWorker worker = newWorker();
            Span<byte> key = stackalloc byte[8];
            byte[] value = new byte[valueBytes];
            long start = System.Diagnostics.Stopwatch.GetTimestamp(), n = 0;
            while (!_stop)
            {
                for (int i = 0; i < Batch; i++, n++)
                {
                    BinaryPrimitives.WriteInt64LittleEndian(key, keys[n & (Sequence - 1)]);
                    if (((n * 0x9E3779B1) >> 8 & 1) == 0) worker.Read(key);
                    else worker.Write(key, value);
                }

                Volatile.Write(ref _counts[thread].Value, n);
                if (rate > 0 && n / rate - System.Diagnostics.Stopwatch.GetElapsedTime(start).TotalSeconds is > 0.001 and var ahead)
                    Thread.Sleep((int)(ahead * 1000));
            }
        }
        catch (Exception e)
        {
            _failure = e;
        }
    }
}

/// <summary>Numbers by Zipf's law, spread over the range. Source: Gray et al., Quickly Generating Billion-Record Synthetic
/// Databases.</summary>
internal sealed class Zipf
{
    private readonly int _count;
    private readonly double _theta, _alpha, _zeta, _eta;

    public Zipf(int count, double theta)
    {
        (_count, _theta, _alpha) = (count, theta, 1 / (1 - theta));
        for (int i = 1; i <= count; i++) _zeta += 1 / Math.Pow(i, theta);
        _eta = (1 - Math.Pow(2.0 / count, 1 - theta)) / (1 - ((1 + Math.Pow(0.5, theta)) / _zeta));
    }

    public int Next(Random random) => (int)((ulong)Rank(random) * 0x9E3779B97F4A7C15 % (ulong)_count);

    /// <summary>The numbers as they are, the most frequent first.</summary>
    public long Rank(Random random)
    {
        double u = random.NextDouble(), uz = u * _zeta;
        return uz < 1 ? 0 : uz < 1 + Math.Pow(0.5, _theta) ? 1 : (long)(_count * Math.Pow((_eta * u) - _eta + 1, _alpha));
    }
}
