// Changes of history. Each is one new segment whose header states it: before the header is durable nothing has happened, after
// it everything has.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    private long _lastSequenceSeen;
    private long _rewinds;

    /// <summary>Starts a history: the first, or a new one after the store was seeded anew. Durable when it returns; what was in
    /// the log before is dropped, also what was appended and not synced.</summary>
    /// <param name="origin">Where the stream starts.</param>
    /// <param name="worldLine">The present world-line.</param>
    /// <param name="open">The version that is open: the first that this history closes.</param>
    /// <exception cref="LogIOException">The disk refused. If it is not fatal, the log is as it was.</exception>
    public void Begin(StreamOrigin origin, WorldLine worldLine, VersionNumber open)
    {
        CheckReplicationId(origin.ReplicationId);
        ArgumentOutOfRangeException.ThrowIfNegative(origin.Offset);
        lock (_io)
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
                FirstVersion = open,
                StartOffset = origin.Offset,
                LastBoundary = null,
                Branches = [],
            });
            ResetAppends();
            DeleteLeftovers(before);
        }
    }

    /// <summary>Starts a world-line: history above <paramref name="branch"/> is void from now on, and appends continue at its
    /// offset. Durable when it returns. If the log is in that world-line with that branch already, nothing happens, unless no
    /// version was closed since: what was appended behind the branch is void then, too.</summary>
    /// <param name="next">The new world-line, above the present one.</param>
    /// <param name="branch">The last version it keeps, as <see cref="BoundaryAtOrBelow"/> gives it; the version may be
    /// higher if all versions between are empty or void.</param>
    /// <param name="replicationId">Identity of the stream from here on.</param>
    /// <exception cref="ArgumentException">The world-line is not above the present one, or the log has no such
    /// boundary.</exception>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void BeginWorldLine(WorldLine next, Boundary branch, string replicationId)
    {
        CheckReplicationId(replicationId);
        lock (_io)
        {
            SegmentHeader head = Head;
            var started = new WorldLineBranch(next, branch.Version, branch.Offset);
            bool hasBegun = head.WorldLine == next && head.Branches.Count > 0 && head.Branches[^1] == started;
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
                StartOffset = branch.Offset,
                LastBoundary = branch with { WorldLine = next },
                Branches = hasBegun ? head.Branches : [.. head.Branches.TakeLast(SegmentHeader.BranchesMax - 1), started],
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
        lock (_io)
        {
            ThrowUnlessUsableLocked();
            WriteAndSync();
            ArgumentOutOfRangeException.ThrowIfLessThan(offset, _written.Offset);
            StartSegment(Head with { Reason = SegmentReason.Gap, StartOffset = offset, LastBoundary = _written.Last });
            ResetAppends();
        }
    }

    /// <summary>Makes void what was appended behind the last version closed: appends continue at its end, in the same world-line. For a log
    /// whose versions are put together from others', where a crash may have left a part of one; not while it is shipped, since it passes
    /// through the same indexes again. Durable when it returns. If there is nothing behind it, nothing happens.</summary>
    /// <exception cref="LogIOException">The disk refused. If it is fatal, reopening tells whether it happened.</exception>
    public void Rewind()
    {
        lock (_io)
        {
            ThrowUnlessUsableLocked();
            WriteAndSync();
            long offset = _written.Last?.Offset ?? Head.Origin.Offset;
            if (_written.Offset == offset) { return; }
            StartSegment(Head with { Reason = SegmentReason.Rewind, StartOffset = offset, LastBoundary = _written.Last });
            ResetAppends();
            Interlocked.Increment(ref _rewinds);
        }
    }

    /// <summary>How often <see cref="Rewind"/> has made something void since the log was opened: readers have to be opened anew.</summary>
    public long Rewinds => Interlocked.Read(ref _rewinds);

    /// <summary>Whether bytes are missing between two offsets: see <see cref="BeginGap"/>.</summary>
    public bool HasGap(long from, long to) => _view.HasGap(from, to);

    /// <summary>The offset from which on no bytes are missing up to the end, at or above a given one.</summary>
    public long ContiguousFrom(long offset) => _view.Extents.Where(e => e.Segment.Header.Reason == SegmentReason.Gap)
        .Select(e => e.StartOffset).Append(offset).Max();

    /// <summary>What names the log's history: a log of another name has to be copied anew, with what it rests on.</summary>
    public StreamHistory History => new(Origin.ReplicationId, ContiguousFrom(Origin.Offset));

    /// <summary>Notes that the same history goes on under another stream identity. Durable when it returns, with everything
    /// appended before.</summary>
    /// <exception cref="LogIOException">The disk refused.</exception>
    public void SetReplicationId(string replicationId)
    {
        CheckReplicationId(replicationId);
        lock (_io)
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
                _view = LogView.Of([.. view.Segments.Skip(1)], view.Generation, view.Durable);
                try
                {
                    _files.SyncDirectory(_options.Directory);
                }
                catch (Exception e) when (IsDiskFailure(e))
                {
                    throw Fail("sync the directory of", oldest.Path, e);
                }
            }
        }
    }

    /// <summary>Whether a state of the store, taken in a world-line at a stream offset of the history named by
    /// <paramref name="origin"/>, is part of the current history: no later world-line has voided it.</summary>
    public bool IsInHistory(StreamOrigin origin, WorldLine worldLine, long offset)
    {
        if (IsEmpty)
        {
            return false;
        }
        SegmentHeader head = Head;
        bool isKnown = worldLine >= head.FirstWorldLine && worldLine <= head.WorldLine
            && (head.Branches.Count < SegmentHeader.BranchesMax || worldLine >= head.Branches[0].WorldLine);
        return origin == head.Origin && isKnown && offset >= head.Origin.Offset
            && head.Branches.All(b => b.WorldLine <= worldLine || offset <= b.Offset);
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
            if (_current is not null)
            {
                _free.Push(_current);
                _current = null;
            }
            _endOffset = _written.Offset;
            _last = _written.Last;
            _held = _written.Held;
            _worldLine = Head.WorldLine;
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
            }
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // They are no longer part of the log; the next opening deletes them.
        }
    }

    private void ThrowUnlessUsableLocked()
    {
        lock (_gate)
        {
            ThrowUnlessUsable();
        }
    }
}
