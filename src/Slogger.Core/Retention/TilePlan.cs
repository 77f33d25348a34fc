// How the past of a shard is tiled, what is reduced next, and what raw log may be deleted then.
//
// The tiles. Each checkpoint that is kept begins one, which goes up to the next checkpoint; the last one goes up to the log's end. A tile
// is raw, as long as the log has all that follows its checkpoint, or reduced: then a file has the same, as fewer commands, which lead
// from window to window. Reduced tiles lie below raw ones. Invariant R3: they cover what is kept without a hole and without an overlap.
//
// The rules. A tile is reduced from the oldest on, when its end lies
//  - at or below the recorded cut: nothing goes back below that;
//  - at or below what is kept in detail, what somebody reads, and what another log lacks;
//  - and when the raw log keeps as many checkpoints at or below all of these as a restore wants to have.
// Raw log is deleted below the first checkpoint whose tile is not reduced, in a file that is durable; never above what another log lacks.
using Slogger.Core.Identities;

namespace Slogger.Core.Retention;

/// <summary>A checkpoint that is kept, and begins a tile.</summary>
/// <param name="Offset">Where it lies in the log.</param>
/// <param name="IsReduced">Whether a file has what follows it, durably, exactly up to the next one.</param>
public readonly record struct TileBase(long Offset, bool IsReduced);

/// <summary>Up to where raw log is not needed. All of them are offsets in it; <see cref="long.MaxValue"/>: it is not needed for that.
/// </summary>
public readonly record struct RawBounds
{
    /// <summary>Where the recorded cut is.</summary>
    public required long Cut { get; init; }

    /// <summary>From where on each version is kept.</summary>
    public required long Detail { get; init; }

    /// <summary>From where on somebody reads.</summary>
    public required long Held { get; init; }

    /// <summary>From where on another log lacks it.</summary>
    public required long Needed { get; init; }
}

/// <summary>What is to be done.</summary>
/// <param name="RawFrom">Raw log below this offset may be deleted.</param>
/// <param name="Reduced">How many tiles are reduced, from the oldest on. The next ones are to be reduced, up to those that stay.</param>
/// <param name="Stays">The first one that stays raw.</param>
public readonly record struct TilePlan(long RawFrom, int Reduced, int Stays)
{
    /// <summary>Makes the plan.</summary>
    /// <param name="bases">The checkpoints that are kept, by rising offset; at least one.</param>
    /// <param name="bounds">Up to where raw log is not needed.</param>
    /// <param name="kept">How many checkpoints at or below these bounds the raw log keeps; at least 1.</param>
    /// <exception cref="BrokenInvariantException">The plan would leave a hole.</exception>
    public static TilePlan Of(IReadOnlyList<TileBase> bases, in RawBounds bounds, int kept) => Of(bases, bounds, kept, TileMutation.None);

    internal static TilePlan Of(IReadOnlyList<TileBase> bases, in RawBounds bounds, int kept, TileMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(bases);
        ArgumentOutOfRangeException.ThrowIfZero(bases.Count, nameof(bases));
        ArgumentOutOfRangeException.ThrowIfLessThan(kept, 1);
        long cut = mutation == TileMutation.IgnoresCut ? long.MaxValue : bounds.Cut;
        long detail = mutation == TileMutation.IgnoresDetail ? long.MaxValue : bounds.Detail;
        long held = mutation == TileMutation.IgnoresHold ? long.MaxValue : bounds.Held;
        long needed = mutation == TileMutation.IgnoresNeeded ? long.MaxValue : bounds.Needed;
        long below = Math.Min(Math.Min(cut, detail), Math.Min(held, needed));
        int free = bases.Count(b => b.Offset <= below), stay = mutation == TileMutation.KeepsOneLess ? kept - 1 : kept;
        int raw = Math.Clamp(free - stay, 0, bases.Count - 1), reduced = 0;
        while (reduced < raw && (bases[reduced].IsReduced || mutation == TileMutation.SkipsUnreduced)) { reduced++; }
        int first = mutation == TileMutation.DeletesUnreduced ? raw : reduced;
        var plan = new TilePlan(Math.Min(bases[first].Offset, needed), reduced, raw);
        if (mutation == TileMutation.None && HoleIn(bases, plan.RawFrom) is { } hole)
        {
            throw new BrokenInvariantException(
                $"R3: without the raw log below {plan.RawFrom} nothing leads on from the checkpoint at {hole}.");
        }
        return plan;
    }

    /// <summary>What is to be reduced now.</summary>
    /// <param name="isIdle">Whether no version ends between a checkpoint and the next one: nothing is read from it, and a tile that has
    /// nothing could not be reduced.</param>
    /// <returns>The checkpoints, as their places, between which the log is to be reduced, in order; and those that are to be deleted
    /// before, so that the tile below goes on to the next one.</returns>
    public (IReadOnlyList<int> Between, IReadOnlyList<int> Idle) Next(Func<int, bool> isIdle) => Next(isIdle, TileMutation.None);

    internal (IReadOnlyList<int> Between, IReadOnlyList<int> Idle) Next(Func<int, bool> isIdle, TileMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(isIdle);
        if (Reduced >= Stays) { return ([], []); }
        // A reduced file may lead up to the first one.
        ILookup<bool, int> others = Enumerable.Range(Reduced + 1, Stays - Reduced).ToLookup(
            i => isIdle(i) && mutation != TileMutation.KeepsIdle);
        return ([Reduced, .. others[false]], [.. others[true]]);
    }

    /// <summary>The offset of the first checkpoint whose tile is neither raw nor reduced; null: there is no hole.</summary>
    /// <param name="bases">The checkpoints that are kept, by rising offset.</param>
    /// <param name="rawFrom">Where the raw log begins.</param>
    public static long? HoleIn(IReadOnlyList<TileBase> bases, long rawFrom)
    {
        ArgumentNullException.ThrowIfNull(bases);
        for (int i = 0; i < bases.Count; i++)
        {
            bool isReduced = bases[i].IsReduced && i < bases.Count - 1;
            if (bases[i].Offset < rawFrom && !isReduced) { return bases[i].Offset; }
        }
        return null;
    }
}
