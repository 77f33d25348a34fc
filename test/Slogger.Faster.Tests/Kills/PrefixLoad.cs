// Threads whose operations are known from their numbers alone: what the store holds tells how far each has come, and what it then has to
// hold. Each operation changes one key of its thread, and together with it, under all their locks: how many operations the thread has done,
// how many all have done, in which version, and from which operation on the thread was in which world-line. So a state that is not the
// one after some operation of each thread, all in versions that were closed, is seen.
using System.Buffers.Text;
using System.Globalization;
using System.Text;
using Slogger.Core.WorldLines;
using Slogger.Faster.Records;

namespace Slogger.Faster.Tests.Kills;

internal sealed class PrefixLoad(int seed, WorldLine line)
{
    public const int Threads = 2, Keys = 400;
    private static readonly byte[] s_all = "all"u8.ToArray();
    private readonly long[] _done = new long[Threads];
    private long _line = line.Number;
    private volatile bool _stop;

    /// <summary>Operations that each thread has certainly done by now.</summary>
    public long[] Done => [.. Enumerable.Range(0, Threads).Select(t => Volatile.Read(ref _done[t]))];

    public static byte[] CountKey(int thread) => Encoding.ASCII.GetBytes($"count:{thread}");

    public static byte[] LinesKey(int thread) => Encoding.ASCII.GetBytes($"lines:{thread}");

    public static byte[] StampKey(int thread) => Encoding.ASCII.GetBytes($"version:{thread}");

    public static byte[] Key(int thread, int number) => Encoding.ASCII.GetBytes($"key:{thread}:{number}");

    /// <summary>Which key an operation changes, and to what; null: it is removed.</summary>
    public (int Key, string? Value) Operation(int thread, long number, long line)
    {
        ulong random = Mix(((ulong)seed << 40) ^ ((ulong)thread << 36) ^ (ulong)number);
        int key = (int)(random % Keys);
        random = Mix(random);
        return (key, random % 8 == 0 ? null : $"{number}@{line}".PadRight((int)(random >> 40) % 200, '.'));
    }

    public Task Start(FasterStore store) =>
        Task.WhenAll(Enumerable.Range(0, Threads).Select(t => Task.Factory.StartNew(() => Run(store, t), TaskCreationOptions.LongRunning)));

    public void Stop() => _stop = true;

    /// <summary>The moment between two world-lines: no operation is under way.</summary>
    public void Begin(WorldLine next, long[] done)
    {
        for (int t = 0; t < Threads; t++) Volatile.Write(ref _done[t], done[t]);
        Volatile.Write(ref _line, next.Number);
    }

    private static ulong Mix(ulong x)
    {
        x += 0x9E3779B97F4A7C15;
        x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9;
        x = (x ^ (x >> 27)) * 0x94D049BB133111EB;
        return x ^ (x >> 31);
    }

    private void Run(FasterStore store, int thread)
    {
        using FasterWorker worker = store.NewWorker();
        var buffer = new ValueBuffer();
        byte[] countKey = CountKey(thread), linesKey = LinesKey(thread), stampKey = StampKey(thread);
        byte[][] keys = [.. Enumerable.Range(0, Keys).Select(k => Key(thread, k))];
        int[] always = [worker.StripeOf(countKey), worker.StripeOf(linesKey), worker.StripeOf(stampKey), worker.StripeOf(s_all)];
        int[] stripes = new int[always.Length + 1];
        long expected = -1;
        while (!_stop)
        {
            store.Throttle();
            if (store.IsOutOfMemory) continue;
            // Which key it will be is known only if nothing is taken back meanwhile.
            long number = expected < 0 ? Count(worker, countKey, buffer) + 1 : expected;
            int key = Operation(thread, number, 0).Key;
            always.CopyTo(stripes, 0);
            stripes[^1] = worker.StripeOf(keys[key]);
            store.Stripes.EnterAll(stripes);
            try
            {
                expected = Count(worker, countKey, buffer) + 1;
                if (expected != number) continue;
                long line = Volatile.Read(ref _line);
                string lines = worker.TryRead(linesKey, buffer, out _, out _) ? Encoding.ASCII.GetString(buffer.Bytes) : "";
                if (!lines.EndsWith($"|{line}", StringComparison.Ordinal) && !lines.Contains($"|{line}@", StringComparison.Ordinal))
                    Put(worker, linesKey, $"{lines}|{line}@{number}");
                if (Operation(thread, number, line).Value is { } value) Put(worker, keys[key], value);
                else worker.Remove(keys[key]);
                Put(worker, countKey, number.ToString(CultureInfo.InvariantCulture));
                Put(worker, s_all, (Count(worker, s_all, buffer) + 1).ToString(CultureInfo.InvariantCulture));
                Put(worker, stampKey, store.Open.ToString());
                Volatile.Write(ref _done[thread], number);
                expected = number + 1;
            }
            finally
            {
                store.Stripes.ExitAll(stripes);
            }
        }
    }

