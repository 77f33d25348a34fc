// Range partitions, for session clients: keys in the order of their bytes, cut at split keys. Immutable.
using System.Collections.Immutable;
using Slogger.Core.Shards;

namespace Slogger.Core.Ownership;

/// <summary>A row of the map, as SQL holds it: the shard owns the keys from this one on, up to the next row's.</summary>
/// <param name="From">The first key of the partition, in the order of bytes; empty in the first row.</param>
/// <param name="Shard">Its owner.</param>
public readonly record struct RangeRow(ReadOnlyMemory<byte> From, ShardId Shard);

/// <summary>Key ranges to shards.</summary>
public sealed class RangeMap
{
    private readonly byte[][] _from;   // the first is empty: every key has an owner
    private readonly ShardId[] _owners;

    private RangeMap(byte[][] from, ShardId[] owners)
    {
        _from = from;
        _owners = owners;
    }

    /// <summary>The map as rows, in the order of keys.</summary>
    public ImmutableArray<RangeRow> Rows => [.. _from.Zip(_owners, (from, owner) => new RangeRow(from, owner))];

    /// <summary>The owner of a key: a binary search over the split keys, comparing bytes.</summary>
    public ShardId Owner(ReadOnlySpan<byte> key)
    {
        int low = 0, high = _from.Length;   // the partition is in [low, high)
        while (high - low > 1)
        {
            int middle = (low + high) >>> 1;
            if (key.SequenceCompareTo(_from[middle]) < 0) high = middle;
            else low = middle;
        }

        return _owners[low];
    }

    /// <summary>Reads rows, in any order. The keys are copied.</summary>
    /// <param name="rows">The rows.</param>
    /// <param name="error">Why they are no map: keys below the first row's have no owner, or two rows begin at one key.</param>
    /// <returns>The map, or null.</returns>
    public static RangeMap? FromRows(IEnumerable<RangeRow> rows, out string? error)
    {
        ArgumentNullException.ThrowIfNull(rows);
        RangeRow[] sorted = [.. rows];
        Array.Sort(sorted, (a, b) => a.From.Span.SequenceCompareTo(b.From.Span));
        error = sorted.Length == 0 ? "The map has no row: no key has an owner."
            : !sorted[0].From.IsEmpty ? $"Keys below {Show(sorted[0].From)} have no owner: the first row has to begin at the empty key." : null;
        for (int i = 0; i < sorted.Length && error is null; i++)
        {
            if (sorted[i].Shard.Number < 0)
                error = $"The keys from {Show(sorted[i].From)} on have the owner {sorted[i].Shard}: shards are numbered from 0.";
            else if (i > 0 && sorted[i].From.Span.SequenceEqual(sorted[i - 1].From.Span))
                error = $"The keys from {Show(sorted[i].From)} on have two owners: shards {sorted[i - 1].Shard} and {sorted[i].Shard}.";
        }

        return error is null ? new([.. sorted.Select(r => r.From.ToArray())], [.. sorted.Select(r => r.Shard)]) : null;
    }

    private static string Show(ReadOnlyMemory<byte> key) => $"0x{Convert.ToHexString(key.Span)}";
}
