// One shard's part in one move of slots at a version boundary (paper, section 5.3; design, section 7): what it does, when,
// and what it may not do yet. ShardOwnership drives it.
//
// Old owner                                         New owner
//   Planned: serves                                 Planned: Import
//                                                   only the last changes are missing
//   Ready: Withhold
//   Withheld, all that it served has been executed:
//   Write Planned -> Leaving
//                                                   the last changes are copied: Copied
//                                                   a version closed that holds the copy, and lies behind the
//                                                   boundary:  Write Leaving -> Landed; then it serves
//   Landed, recorded cut at or above the landing:
//   Discard
//   a version closed that holds the deletion, recorded
//   cut at or above it:
//   Write Landed -> Finished                        (Cancelled: the new owner discards and finishes likewise)
//
// Between Leaving and Landed nobody serves. That must not last: an old owner that hears no more of the copy (NotReady; its own
// restart) takes its renunciation back, Leaving -> Planned, and serves again. The new owner may be about to land all the same: of
// the two writes the metadata takes one. A row that was taken back has another revision when it is Leaving again, so that
// nothing of the attempt before counts for it.
//
// A crash at any step: a successor of the process, in the same world-line, starts from the row. Planned: it serves, and the copy
// begins again. Leaving: the old owner takes it back. Landed or Cancelled: the loser discards again. A crash that costs history
// starts a world-line, and OwnershipTable.Recover has decided: the move begins again, or it had landed within the cut. What a
// predecessor still had on its way to the metadata fails by its epoch.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Ownership;

/// <summary>One shard's part in one move, in one world-line. Not thread-safe.</summary>
internal sealed class PartitionMove(ShardId self, OwnerEpoch epoch, WorldLine worldLine, SlotMove row, MoveMutation mutation)
{
    private bool _ready;               // old owner: the copy lacks the last changes only, and its way is open
    private long _attempt;             // old owner: counts how often that was said
    private VersionNumber? _copied;          // new owner: open when the copy was complete
    private MapRevision _copiedOf;     // new owner: the row that it was complete for
    private VersionNumber? _discarded;       // loser: open when the deletion was complete
    private VersionNumber? _gone;            // loser: closed since, so that the deletion is before its boundary
    private bool _importing;
    private bool _discarding;
    private MoveChange? _pending;      // handed out, and not seen in the row yet

    /// <summary>The row, as last read.</summary>
    public SlotMove Row { get; private set; } = row;

    /// <summary>Whether this shard owns the slots by the row but does not serve them.</summary>
    public bool IsWithheld => IsOld && mutation != MoveMutation.ServesOn
        && (Row.State == MoveState.Leaving || (Row.State == MoveState.Planned && (_ready || RenouncesStill)));

    private bool RenouncesStill => _pending is { Next: MoveState.Leaving } && mutation != MoveMutation.ServesBeforeTakenBack;

    private bool IsOld => Row.From == self;

    private bool IsNew => Row.To == self;

    /// <summary>The row was read; it may be the same as before.</summary>
    public void Read(SlotMove row, VersionNumber cut, List<MoveEffect> effects)
    {
        bool changed = row.Changed != Row.Changed;
        Row = row;
        if (_pending is { } pending && pending.Expected != row.Changed) _pending = null;
        // Ready was said of the row before: a renunciation follows from it, anything else ends it.
        if (changed && row.State != MoveState.Leaving) _ready = false;
        if (IsNew && row.State is MoveState.Planned or MoveState.Leaving && !_importing)
        {
            _importing = true;
            effects.Add(new(MoveEffectKind.Import, row));
        }

        TakeBack(effects);
        if (mutation == MoveMutation.LandsBeforeBoundary) Land(_copied, effects);
        CutRecorded(cut, effects);
    }

    /// <summary>Old owner: the copy lacks only the last changes.</summary>
    /// <returns>Whether that is of use: if not, the copy begins again later.</returns>
    public bool Ready(List<MoveEffect> effects)
    {
        if (!IsOld || Row.State != MoveState.Planned || _pending is not null) return false;
        if (_ready) return true;
        _ready = true;
        effects.Add(new(MoveEffectKind.Withhold, Row, Attempt: ++_attempt));
        if (mutation == MoveMutation.LeavesBeforeWithheld) Write(MoveState.Leaving, new(1), effects);
        return true;
    }