    private static void Put(FasterWorker worker, byte[] key, string value) => worker.Write(key, Encoding.ASCII.GetBytes(value), 0);

    private static long Count(FasterWorker worker, byte[] key, ValueBuffer buffer) =>
        worker.TryRead(key, buffer, out _, out _) && Utf8Parser.TryParse(buffer.Bytes, out long value, out _) ? value : 0;

    /// <summary>Compares a store that nobody uses with what it has to hold.</summary>
    /// <param name="store">The store, just opened.</param>
    /// <param name="atLeast">Operations of each thread that must be there.</param>
    /// <returns>What is wrong; empty: nothing. And how many operations there are.</returns>
    public (List<string> Wrong, long Operations) Check(FasterStore store, long[] atLeast)
    {
        using FasterWorker worker = store.NewWorker();
        var wrong = new List<string>();
        var buffer = new ValueBuffer();
        long all = 0, keys = 0, upTo = store.Commits.Count == 0 ? 0 : store.Commits[^1].Point.Version.Number;
        for (int thread = 0; thread < Threads; thread++)
        {
            long count = Count(worker, CountKey(thread), buffer);
            all += count;
            keys += count > 0 ? 3 : 0;
            if (count < atLeast[thread]) wrong.Add($"thread {thread}: {atLeast[thread]} operations were durable, {count} are there");
            if (Count(worker, StampKey(thread), buffer) is var stamp && stamp > upTo)
                wrong.Add($"thread {thread}: an operation of version {stamp}, in a commit of version {upTo}");
            string lines = worker.TryRead(LinesKey(thread), buffer, out _, out _) ? Encoding.ASCII.GetString(buffer.Bytes) : "";
            string?[] values = StateAfter(thread, count, Begins(lines));
            for (int k = 0; k < Keys; k++)
            {
                string? found = worker.TryRead(Key(thread, k), buffer, out _, out _) ? Encoding.ASCII.GetString(buffer.Bytes) : null;
                if (found != values[k]) wrong.Add(
                    $"thread {thread} after {count} operations, key {k}: {found ?? "none"}, should be {values[k] ?? "none"}");
                if (found is not null) keys++;
            }
        }

        keys += all > 0 ? 1 : 0;
        if (Count(worker, s_all, buffer) != all) wrong.Add($"{Count(worker, s_all, buffer)} operations in all, but {all} of the threads");
        if (store.Statistics().Keys != keys) wrong.Add($"{store.Statistics().Keys} keys are counted, {keys} are there");
        if (store.Damage is { } damage) wrong.Add(damage);
        return (wrong, all);
    }

    private static List<(long Line, long From)> Begins(string lines) =>
        [.. lines.Split('|', StringSplitOptions.RemoveEmptyEntries).Select(l => l.Split('@'))
            .Select(p => (long.Parse(p[0], CultureInfo.InvariantCulture), long.Parse(p[1], CultureInfo.InvariantCulture)))];

    private string?[] StateAfter(int thread, long count, List<(long Line, long From)> begins)
    {
        var values = new string?[Keys];
        int at = 0;
        for (long n = 1; n <= count; n++)
        {
            while (at + 1 < begins.Count && begins[at + 1].From <= n) at++;
            (int key, string? value) = Operation(thread, n, begins.Count == 0 ? 0 : begins[at].Line);
            values[key] = value;
        }

        return values;
    }
}
