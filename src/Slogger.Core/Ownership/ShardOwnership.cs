// What one process of a shard may serve (Served: what every command on its way to the store is asked for), and the shard's parts in
// the moves of slots. Two processes never both serve a slot in one world-line, because
// - a shard stops serving a slot by itself before anybody else can own it (PartitionMove), and
// - who takes a shard fences its store first: the store refuses what the process before still forwards.
//
// Contract with the caller
// - Calls are serialised; effects are performed in the order in which they are handed out.
// - A command is asked for once, when it is forwarded; the commands of a transaction once more at its EXEC. Withheld is called
//   when all that was asked for and forwarded before the effect has been answered, with the version that is open then.
// - BoundaryClosed is called when the marker was answered and read, or with the end of a run of empty versions; of a replicated shard when
//   a majority of its nodes has that.
// - All table reads, answers and cuts may be late, doubled or lost. A process starts with nothing but the table.
// - When the shard has been restored into a world-line the caller stops what it does for moves, then calls EnterWorldLine.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Ownership;

/// <summary>What one process of a shard owns. Not thread-safe. Source: DPR, section 5.3; design, section 7.</summary>
public sealed class ShardOwnership
{
    private readonly ShardId _self;
    private readonly OwnerEpoch _epoch;
    private readonly MoveMutation _mutation;
    private readonly List<PartitionMove> _moves = [];
    private OwnershipTable? _table;
    private WorldPoint _cut;

    /// <summary>A process that serves nothing yet: it has read no table.</summary>
    /// <param name="self">The shard.</param>
    /// <param name="epoch">The epoch of this process.</param>
    /// <param name="worldLine">The timeline that the shard is in.</param>
    public ShardOwnership(ShardId self, OwnerEpoch epoch, WorldLine worldLine)
        : this(self, epoch, worldLine, MoveMutation.None)
    {
    }

    internal ShardOwnership(ShardId self, OwnerEpoch epoch, WorldLine worldLine, MoveMutation mutation)
    {
        _self = self;
        _epoch = epoch;
        _mutation = mutation;
        _cut = new(worldLine, VersionNumber.Zero);
        Served = new(self, null);
    }

    /// <summary>The table in force; null before one of this world-line was read.</summary>
    public OwnershipTable? Table => _table?.WorldLine == _cut.WorldLine ? _table : null;

    /// <summary>What the front end goes by from now on. Another object when it has changed.</summary>
    public ServedSlots Served { get; private set; }

    /// <summary>The table was read. Older ones are ignored; one of a later world-line is kept, and counts once the shard has
    /// entered that.</summary>
    public void Read(OwnershipTable table, List<MoveEffect> effects)
    {
        ArgumentNullException.ThrowIfNull(table);
        ArgumentNullException.ThrowIfNull(effects);
        if (_table is not null && table.Revision < _table.Revision) return;
        _table = table;
        Follow(effects);
    }

    /// <summary>The shard was restored into a new timeline: what was under way for moves is over, and begins again by the
    /// table of that timeline.</summary>
    public void EnterWorldLine(WorldLine worldLine, List<MoveEffect> effects)
    {
        ArgumentNullException.ThrowIfNull(effects);
        if (worldLine <= _cut.WorldLine) return;
        _cut = new(worldLine, VersionNumber.Zero);
        _moves.Clear();
        Follow(effects);
    }

    /// <summary>Old owner: the copy of a move lacks only the last changes, and whoever copies waits for them.</summary>
    /// <returns>Whether the slots will be withheld, or are: if not, <see cref="NotReady"/> need not be called.</returns>
    public bool Ready(MoveId id, WorldLine worldLine, List<MoveEffect> effects)
    {
        if (!IsOfNow(worldLine) || Find(id) is not { } move) return false;
        bool ready = move.Ready(effects);
        Serve();
        return ready;
    }

