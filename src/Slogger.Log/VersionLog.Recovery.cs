// Opening: finds the segments of the current history, cuts a torn tail, refuses anything else that is wrong.
//   1. A newest file without a header was prepared and not used: deleted.
//   2. Files before the one that began the history are leftovers of Begin: deleted.
//   3. Each remaining file names its predecessor and that one's end; the chain must be complete from the oldest file on.
//   4. The newest file ends at the first block that was not written completely (see BlockFormat for torn against corrupt).
//   5. A segment may have files in several directories (LogDirectories); each of these must be there. Blocks are numbered throughout the
//      segment: behind the first that is missing nothing counts, in whatever file.
//   6. What no block proves to have been synced is written again and synced: after a failed sync the kernel may serve bytes
//      from memory that never reached the disk.
// Indexes of segments that are gone (SealedSegment) are deleted, too.
// Nothing is ever appended to a file of an earlier process: the next write starts a new segment, which states where this one
// ended, so that leftovers behind a torn block cannot come back.
using Slogger.Core.Replication;
using Slogger.Log.Files;
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

public sealed partial class VersionLog
{
    internal const string LockName = "lock";

    /// <summary>Opens the log of a directory, or an empty one; recovers what was durable.</summary>
    /// <exception cref="LogCorruptException">A byte that was durable has changed, or a file is missing.</exception>
    /// <exception cref="LogFencedException">Another process has the log open, or one with a newer epoch had.</exception>
    /// <exception cref="LogDirectoriesException">One of its directories is missing, or is not its own.</exception>
    /// <exception cref="LogIOException">The disk refused.</exception>
    /// <exception cref="ArgumentException">An option is out of range, or the log is of another shard.</exception>
    public static VersionLog Open(VersionLogOptions options)
    {
        options = options.Checked();
        VersionLog? log = null;
        IDisposable? directoryLock = null;
        LogDirectories? directories = null;
        try
        {
            options.Files.CreateDirectory(options.Directory);
            directoryLock = options.Files.TryLock(Path.Combine(options.Directory, LockName)) ?? throw new LogFencedException(
                $"The version log in {options.Directory} is in use by another process. Stop that process first.");
            options = options with { Epoch = options.Epoch ?? NewestEpoch(options), IsFencedElsewhere = options.Epoch is null };
            directories = LogDirectories.Open(options);
            log = new VersionLog(options, directoryLock, directories);
            log.Recover();
            return log;
        }
        catch (Exception e)
        {
            log?.Dispose();
            directories?.Dispose();
            directoryLock?.Dispose();
            if (IsDiskFailure(e))
            {
                throw new LogIOException("open", options.Directory, isFatal: true, e);
            }
            throw;
        }
    }

    /// <summary>Reads and verifies every durable byte.</summary>
    /// <exception cref="LogCorruptException">One has changed.</exception>
    public void Verify()
    {
        foreach (Segment segment in _view.Segments)
        {
            using BlockReader reader = segment.OpenReader();
            SegmentScan.OfSealed(segment, reader);
        }
    }

    private void Recover()
    {
        var dropped = new List<string>();
        List<Segment> segments = FindSegments(dropped);
        CheckChain(segments);
        IReadOnlyList<string> leftovers = _directories.FindLeftovers(segments);
        bool isTorn = false;
        if (segments.Count > 0)
        {
            SegmentScan scan = RecoverTail(segments[^1]);
            isTorn = scan.IsTorn;
            _written = new Progress(0, scan.EndOffset, scan.LastBoundary, scan.Held, scan.Windows);
            _endOffset = scan.EndOffset;
            _last = scan.LastBoundary;
            _held = scan.Held;
            _windows = scan.Windows;
            VerifyNewest(segments);
        }
        // The name of a file with a header is durable: the header was written after that (SegmentFactory). So its predecessors can go.
        if (dropped.Count > 0)
        {
            dropped.ForEach(_files.Delete);
            _files.SyncDirectory(_options.Directory);
        }
        DeleteIndexesWithout(segments);
        foreach (string leftover in leftovers) { TryDelete(leftover); }
        _directories.TakeNew();
        _view = LogView.Of(segments, _written);
        if (segments.Count > 0)
        {
            _line = new LogIndex(Head.WorldLine, default, default) { Reign = Head.Reign };
            _tail?.Restart(_endOffset, _last?.Version ?? Head.FirstVersion.Previous);
        }
        Segment? tail = segments.LastOrDefault();
        Report = new OpenReport(segments.Count, isTorn, tail?.Path, tail?.DurableEnd ?? 0, dropped);
    }

