// What others may know of a file of the log that is not written to any more: enough to keep an index of it beside it. Such a file goes with
// its segment; a crash may leave it, and the next opening deletes it. It has to tell by itself whether it is of this segment, and whole.
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>A segment that is not written to any more, as far as it is of the present history.</summary>
/// <param name="Sequence">Its number.</param>
/// <param name="Salt">Drawn for it: another file of that number has another one.</param>
/// <param name="Start">Its first stream offset, maybe inside a command.</param>
/// <param name="End">The offset behind its last byte. It falls where a world-line begins, and never rises.</param>
/// <param name="Before">A place outside of commands at or below <paramref name="Start"/>, and the database selected there; null: none is
/// known without a gap.</param>
/// <param name="IndexPath">Where the index of it goes.</param>
public readonly record struct SealedSegment(long Sequence, uint Salt, long Start, long End, (long Offset, int Database)? Before,
    string IndexPath);

public sealed partial class VersionLog
{
    /// <summary>The segments that are not written to any more and have bytes, in order.</summary>
    public IReadOnlyList<SealedSegment> SealedSegments
    {
        get
        {
            LogView view = _view;
            var found = new List<SealedSegment>(view.Extents.Count);
            foreach (Extent extent in view.Extents)
            {
                if (extent.Segment == view.Segments[^1]) { break; }
                long end = Math.Min(extent.EndOffset, view.Durable.Offset);
                if (end <= extent.StartOffset) { continue; }
                Format.SegmentHeader header = extent.Segment.Header;
                (long Offset, int Database)? before = header.LastBoundary is { } last ? (last.Offset, last.Database)
                    : extent.StartOffset == header.Origin.Offset ? (header.Origin.Offset, header.Origin.Database) : null;
                bool isKnown = before?.Offset >= view.StartOffset && !view.HasGap(before.Value.Offset, extent.StartOffset);
                found.Add(new(header.Sequence, header.Salt, extent.StartOffset, end, isKnown ? before : null,
                    SegmentName.IndexOf(extent.Segment.Path)));
            }
            return found;
        }
    }

    /// <summary>Whether a segment of this number is part of the log, void or not.</summary>
    public bool HasSegment(long sequence) => _view.Segments.Any(s => s.Header.Sequence == sequence);

    /// <summary>The end of the first version that ends at or above an offset; null: none does yet.</summary>
    /// <exception cref="Format.LogCorruptException">A block does not verify.</exception>
    public Core.WorldLines.Boundary? BoundaryAtOrAbove(long offset)
    {
        LogView view = _view;
        int at = view.ExtentAt(offset - 1);
        if (at < 0) { return null; }
        IndexPoint near = view.Extents[at].Segment.FindOffset(offset - 1);
        foreach (Core.WorldLines.Boundary end in BoundariesFrom(near.LastBefore?.Version.Next ?? Core.Versions.VersionNumber.Zero))
        {
            if (end.Offset >= offset) { return end; }
        }
        return null;
    }

    // Nothing depends on it.
    private void TryDeleteIndexOf(string segmentPath)
    {
        try
        {
            _files.Delete(SegmentName.IndexOf(segmentPath));
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // The next opening deletes it.
        }
    }

    // What a crash has left.
    private void DeleteIndexesWithout(IReadOnlyList<Segment> segments)
    {
        HashSet<string> wanted = [.. segments.Select(s => Path.GetFileName(SegmentName.IndexOf(s.Path)))];
        foreach (string name in _files.List(_options.Directory))
        {
            if (name.Contains(SegmentName.IndexExtension, StringComparison.Ordinal) && !wanted.Contains(name))
            {
                _files.Delete(Path.Combine(_options.Directory, name));
            }
        }
    }
}
