// What a front end goes by, command after command: which slots its shard serves, and who serves the others. Immutable, so that one thread
// decides about moves and another asks.
using Slogger.Core.Identities;

namespace Slogger.Core.Ownership;

/// <summary>What becomes of a command on a slot.</summary>
public enum SlotVerdict
{
    /// <summary>It is this shard's: forward it.</summary>
    Serve,

    /// <summary>It is another shard's: -MOVED.</summary>
    Moved,

    /// <summary>Nobody serves it for a moment: it moves, or no table of the world-line has been read. The command waits.</summary>
    Wait,
}

/// <summary>A verdict; with Moved, by whom the slot is served.</summary>
public readonly record struct SlotAnswer(SlotVerdict Verdict, ShardId Owner);

/// <summary>The slots that one shard serves.</summary>
public sealed class ServedSlots
{
    private readonly ShardId _self;
    private readonly SlotMap? _map;
    private readonly bool[]? _withheld;

    /// <summary>By a table.</summary>
    /// <param name="self">The shard.</param>
    /// <param name="map">The owners; null: they are not known.</param>
    /// <param name="withheld">For each slot whether the shard owns it and does not serve it; null: it serves all that it owns. Not changed
    /// later.</param>
    public ServedSlots(ShardId self, SlotMap? map, bool[]? withheld = null) => (_self, _map, _withheld) = (self, map, withheld);

    /// <summary>Whether a command on this slot may be forwarded now. O(1), allocates nothing.</summary>
    /// <param name="slot">The slot of all its keys.</param>
    public SlotAnswer Ask(HashSlot slot)
    {
        if (_map is null) return new(SlotVerdict.Wait, _self);
        ShardId owner = _map.Owner(slot);
        if (owner != _self) return new(SlotVerdict.Moved, owner);
        return new(_withheld?[slot.Number] == true ? SlotVerdict.Wait : SlotVerdict.Serve, _self);
    }

    /// <summary>Whether the shard serves a slot.</summary>
    public bool Serves(HashSlot slot) => Ask(slot).Verdict == SlotVerdict.Serve;

    internal bool IsSame(SlotMap? map, bool[]? withheld) =>
        (map is null || _map is null ? map == _map : map.Rows.SequenceEqual(_map.Rows))
            && (_withheld ?? []).AsSpan().SequenceEqual(withheld ?? []);
}
