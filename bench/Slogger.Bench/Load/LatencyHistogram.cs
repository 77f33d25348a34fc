// Latencies in nanoseconds with a relative error below 1 %: buckets of doubling width, each cut into 128 parts, as in
// HdrHistogram. Fixed memory (64 KB), one increment per record. Not safe for several threads.
using System.Numerics;

namespace Slogger.Bench.Load;

internal sealed class LatencyHistogram
{
    private const int PartBits = 7;
    private const int Parts = 1 << PartBits;
    private readonly long[] _counts = new long[(64 - PartBits) * Parts];

    public long Count { get; private set; }

    public long MaxNs { get; private set; }

    private double _sumNs;

    public double MeanNs => Count == 0 ? 0 : _sumNs / Count;

    public void Record(long ns)
    {
        ns = Math.Max(ns, 0);
        _counts[IndexOf(ns)]++;
        Count++;
        _sumNs += ns;
        MaxNs = Math.Max(MaxNs, ns);
    }

    public void Clear()
    {
        Array.Clear(_counts);
        (Count, MaxNs, _sumNs) = (0, 0, 0);
    }

    /// <summary>The latency that a share of all records does not exceed; 0 when empty.</summary>
    /// <param name="share">From 0 to 1: 0.99 for p99.</param>
    public long QuantileNs(double share)
    {
        long wanted = Math.Max(1, (long)Math.Ceiling(share * Count));
        long seen = 0;
        for (int i = 0; i < _counts.Length; i++)
        {
            seen += _counts[i];
            if (seen >= wanted)
            {
                return Math.Min(UpperEdge(i), MaxNs);
            }
        }

        return MaxNs;
    }

    private static int IndexOf(long ns)
    {
        if (ns < Parts)
        {
            return (int)ns;
        }

        int shift = 63 - PartBits - BitOperations.LeadingZeroCount((ulong)ns);
        return ((shift + 1) << PartBits) + (int)((ns >> shift) - Parts);
    }

    private static long UpperEdge(int index)
    {
        if (index < Parts)
        {
            return index;
        }

        int shift = (index >> PartBits) - 1;
        return ((((long)index & (Parts - 1)) + Parts + 1) << shift) - 1;
    }
}
