// Which shard owns which slot. A slot is the number of a partition, of either kind (Partitioning). Immutable, so that every thread may
// look into it; each change makes a new map. All slots have an owner: that a slot is not served for a moment, while it moves, is a
// matter of the move (PartitionMove), not of the map.
using System.Collections.Immutable;
using Slogger.Core.Identities;

namespace Slogger.Core.Ownership;

/// <summary>Serial number of what the metadata says of ownership; every change makes the next. From 1.</summary>
public readonly record struct MapRevision(long Number) : IComparable<MapRevision>
{
    /// <summary>The first.</summary>
    public static readonly MapRevision First = new(1);

    /// <summary>The one after this.</summary>
    public MapRevision Next => new(Number + 1);

    /// <inheritdoc />
    public int CompareTo(MapRevision other) => Number.CompareTo(other.Number);

    /// <summary>Whether the first is before.</summary>
    public static bool operator <(MapRevision a, MapRevision b) => a.Number < b.Number;

    /// <summary>Whether the first is after.</summary>
    public static bool operator >(MapRevision a, MapRevision b) => a.Number > b.Number;

    /// <summary>Whether the first is before, or the same.</summary>
    public static bool operator <=(MapRevision a, MapRevision b) => a.Number <= b.Number;

    /// <summary>Whether the first is after, or the same.</summary>
    public static bool operator >=(MapRevision a, MapRevision b) => a.Number >= b.Number;

    /// <inheritdoc />
    public override string ToString() => Number.ToString(System.Globalization.CultureInfo.InvariantCulture);
}

/// <summary>A row of the map, as SQL holds it: (first slot, last slot, shard).</summary>
public readonly record struct SlotRow(SlotRange Slots, ShardId Shard);

/// <summary>Slots to shards.</summary>
public sealed class SlotMap
{
    private readonly ShardId[] _owners;

    private SlotMap(ShardId[] owners)
    {
        _owners = owners;
        ImmutableArray<SlotRow>.Builder rows = ImmutableArray.CreateBuilder<SlotRow>();
        int first = 0;
        for (int i = 1; i <= owners.Length; i++)
        {
            if (i < owners.Length && owners[i] == owners[first]) continue;
            rows.Add(new(new(new(first), new(i - 1)), owners[first]));
            first = i;
        }

        Rows = rows.ToImmutable();
    }

    /// <summary>How many slots there are: <see cref="Partitioning.Count"/>.</summary>
    public int Count => _owners.Length;

    /// <summary>The map as rows: ordered, without gaps, neighbours of different shards.</summary>
    public ImmutableArray<SlotRow> Rows { get; }

    /// <summary>The owner of a slot.</summary>
    /// <exception cref="IndexOutOfRangeException">There is no such slot.</exception>
    public ShardId Owner(HashSlot slot) => _owners[slot.Number];

    /// <summary>Shards 0 to n-1 with a range each, cut where redis-cli --cluster create cuts.</summary>
    /// <param name="shardCount">How many shards.</param>
    /// <param name="slotCount">How many slots.</param>
    /// <exception cref="ArgumentOutOfRangeException">No shard, or more shards than slots.</exception>
    public static SlotMap Even(int shardCount, int slotCount = HashSlot.Count)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(shardCount, 1);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(shardCount, slotCount);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(slotCount, HashSlot.Count);
        ShardId[] owners = new ShardId[slotCount];
        for (int shard = 0; shard < shardCount; shard++)
        {
            SlotRange slots = EvenSlots(shardCount, shard, slotCount);
            Array.Fill(owners, new(shard), slots.First.Number, slots.Last.Number + 1 - slots.First.Number);
        }

        return new(owners);
    }

    /// <summary>What one shard has in <see cref="Even"/>.</summary>
    /// <param name="shardCount">How many shards, no more than slots.</param>
    /// <param name="shard">Which of them.</param>
    /// <param name="slotCount">How many slots.</param>
    public static SlotRange EvenSlots(int shardCount, int shard, int slotCount = HashSlot.Count)
    {
        return new(new(First(shard)), new(First(shard + 1) - 1));

        int First(int s) => (int)Math.Round(s * ((double)slotCount / shardCount), MidpointRounding.AwayFromZero);
    }

    /// <summary>Reads rows, in any order.</summary>
    /// <param name="rows">The rows.</param>
    /// <param name="error">Why they are no map: which slots have no owner or two, or what is no range.</param>
    /// <param name="slotCount">How many slots there are.</param>
    /// <returns>The map, or null.</returns>
    public static SlotMap? FromRows(IEnumerable<SlotRow> rows, out string? error, int slotCount = HashSlot.Count)
    {
        ArgumentNullException.ThrowIfNull(rows);
        ShardId[] owners = new ShardId[slotCount];
        int next = 0;
        SlotRow before = default;
        foreach (SlotRow row in rows.OrderBy(r => r.Slots.First).ThenBy(r => r.Slots.Last))
        {
            error = !row.Slots.IsValid || row.Slots.Last.Number >= slotCount
                ? $"{row.Slots.First} to {row.Slots.Last} of shard {row.Shard} is no range of slots: slots are 0 to {slotCount - 1}."
                : row.Shard.Number < 0 ? $"Slots {row.Slots} have the owner {row.Shard}: shards are numbered from 0."
                : row.Slots.First.Number < next
                ? $"Slots {row.Slots} of shard {row.Shard} overlap slots {before.Slots} of shard {before.Shard}."
                : row.Slots.First.Number > next ? NoOwner(next, row.Slots.First.Number - 1)
                : null;
            if (error is not null) return null;
            Array.Fill(owners, row.Shard, next, row.Slots.Count);
            next = row.Slots.Last.Number + 1;
            before = row;
        }

        error = next < slotCount ? NoOwner(next, slotCount - 1) : null;
        return error is null ? new(owners) : null;
    }

    /// <summary>The map with other owners for some slots.</summary>
    /// <exception cref="ArgumentException">A range is not one of slots.</exception>
    public SlotMap Move(ImmutableArray<SlotRange> slots, ShardId to) => Move([(slots, to)]);

    /// <summary>The map after some such changes, one after the other.</summary>
    /// <exception cref="ArgumentException">A range is not one of slots.</exception>
    public SlotMap Move(IEnumerable<(ImmutableArray<SlotRange> Slots, ShardId To)> changes)
    {
        ArgumentNullException.ThrowIfNull(changes);
        ShardId[] owners = (ShardId[])_owners.Clone();
        foreach ((ImmutableArray<SlotRange> slots, ShardId to) in changes)
        {
            foreach (SlotRange range in slots)
            {
                if (!range.IsValid || range.Last.Number >= owners.Length)
                    throw new ArgumentException($"{range.First} to {range.Last} is no range of slots.", nameof(changes));
                Array.Fill(owners, to, range.First.Number, range.Count);
            }
        }

        return new(owners);
    }

    private static string NoOwner(int first, int last) => $"Slots {new SlotRange(new(first), new(last))} have no owner.";
}
