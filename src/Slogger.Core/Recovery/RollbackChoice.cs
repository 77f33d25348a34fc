// Whether a rollback in place is possible, whether it is worth trying, and how much it may take before a full restore would be the faster
// way. Pure. The speeds were measured on a machine of two cores; that they are rough does no harm, since both ways lead to the same state.
namespace Slogger.Core.Recovery;

/// <summary>What a rollback in place may take.</summary>
/// <param name="Keys">Keys put back at most.</param>
/// <param name="Commands">Commands of the log that are executed again at most.</param>
public readonly record struct RollbackBudget(int Keys, int Commands);

/// <summary>What decides whether a store goes back in place.</summary>
public sealed record RollbackFacts
{
    /// <summary>The operator has not asked for full restores.</summary>
    public required bool IsWanted { get; init; }

    /// <inheritdoc cref="RollbackChoice.IsOnHistory"/>
    public required bool IsOnHistory { get; init; }

    /// <summary>A rollback of this store was cut short, and its note is there.</summary>
    public required bool IsNoted { get; init; }

    /// <summary>Data was changed past the log, and nothing that is committed holds that yet.</summary>
    public required bool IsUnlogged { get; init; }

    /// <summary>There is an index of a checkpoint at or below the branch.</summary>
    public required bool IsIndexed { get; init; }

    /// <summary>The log lacks a part between that checkpoint and its end.</summary>
    public required bool HasGap { get; init; }

    /// <summary>What it may take; null if a full restore is faster, whatever was written.</summary>
    public required RollbackBudget? Budget { get; init; }
}

/// <summary>The choice between a rollback in place and a full restore.</summary>
public static class RollbackChoice
{
    // A full restore: what it takes at least, what Redis loads of a checkpoint, and what it executes of a log.
    private const long FullMicroseconds = 60_000;
    private const long LoadedBytesPerMillisecond = 100_000;
    private const long ReplayedBytesPerMillisecond = 60_000;

    // In place: reading a tail of which there is no index yet; a key's look-up and RESTORE; a command.
    private const long ReadBytesPerMillisecond = 200_000;
    private const int MicrosecondsPerKey = 15;
    private const int MicrosecondsPerCommand = 5;
    private const int BudgetMax = 250_000;

    /// <summary>How long a full restore takes, in microseconds, roughly.</summary>
    /// <param name="checkpointBytes">Size of the checkpoint.</param>
    /// <param name="tailBytes">Bytes of the log on top of it.</param>
    public static long FullUs(long checkpointBytes, long tailBytes) =>
        FullMicroseconds + (checkpointBytes * 1000 / LoadedBytesPerMillisecond) + (tailBytes * 1000 / ReplayedBytesPerMillisecond);

    /// <summary>What a rollback in place may take to be the faster way; null if it is not, whatever was written.</summary>
    /// <param name="fullUs">How long the full restore takes, in microseconds.</param>
    /// <param name="unreadTailBytes">Bytes of the log's tail that are to be read first.</param>
    public static RollbackBudget? BudgetFor(long fullUs, long unreadTailBytes)
    {
        long left = fullUs - (unreadTailBytes * 1000 / ReadBytesPerMillisecond);
        return left <= 0 ? null : new RollbackBudget((int)Math.Min(BudgetMax, left / MicrosecondsPerKey),
            (int)Math.Min(BudgetMax, left / MicrosecondsPerCommand));
    }

    /// <summary>Whether a store has all that the log has, and whatever it has beyond that comes in its stream.</summary>
    /// <param name="isSame">Whether it is a master, and of the identity that the log says.</param>
    /// <param name="storeOffset">Where the store stands.</param>
    /// <param name="logEnd">Where the log ends.</param>
    public static bool IsOnHistory(bool isSame, long storeOffset, long logEnd) => isSame && storeOffset >= logEnd;

    /// <summary>Why a store cannot go back in place, for a person; null if it can.</summary>
    public static string? WhyNot(RollbackFacts facts) => WhyNot(facts, RollbackMutation.None);

    internal static string? WhyNot(RollbackFacts facts, RollbackMutation mutation) =>
        !facts.IsWanted ? "--rollback full"
        : !facts.IsOnHistory && mutation != RollbackMutation.AnyHistoryGoesBack ? "the store is not on the log's history"
        : facts.IsNoted ? "a rollback of this store was cut short"
        : facts.IsUnlogged ? "data was changed past the log, and no checkpoint that is committed holds that yet"
        : !facts.IsIndexed ? "there is no index of a checkpoint yet"
        : facts.HasGap ? "part of the stream was not read, since Redis's backlog did not reach back"
        : facts.Budget is null ? "too much of the log has not been read yet"
        : null;
}
