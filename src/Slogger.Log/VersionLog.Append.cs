// Appending: into memory only, unless the buffers are full.
using Slogger.Core.Replication;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    /// <summary>Appends bytes of the stream at <see cref="EndOffset"/>. Copies them; allocates nothing. Waits for the disk
    /// when the buffers are full.</summary>
    /// <exception cref="LogIOException">The buffers are full and cannot be written. <see cref="EndOffset"/> tells how much
    /// was taken.</exception>
    /// <exception cref="InvalidOperationException">The log is empty.</exception>
    public void Append(ReadOnlySpan<byte> streamBytes)
    {
        while (!streamBytes.IsEmpty)
        {
            int taken = 0;
            lock (_gate)
            {
                ThrowUnlessUsable();
                if (TryGetChunk(needsEntry: false))
                {
                    taken = _current!.AddData(streamBytes);
                    _tail?.Add(streamBytes[..taken]);
                    _endOffset += taken;
                    Advance(taken);
                }
            }
            if (taken == 0)
            {
                MakeRoom();
            }
            streamBytes = streamBytes[taken..];
        }
    }

    /// <summary>Appends the end of a version. Its offset must be <see cref="EndOffset"/>, its world-line the log's, and its
    /// version above every earlier one.</summary>
    /// <exception cref="ArgumentException">It is not so.</exception>
    /// <exception cref="LogIOException">The buffers are full and cannot be written; nothing was taken.</exception>
    /// <param name="boundary">The end.</param>
    /// <param name="endsWindow">It ends a window: there are no versions between the end before it and this one (<see cref="LogWindows"/>).
    /// </param>
    public void AppendBoundary(in Boundary boundary, bool endsWindow = false)
    {
        if (boundary.WorldLine != Head.WorldLine)
        {
            throw new ArgumentException($"The boundary is of world-line {boundary.WorldLine}, the log of {Head.WorldLine}.");
        }
        if (boundary.Offset != EndOffset)
        {
            throw new ArgumentException($"The boundary is at offset {boundary.Offset}, the log ends at {EndOffset}.");
        }
        AppendEntry(new LogEntry(endsWindow ? EntryKind.ReducedBoundary : EntryKind.Boundary, boundary), boundary);
    }

    /// <summary>Notes that a window begins: what is appended counts with its end only. Where a version ends.</summary>
    /// <exception cref="InvalidOperationException">None ends there.</exception>
    /// <exception cref="LogIOException">The buffers are full and cannot be written; nothing was taken.</exception>
    public void BeginWindow()
    {
        if (LastBoundary is not { } last || last.Offset != EndOffset)
        {
            throw new InvalidOperationException($"No version ends at {End}, where a window is to begin.");
        }
        AddEntry(new LogEntry(EntryKind.WindowBegin, last), canReplace: false);
    }

    /// <summary>Closes every version up to <paramref name="last"/> as empty: they end where the last boundary is. Bytes
    /// appended after that boundary belong to versions above <paramref name="last"/>. Costs no disk write until the next
    /// <see cref="Sync"/>; consecutive runs become one.</summary>
    /// <exception cref="ArgumentException">The version is not above every earlier one.</exception>
    /// <exception cref="LogIOException">The buffers are full and cannot be written; nothing was taken.</exception>
    public void AppendEmptyRun(VersionNumber last, HybridTimestamp time)
    {
        SegmentHeader head = Head;
        Boundary before = LastBoundary ?? new Boundary(head.WorldLine, default, head.Origin.Offset, head.Origin.Database, default);
        Boundary closed = before with { WorldLine = head.WorldLine, Version = last, Time = time };
        AppendEntry(new LogEntry(EntryKind.EmptyRun, closed), closed);
    }

    /// <summary>Notes the newest recorded cut that this log, a backup's, reaches (<see cref="Slogger.Core.Replication.Receiver"/>): in
    /// order with the rest. Costs no disk write until the next <see cref="Sync"/>; each new file states it again.</summary>
    /// <exception cref="ArgumentException">The log does not reach it, or it is not above the one noted before.</exception>
    /// <exception cref="LogIOException">The buffers are full and cannot be written; nothing was taken.</exception>
    public void AppendHeldCut(WorldPoint cut)
    {
        if (cut <= _held || cut > End.Point)
        {
            throw new ArgumentException(
                $"The cut {cut} is not above {_held}, noted before, or not reached by the log, which ends at {End}.");
        }
        // The first one behind windows stays: it says up to where they hide cuts.
        AddEntry(new LogEntry(cut, EndOffset), canReplace: _held != _windows.From);
    }

    private void AppendEntry(in LogEntry entry, in Boundary closed)
    {
        VersionNumber lastVersion = End.Closed;
        if (closed.Version <= lastVersion)
        {
            throw new ArgumentException($"Version {closed.Version} is not above the last closed version {lastVersion}.");
        }
        AddEntry(entry, canReplace: entry.Kind == EntryKind.EmptyRun);
    }

    private void AddEntry(in LogEntry entry, bool canReplace)
    {
        while (true)
        {
            lock (_gate)
            {
                ThrowUnlessUsable();
                bool isReplaced = canReplace && _current is not null && _current.TryReplace(entry);
                if (isReplaced || TryGetChunk(needsEntry: true))
                {
                    if (!isReplaced) { _current!.AddEntry(entry); }
                    if (entry.Note(_windows, _held, Head.WorldLine) is var windows && windows != _windows)
                    {
                        _current!.Windows = _windows = windows;
                    }
                    if (entry.Closes) { _last = entry.ToBoundary(Head.WorldLine); }
                    else if (entry.Kind == EntryKind.HeldCut) { _held = entry.ToHeldCut(); }
                    _tail?.Add(entry, isReplaced);
                    Advance(1);
                    return;
                }
            }
            MakeRoom();
        }
    }

    /// <summary>Makes <see cref="_current"/> a chunk with room; false if there is none left.</summary>
    private bool TryGetChunk(bool needsEntry)
    {
        if (_view.Head is null)
        {
            throw new InvalidOperationException("The version log is empty: begin a history first.");
        }
        if (_current is not null && (needsEntry ? !_current.HasRoomForEntry : _current.DataBytes == _options.BlockBytes))
        {
            SealCurrent();
        }
        if (_current is null && _free.TryPop(out _current))
        {
            _current.Reset(_endOffset);
        }
        return _current is not null;
    }

    private void SealCurrent()
    {
        if (_current is { IsEmpty: false })
        {
            _sealed.Enqueue(_current);
            _current = null;
        }
    }

    private void Advance(long items)
    {
        _appendedPosition += items;
        _current!.EndPosition = _appendedPosition;
    }

    /// <summary>Back-pressure: waits for the thread that is writing, and writes out itself if that freed nothing.</summary>
    private void MakeRoom()
    {
        if (_writers.Length > 0)
        {
            WriteUntil(null);
            return;
        }
        lock (_io)
        {
            lock (_gate)
            {
                ThrowUnlessUsable();
                if (_free.Count > 0)
                {
                    return;
                }
            }
            WriteSealed();
        }
    }
}
