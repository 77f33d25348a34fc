// Writing out and syncing. Blocks go to the file in the order in which they were filled; a block's memory is free again as soon
// as it is written, so appends go on during the sync. Of a log in several directories VersionLog.Writers does this.
using System.Security.Cryptography;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    /// <summary>Makes everything appended before the call durable (group commit: calls that wait for each other share one
    /// sync). Returns the durable end of the stream.</summary>
    /// <exception cref="LogIOException">The disk refused. If it is not fatal, nothing was lost and the call may be
    /// repeated.</exception>
    public long Sync()
    {
        long target = AppendedPosition;
        if (_writers.Length > 0)
        {
            ThrowUnlessUsableLocked();
            WriteUntil(target);
            return _view.Durable.Offset;
        }
        lock (_io)
        {
            if (_view.Durable.Position < target)
            {
                WriteAndSync();
            }
            else
            {
                lock (_gate)
                {
                    ThrowUnlessUsable();
                }
            }
            return _view.Durable.Offset;
        }
    }

    /// <summary>Under _io, and the locks of all writers: makes all that is in memory durable.</summary>
    private void WriteAndSync()
    {
        if (_writers.Length > 0)
        {
            ThrowUnlessUsableLocked();
            WriteUntil(AppendedPosition);
            return;
        }
        lock (_gate)
        {
            ThrowUnlessUsable();
            SealCurrent();
        }
        WriteSealed();
        SyncFile();
    }

    private void WriteSealed()
    {
        while (true)
        {
            AppendChunk? chunk;
            lock (_gate)
            {
                if (!_sealed.TryPeek(out chunk))
                {
                    return;
                }
            }
            WriteChunk(chunk);
            lock (_gate)
            {
                _free.Push(_sealed.Dequeue());
            }
        }
    }

    private void WriteChunk(AppendChunk chunk)
    {
        if (_file is null || _filePosition + chunk.TotalBytes > _fileBytes)
        {
            SyncFile();
            ContinueInNext();
        }
        Segment tail = _view.Segments[^1];
        ReadOnlySpan<byte> block = chunk.Seal(tail.Header.Salt, _filePosition, _fileSynced, _blockNumber);
        try
        {
            _file!.Parts[0].Write(block, _filePosition);
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // The block stays in memory; the next attempt writes the same payload to the same place.
            throw new LogIOException("write to", tail.Path, isFatal: false, e);
        }
        NoteWritten(tail, chunk, []);
        PrepareNext(tail);
    }

    /// <param name="tail">The newest segment.</param>
    /// <param name="chunk">A block that goes to its end.</param>
    /// <param name="places">Of several files: where each has its next block.</param>
    private void NoteWritten(Segment tail, AppendChunk chunk, ReadOnlySpan<long> places)
    {
        tail.Observe(_filePosition, chunk.StartOffset, _written.Last, _blockNumber, places);
        _filePosition += chunk.TotalBytes;
        _blockNumber++;
        _written = new Progress(
            chunk.EndPosition,
            chunk.StartOffset + chunk.DataBytes,
            chunk.LastClosed is { } closed ? closed with { WorldLine = tail.Header.WorldLine } : _written.Last,
            chunk.LastHeld ?? _written.Held,
            chunk.Windows ?? _written.Windows);
    }

    private void PrepareNext(Segment tail)
    {
        bool fills = _filePosition > _options.SegmentBytes / 4;
        if (_options.KeepsSpare || fills)
        {
            _factory.Prepare(tail.Header.Sequence + 1, fills);
        }
    }

    private void SyncFile()
    {
        if (_file is null || _fileSynced == _filePosition)
        {
            return;
        }
        Segment tail = _view.Segments[^1];
        try
        {
            _file.Parts[0].SyncData();
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            // The kernel may have thrown the data away and called it clean: a second sync would prove nothing.
            throw Fail("sync", tail.Path, e);
        }
        _fileSynced = _filePosition;
        tail.DurableEnd = _filePosition;
        _view = _view with { Durable = _written };
    }

    private void ContinueInNext() => StartSegment(Head with
    {
        Reason = SegmentReason.Continue, StartOffset = _written.Offset, LastBoundary = _written.Last,
    });

    /// <summary>Under _io, and the locks of all writers, with everything that counts synced: starts a new segment. It is part of the log
    /// exactly when its header is durable.</summary>
    /// <param name="next">Its header, but for the fields that follow from the files themselves.</param>
    private void StartSegment(SegmentHeader next)
    {
        LogView view = _view;
        Segment? tail = view.Segments.Count > 0 ? view.Segments[^1] : null;
        long sequence = (tail?.Header.Sequence ?? _lastSequenceSeen) + 1;
        bool isBegin = next.Reason == SegmentReason.Begin;
        SegmentHeader header = next with
        {
            Shard = _options.Shard.Number,
            Epoch = _options.OwnEpoch,
            Sequence = sequence,
            Salt = BitConverter.ToUInt32(RandomNumberGenerator.GetBytes(sizeof(uint))),
            PreviousSequence = tail?.Header.Sequence ?? 0,
            PreviousEnd = tail?.DurableEnd ?? 0,
            HistorySequence = isBegin ? sequence : next.HistorySequence,
            Held = next.Reason switch
            {
                SegmentReason.Begin => default,
                SegmentReason.Rewind => next.Held,
                _ => _written.Held,
            },
            Parts = [.. _directories.All.Select(d => d.Number)],
            Windows = next.Reason switch
            {
                SegmentReason.Begin => default,
                SegmentReason.Continue or SegmentReason.Gap => _written.Windows,
                _ => _written.Windows.BackTo(new(next.WorldLine, next.Closed), next.StartOffset),
            },
        };
        SegmentFile file = CreateSegmentFile(header, out int headerBytes);
        SealFiles(view);
        bool isVoiding = header.Reason switch
        {
            SegmentReason.Continue => false,
            SegmentReason.Reign => header.StartOffset < _written.Offset,
            _ => true,
        };
        bool isRewind = isVoiding && header.Reason is (SegmentReason.Rewind or SegmentReason.Reign);
        _file = file;
        _fileSynced = _filePosition = headerBytes;
        _blockNumber = 1;
        _written = new Progress(_written.Position, header.StartOffset, header.LastBoundary, header.Held, header.Windows);

        var segment = new Segment(_files, _factory.PathsOf(sequence), header, headerBytes, isIndexed: true)
        {
            FileBytes = (long)_fileBytes * file.Parts.Count,
        };
        GiveToWriters(segment, file);
        IReadOnlyList<Segment> segments = isBegin ? [segment] : [.. view.Segments, segment];
        _view = view.With(segments, _written) with
        {
            Generation = view.Generation + (isVoiding ? 1 : 0), Rewinds = view.Rewinds + (isRewind ? 1 : 0),
        };
    }

    private SegmentFile CreateSegmentFile(SegmentHeader header, out int headerBytes)
    {
        string path = _factory.PathsOf(header.Sequence)[0];
        byte[] block = new byte[BlockFormat.TotalBytes(SegmentHeader.BytesMax, 0)];
        int dataBytes = header.Encode(block.AsSpan(BlockFormat.HeaderBytes));
        headerBytes = BlockFormat.Seal(block, BlockKind.SegmentHeader, 0, header.StartOffset, 0, 0, dataBytes, 0, 0);
        SegmentFile file;
        try
        {
            try
            {
                file = _factory.Take(header.Sequence);
            }
            catch (IOException)
            {
                // What was to be given back later may be what is missing.
                GiveBack();
                file = _factory.Take(header.Sequence);
            }
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            throw new LogIOException("create", path, isFatal: false, e);
        }
        try
        {
            file.Parts[0].Write(block.AsSpan(0, headerBytes), 0);
            file.Parts[0].SyncData();
            return file;
        }
        catch (Exception e) when (IsDiskFailure(e))
        {
            file.Dispose();
            throw Fail("start", path, e);
        }
    }

    // To give much of a file back holds up all syncs of the file system (with online discard the next one took 16 ms, and the truncation
    // 27). A file ends that early where a world-line begins: when everybody waits.
    private const int SealPauseMs = 10_000, SealAtOnceBytes = 4 << 20;
    private readonly ManualResetEventSlim _sealNow = new();

    /// <summary>Gives back what the file before did not use, a while later if that is much; of a log that was opened, what files before
    /// that one did not, either: the process before may not have come to it. A file's end is stated by its successor, so nothing depends on
    /// it, and nobody waits for it.</summary>
    private void SealFiles(LogView before)
    {
        if (before.Segments.Count == 0)
        {
            return;
        }
        Segment tail = before.Segments[^1];
        (SegmentFile? file, Task others, _file) = (_file, _sealing, null);
        Segment[] unused = file is not null ? [tail] : [.. before.Segments.Where(s => s.FileBytes > s.DurableEnd)];
        if (!_options.PrepareInBackground)
        {
            Seal(unused, file);
            return;
        }
        long due = Environment.TickCount64 + (file is not null && _options.SegmentBytes - tail.DurableEnd > SealAtOnceBytes ? SealPauseMs
            : 0);
        _sealing = Task.Factory.StartNew(
            () =>
            {
                others.Wait();
                _sealNow.Wait((int)Math.Max(0, due - Environment.TickCount64));
                Seal(unused, file);
            },
            CancellationToken.None, TaskCreationOptions.LongRunning, TaskScheduler.Default);
    }

    // All that no file uses, at once; not of the last one while it is written.
    private void GiveBack()
    {
        AwaitSealing();
        Seal([.. _view.Segments.SkipLast(_file is null ? 0 : 1).Where(s => s.FileBytes > s.DurableEnd)], null);
    }

    // Whoever deletes files, or ends, does not wait for the pause.
    private void AwaitSealing()
    {
        _sealNow.Set();
        _sealing.Wait();
        _sealNow.Reset();
    }

    /// <param name="unused">Which.</param>
    /// <param name="file">The open files of the only one; null: none are open.</param>
    private void Seal(Segment[] unused, SegmentFile? file)
    {
        foreach (Segment segment in unused)
        {
            try
            {
                file ??= SegmentFile.Open(_files, segment.Paths, writable: true);
                IReadOnlyList<long> ends = segment.ExactEnds();
                for (int i = 0; i < ends.Count; i++) { file.Parts[i].SetLength(ends[i]); }
                segment.FileBytes = segment.DurableEnd;
            }
            catch (Exception e) when (IsDiskFailure(e) || e is LogCorruptException)
            {
                // The space comes back when the segment is trimmed.
            }
            file?.Dispose();
            file = null;
        }
    }
}