    /// <summary>Old owner: all that was forwarded before the slots were withheld has been answered.</summary>
    /// <param name="attempt">For which of the effects; what was withheld for one before may have been served again since.</param>
    /// <param name="open">The version open then.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Withheld(long attempt, VersionNumber open, List<MoveEffect> effects)
    {
        if (_ready && attempt == _attempt && Row.State == MoveState.Planned && _pending is null) Write(MoveState.Leaving, open, effects);
    }

    /// <summary>Old owner: the copy has come to nothing; another may begin.</summary>
    public void NotReady(List<MoveEffect> effects)
    {
        _ready = false;
        TakeBack(effects);
    }

    /// <summary>A version is closed: all that was forwarded in it, or before, was executed before its boundary.</summary>
    public void BoundaryClosed(VersionNumber closed, VersionNumber cut, List<MoveEffect> effects)
    {
        if (_gone is null && _discarded <= closed)
        {
            _gone = closed;
            CutRecorded(cut, effects);
        }

        if (_copied <= closed) Land(closed, effects);
    }

    /// <summary>The copy is complete: every write of it was answered.</summary>
    /// <param name="row">The revision of the row, Leaving, since which nothing has changed at the old owner.</param>
    /// <param name="open">The version open then.</param>
    /// <param name="effects">Receives what is to be done.</param>
    public void Copied(MapRevision row, VersionNumber open, List<MoveEffect> effects)
    {
        if (!IsNew || !_importing || Row.State is not (MoveState.Planned or MoveState.Leaving) || row < _copiedOf) return;
        _copied = open;
        _copiedOf = row;
        if (mutation == MoveMutation.LandsBeforeBoundary) Land(open, effects);
    }

    /// <summary>The deletion is complete: every command of it was answered.</summary>
    /// <param name="open">The version open then.</param>
    public void Discarded(VersionNumber open)
    {
        if (!_discarding) return;
        _discarded = open;
        if (mutation == MoveMutation.FinishesBeforeBoundary) _gone = open;
    }

    /// <summary>The cluster's recorded cut, in this world-line.</summary>
    public void CutRecorded(VersionNumber cut, List<MoveEffect> effects)
    {
        if (Row.Loser != self || Row.State is not (MoveState.Landed or MoveState.Cancelled)) return;
        bool mayDiscard = Row.State == MoveState.Cancelled || cut >= Row.Landed || mutation == MoveMutation.DiscardsBeforeCut;
        if (!_discarding && mayDiscard)
        {
            _discarding = true;
            effects.Add(new(MoveEffectKind.Discard, Row));
        }
        else if (_pending is null && _gone is { } gone && (gone <= cut || mutation == MoveMutation.FinishesBeforeCut))
        {
            Write(MoveState.Finished, gone, effects);
        }
    }

    /// <summary>What became of the last write is not known: the same is to be written again, and nothing else may be.</summary>
    public void Unanswered(List<MoveEffect> effects)
    {
        if (_pending is { } pending) effects.Add(new(MoveEffectKind.Write, Row, pending));
    }

    private bool IsCopied => _copied is not null && (_copiedOf == Row.Changed || mutation == MoveMutation.CopiesForAnyRow);

    private void Land(VersionNumber? version, List<MoveEffect> effects)
    {
        if (version is not { } landing || !IsNew || Row.State != MoveState.Leaving || _pending is not null || !IsCopied) return;
        if (landing > Row.Boundary || mutation == MoveMutation.LandsAnywhere) Write(MoveState.Landed, landing, effects);
    }

    private void TakeBack(List<MoveEffect> effects)
    {
        if (IsOld && Row.State == MoveState.Leaving && !_ready && _pending is null) Write(MoveState.Planned, VersionNumber.Zero, effects);
    }

    private void Write(MoveState next, VersionNumber version, List<MoveEffect> effects)
    {
        _pending = new(Row.Id, worldLine, Row.Changed, Row.State, next, version, self, epoch);
        effects.Add(new(MoveEffectKind.Write, Row, _pending.Value));
    }
}