    private static long NewestEpoch(VersionLogOptions options)
    {
        long newest = 0;
        foreach (string name in options.Files.List(options.Directory))
        {
            if (SegmentName.TryParse(name, out long epoch, out _)) { newest = Math.Max(newest, epoch); }
        }
        return newest;
    }

    private List<Segment> FindSegments(List<string> dropped)
    {
        var found = new List<(long Epoch, long Sequence, string Path)>();
        foreach (string name in _files.List(_options.Directory))
        {
            if (SegmentName.TryParse(name, out long epoch, out long sequence))
            {
                found.Add((epoch, sequence, Path.Combine(_options.Directory, name)));
            }
        }
        found.Sort((a, b) => a.Sequence.CompareTo(b.Sequence));
        if (found.Count > 0 && found.Max(f => f.Epoch) is var newest && newest > _options.OwnEpoch)
        {
            throw new LogFencedException(
                $"The version log in {_options.Directory} was written under epoch {newest}, this process has {_options.OwnEpoch}: " +
                "another process took the shard over, or the metadata that gives out epochs is not what it was.") { NewestEpoch = newest };
        }
        _lastSequenceSeen = found.Count > 0 ? found[^1].Sequence : 0;

        var segments = new List<Segment>();
        long historySequence = 0;
        for (int i = found.Count - 1; i >= 0; i--)
        {
            (long epoch, long sequence, string path) = found[i];
            if (sequence < historySequence)
            {
                dropped.Add(path);
                continue;
            }
            Segment? segment = ReadHeader(path, epoch, sequence, isNewest: segments.Count == 0);
            if (segment is null)
            {
                dropped.Add(path);
                continue;
            }
            historySequence = Math.Max(historySequence, segment.Header.HistorySequence);
            segments.Add(segment);
        }
        segments.Reverse();
        return segments;
    }

    /// <summary>Reads a segment's header; null if the file was prepared and never used.</summary>
    private Segment? ReadHeader(string path, long epoch, long sequence, bool isNewest)
    {
        const int headerAreaBytes = 8 << 10;
        ILogFile file = _files.Open(path, writable: false);
        using var reader = new BlockReader(file, salt: 0, headerAreaBytes);
        long length = file.Length;
        BlockStatus status = reader.Read(0, length);
        if (status != BlockStatus.Valid)
        {
            // Data follows a header only after the header was synced.
            bool isUnused = isNewest && status != BlockStatus.Corrupt
                && reader.IsZeroFrom(BlockFormat.TotalBytes(SegmentHeader.BytesMax, 0), length);
            return isUnused ? null : throw new LogCorruptException(path, 0, "the segment's header is missing or damaged");
        }
        if (reader.Header.Kind != BlockKind.SegmentHeader)
        {
            throw new LogCorruptException(path, 0, "the file does not begin with a segment header");
        }
        SegmentHeader header = SegmentHeader.Decode(reader.Data, path);
        if (header.Shard != _options.Shard.Number)
        {
            throw new ArgumentException(
                $"The version log in {_options.Directory} is of shard {header.Shard}, not of shard {_options.Shard}. " +
                "Check which data directory belongs to this shard.");
        }
        if (header.Epoch != epoch || header.Sequence != sequence)
        {
            throw new LogCorruptException(path, BlockFormat.HeaderBytes,
                $"the file's name does not fit its header, which says {SegmentName.Format(header.Epoch, header.Sequence)}");
        }
        long[] lengths = [length, .. header.Parts.Select(number => LengthOfPart(header, number))];
        return new Segment(_files, [path, .. header.Parts.Select(number => PartOf(header, number))], header, reader.Header.TotalBytes,
            isIndexed: false) { FileBytes = lengths.Sum(), PartEnds = lengths };
    }

