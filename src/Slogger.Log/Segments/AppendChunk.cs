// A block under construction. The buffer is pinned for its life; appending copies bytes and never allocates.
using System.Runtime.InteropServices;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Segments;

internal sealed class AppendChunk(int dataCapacity, int entryCapacity)
{
    private readonly ArraySegment<byte> _buffer = AlignedBuffer.Allocate(BlockFormat.TotalBytes(dataCapacity, entryCapacity));

    private readonly LogEntry[] _entries = new LogEntry[entryCapacity];

    public long StartOffset { get; private set; }

    public int DataBytes { get; private set; }

    public int EntryCount { get; private set; }

    /// <summary>The log's count of appended items after the last one in this chunk.</summary>
    public long EndPosition { get; set; }

    public bool IsEmpty => DataBytes == 0 && EntryCount == 0;

    public bool HasRoomForEntry => EntryCount < entryCapacity;

    public bool EndsWithEmptyRun => EntryCount > 0 && _entries[EntryCount - 1].Kind == EntryKind.EmptyRun;

    public LogEntry LastEntry => _entries[EntryCount - 1];

    public int TotalBytes => BlockFormat.TotalBytes(DataBytes, EntryCount);

    public void Reset(long startOffset)
    {
        StartOffset = startOffset;
        DataBytes = 0;
        EntryCount = 0;
    }

    /// <summary>Copies as much as there is room for; returns how much.</summary>
    public int AddData(ReadOnlySpan<byte> bytes)
    {
        int count = Math.Min(bytes.Length, dataCapacity - DataBytes);
        bytes[..count].CopyTo(_buffer.AsSpan(BlockFormat.HeaderBytes + DataBytes));
        DataBytes += count;
        return count;
    }

    public void AddEntry(in LogEntry entry) => _entries[EntryCount++] = entry;

    public void ReplaceLastEntry(in LogEntry entry) => _entries[EntryCount - 1] = entry;

    public ReadOnlySpan<byte> Seal(uint salt, long filePosition, long syncedUpTo, long number)
    {
        MemoryMarshal.AsBytes(_entries.AsSpan(0, EntryCount)).CopyTo(_buffer.AsSpan(BlockFormat.EntriesStart(DataBytes)));
        int total = BlockFormat.Seal(
            _buffer, BlockKind.Data, salt, StartOffset, filePosition, syncedUpTo, DataBytes, EntryCount, number);
        return _buffer.AsSpan(0, total);
    }
}
