// Full load for minutes, with commits, on a store whose memory is small beside what is written: the log in memory and on disk must stay
// within its bounds, and at the end each key must have its last value, in the store and when it is opened again. --soak MINUTES.
using System.Buffers.Binary;
using System.Diagnostics;
using System.Globalization;
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Records;

namespace Slogger.Faster.Tests;

internal sealed class Soak(FasterStore store)
{
    private const int Threads = 2, KeysOfThread = 200_000;
    private static readonly WorldLine s_line = new(1);
    private readonly long[][] _last = [.. Enumerable.Range(0, Threads).Select(_ => new long[KeysOfThread])];   // 0: none; below: removed
    private readonly long[] _operations = new long[Threads];
    private volatile bool _stop;

    public static async Task<int> RunAsync(string[] args)
    {
        double minutes = args.Length > 1 ? double.Parse(args[1], CultureInfo.InvariantCulture) : 30;
        string directory = Directory.CreateTempSubdirectory("slogger-soak-").FullName;
        var options = new FasterOptions { Directory = directory, IndexBytes = 32 << 20, MemoryBytes = 512 << 20, PageBits = 22,
            SegmentBits = 24 };
        Soak soak;
        bool whole;
        using (FasterStore store = FasterStore.OpenAt(options))
        {
            soak = new(store);
            whole = await soak.LoadAsync(TimeSpan.FromMinutes(minutes), (2 * options.MemoryBytes) + (2L << options.SegmentBits))
                && soak.Check(store, "live");
        }

        using (FasterStore again = FasterStore.OpenAt(options)) whole &= again.Damage is null && soak.Check(again, "opened again");
        Directory.Delete(directory, recursive: true);
        return whole ? 0 : 1;
    }

    private async Task<bool> LoadAsync(TimeSpan time, long diskMax)
    {
        Task running = Task.WhenAll(Enumerable.Range(0, Threads)
            .Select(t => Task.Factory.StartNew(() => Run(t), TaskCreationOptions.LongRunning)));
        var clock = Stopwatch.StartNew();
        var report = Stopwatch.StartNew();
        long before = 0, commits = 0;
        bool bounded = true;
        var interval = TimeSpan.FromSeconds(Math.Clamp(time.TotalSeconds / 30, 5, 60));
        Console.WriteLine("seconds, operations a second, commits, live keys, live MB, log MB, of at most, disk MB, resident MB, compacted "
            + "MB, last commit ms");
        while (clock.Elapsed < time && !running.IsCompleted)
        {
            await Task.Delay(100);
            CommitRecord commit = await store.CommitAsync(s_line, store.Open.Next);
            commits++;
            store.Keep(commit.Point);
            if (report.Elapsed < interval) continue;
            FasterStatistics now = store.Statistics();
            long operations = _operations.Sum();
            bounded &= now.LogBytes <= now.LogBytesMax && now.DiskBytes <= diskMax;
            Console.WriteLine($"{clock.Elapsed.TotalSeconds:0}, {(operations - before) / report.Elapsed.TotalSeconds:0}, {commits}, "
                + $"{now.Keys}, {now.LiveBytes >> 20}, {now.LogBytes >> 20}, {now.LogBytesMax >> 20}, {now.DiskBytes >> 20}, "
                + $"{Environment.WorkingSet >> 20}, {now.CompactedBytes >> 20}, {now.LastCommit.TotalMilliseconds:0.0}");
            before = operations;
            report.Restart();
        }

        _stop = true;
        await running;
        await store.CommitAsync(s_line, store.Open.Next);
        if (!bounded) Console.WriteLine("the log has outgrown its bounds");
        return bounded;
    }

    private void Run(int thread)
    {
        using FasterWorker worker = store.NewWorker();
        var random = new Random(thread);
        byte[] key = new byte[8], value = new byte[256];
        for (long n = 1; !_stop; n++)
        {
            store.Throttle();
            if (store.IsOutOfMemory)
            {
                Thread.Sleep(1);
                continue;
            }

            int number = random.Next(KeysOfThread);
            BinaryPrimitives.WriteInt64LittleEndian(key, ((long)thread << 32) | (uint)number);
            int entered = worker.Enter(key);
            if (random.Next(10) == 0)
            {
                worker.Remove(key);
                _last[thread][number] = -n;
            }
            else
            {
                worker.Write(key, Value(value, n), 0);
                _last[thread][number] = n;
            }

            worker.Exit(entered);
            Volatile.Write(ref _operations[thread], n);
        }
    }

    private static ReadOnlySpan<byte> Value(byte[] buffer, long n)
    {
        BinaryPrimitives.WriteInt64LittleEndian(buffer, n);
        int length = 8 + (int)((ulong)(n * 0x5DEECE66D) % (ulong)(buffer.Length - 8));
        buffer.AsSpan(8, length - 8).Fill((byte)n);
        return buffer.AsSpan(0, length);
    }

    private bool Check(FasterStore store, string when)
    {
        using FasterWorker worker = store.NewWorker();
        var found = new ValueBuffer();
        byte[] key = new byte[8], value = new byte[256];
        long wrong = 0, keys = 0;
        for (int thread = 0; thread < Threads; thread++)
        {
            for (int number = 0; number < KeysOfThread; number++)
            {
                BinaryPrimitives.WriteInt64LittleEndian(key, ((long)thread << 32) | (uint)number);
                long last = _last[thread][number];
                bool isThere = worker.TryRead(key, found, out _, out _);
                if (last > 0 ? !isThere || !found.Bytes.SequenceEqual(Value(value, last)) : isThere) wrong++;
                if (last > 0) keys++;
            }
        }

        long counted = store.Statistics().Keys;
        Console.WriteLine($"{when}: {keys} keys compared, {counted} counted, {wrong} wrong; {_operations.Sum()} operations");
        return wrong == 0 && counted == keys;
    }
}
