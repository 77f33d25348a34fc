// Whether a rollback in place is worth trying, and how much it may take before a full restore would be the faster way. Pure. The
// speeds were measured on a machine of two cores; that they are rough does no harm, since both ways lead to the same state.
namespace Slogger.Core.Recovery;

/// <summary>What a rollback in place may take.</summary>
/// <param name="Keys">Keys put back at most.</param>
/// <param name="Commands">Commands of the log that are executed again at most.</param>
public readonly record struct RollbackBudget(int Keys, int Commands);

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
}
