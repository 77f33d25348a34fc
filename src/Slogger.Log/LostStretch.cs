// What the beginning of a world-line has voided. The bytes stay in the files that were written before, until those are trimmed.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>A stretch of a history that is void: from the branch of a world-line on, as the line before went on there.</summary>
public sealed class LostStretch
{
    private readonly LogView _before;

    private LostStretch(LogView before, Boundary branch, long end) => (_before, Branch, End) = (before, branch, end);

    /// <summary>The end of the last version that is kept.</summary>
    public Boundary Branch { get; }

    /// <summary>The offset at which it ends, of the stream of the line before. It may be in the middle of a command.</summary>
    public long End { get; }

    /// <summary>The versions that it closed, in order.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    /// <exception cref="LogHistoryChangedException">A file was trimmed.</exception>
    public IEnumerable<Boundary> Boundaries => VersionLog.BoundariesOf(_before, Branch.Version.Next);

    /// <summary>Opens a reader of its bytes, which are those of <see cref="Branch"/>'s offset to <see cref="End"/>.</summary>
    /// <param name="fromOffset">The first to read.</param>
    public LogReader OpenReader(long fromOffset)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(fromOffset, Branch.Offset);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(fromOffset, End);
        return new(() => _before, _before.Generation, fromOffset, End);
    }

    /// <summary>That of a world-line; null: the files that tell are not there.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    internal static LostStretch? Of(LogView view, WorldLine line)
    {
        int begun = view.Segments.ToList().FindIndex(s => s.Header.Reason == SegmentReason.Branch && s.Header.WorldLine == line);
        if (begun < 1 || view.Segments[begun].Header.LastBoundary is not { } branch) { return null; }
        Segment last = view.Segments[begun - 1];
        try
        {
            using BlockReader reader = last.OpenReader();
            SegmentScan scan = SegmentScan.OfSealed(last, reader);
            var end = new Progress(scan.End, scan.EndOffset, scan.LastBoundary, scan.Held, scan.Windows);
            LogView before = LogView.Of([.. view.Segments.Take(begun)], end);
            return before.StartOffset <= branch.Offset && branch.Offset <= end.Offset ? new(before, branch, end.Offset) : null;
        }
        catch (FileNotFoundException)
        {
            return null;
        }
    }
}
