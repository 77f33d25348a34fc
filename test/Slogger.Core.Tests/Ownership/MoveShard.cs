// A shard of the model: a store that executes what is forwarded to it in order, a log that can be cut back to a boundary, and
// the process that owns it for now.
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Tests.Ownership;

/// <summary>A process of a shard. Dead ones may still have writes on their way to the metadata; those that only sleep may
/// still be asked.</summary>
internal sealed class MoveProcess(ShardId shard, OwnerEpoch epoch, WorldLine worldLine, MoveMutation mutation)
{
    public ShardId Shard { get; } = shard;
    public OwnerEpoch Epoch { get; } = epoch;
    public WorldLine WorldLine { get; set; } = worldLine;
    public ShardOwnership Ownership { get; } = new(shard, epoch, worldLine, mutation);
    public long LeaseUntilUs { get; set; }
    /// <summary>The moves that are not to be imported any more.</summary>
    public HashSet<MoveId> Stopped { get; } = [];
    public bool IsCurrent { get; set; } = true;
}

/// <summary>Something on its way to the store.</summary>
/// <param name="Slot">The key; one per slot.</param>
/// <param name="Value">What it becomes; 0 deletes it.</param>
/// <param name="IsClients">Whether it is a client's operation, and is checked against the history.</param>
/// <param name="Stamp">The version it was forwarded in.</param>
/// <param name="Then">What its answer starts.</param>
internal sealed record MoveEntry(int Slot, int Value, bool IsClients, VersionNumber Stamp, Action? Then = null);

internal sealed class MoveShard(ShardId id)
{
    private readonly List<(int Slot, int Value)> _log = [];

    public ShardId Id { get; } = id;
    public MoveProcess? Process { get; set; }
    public OwnerEpoch Epoch { get; set; }
    public long PreviousLeaseUntilUs { get; set; }
    public WorldLine WorldLine { get; set; } = WorldLine.First;
    public VersionNumber Open { get; set; } = new(1);
    public Queue<MoveEntry> Forwarded { get; } = new();
    public Dictionary<int, int> State { get; private set; } = [];
    public List<(VersionNumber Version, int Length)> Boundaries { get; private set; } = [(VersionNumber.Zero, 0)];

    /// <summary>Up to here its log is synced: it can be restored to no less, and to no more than this.</summary>
    public VersionNumber Durable { get; set; }

    /// <summary>What is closed but perhaps not synced.</summary>
    public VersionNumber Closed { get; set; }

    public void Execute(MoveEntry entry)
    {
        _log.Add((entry.Slot, entry.Value));
        Put(State, entry.Slot, entry.Value);
    }

    public void CloseBoundary(VersionNumber version) => Boundaries.Add((version, _log.Count));

    /// <summary>The state at a cut: at the last boundary of a version not above it.</summary>
    public Dictionary<int, int> StateAt(VersionNumber cut)
    {
        Dictionary<int, int> state = [];
        foreach ((int slot, int value) in _log.Take(LengthAt(cut))) Put(state, slot, value);
        return state;
    }

    public void Restore(WorldLine worldLine, VersionNumber cut)
    {
        _log.RemoveRange(LengthAt(cut), _log.Count - LengthAt(cut));
        Boundaries = [.. Boundaries.Where(b => b.Version <= cut)];
        State = StateAt(cut);
        Forwarded.Clear();
        WorldLine = worldLine;
        Durable = Closed = cut;
    }

    private int LengthAt(VersionNumber cut) => Boundaries.Last(b => b.Version <= cut).Length;

    private static void Put(Dictionary<int, int> state, int slot, int value)
    {
        if (value == 0) state.Remove(slot);
        else state[slot] = value;
    }
}
