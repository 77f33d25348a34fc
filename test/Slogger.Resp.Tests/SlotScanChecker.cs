// Holds the scan that looks at slots against a slow reference: what it passes is for this shard by KeyFinder's verdict, what is simple
// and for this shard it passes, wherever the bytes are cut. KeyFinder is held against redis-server elsewhere.
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

/// <summary>A shard's table of slots, and what has to become of requests by it.</summary>
internal sealed unsafe class SlotScanChecker(KeyFinder finder, Partitioning partitions, bool[] owned)
{
    public const int LargeBytes = 1 << 12;
    private const byte Impossible = 9;
    private const byte OwnSpelled = 10;
    public static readonly KeyValuePair<string, byte>[] Special =
        [KeyValuePair.Create("MULTI", (byte)1), KeyValuePair.Create("EVAL", (byte)2)];

    public SlotTable Table { get; } = SlotTable.Of(Special, finder, Impossible, OwnSpelled, partitions, owned);

    /// <summary>Feeds pieces as the front end does; a request at which the scan stops is taken out.</summary>
    public void CheckPieces(string[][] requests, byte[] bytes, int[] cuts, int within)
    {
        var kept = new List<byte>();
        int next = 0, from = 0;
        foreach (int cut in cuts)
        {
            kept.AddRange(bytes[from..cut]);
            from = cut;
            while (true)
            {
                using var native = new Native(kept.ToArray(), behind: (byte)'$');
                int count = 0;
                byte* end = CommandScanner.ScanRun(native.Start, native.End, Table, within, LargeBytes, ref count, out ScanStop stop,
                    out _);
                kept.RemoveRange(0, (int)(end - native.Start));
                for (; count > 0; count--, next++)
                {
                    Assert.True(Served(requests[next], within), $"{string.Join(' ', requests[next])} was passed");
                }
                if (stop != ScanStop.Slot)
                {
                    Assert.Equal(ScanStop.NeedMore, stop);
                    break;
                }
                Assert.False(Simple(requests[next], within), $"{string.Join(' ', requests[next])} was not passed");
                byte[] whole = Bytes.Request(requests[next++]);
                Assert.Equal(whole, kept.Take(whole.Length));
                kept.RemoveRange(0, whole.Length);
            }
        }
        Assert.Equal((requests.Length, 0), (next, kept.Count));
    }

    /// <summary>Where the scan stops.</summary>
    public string Stops(int within, params string[] requests) => Stops(Table, within, requests);

    /// <summary>Where the scan by a table stops.</summary>
    public static string Stops(SlotTable table, int within, string[] requests)
    {
        byte[] bytes = [.. requests.SelectMany(r => Bytes.Request(r.Split(' ')))];
        using var native = new Native(bytes);
        var stops = new List<string>();
        byte* p = native.Start;
        while (p < native.End)
        {
            int count = 0;
            p = CommandScanner.ScanRun(p, native.End, table, within, LargeBytes, ref count, out ScanStop stop, out byte value);
            if (count > 0) { stops.Add($"run {count}"); }
            if (stop == ScanStop.NeedMore) { break; }
            stops.Add(stop == ScanStop.Special ? $"special {value}" : stop.ToString().ToLowerInvariant());
            p += CommandScanner.ReadArguments(p, native.End, []);
        }
        return string.Join('|', stops);
    }

    private bool Served(string[] request, int within) => Verdict(request, out HashSlot slot) switch
    {
        SlotScope.NoKey => true,
        SlotScope.OneSlot => owned[slot.Number] && (within == SlotTable.Owned || within == slot.Number),
        _ => false,
    };

    // What has to be passed: served, with keys at equal distances, or without keys and the right number of arguments.
    private bool Simple(string[] request, int within) =>
        Served(request, within) && finder.Ranges.Any(r => r.Key.Equals(request[0], StringComparison.OrdinalIgnoreCase))
        && (Verdict(request, out _) == SlotScope.OneSlot
        || finder.Ranges.Single(r => r.Key.Equals(request[0], StringComparison.OrdinalIgnoreCase)).Value == default);

    private SlotScope Verdict(string[] request, out HashSlot slot)
    {
        byte[] bytes = Bytes.Request(request);
        var arguments = new List<(int, int)>();
        fixed (byte* p = bytes) { CommandScanner.ReadArguments(p, p + bytes.Length, arguments); }
        return finder.FindSlot(bytes, [.. arguments], partitions, out slot);
    }
}
