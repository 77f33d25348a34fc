// Changes of history. Each is one new segment whose header states it: before the header is durable nothing has happened, after
// it everything has.
using Slogger.Core.Identities;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    private long _lastSequenceSeen;

    /// <summary>Starts a history: the first, or a new one after the store was seeded anew. Durable when it returns; what was in
    /// the log before is dropped, also what was appended and not synced.</summary>
    /// <param name="origin">Where the stream starts.</param>
    /// <param name="worldLine">The present world-line.</param>
    /// <param name="open">The version that is open: the first that this history closes.</param>
    /// <param name="reign">The present reign; default: none.</param>
    /// <exception cref="LogIOException">The disk refused. If it is not fatal, the log is as it was.</exception>
    public void Begin(StreamOrigin origin, WorldLine worldLine, VersionNumber open, Reign reign = default)
    {
        CheckReplicationId(origin.ReplicationId);
        ArgumentOutOfRangeException.ThrowIfNegative(origin.Offset);
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            IReadOnlyList<Segment> before = _view.Segments;
            StartSegment(new SegmentHeader
            {
                Reason = SegmentReason.Begin,
                Shard = 0, Salt = 0, Epoch = 0, Sequence = 0, PreviousSequence = 0, PreviousEnd = 0, HistorySequence = 0,
                Origin = origin,
                ReplicationId = origin.ReplicationId,
                WorldLine = worldLine,
                FirstWorldLine = worldLine,
                Reign = reign,
                FirstReign = reign,
                FirstVersion = open,
                StartOffset = origin.Offset,
                LastBoundary = null,
                Branches = [],
            });
            ResetAppends();
            DeleteLeftovers(before);
        }
    }

    /// <summary>Starts a world-line in the present reign: history above <paramref name="branch"/> is void from now on, and appends continue
    /// at its offset. Durable when it returns. If the log is in that world-line with that branch already, nothing happens, unless no
    /// version was closed since: what was appended behind the branch is void then, too.</summary>
    /// <param name="next">The new world-line, above the present one.</param>
    /// <param name="branch">The last version it keeps, as <see cref="BoundaryAtOrBelow"/> gives it; the version may be
    /// higher if all versions between are empty or void.</param>
    /// <param name="replicationId">Identity of the stream from here on.</param>
    /// <param name="reign">The reign in which it begins, if the log does not have that one's record; null: the present one.</param>
    /// <exception cref="ArgumentException">The world-line is not above the present one, or the log has no such
    /// boundary.</exception>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void BeginWorldLine(WorldLine next, Boundary branch, string replicationId, Reign? reign = null)
    {
        CheckReplicationId(replicationId);
        using (EnterAll())
        {
            SegmentHeader head = Head;
            var started = new LogBranch(next, branch.Version, branch.Offset) { Reign = reign ?? head.Reign };
            // It may go through several reigns.
            bool hasBegun = head.WorldLine == next
                && head.Branches.FirstOrDefault(b => b.WorldLine == next) is var begun && begun == started with { Reign = begun.Reign };
            if (hasBegun && !HasOpenBytesBehind(branch))
            {
                SetReplicationId(replicationId);
                return;
            }
            if (!hasBegun && next <= head.WorldLine)
            {
                throw new ArgumentException($"World-line {next} is not above the present one, {head.WorldLine}.", nameof(next));
            }
            WriteAndSync();
            CheckBranch(branch);
            StartSegment(Head with
            {
                Reason = SegmentReason.Branch,
                ReplicationId = replicationId,
                WorldLine = next,
                Reign = started.Reign,
                StartOffset = branch.Offset,
                LastBoundary = branch with { WorldLine = next },
                Branches = hasBegun ? head.Branches : With(head.Branches, started),
            });
            ResetAppends();
        }
    }

    /// <summary>Starts a reign, in the same world-line: what was appended behind the last version closed is void from now on, durable or
    /// not, and appends continue at its end. Durable when it returns. If the log is in that reign already, and nothing was appended since
    /// it began, nothing happens.</summary>
    /// <param name="reign">The new reign, above the present one.</param>
    /// <exception cref="ArgumentException">It is not above the present one.</exception>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void BeginReign(Reign reign)
    {
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            SegmentHeader head = Head;
            if (reign == head.Reign && head.Lines.FirstOrDefault(l => l.Reign == reign).Index == End) { return; }
            if (reign <= head.Reign)
            {
                throw new ArgumentException($"Reign {reign} is not above the present one, {head.Reign}.", nameof(reign));
            }
            WriteAndSync();
            LogIndex end = DurableClosed;
            StartSegment(Head with
            {
                Reason = SegmentReason.Reign,
                Reign = reign,
                StartOffset = end.Offset,
                LastBoundary = _written.Last,
                Branches = With(head.Branches, new LogBranch(end.WorldLine, end.Closed, end.Offset) { Reign = reign }),
            });
            ResetAppends();
        }
    }

    /// <summary>Notes that the same stream goes on at a later offset: what lies between was not read, and is in the checkpoint of
    /// that offset only. What is before the last boundary stays; versions closed from here on lie behind the gap.
    /// Durable when it returns, with everything appended before.</summary>
    /// <param name="offset">Where the stream goes on, at a command boundary; not below <see cref="EndOffset"/>.</param>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public void BeginGap(long offset)
    {
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            WriteAndSync();
            ArgumentOutOfRangeException.ThrowIfLessThan(offset, _written.Offset);
            StartSegment(Head with { Reason = SegmentReason.Gap, StartOffset = offset, LastBoundary = _written.Last });
            ResetAppends();
        }
    }

    /// <summary>Makes void what was appended behind the last version closed: appends continue at its end, in the same world-line. For a log
    /// whose versions are put together from others', where a crash may have left a part of one, or a part of a window; not while it is
    /// shipped, since it passes through the same indexes again. Durable when it returns. If there is nothing behind it, nothing happens.
    /// </summary>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void Rewind()
    {
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            WriteAndSync();
            RewindTo(DurableClosed);
        }
    }

    /// <summary>Makes void what lies above the end of a version, also in an older line: then the log is in that line again, and knows
    /// nothing of those that began later. Appends continue there. Durable when it returns. If there is nothing above it, nothing happens.
    /// </summary>
    /// <param name="to">Where a version ends in a line that the log has, or where the log, or a line, begins.</param>
    /// <exception cref="ArgumentException">The log has no such end; it is as it was.</exception>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void RewindTo(LogIndex to)
    {
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            WriteAndSync();
            SegmentHeader head = Head;
            Boundary? kept = EndAt(to);
            if (to == DurableEnd && !_written.Windows.IsOpen) { return; }
            StartSegment(head with
            {
                Reason = SegmentReason.Rewind,
                WorldLine = to.WorldLine,
                Reign = to.Reign,
                StartOffset = to.Offset,
                LastBoundary = kept is { } last ? last with { WorldLine = to.WorldLine } : null,
                Branches = [.. head.Branches.Where(b => b.Line <= to.Line)],
                Held = HeldAt(to.Point),
            });
            ResetAppends();
        }
    }

    /// <summary>How often <see cref="Rewind"/>, <see cref="RewindTo"/> or <see cref="BeginReign"/> has made something void since the log
    /// was opened: readers have to be opened anew.</summary>
    public long Rewinds => _view.Rewinds;

    /// <summary>Whether bytes are missing between two offsets: see <see cref="BeginGap"/>.</summary>
    public bool HasGap(long from, long to) => _view.HasGap(from, to);

    /// <summary>The offset from which on no bytes are missing up to the end, at or above a given one.</summary>
    public long ContiguousFrom(long offset) => _view.Gaps.Append(offset).Max();

    /// <summary>What names the log's history: a log of another name has to be copied anew, with what it rests on.</summary>
    /// <remarks>The logs of a cohort's nodes begin at different places of one history: there the stream alone names it.</remarks>
    public StreamHistory History => new(Origin.ReplicationId, _options.IsFencedElsewhere ? 0 : ContiguousFrom(Origin.Offset));

    /// <summary>Whether a segment can begin without its file being made first, for which appends and syncs would wait. Any thread.</summary>
    public bool IsNextPrepared => _factory.IsReady;

    /// <summary>Notes that the same history goes on under another stream identity. Durable when it returns, with everything
    /// appended before.</summary>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public void SetReplicationId(string replicationId)
    {
        CheckReplicationId(replicationId);
        using (EnterAll())
        {
            ThrowUnlessUsableLocked();
            if (Head.ReplicationId == replicationId)
            {
                return;
            }
            WriteAndSync();
            StartSegment(Head with
            {
                Reason = SegmentReason.Continue,
                ReplicationId = replicationId,
                StartOffset = _written.Offset,
                LastBoundary = _written.Last,
            });
        }
    }

    /// <summary>Deletes segments that lie wholly below a stream offset. What it keeps may start lower; boundaries at the
    /// offset itself stay.</summary>
    /// <exception cref="LogIOException">The disk refused; what was deleted is gone, the rest is as it was.</exception>
    public void TrimBefore(long offset)
    {
        lock (_io)
        {
            ThrowUnlessUsableLocked();
            offset = Math.Min(offset, _view.Durable.Offset);
            // Oldest first and one by one: whatever a crash leaves is a log without holes.
            while (_view.Segments.Count > 1)
            {
                LogView view = _view;
                Segment oldest = view.Segments[0];
                if (view.Extents.Any(e => e.Segment == oldest && e.EndOffset >= offset))
                {
                    return;
                }
                AwaitSealing();
                try
                {
                    _files.Delete(oldest.Path);
                }
                catch (Exception e) when (IsDiskFailure(e))
                {
                    throw new LogIOException("delete", oldest.Path, isFatal: false, e);
                }
                _view = view.With([.. view.Segments.Skip(1)], view.Durable);
                // Whoever made one just now sees that the segment is gone, or has it deleted here.
                TryDeleteIndexOf(oldest.Path);
                try
                {
                    _files.SyncDirectory(_options.Directory);
                }
                catch (Exception e) when (IsDiskFailure(e))
                {
                    throw Fail("sync the directory of", oldest.Path, e);
                }
                // A segment without its header is no part of the log any more, so a crash may bring these back.
                DeleteMore(oldest);
            }
        }
    }

    /// <summary>Whether a state of the store, taken in a line at a stream offset of the history named by <paramref name="origin"/>, is part
    /// of the current history: the log has passed through that line, and no later one has voided the state.</summary>
    public bool IsInHistory(StreamOrigin origin, Reign reign, WorldLine worldLine, long offset)
    {
        if (_view.Head is not { } head)
        {
            return false;
        }
        return origin == head.Origin && offset >= head.Origin.Offset
            && head.Lines.Any(l => l.Reign == reign && l.WorldLine == worldLine)
            && LogBranch.Keep(head.Branches, new LogLine(reign, worldLine), offset);
    }

    private static LogBranch[] With(IReadOnlyList<LogBranch> branches, in LogBranch next) =>
        [.. branches.TakeLast(SegmentHeader.BranchesMax - 1), next];

    // The end of a version that a log may go back to, or null: its beginning. With all that was appended in the files.
    private Boundary? EndAt(in LogIndex to)
    {
        LogView view = _view;
        SegmentHeader head = Head;
        LogBranch[] lines = [.. head.KeptLines];
        (Reign reign, WorldLine worldLine) = (to.Reign, to.WorldLine);
        int at = Array.FindIndex(lines, l => l.Reign == reign && l.WorldLine == worldLine);
        bool isInLine = at >= 0 && to.Offset >= lines[at].Offset && to.Closed >= lines[at].Version
            && (at == lines.Length - 1 || (to.Offset <= lines[at + 1].Offset && to.Closed <= lines[at + 1].Version));
        bool isLast = to.Closed == DurableClosed.Closed;
        bool isBeginning = to.WorldLine == head.FirstWorldLine && to.Closed == head.FirstVersion.Previous && to.Offset == head.Origin.Offset
            && (isLast || view.StartOffset == to.Offset);
        Boundary? end = isBeginning || !isInLine ? null : isLast ? view.Durable.Last : BoundaryAtOrBelow(to.Closed);
        bool isEnd = isBeginning || (end?.Version == to.Closed && end?.Offset == to.Offset);
        return isInLine && isEnd ? end
            : throw new ArgumentException($"The log has no end of a version at {to}; it is at {DurableEnd}.", nameof(to));
    }

    // The newest cut that was noted as held, of those that a log reaches which has gone back.
    private WorldPoint HeldAt(WorldPoint end)
    {
        WorldPoint held = _written.Held;
        for (int i = _view.Extents.Count - 1; i >= 0 && held > end; i--)
        {
            Extent extent = _view.Extents[i];
            held = extent.Segment.Header.Held;
            foreach (LogEntry entry in EntriesOf(extent.Segment, extent.Segment.Start))
            {
                if (entry.Closes && entry.Version > extent.VersionMax.Number) { break; }
                if (entry.Kind == EntryKind.HeldCut && entry.ToHeldCut() > held && entry.ToHeldCut() <= end) { held = entry.ToHeldCut(); }
            }
        }
        // What was trimmed may have had one.
        return held > end ? default : held;
    }

    // Of an attempt that came to nothing: the caller goes on at the branch.
    private bool HasOpenBytesBehind(in Boundary branch)
    {
        lock (_gate) { return _endOffset > branch.Offset && _last?.Version == branch.Version; }
    }

    private void CheckBranch(in Boundary branch)
    {
        Boundary? kept = BoundaryAtOrBelow(branch.Version);
        bool isStart = kept is null && branch.Offset == StartOffset;
        if (!isStart && kept?.Offset != branch.Offset)
        {
            throw new ArgumentException(
                $"The log has no boundary of version {branch.Version} at offset {branch.Offset}; the nearest is " +
                $"{(kept is null ? "none" : $"{kept.Value.Version} at {kept.Value.Offset}")}.", nameof(branch));
        }
    }

    private static void CheckReplicationId(string replicationId)
    {
        ArgumentException.ThrowIfNullOrEmpty(replicationId);
        if (replicationId.Length > 40 || replicationId.Any(c => c is <= ' ' or > '~'))
        {
            throw new ArgumentException("A replication id has 1 to 40 printable ASCII characters.", nameof(replicationId));
        }
    }

    /// <summary>Under _io, after a change of history: memory starts anew where the new segment does.</summary>
    private void ResetAppends()
    {
        lock (_gate)
        {
            foreach (AppendChunk chunk in _sealed)
            {
                _free.Push(chunk);
            }
            _sealed.Clear();
            ForgetDealt();
            if (_current is not null)
            {
                _free.Push(_current);
                _current = null;
            }
            _endOffset = _written.Offset;
            _last = _written.Last;
            _held = _written.Held;
            _windows = _written.Windows;
            _line = new LogIndex(Head.WorldLine, default, default) { Reign = Head.Reign };
            _generation = _view.Generation;
            _tail?.Restart(_endOffset, _last?.Version ?? Head.FirstVersion.Previous);
            _written = _written with { Position = _appendedPosition };
        }
        _view = _view with { Durable = _written };
    }

    private void DeleteLeftovers(IReadOnlyList<Segment> segments)
    {
        try
        {
            foreach (Segment segment in segments)
            {
                _files.Delete(segment.Path);
                TryDeleteIndexOf(segment.Path);
                DeleteMore(segment);
            }
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // They are no longer part of the log; the next opening deletes them.
        }
    }

    // Its files in further directories.
    private void DeleteMore(Segment segment)
    {
        foreach (string path in segment.Paths.Skip(1)) { TryDelete(path); }
    }

    private void ThrowUnlessUsableLocked()
    {
        lock (_gate)
        {
            ThrowUnlessUsable();
        }
    }
}