    /// <summary>Old owner: all that was forwarded before the slots were withheld has been answered.</summary>
    /// <param name="id">The move.</param>
    /// <param name="attempt"><see cref="MoveEffect.Attempt"/>.</param>
    /// <param name="open">The version open then, in the timeline in which they were withheld.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Withheld(MoveId id, long attempt, WorldPoint open, List<MoveEffect> effects)
    {
        if (IsOfNow(open.WorldLine)) Find(id)?.Withheld(attempt, open.Version, effects);
    }

    /// <summary>Old owner: the copy has come to nothing, or it takes too long to withhold the slots.</summary>
    public void NotReady(MoveId id, WorldLine worldLine, List<MoveEffect> effects)
    {
        if (!IsOfNow(worldLine) || Find(id) is not { } move) return;
        move.NotReady(effects);
        Serve();
    }

    /// <summary>A version of this shard is closed.</summary>
    public void BoundaryClosed(WorldPoint closed, List<MoveEffect> effects)
    {
        if (!IsOfNow(closed.WorldLine)) return;
        foreach (PartitionMove move in _moves) move.BoundaryClosed(closed.Version, _cut.Version, effects);
    }

    /// <summary>An import is complete: all of its writes were answered.</summary>
    /// <param name="id">The move.</param>
    /// <param name="row">The revision of the row, Leaving, for which it is.</param>
    /// <param name="open">The version open then, in the timeline in which the import was handed out.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Copied(MoveId id, MapRevision row, WorldPoint open, List<MoveEffect> effects)
    {
        if (IsOfNow(open.WorldLine)) Find(id)?.Copied(row, open.Version, effects);
    }

    /// <summary>A deletion is complete: all of its commands were answered.</summary>
    /// <param name="id">The move.</param>
    /// <param name="open">The version open then, in the timeline in which the deletion was handed out.</param>
    public void Discarded(MoveId id, WorldPoint open)
    {
        if (IsOfNow(open.WorldLine)) Find(id)?.Discarded(open.Version);
    }

    /// <summary>The cluster's cut is recorded: a later recovery goes back to it or to less far.</summary>
    public void CutRecorded(WorldPoint cut, List<MoveEffect> effects)
    {
        if (!IsOfNow(cut.WorldLine) || cut.Version <= _cut.Version) return;
        _cut = _cut with { Version = cut.Version };
        foreach (PartitionMove move in _moves) move.CutRecorded(cut.Version, effects);
    }

    /// <summary>What became of writes is not known (the metadata cannot be reached, an answer was lost): hands out those again
    /// that the table does not show yet.</summary>
    public void Unanswered(List<MoveEffect> effects)
    {
        foreach (PartitionMove move in _moves) move.Unanswered(effects);
    }

    private bool IsOfNow(WorldLine worldLine) => worldLine == _cut.WorldLine || _mutation == MoveMutation.AnyWorldLine;

    private PartitionMove? Find(MoveId id) => _moves.Find(m => m.Row.Id == id);

    private void Follow(List<MoveEffect> effects)
    {
        if (Table is { } table)
        {
            _moves.RemoveAll(m => !table.Moves.Any(row => row.Id == m.Row.Id));
            foreach (SlotMove row in table.Moves)
            {
                if (row.From != _self && row.To != _self) continue;
                PartitionMove? move = Find(row.Id);
                if (move is null) _moves.Add(move = new(_self, _epoch, table.WorldLine, row, _mutation));
                move.Read(row, _cut.Version, effects);
            }
        }

        Serve();
    }

    private void Serve()
    {
        SlotMap? map = _mutation == MoveMutation.ServesByAnyTable ? _table?.Map : Table?.Map;
        bool[]? withheld = null;
        foreach (PartitionMove move in _moves)
        {
            if (!move.IsWithheld) continue;
            withheld ??= new bool[HashSlot.Count];
            foreach (SlotRange range in move.Row.Slots) Array.Fill(withheld, true, range.First.Number, range.Count);
        }

        if (!Served.IsSame(map, withheld)) Served = new(_self, map, withheld);
    }
}
