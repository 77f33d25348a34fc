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
    private readonly List<MoveEntry> _log = [];

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
        _log.Add(entry);
        Put(State, entry.Slot, entry.Value);
    }

    /// <summary>A version is closed, and those behind it that are empty.</summary>
    public void CloseBoundary(VersionNumber version, VersionNumber lastEmpty)
    {
        Boundaries.Add((version, _log.Count));
        Boundaries.Add((lastEmpty, _log.Count));
    }

    /// <summary>The state at a cut: at the last boundary of a version not above it.</summary>
    public Dictionary<int, int> StateAt(VersionNumber cut)
    {
        Dictionary<int, int> state = [];
        foreach (MoveEntry entry in _log.Take(LengthAt(cut))) Put(state, entry.Slot, entry.Value);
        return state;
    }

    /// <summary>What was executed up to a cut, each with the last version that was closed before it, and the one that it is in.</summary>
    public IEnumerable<(MoveEntry Entry, VersionNumber Behind, VersionNumber In)> ExecutedUpTo(VersionNumber cut)
    {
        foreach (((VersionNumber behind, int from), (VersionNumber version, int to)) in Boundaries.Zip(Boundaries.Skip(1)))
        {
            if (version > cut) yield break;
            foreach (MoveEntry entry in _log[from..to]) yield return (entry, behind, version);
        }
    }

    public void Restore(WorldLine worldLine, VersionNumber cut)
    {
        _log.RemoveRange(LengthAt(cut), _log.Count - LengthAt(cut));
        // The branch counts as closed in the new world-line.
        Boundaries = [.. Boundaries.Where(b => b.Version <= cut), (cut, _log.Count)];
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
