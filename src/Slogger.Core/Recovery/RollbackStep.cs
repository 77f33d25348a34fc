// The steps of a rollback in place, as RollbackInPlace gives them out.
namespace Slogger.Core.Recovery;

/// <summary>What is to be done next.</summary>
public enum RollbackStepKind
{
    /// <summary>End all clients' connections to the store: what they sent before is executed by now, or never.</summary>
    ShutOut,

    /// <summary>Read what stands above the branch, in the log and behind it in the store's stream, up to where the store stands: it names
    /// the keys to put back.</summary>
    ReadUndone,

    /// <summary>Find what gives those keys the values that they had at the branch. Reads the log up to the branch.</summary>
    Plan,

    /// <summary>Note durably that the store is on its way to a branch: a start that finds this restores everything.</summary>
    NoteStore,

    /// <summary>Begin the world-line in the log, at the branch. Durable when it is done.</summary>
    BeginWorldLine,

    /// <summary>Put the keys back, in one transaction.</summary>
    PutBack,

    /// <summary>Read the store's stream up to behind that transaction, and report <see cref="RollbackInPlace.Found"/>. Keys that somebody
    /// else wrote before it are those to put back next.</summary>
    FindTransaction,

    /// <summary>Wait until the steps that are done beside the others have been done.</summary>
    AwaitBranch,

    /// <summary>Give the keys that were put back their expiries again, which were far away until now.</summary>
    GiveExpiriesBack,

    /// <summary>Attach to the store's stream at <see cref="RollbackStep.At"/>.</summary>
    Attach,

    /// <summary>Fill the log from the branch to <see cref="RollbackStep.At"/> with what does nothing.</summary>
    FillLog,

    /// <summary>Note in the log the identity of the stream that it goes on with. Durable when it is done, with all before it.</summary>
    SetIdentity,

    /// <summary>Forget the note.</summary>
    ForgetNote,

    /// <summary>The log and the shard go on with the stream.</summary>
    Follow,
}

/// <summary>A place in a store's stream.</summary>
/// <param name="Offset">Its offset.</param>
/// <param name="Database">The database selected there.</param>
public readonly record struct RollbackPlace(long Offset, int Database);

/// <summary>A step, and what it is done with.</summary>
/// <param name="Kind">What is done.</param>
public readonly record struct RollbackStep(RollbackStepKind Kind)
{
    /// <summary>It is done behind the one before that is, and beside all others that follow, until
    /// <see cref="RollbackStepKind.AwaitBranch"/>.</summary>
    public bool IsBeside { get; init; }

    /// <summary>A place in the store's stream.</summary>
    public RollbackPlace At { get; init; }
}
