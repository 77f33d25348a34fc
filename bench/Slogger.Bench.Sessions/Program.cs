// One run of load: `session|plain|headers throughput|latency|commit ENDPOINTS BATCH SECONDS [KEYS]`, endpoints by shard and with commas
// between. The result is one line of JSON. `session` is Slogger.Client; `plain` is a pipelining client written by hand;
// `headers` is that one with the headers of sessions.
using System.Diagnostics;
using System.Globalization;
using System.Text.Json;
using Slogger.Bench.Sessions;

if (args.Length < 5 || args[0] is not ("session" or "plain" or "headers") || args[1] is not ("throughput" or "latency" or "commit"))
{
    Console.Error.WriteLine("usage: session|plain|headers throughput|latency|commit ENDPOINTS BATCH SECONDS [KEYS]");
    return 2;
}

string[] endpoints = args[2].Split(',');
int batch = int.Parse(args[3], CultureInfo.InvariantCulture);
TimeSpan length = TimeSpan.FromSeconds(double.Parse(args[4], CultureInfo.InvariantCulture));
var keys = new Keys(endpoints.Length, args.Length > 5 ? int.Parse(args[5], CultureInfo.InvariantCulture) : 100_000);
TimeSpan warmUp = TimeSpan.FromSeconds(2);
Measurement found = (args[0], args[1]) switch
{
    ("session", "throughput") => await SessionLoad.ThroughputAsync(endpoints, keys, batch, warmUp, length),
    ("session", "latency") => await SessionLoad.LatencyAsync(endpoints, keys, untilCommit: false, warmUp, length),
    ("session", _) => await SessionLoad.LatencyAsync(endpoints, keys, untilCommit: true, warmUp, length),
    (var kind, "throughput") => PlainLoad.Throughput(endpoints, keys, batch, kind == "headers", warmUp, length),
    (var kind, "latency") => PlainLoad.Latency(endpoints, keys, kind == "headers", warmUp, length),
    _ => throw new ArgumentException("a plain client has no commits: use the suite `commit`"),
};
using Process self = Process.GetCurrentProcess();
Console.WriteLine(JsonSerializer.Serialize(found with { CpuSeconds = self.TotalProcessorTime.TotalSeconds }));
return 0;

namespace Slogger.Bench.Sessions
{
    /// <summary>What a run found. Latencies in microseconds.</summary>
    internal sealed record Measurement(double OperationsPerSecond, double P50Us, double P99Us, double AllocatedBytesPerOperation = 0,
        double CpuSeconds = 0);

    /// <summary>Keys and the shard of each, by the even split of a new cluster.</summary>
    internal sealed class Keys
    {
        private readonly byte[][] _keys;
        private readonly int[] _shards;

        public Keys(int shards, int count)
        {
            var map = Core.Ownership.SlotMap.Even(shards);
            _keys = new byte[count][];
            _shards = new int[count];
            for (int i = 0; i < count; i++)
            {
                _keys[i] = System.Text.Encoding.ASCII.GetBytes($"key:{i:d12}");
                _shards[i] = map.Owner(Core.Ownership.HashSlot.Of(_keys[i])).Number;
            }
        }

        public static byte[] Value { get; } = [.. Enumerable.Repeat((byte)'x', 64)];

        public int Count => _keys.Length;

        public byte[] this[int index] => _keys[index];

        public int ShardOf(int index) => _shards[index];
    }

    internal static class Percentile
    {
        public static double Of(List<double> sorted, double share) => sorted.Count == 0 ? 0 : sorted[(int)((sorted.Count - 1) * share)];
    }
}
