// The load through Slogger.Client: one session, operations started one by one as an application would.
using System.Diagnostics;
using Slogger.Client;

namespace Slogger.Bench.Sessions;

internal static class SessionLoad
{
    public static async Task<Measurement> ThroughputAsync(string[] endpoints, Keys keys, int batch, TimeSpan warmUp, TimeSpan length)
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(endpoints);
        int window = Math.Max(4096, batch * endpoints.Length * 4);
        await using SloggerSession session = client.OpenSession(new() { BatchMax = batch, Window = window, OutstandingMax = window * 2 });
        await RunAsync(session, keys, window, warmUp);
        long before = GC.GetTotalAllocatedBytes();
        (long operations, TimeSpan took) = await RunAsync(session, keys, window, length);
        double allocated = (GC.GetTotalAllocatedBytes() - before) / (double)operations;
        return new(operations / took.TotalSeconds, 0, 0, allocated);
    }

    private static async Task<(long Operations, TimeSpan Took)> RunAsync(SloggerSession session, Keys keys, int window, TimeSpan length)
    {
        var sets = new ValueTask<Result<bool>>[window];
        long started = 0, ended = 0, began = Stopwatch.GetTimestamp();
        uint random = 12345;
        while (Stopwatch.GetElapsedTime(began) < length)
        {
            // A quarter of the window at a time, so that batches are full and the clock is seldom read.
            int block = window / 4;
            for (int i = 0; i < block; i++)
            {
                if (started - ended == window) { await sets[ended++ % window]; }
                random = (random * 1664525) + 1013904223;
                sets[started++ % window] = session.SetAsync(keys[(int)(random % (uint)keys.Count)], Keys.Value);
            }
        }

        while (ended < started) { await sets[ended++ % window]; }
        return (started, Stopwatch.GetElapsedTime(began));
    }

    public static async Task<Measurement> LatencyAsync(string[] endpoints, Keys keys, bool untilCommit, TimeSpan warmUp, TimeSpan length)
    {
        await using SloggerClient client = await SloggerClient.ConnectAsync(endpoints);
        await using SloggerSession session = client.OpenSession();
        var latencies = new List<double>();
        long began = Stopwatch.GetTimestamp();
        for (int i = 0; Stopwatch.GetElapsedTime(began) < warmUp + length; i++)
        {
            long start = Stopwatch.GetTimestamp();
            await session.SetAsync(keys[(i * 7919) % keys.Count], Keys.Value);
            if (untilCommit) { await session.WaitForCommitAsync(); }
            if (Stopwatch.GetElapsedTime(began) > warmUp) { latencies.Add(Stopwatch.GetElapsedTime(start).TotalMicroseconds); }
        }

        latencies.Sort();
        return new(latencies.Count / length.TotalSeconds, Percentile.Of(latencies, 0.5), Percentile.Of(latencies, 0.99));
    }
}
