// The keys of a case. Where slots do not move each shard has keys of its own; where they move the keys are the cluster's, a slot each,
// and clients go by a map that may be old.
using System.Collections.Immutable;
using Slogger.Core.Ownership;

namespace Slogger.Simulation;

/// <param name="isMoving">Whether slots move.</param>
internal sealed class KeySpace(bool isMoving)
{
    /// <summary>Whether slots move.</summary>
    public bool Move => isMoving;

    /// <summary>How many keys there are.</summary>
    public int Count => isMoving ? 6 : 4;

    /// <summary>The slot of a key: they are spread over all.</summary>
    public HashSlot SlotOf(int key) => new(key * HashSlot.Count / Count);

    public int OwnerOf(int key, SlotMap map) => map.Owner(SlotOf(key)).Number;

    /// <summary>The slots of a key and of the next so many, without what lies between.</summary>
    public ImmutableArray<SlotRange> SlotsOf(int first, int count) =>
        [.. Enumerable.Range(first, Math.Min(count, Count - first)).Select(k => new SlotRange(SlotOf(k), SlotOf(k)))];

    /// <summary>The keys in some slots.</summary>
    public IEnumerable<int> KeysIn(ImmutableArray<SlotRange> slots) =>
        Enumerable.Range(0, Count).Where(k => slots.Any(s => s.Contains(SlotOf(k))));
}
