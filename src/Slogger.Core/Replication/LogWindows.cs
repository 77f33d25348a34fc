// What a log that was shipped knows of windows in it. A window is a stretch of whole versions of which there are fewer commands than the
// primary has had, with the same state behind them: what was inside cannot be restored to. It is shipped where a backup is far behind.
//
// Windows come in stretches. Recorded cuts up to the one that was held when a stretch began can be restored to, and those from the first
// one on that was noted behind it; none between. The next stretch begins only when a watermark has passed the one before: so of each log
// one such hole is enough to know.
//
// Whoever folds what a log holds, in its order, knows the same: the receiver as it goes, and the log when it is opened.
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

    /// <summary>Whether a recorded cut lies in the stretch, or where it is not known yet.</summary>
    public bool Hides(WorldPoint cut) => HasStretch && cut > Base && (From == default || cut < From);

    /// <summary>A window begins.</summary>
    /// <param name="held">The recorded cut that was noted last.</param>
    public LogWindows Began(WorldPoint held) => HasStretch && From == default ? this with { IsOpen = true }
        : this with { HasStretch = true, IsOpen = true, Base = held, From = default };

    /// <summary>The window ends.</summary>
    public LogWindows Ended(WorldPoint end, long offset) => this with { IsOpen = false, End = end, EndOffset = offset };

    /// <summary>A recorded cut was noted.</summary>
    public LogWindows Noted(WorldPoint cut) => HasStretch && From == default ? this with { From = cut } : this;

    /// <summary>What lies above the end of a version has become void. That is never below a cut that was held.</summary>
    public LogWindows BackTo(WorldPoint end, long offset) =>
        offset < EndOffset ? new() { End = end, EndOffset = offset }
        // Of a stretch of which no window has ended nothing is left.
        : this with { IsOpen = false, HasStretch = HasStretch && !(IsOpen && End <= Base) };
}
