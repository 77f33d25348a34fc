// The effects that PartitionMove hands out, as data. Order is part of the contract: copied but for the last changes before
// withheld, withheld before renounced in the metadata, renounced before the last changes are copied, copied and closed before
// owned, in the cut before deleted, deleted, closed and in the cut before forgotten.
// The machine never hands out a later one before the earlier one was reported back as done.
namespace Slogger.Core.Ownership;

/// <summary>What is to be done.</summary>
public enum MoveEffectKind
{
    /// <summary>Old owner: from here on <see cref="ServedSlots.Ask"/> says that the slots are not served. End the blocked
    /// commands that wait for keys of theirs (what they wait for will come elsewhere), wait until all that was forwarded before
    /// has been answered, then call <see cref="ShardOwnership.Withheld"/>; if that takes too long,
    /// <see cref="ShardOwnership.NotReady"/>.</summary>
    Withhold,

    /// <summary>Perform <see cref="MoveEffect.Change"/> by <see cref="OwnershipTable.Apply"/> in one transaction of the metadata,
    /// then read the table and give it to <see cref="ShardOwnership.Read"/>; if it is not known what became of it, call
    /// <see cref="ShardOwnership.Unanswered"/> after a while.</summary>
    Write,

    /// <summary>New owner: delete what is here of the slots (an earlier attempt may have left some) and copy all of it from the
    /// old owner, who serves meanwhile. When little is missing have the old owner's <see cref="ShardOwnership.Ready"/> called; when
    /// the row says Leaving, copy what has changed since, which does not change any more, and call
    /// <see cref="ShardOwnership.Copied"/>. Where the way to the old owner breaks, its <see cref="ShardOwnership.NotReady"/> is
    /// called, and all begins again. The copy is written into versions, in order, like clients' writes.</summary>
    Import,

    /// <summary>Stop importing, if that is being done, delete what is here of the slots, then call
    /// <see cref="ShardOwnership.Discarded"/>. Deleted as by clients: in versions, in order.</summary>
    Discard,
}

/// <summary>One effect.</summary>
/// <param name="Kind">What.</param>
/// <param name="Move">The move, as the table had it.</param>
/// <param name="Change">With Write: the step.</param>
/// <param name="Attempt">With Withhold: to be given back.</param>
public readonly record struct MoveEffect(MoveEffectKind Kind, SlotMove Move, MoveChange Change = default, long Attempt = 0);

/// <summary>Deliberate faults for the tests of the tests; see ShardMutation.</summary>
internal enum MoveMutation
{
    None,

    /// <summary>The old owner serves on while the data is copied.</summary>
    ServesOn,

    /// <summary>The old owner renounces before all that it forwarded has been executed.</summary>
    LeavesBeforeWithheld,

    /// <summary>A copy counts for whatever the row says when it is complete.</summary>
    CopiesForAnyRow,

    /// <summary>The old owner serves again while its renunciation may still be on its way to the metadata.</summary>
    ServesBeforeTakenBack,

    /// <summary>The new owner owns before the version with the copy is closed.</summary>
    LandsBeforeBoundary,

    /// <summary>The new owner owns from a version that may not be behind the old owner's last.</summary>
    LandsAnywhere,

    /// <summary>The old owner deletes its data as soon as the new one owns.</summary>
    DiscardsBeforeCut,

    /// <summary>A move is forgotten although the deletion of data may be undone by a recovery.</summary>
    FinishesBeforeCut,

    /// <summary>A move is forgotten before the version with the deletion is closed.</summary>
    FinishesBeforeBoundary,

    /// <summary>Reports of an abandoned world-line count in the next.</summary>
    AnyWorldLine,

    /// <summary>An owner serves by the table of a world-line that it has not entered.</summary>
    ServesByAnyTable,
}
