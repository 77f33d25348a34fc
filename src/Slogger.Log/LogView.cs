// What readers see of the log: an immutable picture, replaced as a whole, so that they need no lock.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>How far the log got: in appended items, in the stream, in versions, in recorded cuts that it was told it holds, and in
/// windows.</summary>
internal readonly record struct Progress(long Position, long Offset, Boundary? Last, WorldPoint Held, LogWindows Windows);

/// <summary>The part of a segment that belongs to the current history. What a later world-line left behind is cut off: bytes
/// from <paramref name="EndOffset"/> on and versions above <paramref name="VersionMax"/>.</summary>
internal sealed record Extent(Segment Segment, long StartOffset, long EndOffset, VersionNumber VersionMax);

/// <param name="Generation">Changes when bytes that could be read before are void.</param>
/// <param name="Rewinds">How often that was so by a rewind, or by a reign.</param>
internal sealed record LogView(SegmentHeader? Head, IReadOnlyList<Segment> Segments, IReadOnlyList<Extent> Extents, long Generation,
    long Rewinds, Progress Durable)
{
    public static readonly LogView Empty = new(null, [], [], 0, 0, default);

    public long StartOffset => Extents.Count > 0 ? Extents[0].StartOffset : 0;

    public static LogView Of(IReadOnlyList<Segment> segments, Progress durable) => Empty.With(segments, durable);

    public LogView With(IReadOnlyList<Segment> segments, Progress durable) => this with
    {
        Head = segments.Count > 0 ? segments[^1].Header : null, Segments = segments, Extents = ExtentsOf(segments), Durable = durable,
    };

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
        Gaps.Any(offset => offset > from && offset <= to);

    /// <summary>Where the stream went on behind each gap.</summary>
    public IEnumerable<long> Gaps => Extents.Where(e => e.Segment.Header is { Reason: SegmentReason.Gap } header
        && e.StartOffset == header.StartOffset).Select(e => e.StartOffset);

    private static List<Extent> ExtentsOf(IReadOnlyList<Segment> segments)
    {
        var extents = new List<Extent>(segments.Count);
        foreach (Segment segment in segments)
        {
            SegmentHeader header = segment.Header;
            if (header.IsVoiding) { Void(extents, header.StartOffset, header.Closed); }
            else if (extents.Count > 0)
            {
                // What the last boundary before a gap left behind leads nowhere.
                long end = header.Reason == SegmentReason.Gap ? header.ClosedOffset : header.StartOffset;
                extents[^1] = extents[^1] with { EndOffset = Math.Max(extents[^1].StartOffset, Math.Min(extents[^1].EndOffset, end)) };
            }
            extents.Add(new Extent(segment, header.StartOffset, long.MaxValue, new VersionNumber(long.MaxValue)));
        }
        return extents;
    }

    /// <summary>Cuts off what lies behind the end of a version.</summary>
    private static void Void(List<Extent> extents, long end, VersionNumber closed)
    {
        // All that such a one closed is void, and so it has no byte that is not.
        extents.RemoveAll(e => e.Segment.Header.Closed >= closed);
        for (int i = extents.Count - 1; i >= 0; i--)
        {
            // One that begins behind it has no bytes left, but maybe runs of empty versions that were closed behind void bytes.
            Extent extent = extents[i];
            extents[i] = extent with
            {
                StartOffset = Math.Min(extent.StartOffset, end),
                EndOffset = Math.Min(extent.EndOffset, end),
                VersionMax = VersionNumber.Min(extent.VersionMax, closed),
            };
        }
    }
}
