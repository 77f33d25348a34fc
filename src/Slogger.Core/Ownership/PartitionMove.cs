// One shard's part in one move of slots at a version boundary (paper, section 5.3; design, section 7): what it does, when,
// and what it may not do yet. ShardOwnership drives it.
//
// Old owner                                         New owner
//   Planned: serves until the next version opens
//   Withhold
//   that version closed:  Write Planned -> Leaving
//                                                   Leaving: Import
//                                                   a version closed that holds the copy, and lies behind the
//                                                   boundary:  Write Leaving -> Landed; then it serves
//   Landed, recorded cut at or above the landing:
//   Discard
//   a version closed that holds the deletion, recorded
//   cut at or above it:
//   Write Landed -> Finished                        (Cancelled: the new owner discards and finishes likewise)
//
// A crash at any step: a successor of the process, in the same world-line, starts from the row. Planned: it serves, and
// begins again. Leaving: the old owner does not serve; the new one imports again. Landed or Cancelled: the loser discards
// again. A crash that costs history starts a world-line, and OwnershipTable.Recover has decided: the move begins again, or
// it had landed within the cut. What a predecessor still had on its way to the metadata fails by its epoch.
using Slogger.Core.Shards;
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Ownership;

/// <summary>One shard's part in one move, in one world-line. Not thread-safe.</summary>
internal sealed class PartitionMove(ShardId self, OwnerEpoch epoch, WorldLine worldLine, SlotMove row, MoveMutation mutation)
{
    private Version? _lastServed;      // old owner: the last version in which it served
    private Version? _copied;          // new owner: open when the copy was complete
    private Version? _discarded;       // loser: open when the deletion was complete
    private Version? _gone;            // loser: closed since, so that the deletion is before its boundary
    private bool _importing;
    private bool _discarding;
    private MoveChange? _pending;      // handed out, and not seen in the row yet

    /// <summary>The row, as last read.</summary>
    public SlotMove Row { get; private set; } = row;

    /// <summary>Whether this shard owns the slots by the row but does not serve them.</summary>
    public bool IsWithheld => IsOld && mutation != MoveMutation.ServesOn
        && (Row.State == MoveState.Leaving || (Row.State == MoveState.Planned && _lastServed is not null));

    private bool IsOld => Row.From == self;

    private bool IsNew => Row.To == self;

    /// <summary>The row was read; it may be the same as before.</summary>
    public void Read(SlotMove row, Version cut, List<MoveEffect> effects)
    {
        Row = row;
        if (_pending is { } pending && pending.State != row.State) _pending = null;
        if (IsNew && row.State == MoveState.Leaving && !_importing)
        {
            _importing = true;
            effects.Add(new(MoveEffectKind.Import, row));
        }

        CutRecorded(cut, effects);
    }

    /// <summary>What is forwarded from here on belongs to another version.</summary>
    public void VersionOpened(Version open, List<MoveEffect> effects)
    {
        if (!IsOld || Row.State != MoveState.Planned || _lastServed is not null) return;
        _lastServed = open.Previous;
        effects.Add(new(MoveEffectKind.Withhold, Row));
        if (mutation == MoveMutation.LeavesBeforeBoundary) Write(MoveState.Leaving, open.Previous, effects);
    }

    /// <summary>A version is closed: all that was forwarded in it, or before, was executed before its boundary.</summary>
    public void BoundaryClosed(Version closed, Version cut, List<MoveEffect> effects)
    {
        if (_gone is null && _discarded <= closed)
        {
            _gone = closed;
            CutRecorded(cut, effects);
        }

        if (_pending is not null) return;
        if (IsOld && Row.State == MoveState.Planned && _lastServed <= closed)
            Write(MoveState.Leaving, closed, effects);
        else if (IsNew && Row.State == MoveState.Leaving && _copied <= closed && (closed > Row.Boundary || mutation == MoveMutation.LandsAnywhere))
            Write(MoveState.Landed, closed, effects);
    }

    /// <summary>The import is complete: every write of it was answered.</summary>
    /// <param name="open">The version open then.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Copied(Version open, List<MoveEffect> effects)
    {
        if (!_importing || Row.State != MoveState.Leaving) return;
        _copied = open;
        if (mutation == MoveMutation.LandsBeforeBoundary && open > Row.Boundary) Write(MoveState.Landed, open, effects);
    }

    /// <summary>The deletion is complete: every command of it was answered.</summary>
    /// <param name="open">The version open then.</param>
    public void Discarded(Version open)
    {
        if (!_discarding) return;
        _discarded = open;
        if (mutation == MoveMutation.FinishesBeforeBoundary) _gone = open;
    }

    /// <summary>The cluster's recorded cut, in this world-line.</summary>
    public void CutRecorded(Version cut, List<MoveEffect> effects)
    {
        if (Row.Loser != self || Row.State is not (MoveState.Landed or MoveState.Cancelled)) return;
        bool mayDiscard = Row.State == MoveState.Cancelled || cut >= Row.Landed || mutation == MoveMutation.DiscardsBeforeCut;
        if (!_discarding && mayDiscard)
        {
            _discarding = true;
            effects.Add(new(MoveEffectKind.Discard, Row));
        }
        else if (_pending is null && (_gone <= cut || (_gone is not null && mutation == MoveMutation.FinishesBeforeCut)))
        {
            Write(MoveState.Finished, Version.Zero, effects);
        }
    }

    /// <summary>What became of the last write is not known: the same is to be written again, and nothing else may be.</summary>
    public void Unanswered(List<MoveEffect> effects)
    {
        if (_pending is { } pending) effects.Add(new(MoveEffectKind.Write, Row, pending));
    }

    private void Write(MoveState next, Version version, List<MoveEffect> effects)
    {
        _pending = new(Row.Id, worldLine, Row.State, next, version, self, epoch);
        effects.Add(new(MoveEffectKind.Write, Row, _pending.Value));
    }
}
