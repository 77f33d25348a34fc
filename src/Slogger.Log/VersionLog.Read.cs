// Searching the log for boundaries. Everything here sees what is durable, of the current history only; but for its tail, which is in
// memory.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    /// <summary>The first boundary at or above <see cref="StartOffset"/>; null if there is none.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public Boundary? FirstBoundary
    {
        get
        {
            foreach (Boundary boundary in Boundaries)
            {
                return boundary;
            }
            return null;
        }
    }

    /// <summary>The versions closed, in order, from <see cref="StartOffset"/> on; a run of empty versions shows as its last
    /// one, at the offset of the boundary before it. Reads the files: linear in their size.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public IEnumerable<Boundary> Boundaries => BoundariesFrom(VersionNumber.Zero);

    /// <summary>As <see cref="Boundaries"/>, but only those of a version and of later ones. Of the files it reads no more than it has to.
    /// </summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public IEnumerable<Boundary> BoundariesFrom(VersionNumber version) => BoundariesOf(_view, version);

    /// <summary>What the beginning of a world-line has voided; null: the files that tell are not there.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public LostStretch? Lost(WorldLine line) => LostStretch.Of(_view, line);

    /// <summary>As <see cref="BoundariesFrom"/>, of a view.</summary>
    internal static IEnumerable<Boundary> BoundariesOf(LogView view, VersionNumber version) =>
        ClosingsOf(view, version).Select(c => c.End);

    /// <summary>Whether a version lies inside of a window (<see cref="LogWindows"/>): there was one, and there is nothing of it.</summary>
    /// <param name="version">One that was not closed by itself.</param>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public bool IsInWindow(VersionNumber version)
    {
        LogView view = _view;
        if (view.Durable.Windows.EndOffset <= view.StartOffset) { return false; }
        foreach ((_, EntryKind kind) in ClosingsOf(view, version)) { return kind == EntryKind.ReducedBoundary; }
        return false;
    }

    private static IEnumerable<(Boundary End, EntryKind Kind)> ClosingsOf(LogView view, VersionNumber version)
    {
        VersionNumber last = version.Previous;
        for (int i = FirstExtent(view, last); i < view.Extents.Count; i++)
        {
            Extent extent = view.Extents[i];
            SegmentHeader header = extent.Segment.Header;
            if (header.LastBoundary is { } before && before.Offset >= view.StartOffset && before.Version > last)
            {
                last = before.Version;
                yield return (before, EntryKind.Boundary);
            }
            foreach (LogEntry entry in EndsOf(extent.Segment, extent.Segment.FindVersion(last)))
            {
                if (entry.Version > extent.VersionMax.Number)
                {
                    break;
                }
                if (entry.Offset >= view.StartOffset && entry.Version > last.Number)
                {
                    last = new(entry.Version);
                    yield return (entry.ToBoundary(header.WorldLine), entry.Kind);
                }
            }
        }
    }

    /// <summary>The end of the last version closed at or below <paramref name="version"/>: the point to which a restore to that
    /// version goes. Inside a run of empty versions its version is the given one; it is lower only if the given one was
    /// not closed by itself. The branch of a world-line counts as closed in it. Null if the log does not hold that
    /// point.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public Boundary? BoundaryAtOrBelow(VersionNumber version)
    {
        LogView view = _view;
        if (RecentAtOrBelow(version, view) is { } recent) { return AtOrAboveStart(recent, view); }
        int first = FirstExtent(view, version);
        Boundary? best = null;
        for (int i = first; i < view.Extents.Count; i++)
        {
            Extent extent = view.Extents[i];
            Segment segment = extent.Segment;
            if (segment.Header.LastBoundary is { } before && before.Version > version)
            {
                // A world-line that started above the last boundary closed what lies between as empty.
                return i == first ? null : AtOrAboveStart((best ?? before) with { Version = version }, view);
            }
            IndexPoint start = segment.FindVersion(version);
            best = start.LastBefore ?? best;
            foreach (LogEntry entry in EndsOf(segment, start))
            {
                Boundary closed = entry.ToBoundary(segment.Header.WorldLine);
                if (closed.Version > version)
                {
                    // Inside a run; or in a part that is void, whose line closed the versions up to the next one's branch.
                    bool isClosed = entry.Kind == EntryKind.EmptyRun || closed.Version > extent.VersionMax;
                    return AtOrAboveStart(isClosed ? (best ?? closed) with { Version = version } : best, view);
                }
                best = closed;
            }
        }
        return AtOrAboveStart(best, view);
    }

    // Of what is durable, and was appended not long ago.
    private Boundary? RecentAtOrBelow(VersionNumber version, LogView view)
    {
        lock (_gate)
        {
            return _tail is not null && view.Generation == _generation && version <= view.Durable.Last?.Version
                && view.Durable.Last?.WorldLine == _line.WorldLine
                ? _tail.EndAtOrBelow(version, _line.WorldLine) : null;
        }
    }

    /// <summary>Opens a reader of the stream's bytes.</summary>
    /// <param name="fromOffset">The first byte to read: from <see cref="StartOffset"/> to <see cref="DurableOffset"/>.</param>
    /// <param name="toOffset">Where to stop; without it the reader follows the log.</param>
    /// <exception cref="ArgumentOutOfRangeException">The log does not hold that byte.</exception>
    public LogReader OpenReader(long fromOffset, long toOffset = long.MaxValue)
    {
        LogView view = _view;
        if (fromOffset < view.StartOffset || fromOffset > view.Durable.Offset || toOffset < fromOffset)
        {
            throw new ArgumentOutOfRangeException(nameof(fromOffset), fromOffset,
                $"The log can be read from {view.StartOffset} to {view.Durable.Offset}.");
        }
        return new LogReader(() => _view, view.Generation, fromOffset, toOffset);
    }

    /// <summary>As <see cref="IShippedLog.EndOfPiece"/>, of the log's tail; null if that does not reach back so far.</summary>
    internal LogIndex? TailEndOfPiece(in LogIndex from, in LogIndex limit, int bytesMax)
    {
        lock (_gate)
        {
            return _tail is not null && IsPresent(from) && _tail.Holds(from) ? _tail.EndOfPiece(from, limit, bytesMax) : null;
        }
    }

    /// <summary>Copies a piece from the log's tail, if it is there.</summary>
    internal bool TryCopyTail(in LogIndex from, in LogIndex to, Span<byte> bytes, List<LogEntry> ends)
    {
        lock (_gate)
        {
            if (_tail is null || !IsPresent(from) || !_tail.Holds(from) || !_tail.Holds(to)) { return false; }
            _tail.Copy(from, to, bytes, ends);
            return true;
        }
    }

    // Under _gate.
    private bool IsPresent(in LogIndex index) => index.WorldLine == _line.WorldLine && index.Reign == _line.Reign;

    /// <summary>Whether the log has kept a line up to an index of it.</summary>
    internal bool Keeps(LogIndex index)
    {
        SegmentHeader head = Head;
        return head.Lines.Any(l => l.Reign == index.Reign && l.WorldLine == index.WorldLine) && head.Branches.All(
            b => b.Line <= index.Line || (index.Offset <= b.Offset && index.Closed <= b.Version));
    }

    /// <summary>The first version of the present line that ends at or behind an offset, durably, and the last one that ends before
    /// it. Null: there is none yet.</summary>
    /// <param name="offset">The offset.</param>
    /// <param name="closed">A version that was closed when the log went no further than that.</param>
    public (VersionNumber Before, VersionNumber Floor)? FloorAt(long offset, VersionNumber closed)
    {
        foreach (LogEntry end in EndsAfter(DurableEnd with { Closed = closed }))
        {
            if (end.Offset >= offset) { return (closed, new(end.Version)); }
            closed = new(end.Version);
        }
        return null;
    }

    /// <summary>The ends of versions behind an index that its line has, and has kept.</summary>
    internal IEnumerable<LogEntry> EndsAfter(LogIndex from)
    {
        LogView view = _view;
        VersionNumber version = from.Closed;
        long last = version.Number;
        for (int i = 0; i < view.Extents.Count; i++)
        {
            Extent extent = view.Extents[i];
            if (!extent.Segment.Header.IsOf(from)) { continue; }
            // What the next file states as closed before it is all that there is in this one.
            if (i + 1 < view.Extents.Count && view.Extents[i + 1].Segment.Header is { Reason: SegmentReason.Continue } next
                && next.LastBoundary?.Version <= version)
            {
                continue;
            }
            if (extent.Segment.Header is { Reason: SegmentReason.Rewind, LastBoundary: { } end } && end.Version.Number > last)
            {
                // The line went as far as a later one began, and is gone back to there.
                last = end.Version.Number;
                yield return new LogEntry(EntryKind.EmptyRun, end);
            }
            foreach (LogEntry entry in EndsOf(extent.Segment, extent.Segment.FindVersion(version)))
            {
                // A part of a run may be void.
                if (entry.Version > extent.VersionMax.Number)
                {
                    bool isPart = entry.Kind == EntryKind.EmptyRun && extent.VersionMax.Number > last;
                    if (isPart)
                    {
                        last = extent.VersionMax.Number;
                        yield return entry.UpTo(extent.VersionMax);
                    }
                    break;
                }
                last = Math.Max(last, entry.Version);
                if (entry.Version > version.Number) { yield return entry; }
            }
        }
    }

    // The last extent all versions before which are at or below a version.
    private static int FirstExtent(LogView view, VersionNumber version)
    {
        int first = view.Extents.Count - 1;
        while (first > 0 && !(view.Extents[first].Segment.Header.LastBoundary?.Version <= version))
        {
            first--;
        }
        return Math.Max(first, 0);
    }

    private static Boundary? AtOrAboveStart(Boundary? boundary, LogView view) =>
        boundary?.Offset >= view.StartOffset ? boundary : null;

    private static IEnumerable<LogEntry> EndsOf(Segment segment, IndexPoint from) => EntriesOf(segment, from).Where(e => e.Closes);

    private static IEnumerable<LogEntry> EntriesOf(Segment segment, IndexPoint from)
    {
        using BlockReader reader = segment.OpenReader();
        reader.Seek(from);
        long end = segment.DurableEnd;
        for (long position = from.FilePosition; position < end; position += reader.Header.TotalBytes)
        {
            if (reader.Read(position, end) != BlockStatus.Valid)
            {
                throw segment.Corrupt(position, "a block that was durable is missing or damaged", reader);
            }
            for (int i = 0; i < reader.Header.EntryCount; i++)
            {
                yield return reader.Entry(i);
            }
        }
    }
}
