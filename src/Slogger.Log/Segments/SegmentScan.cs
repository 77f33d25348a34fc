// Walks the blocks of a segment from its header on, verifies that they follow each other, and decides where it ends.
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Log.Segments;

/// <summary>What a walk over a segment found.</summary>
/// <param name="End">Position in the segment after the last block.</param>
/// <param name="ProvenEnd">Position in the segment that a block states to have been synced.</param>
/// <param name="EndOffset">Stream offset after the last block.</param>
/// <param name="LastBoundary">The last version closed.</param>
/// <param name="Held">The last cut held.</param>
/// <param name="Windows">What is known of windows.</param>
/// <param name="IsTorn">Whether unsynced writes follow <paramref name="End"/>.</param>
internal readonly record struct SegmentScan(long End, long ProvenEnd, long EndOffset, Boundary? LastBoundary, WorldPoint Held,
    LogWindows Windows, bool IsTorn)
{
    /// <summary>Walks a segment up to its known end; everything in it was durable once.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public static SegmentScan OfSealed(Segment segment, BlockReader reader) =>
        Walk(segment, reader, segment.DurableEnd, isSealed: true);

    /// <summary>Walks the newest segment, whose end is unknown.</summary>
    /// <exception cref="LogCorruptException">A block does not verify, and that cannot be a torn write.</exception>
    public static SegmentScan OfTail(Segment segment, BlockReader reader, long fileLength) =>
        Walk(segment, reader, fileLength, isSealed: false);

    private static SegmentScan Walk(Segment segment, BlockReader reader, long limit, bool isSealed)
    {
        long position = segment.FirstBlock;
        long proven = 0;
        long offset = segment.Header.StartOffset;
        Boundary? last = segment.Header.LastBoundary;
        WorldPoint held = segment.Header.Held;
        LogWindows windows = segment.Header.Windows;
        VersionNumber lastVersion = last?.Version ?? segment.Header.FirstVersion.Previous;
        for (long number = 1; position < limit; number++)
        {
            BlockStatus status = reader.Read(position, limit);
            if (status != BlockStatus.Valid)
            {
                ThrowIfCorrupt(segment, reader, position, limit, isSealed, status);
                return new SegmentScan(position, proven, offset, last, held, windows,
                    status == BlockStatus.Torn || !reader.IsZeroFrom(position, limit));
            }
            BlockHeader header = reader.Header;
            if (header.Kind != BlockKind.Data || header.StreamOffset != offset || header.Number != number)
            {
                throw segment.Corrupt(position, "a block is out of sequence", reader);
            }
            segment.Observe(position, offset, last, number, reader.Places);
            offset += header.DataBytes;
            for (int i = 0; i < header.EntryCount; i++)
            {
                LogEntry entry = reader.Entry(i);
                windows = entry.Note(windows, held, segment.Header.WorldLine);
                if (entry.Kind == EntryKind.HeldCut && entry.Offset <= offset && entry.ToHeldCut() > held
                    && entry.ToHeldCut() <= new WorldPoint(segment.Header.WorldLine, lastVersion))
                {
                    held = entry.ToHeldCut();
                    continue;
                }
                if (entry.Kind == EntryKind.WindowBegin && entry.Offset <= offset && entry.Version == lastVersion.Number) { continue; }
                if (!entry.Closes || entry.Version <= lastVersion.Number || entry.Offset > offset)
                {
                    throw segment.Corrupt(position, "a version is out of sequence", reader);
                }
                last = entry.ToBoundary(segment.Header.WorldLine);
                lastVersion = last.Value.Version;
            }
            proven = Math.Max(proven, header.SyncedUpTo);
            position += header.TotalBytes;
        }
        return new SegmentScan(position, proven, offset, last, held, windows, IsTorn: false);
    }

    private static void ThrowIfCorrupt(
        Segment segment, BlockReader reader, long position, long limit, bool isSealed, BlockStatus status)
    {
        if (isSealed)
        {
            throw segment.Corrupt(position, "a block that was durable is missing or damaged", reader);
        }
        if (status == BlockStatus.Corrupt)
        {
            throw segment.Corrupt(position, "a block was changed after it was written", reader);
        }
        if (reader.WasOnceDurable(position, limit))
        {
            throw segment.Corrupt(position, "a block is missing below blocks written after its sync", reader);
        }
    }
}
