// What readers see of the log: an immutable picture, replaced as a whole, so that they need no lock.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>How far the log got: in appended items, in the stream, in versions, and in recorded cuts that it was told it holds.</summary>
internal readonly record struct Progress(long Position, long Offset, Boundary? Last, WorldPoint Held);

/// <summary>The part of a segment that belongs to the current history. What a later world-line left behind is cut off: bytes
/// from <paramref name="EndOffset"/> on and versions above <paramref name="VersionMax"/>.</summary>
internal sealed record Extent(Segment Segment, long StartOffset, long EndOffset, VersionNumber VersionMax);

/// <param name="Generation">Changes when bytes that could be read before are void.</param>
internal sealed record LogView(
    SegmentHeader? Head, IReadOnlyList<Segment> Segments, IReadOnlyList<Extent> Extents, long Generation, Progress Durable)
{
    public static readonly LogView Empty = new(null, [], [], 0, default);

    public long StartOffset => Extents.Count > 0 ? Extents[0].StartOffset : 0;

    public static LogView Of(IReadOnlyList<Segment> segments, long generation, Progress durable) =>
        new(segments.Count > 0 ? segments[^1].Header : null, segments, ExtentsOf(segments), generation, durable);

    /// <summary>The index of the extent that holds the byte at <paramref name="offset"/>; -1 if none does.</summary>
    public int ExtentAt(long offset)
    {
        int low = 0;
        int high = Extents.Count - 1;
        while (low <= high)
        {
            int middle = (low + high) / 2;
            Extent extent = Extents[middle];
            if (offset < extent.StartOffset)
            {
                high = middle - 1;
            }
            else if (offset >= extent.EndOffset)
            {
                low = middle + 1;
            }
            else
            {
                return middle;
            }
        }
        return -1;
    }

    /// <summary>Whether bytes are missing between two offsets that the log both knows: the stream went on at a later one.</summary>
    public bool HasGap(long from, long to) =>
        Extents.Any(e => e.Segment.Header.Reason == SegmentReason.Gap && e.StartOffset > from && e.StartOffset <= to);

    private static List<Extent> ExtentsOf(IReadOnlyList<Segment> segments)
    {
        var extents = new List<Extent>(segments.Count);
        foreach (Segment segment in segments)
        {
            SegmentHeader header = segment.Header;
            VersionNumber versionMax = header.Reason == SegmentReason.Branch ? header.Branch.Version : new VersionNumber(long.MaxValue);
            if (header.Reason == SegmentReason.Rewind)
            {
                // Runs of empty versions that were closed behind the void bytes stay.
                for (int i = extents.Count - 1; i >= 0 && extents[i].EndOffset > header.StartOffset; i--)
                {
                    extents[i] = extents[i] with { StartOffset = Math.Min(extents[i].StartOffset, header.StartOffset),
                        EndOffset = header.StartOffset };
                }
            }
            while (extents.Count > 0 && extents[^1].StartOffset > header.StartOffset)
            {
                extents.RemoveAt(extents.Count - 1);
            }
            if (header.Reason == SegmentReason.Gap && extents.Count > 0)
            {
                // What the last boundary before the gap left behind leads nowhere.
                long end = header.LastBoundary?.Offset ?? header.Origin.Offset;
                extents[^1] = extents[^1] with { EndOffset = Math.Max(extents[^1].StartOffset, Math.Min(extents[^1].EndOffset, end)) };
            }
            // An extent that starts exactly at a branch holds no bytes, but maybe runs of empty versions.
            for (int i = extents.Count - 1; i >= 0; i--)
            {
                Extent extent = extents[i];
                if (extent.EndOffset <= header.StartOffset && extent.VersionMax <= versionMax)
                {
                    break;
                }
                extents[i] = extent with
                {
                    EndOffset = Math.Min(extent.EndOffset, header.StartOffset),
                    VersionMax = VersionNumber.Min(extent.VersionMax, versionMax),
                };
            }
            extents.Add(new Extent(segment, header.StartOffset, long.MaxValue, new VersionNumber(long.MaxValue)));
        }
        return extents;
    }
}
