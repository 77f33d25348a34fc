// Which checkpoints stay, and down to where the log does: what is promised by age, as far as a budget allows, what somebody reads, and what
// a restore may need. Deleting a checkpoint shortens the past; what the log has between those that stay is TilePlan's business.
namespace Slogger.Core.Retention;

/// <summary>A checkpoint as it lies in the log.</summary>
/// <param name="Offset">Its offset.</param>
/// <param name="IsTileEnd">Whether a reduced file begins at it, or leads up to it.</param>
public readonly record struct PruneBase(long Offset, bool IsTileEnd);

/// <summary>A tile, and what it takes of the disk.</summary>
/// <param name="Offset">Its checkpoint's offset.</param>
/// <param name="Bytes">Bytes of the checkpoint and of its reduced file.</param>
public readonly record struct TileSize(long Offset, long Bytes);

/// <summary>Decides what is pruned.</summary>
public static class PrunePlan
{
    /// <summary>The offset that any later restore, and whoever reads the past, is at or above.</summary>
    /// <param name="cut">Where the recorded cut is.</param>
    /// <param name="held">From where on somebody reads: see <see cref="HeldFrom"/>.</param>
    /// <param name="byBudget">Below it is what has no room: see <see cref="BudgetFrom"/>.</param>
    /// <param name="byAge">From where on the past is promised; 0: all of it, or it cannot be told.</param>
    public static long Below(long cut, long held, long byBudget, long byAge) => Below(cut, held, byBudget, byAge, PastMutation.None);

    internal static long Below(long cut, long held, long byBudget, long byAge, PastMutation mutation) =>
        Math.Min(mutation == PastMutation.PruneIgnoresHold ? cut : Math.Min(cut, held), Math.Max(byBudget, byAge));

    /// <summary>From where on the log is needed by those who read. Who reads without an end does not fill the disk.</summary>
    /// <param name="lowest">Where the lowest of them reads.</param>
    /// <param name="logBytes">Bytes of the log.</param>
    /// <param name="budget">How many it is to have at most.</param>
    public static long HeldFrom(long lowest, long logBytes, long budget) => logBytes > 2 * budget ? long.MaxValue : lowest;

    /// <summary>From where on each version is kept. No more than what has been promised is; and of the budget no more than half, with the
    /// log of two checkpoints that stays in any case.</summary>
    /// <param name="logEnd">Where the log ends.</param>
    /// <param name="budget">How many bytes it is to have at most.</param>
    /// <param name="every">After how many bytes there is a checkpoint.</param>
    /// <param name="byAge">From where on it is promised.</param>
    public static long DetailFrom(long logEnd, long budget, long every, long byAge) =>
        Math.Max(logEnd - Math.Max(0, (budget / 2) - (2 * every)), byAge);

    /// <summary>Below it is what has no room: first what is reduced, and then the log itself.</summary>
    /// <param name="logStart">Where the log begins.</param>
    /// <param name="logEnd">Where it ends.</param>
    /// <param name="room">How many bytes there is room for.</param>
    /// <param name="tiles">The tiles, by rising offset.</param>
    public static long BudgetFrom(long logStart, long logEnd, long room, IReadOnlyList<TileSize> tiles)
    {
        ArgumentNullException.ThrowIfNull(tiles);
        long byLog = Math.Max(0, logEnd - room);
        if (byLog > logStart) { return byLog; }
        room -= logEnd - logStart;
        for (int i = tiles.Count - 1; i >= 0; i--)
        {
            if (tiles[i].Offset < logStart && (room -= tiles[i].Bytes) < 0) { return i + 1 < tiles.Count ? tiles[i + 1].Offset : 0; }
        }
        return byLog;
    }

    /// <summary>Of the checkpoints at or below an offset the newest stay; of those above it, where an earlier point may still be the one to
    /// restore, those that lie a certain way apart, and the newest. The two that a reduced file lies between stay, unless they are the
    /// oldest.</summary>
    /// <param name="usable">The checkpoints that the log, or a reduced file, leads on from, by rising offset.</param>
    /// <param name="keep">How many to keep at or below <paramref name="offset"/>; at least 1.</param>
    /// <param name="offset">See <see cref="Below(long, long, long, long)"/>.</param>
    /// <param name="apart">Bytes of log that a restore of an earlier point may have to replay; 0: every checkpoint stays.</param>
    /// <param name="hasGap">Whether bytes are missing in the log between two offsets: then it can be replayed from no earlier one.</param>
    /// <returns>The places of those that stay.</returns>
    public static IReadOnlyList<int> Kept(IReadOnlyList<PruneBase> usable, int keep, long offset, long apart, Func<long, long, bool> hasGap) =>
        Kept(usable, keep, offset, apart, hasGap, PastMutation.None);

    internal static IReadOnlyList<int> Kept(IReadOnlyList<PruneBase> usable, int keep, long offset, long apart,
        Func<long, long, bool> hasGap, PastMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(usable);
        ArgumentNullException.ThrowIfNull(hasGap);
        ArgumentOutOfRangeException.ThrowIfLessThan(keep, 1);
        int above = usable.Count(c => c.Offset <= offset);
        List<int> kept = [.. Enumerable.Range(Math.Max(0, above - keep), Math.Min(above, keep))];
        for (int i = above; i < usable.Count; i++)
        {
            bool isNewest = usable.Count - i <= keep;
            bool isTileEnd = usable[i].IsTileEnd && mutation != PastMutation.PruneBreaksChain;
            if (isNewest || isTileEnd || kept.Count == 0 || hasGap(usable[kept[^1]].Offset, usable[i].Offset)
                || usable[i].Offset - usable[kept[^1]].Offset >= apart)
            {
                kept.Add(i);
            }
        }
        return kept;
    }

    /// <summary>The checkpoints from which the log, or a reduced file up to the next one of them, leads on: oldest first, without a hole.
    /// </summary>
    /// <typeparam name="T">A checkpoint.</typeparam>
    /// <param name="newestFirst">Those that are of the log's history.</param>
    /// <param name="logStart">Where the log begins.</param>
    /// <param name="offsetOf">Where one lies.</param>
    /// <param name="isReducedUpTo">Whether a reduced file of the first leads up to the second.</param>
    public static List<T> Reachable<T>(IEnumerable<T> newestFirst, long logStart, Func<T, long> offsetOf, Func<T, T, bool> isReducedUpTo)
    {
        ArgumentNullException.ThrowIfNull(newestFirst);
        ArgumentNullException.ThrowIfNull(offsetOf);
        ArgumentNullException.ThrowIfNull(isReducedUpTo);
        var reachable = new List<T>();
        foreach (T c in newestFirst)
        {
            if (offsetOf(c) < logStart && (reachable.Count == 0 || !isReducedUpTo(c, reachable[^1]))) { break; }
            reachable.Add(c);
        }
        reachable.Reverse();
        return reachable;
    }
}
