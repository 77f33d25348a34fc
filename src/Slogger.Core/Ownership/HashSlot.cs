// Hash partitions are the 16384 slots of Redis Cluster, computed as Redis Cluster does, so that its clients find their way
// with the code that they have. Where keys are cut into ranges (Partitioning), a slot is the number of a range. Computed for each
// key on the proxy's hot path: no allocation, eight bytes per step.
using System.Collections.Immutable;

namespace Slogger.Core.Ownership;

/// <summary>The number of a partition: 0 to 16383. Source: Redis Cluster specification, "Key distribution model".</summary>
public readonly record struct HashSlot(int Number) : IComparable<HashSlot>
{
    /// <summary>How many slots there are.</summary>
    public const int Count = 16384;

    private const int Polynomial = 0x1021;   // CRC16/XMODEM: most significant bit first, from 0, nothing inverted
    private static readonly ushort[] Tables = MakeTables();

    /// <summary>The last slot.</summary>
    public static readonly HashSlot Last = new(Count - 1);

    /// <summary>The hash partition of a key: the slot of what stands between the first '{' and the first '}' behind it, if that is not
    /// empty, else of the whole key.</summary>
    public static HashSlot Of(ReadOnlySpan<byte> key)
    {
        int open = key.IndexOf((byte)'{');
        if (open >= 0)
        {
            ReadOnlySpan<byte> rest = key[(open + 1)..];
            int close = rest.IndexOf((byte)'}');
            if (close > 0) key = rest[..close];
        }

        return new(Crc16(key) & (Count - 1));
    }

    /// <inheritdoc />
    public int CompareTo(HashSlot other) => Number.CompareTo(other.Number);

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);

    private static int Crc16(ReadOnlySpan<byte> bytes)
    {
        // Table k is what a byte followed by k zero bytes adds: eight lookups that do not wait for each other.
        ReadOnlySpan<ushort> t = Tables;
        int crc = 0;
        while (bytes.Length >= 8)
        {
            crc = t[(7 << 8) | (bytes[0] ^ (crc >> 8))] ^ t[(6 << 8) | (bytes[1] ^ (crc & 0xff))]
                ^ t[(5 << 8) | bytes[2]] ^ t[(4 << 8) | bytes[3]] ^ t[(3 << 8) | bytes[4]] ^ t[(2 << 8) | bytes[5]]
                ^ t[(1 << 8) | bytes[6]] ^ t[bytes[7]];
            bytes = bytes[8..];
        }

        foreach (byte b in bytes) crc = ((crc << 8) & 0xffff) ^ t[(crc >> 8) ^ b];
        return crc;
    }

    private static ushort[] MakeTables()
    {
        ushort[] tables = new ushort[8 << 8];
        for (int b = 0; b < 256; b++)
        {
            int crc = b << 8;
            for (int bit = 0; bit < 8; bit++) crc = ((crc << 1) ^ ((crc & 0x8000) != 0 ? Polynomial : 0)) & 0xffff;
            tables[b] = (ushort)crc;
        }

        for (int i = 256; i < tables.Length; i++)
        {
            int before = tables[i - 256];
            tables[i] = (ushort)((before << 8) ^ tables[before >> 8]);
        }

        return tables;
    }
}

/// <summary>Slots that follow each other, both ends included.</summary>
public readonly record struct SlotRange(HashSlot First, HashSlot Last)
{
    /// <summary>How many slots.</summary>
    public int Count => Last.Number - First.Number + 1;

    /// <summary>Whether the slot is one of them.</summary>
    public bool Contains(HashSlot slot) => slot.Number >= First.Number && slot.Number <= Last.Number;

    /// <summary>Whether any slot is in both.</summary>
    public bool Overlaps(SlotRange other) => First.Number <= other.Last.Number && other.First.Number <= Last.Number;

    /// <summary>Whether both ends are slots, in order.</summary>
    public bool IsValid => First.Number >= 0 && First.Number <= Last.Number && Last.Number < HashSlot.Count;

    /// <summary>Reads ranges as people write them: "0-99,200". Ordered; ranges that touch become one.</summary>
    /// <param name="text">The text.</param>
    /// <param name="ranges">The ranges, at least one.</param>
    /// <param name="problem">What is wrong with it, to be read behind the text.</param>
    public static bool TryParseList(string text, out ImmutableArray<SlotRange> ranges, out string problem)
    {
        ArgumentNullException.ThrowIfNull(text);
        ranges = [];
        List<SlotRange> read = [];
        foreach (string part in text.Split(',', StringSplitOptions.TrimEntries))
        {
            string[] ends = part.Split('-');
            if (ends.Length > 2 || !TryParse(ends[0], out HashSlot first) || !TryParse(ends[^1], out HashSlot last))
            {
                problem = $"has \"{part}\", which is no slot and no range: slots are 0 to {HashSlot.Last}, ranges are written 0-99";
                return false;
            }
            if (first.Number > last.Number)
            {
                problem = $"has {part}, which ends before it begins";
                return false;
            }
            read.Add(new(first, last));
        }
        List<SlotRange> ordered = [];
        foreach (SlotRange range in read.OrderBy(r => r.First))
        {
            if (ordered.Count > 0 && ordered[^1].Overlaps(range))
            {
                problem = $"has slot {range.First} twice";
                return false;
            }
            if (ordered.Count > 0 && ordered[^1].Last.Number + 1 == range.First.Number) ordered[^1] = new(ordered[^1].First, range.Last);
            else ordered.Add(range);
        }
        ranges = [.. ordered];
        problem = "";
        return true;
    }

    private static bool TryParse(string text, out HashSlot slot)
    {
        bool ok = int.TryParse(text, System.Globalization.NumberStyles.None, System.Globalization.CultureInfo.InvariantCulture,
            out int number) && number < HashSlot.Count;
        slot = new(number);
        return ok;
    }

    /// <summary>As redis-cli prints it: "0-5460", or "7" for one slot.</summary>
    public override string ToString() => First == Last ? First.ToString() : $"{First}-{Last}";
}