    private string PartOf(SegmentHeader header, uint number) => Path.Combine(
        _directories.PathOf(number, SegmentName.Format(header.Epoch, header.Sequence)),
        SegmentName.FormatPart(header.Epoch, header.Sequence, number));

    private long LengthOfPart(SegmentHeader header, uint number)
    {
        string path = PartOf(header, number);
        try
        {
            using ILogFile file = _files.Open(path, writable: false);
            return file.Length;
        }
        catch (FileNotFoundException)
        {
            throw new LogCorruptException(path, 0, $"a file of segment {header.Sequence} is missing");
        }
    }

    private static void CheckChain(List<Segment> segments)
    {
        for (int i = 1; i < segments.Count; i++)
        {
            Segment previous = segments[i - 1];
            SegmentHeader header = segments[i].Header;
            if (header.PreviousSequence != previous.Header.Sequence)
            {
                throw new LogCorruptException(segments[i].Path, BlockFormat.HeaderBytes,
                    $"segment {header.PreviousSequence}, which comes before this one, is missing");
            }
            if (header.PreviousEnd > previous.FileBytes || header.PreviousEnd < previous.FirstBlock)
            {
                throw previous.Corrupt(previous.FileBytes, $"the segment should have at least {header.PreviousEnd} bytes");
            }
            previous.DurableEnd = header.PreviousEnd;
        }
    }

    private SegmentScan RecoverTail(Segment tail)
    {
        using SegmentFile file = SegmentFile.Open(_files, tail.Paths, writable: true);
        SegmentScan scan;
        long[] ends;
        using (BlockReader reader = tail.OpenReader())
        {
            scan = SegmentScan.OfTail(tail, reader, tail.FileBytes);
            ends = reader.EndsAt(scan.End);
        }
        tail.MarkIndexed();
        tail.PartEnds = ends;
        tail.DurableEnd = scan.End;
        long[]? places = scan.ProvenEnd > 0 ? tail.FindPosition(scan.ProvenEnd).Places : null;
        long[] proven = places ?? [scan.ProvenEnd, .. new long[ends.Length - 1]];
        for (int i = 0; i < ends.Length; i++) { WriteAgain(file.Parts[i], proven[i], ends[i]); }
        return scan;
    }

    private static void WriteAgain(ILogFile file, long from, long end)
    {
        byte[] buffer = new byte[1 << 20];
        for (long at = from; at < end; at += buffer.Length)
        {
            Span<byte> part = buffer.AsSpan(0, (int)Math.Min(buffer.Length, end - at));
            file.Read(part, at);
            file.Write(part, at);
        }
        file.SyncData();
    }

    /// <summary>Verifies the newest old segments, as many as the options say, and that each leads to the next.</summary>
    private void VerifyNewest(List<Segment> segments)
    {
        long verifiedBytes = 0;
        for (int i = segments.Count - 2; i >= 0 && verifiedBytes < _options.VerifyAtOpenBytes; i--)
        {
            Segment segment = segments[i];
            SegmentHeader next = segments[i + 1].Header;
            using BlockReader reader = segment.OpenReader();
            SegmentScan scan = SegmentScan.OfSealed(segment, reader);
            segment.MarkIndexed();
            verifiedBytes += segment.DurableEnd;
            bool fits = next.Reason switch
            {
                SegmentReason.Continue => next.StartOffset == scan.EndOffset && next.LastBoundary == scan.LastBoundary
                    && next.Held == scan.Held,
                SegmentReason.Gap => next.StartOffset >= scan.EndOffset && next.LastBoundary == scan.LastBoundary,
                _ => next.StartOffset <= scan.EndOffset,
            };
            if (!fits)
            {
                throw new LogCorruptException(segments[i + 1].Path, BlockFormat.HeaderBytes,
                    $"the segment starts at offset {next.StartOffset}, where the one before does not end");
            }
        }
    }
}
