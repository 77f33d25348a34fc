// How keys fall into partitions: decided where a cluster is made, and kept. A partition has a number, from 0; everything that is said
// of ownership (maps, moves, MOVED) is said of numbers, and does not know what a partition is. Either of
// - hash: the slots of Redis Cluster, for its clients. Keys that are near each other are far apart.
// - range: keys in the order of their bytes, cut at split keys, for clients that know them. Keys that are near each other, such as
//   those with one prefix, or times in order, are at one shard. Partition 0 has the keys below the first split key, partition i those
//   from split key i on. Hash tags mean nothing.
// Immutable. Computed for each key on the proxy's hot path: no allocation.
using System.Collections.Immutable;

namespace Slogger.Core.Ownership;

/// <summary>How keys are cut into partitions.</summary>
public enum PartitionKind
{
    /// <summary>By the slots of Redis Cluster.</summary>
    Hash,

    /// <summary>By the order of keys.</summary>
    Range,
}

/// <summary>Keys to partitions. Source: DPR, section 5.3 (virtual partitions).</summary>
public sealed partial class Partitioning : IEquatable<Partitioning>
{
    /// <summary>The longest split key, and the most of all together. Unit: bytes.</summary>
    public const int SplitKeyBytesMax = 512, SplitBytesMax = 1 << 20;

    /// <summary>The slots of Redis Cluster: <see cref="HashSlot.Of"/>.</summary>
    public static readonly Partitioning Hash = new([], PartitionKind.Hash);

    private readonly byte[][] _splits;   // in order; partition i + 1 begins at split i

    private Partitioning(byte[][] splits, PartitionKind kind)
    {
        _splits = splits;
        Kind = kind;
    }

    /// <summary>Which of the two.</summary>
    public PartitionKind Kind { get; }

    /// <summary>How many partitions there are: their numbers are 0 to one less.</summary>
    public int Count => Kind == PartitionKind.Hash ? HashSlot.Count : _splits.Length + 1;

    /// <summary>Where ranges begin, in order, without the first one's, which is the empty key; with hash partitions none.</summary>
    public ImmutableArray<ReadOnlyMemory<byte>> SplitKeys => [.. _splits.Select(s => new ReadOnlyMemory<byte>(s))];

    /// <summary>The partition of a key.</summary>
    public HashSlot Of(ReadOnlySpan<byte> key)
    {
        if (Kind == PartitionKind.Hash) return HashSlot.Of(key);
        byte[][] splits = _splits;
        int low = 0, high = splits.Length;   // so many split keys are not above the key: low at least, high at most
        while (low < high)
        {
            int middle = (low + high) >>> 1;
            if (key.SequenceCompareTo(splits[middle]) < 0) high = middle;
            else low = middle + 1;
        }

        return new(low);
    }

    /// <summary>Cuts the keys into ranges.</summary>
    /// <param name="splitKeys">Where, in any order. The keys are copied.</param>
    /// <param name="problem">What is wrong with them, to be read behind what was given.</param>
    /// <returns>The partitioning, or null.</returns>
    public static Partitioning? ByRange(IEnumerable<ReadOnlyMemory<byte>> splitKeys, out string problem)
    {
        ArgumentNullException.ThrowIfNull(splitKeys);
        byte[][] splits = [.. splitKeys.Select(k => k.ToArray())];
        Array.Sort(splits, (a, b) => a.AsSpan().SequenceCompareTo(b));
        problem = splits.Length == 0 ? "has no split key: give at least one"
            : splits.Length >= HashSlot.Count ? $"has {splits.Length} split keys: there can be {HashSlot.Count - 1}"
            : splits[0].Length == 0 ? "has an empty split key: no key is below it"
            : splits.FirstOrDefault(s => s.Length > SplitKeyBytesMax) is { } large
            ? $"has a split key of {large.Length} bytes: one can have {SplitKeyBytesMax}"
            : splits.Sum(s => (long)s.Length) > SplitBytesMax ? $"has split keys of more than {SplitBytesMax} bytes together"
            : splits.Zip(splits.Skip(1))
            .FirstOrDefault(p => p.First.AsSpan().SequenceEqual(p.Second)) is { First: { } twice }
                ? $"has the split key {Escape(twice)} twice"
            : "";
        return problem.Length == 0 ? new(splits, PartitionKind.Range) : null;
    }

    /// <inheritdoc />
    public bool Equals(Partitioning? other) => other is not null && Kind == other.Kind && _splits.Length == other._splits.Length
        && _splits.Zip(other._splits).All(p => p.First.AsSpan().SequenceEqual(p.Second));

    /// <inheritdoc />
    public override bool Equals(object? obj) => Equals(obj as Partitioning);

    /// <inheritdoc />
    public override int GetHashCode()
    {
        HashCode hash = default;
        foreach (byte[] split in _splits) hash.AddBytes(split);
        return hash.ToHashCode();
    }
}
