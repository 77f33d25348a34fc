// The effects that ShardMachine hands out, as data. Order is part of the contract: perform them one after the other as they
// stand. Persist before record, record before Committed: the machine never hands out a later one before the earlier one was
// reported back as done.
using Slogger.Core.Cuts;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>What is to be done.</summary>
public enum ShardEffectKind : byte
{
    /// <summary>Write <see cref="ShardEffect.Marker"/> into the shared upstream before anything else is forwarded: what
    /// is forwarded after it belongs to <see cref="Marker.Next"/>. Only <see cref="ShardMachine.Tick"/> hands this out.</summary>
    SendMarker,

    /// <summary>As SendMarker, where versions end with a save: have it begin at that place (mode Bgsave: send BGSAVE).</summary>
    StartSave,

    /// <summary>Append <see cref="ShardEffect.Boundary"/> to the version log, at its offset. In mode Bgsave: keep the
    /// snapshot under this version.</summary>
    AppendBoundary,

    /// <summary>Note in the log that <see cref="ShardEffect.Boundary"/>'s version and all before it ended at its offset,
    /// which is that of the boundary before: later bytes may be in the log already and are not part of it.</summary>
    AppendEmptyRun,

    /// <summary>Make what was appended so far durable, then call <see cref="ShardMachine.LogDurable"/>.</summary>
    RequestSync,

    /// <summary>Record <see cref="ShardEffect.Claim"/> in the metadata; report exactly one result for its point
    /// (<see cref="ShardMachine.DurableRecorded"/>, RecordRefused or RecordUnavailable). Equal to what is recorded counts as
    /// recorded.</summary>
    RecordDurable,

    /// <summary>Everything up to <see cref="ShardEffect.Point"/> is committed: tell those who wait.</summary>
    Committed,

    /// <summary>The ordered end is reached.</summary>
    Stopped,

    /// <summary>Another node leads the shard: nothing more is committed here.</summary>
    Deposed,

    /// <summary>An invariant does not hold: stop the process, after showing <see cref="ShardEffect.Text"/>.</summary>
    Violation,
}

/// <summary>One effect; which members are set depends on the kind.</summary>
public readonly record struct ShardEffect(
    ShardEffectKind Kind, Marker Marker, Boundary Boundary, WorldPoint Point, string? Text)
{
    /// <summary>What the shard has durable, and where it can be restored to.</summary>
    public DurableClaim Claim { get; init; }
}

/// <summary>A reusable list of effects: cleared by its owner, filled by <see cref="ShardMachine"/>. Bounded: no input has
/// more than <see cref="Capacity"/> effects.</summary>
public sealed class ShardEffects
{
    /// <summary>How many effects fit.</summary>
    public const int Capacity = 16;

    private readonly ShardEffect[] _items = new ShardEffect[Capacity];

    /// <summary>How many there are.</summary>
    public int Count { get; private set; }

    /// <summary>The effects in order.</summary>
    public ReadOnlySpan<ShardEffect> Items => _items.AsSpan(0, Count);

    /// <summary>Forgets all.</summary>
    public void Clear() => Count = 0;

    internal void Add(ShardEffectKind kind, Marker marker = default, Boundary boundary = default, WorldPoint point = default,
        string? text = null,
        DurableClaim claim = default)
    {
        if (Count == Capacity) throw new InvalidOperationException("The effects of earlier inputs have not been taken and cleared.");
        _items[Count++] = new(kind, marker, boundary, point, text) { Claim = claim };
    }
}
