// What a log that was shipped knows of windows in it. A window is a stretch of whole versions of which there are fewer commands than the
// primary has had, with the same state behind them: what was inside cannot be restored to. It is shipped where a backup is far behind.
//
// Windows come in stretches. Recorded cuts up to the one that was held when a stretch began can be restored to, and those from the first
// one on that was noted behind it; none between. The next stretch begins only when a watermark has passed the one before: so of each log
// one such hole is enough to know.
//
// Whoever folds what a log holds, in its order, knows the same: the receiver as it goes, and the log when it is opened.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>A window on its way: it stands for a piece of the log.</summary>
/// <param name="From">Where it begins: the end of a version.</param>
/// <param name="To">Where it ends: the end of a later one, in the same line.</param>
/// <param name="Bytes">How many bytes are left of it: fewer than lie between the two offsets.</param>
public readonly record struct ShipWindow(LogIndex From, LogIndex To, long Bytes)
{
    /// <summary>The most bytes that may be left: a receiver keeps them in memory until all are there
    /// (<see cref="ReceiverStart.StagedBytesMax"/>).</summary>
    public const long BytesMax = 8L << 20;

    /// <summary>The most bytes of the log that one may stand for.</summary>
    public const long LogBytesMax = 2 * BytesMax;
}

/// <summary>What a log knows of its windows; the default: there are none.</summary>
public readonly record struct LogWindows
{
    /// <summary>Whether there is a stretch of windows, the newest, that has not become void.</summary>
    public bool HasStretch { get; init; }

    /// <summary>Whether a window has begun, and not ended: what was appended since counts only with its end.</summary>
    public bool IsOpen { get; init; }

    /// <summary>The recorded cut that was held when the stretch began.</summary>
    public WorldPoint Base { get; init; }

    /// <summary>The first recorded cut that was noted behind the stretch; the default: none was yet.</summary>
    public WorldPoint From { get; init; }

    /// <summary>The version with which the last window ends. No cut before it is noted.</summary>
    public WorldPoint End { get; init; }

    /// <summary>Where the last window ends: below this offset the log has not each command.</summary>
    public long EndOffset { get; init; }

    /// <summary>As <see cref="End"/>, of the windows before the stretch; the default: there were none.</summary>
    public WorldPoint EndBefore { get; init; }

    /// <summary>As <see cref="EndOffset"/>, of the windows before the stretch.</summary>
    public long EndOffsetBefore { get; init; }

    /// <summary>Whether a recorded cut lies in the stretch, or where it is not known yet.</summary>
    public bool Hides(WorldPoint cut) => HasStretch && cut > Base && (From == default || cut < From);

    /// <summary>As <see cref="End"/> and <see cref="EndOffset"/>, of those windows that are seen with the log up to a version.</summary>
    /// <param name="seen">The version: one at or below <see cref="Base"/>, or none that the stretch hides.</param>
    public (WorldPoint End, long Offset) LastIn(VersionNumber seen) =>
        HasStretch && seen <= Base.Version ? (EndBefore, EndOffsetBefore) : (End, EndOffset);

    /// <summary>A window begins.</summary>
    /// <param name="held">The recorded cut that was noted last.</param>
    public LogWindows Began(WorldPoint held) => HasStretch && From == default ? this with { IsOpen = true }
        : this with
        {
            HasStretch = true, IsOpen = true, Base = held, From = default, EndBefore = End, EndOffsetBefore = EndOffset,
        };

    /// <summary>The window ends. One that has not begun came on as a part of a log, in which it began: how far the windows before it went
    /// is not known then, so they count as going as far.</summary>
    public LogWindows Ended(WorldPoint end, long offset) => IsOpen ? this with { IsOpen = false, End = end, EndOffset = offset }
        : this with { End = end, EndOffset = offset, EndBefore = end, EndOffsetBefore = offset };

    /// <summary>A recorded cut was noted.</summary>
    public LogWindows Noted(WorldPoint cut) => HasStretch && From == default ? this with { From = cut } : this;

    /// <summary>What lies above the end of a version has become void. That is never below a cut that was held.</summary>
    public LogWindows BackTo(WorldPoint end, long offset)
    {
        // Of a stretch of which no window has ended nothing is left.
        if (offset >= EndOffset) return this with { IsOpen = false, HasStretch = HasStretch && !(IsOpen && End <= Base) };
        // The stretch has become void, as it does where a failover ends before it: it hides nothing any more. That the one before hid cuts
        // does not matter, since a watermark has passed it. Where its windows ended does: below that not each command is there.
        bool isBefore = HasStretch && end.Version <= Base.Version && offset >= EndOffsetBefore;
        (WorldPoint last, long at) = isBefore ? (EndBefore, EndOffsetBefore) : (end, offset);
        return new() { End = last, EndOffset = at, EndBefore = last, EndOffsetBefore = at };
    }
}
