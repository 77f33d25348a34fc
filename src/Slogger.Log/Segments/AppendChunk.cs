// A block under construction. The buffer is pinned for its life; appending copies bytes and never allocates.
using System.Runtime.InteropServices;
using Slogger.Core.Replication;
using Slogger.Core.WorldLines;
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

    /// <summary>The last version closed in it, and the last cut held; none of a world-line's own.</summary>
    public Boundary? LastClosed { get; private set; }

    public WorldPoint? LastHeld { get; private set; }

    /// <summary>What is known of windows behind it; null: the same as before it.</summary>
    public LogWindows? Windows { get; set; }

    public int TotalBytes => BlockFormat.TotalBytes(DataBytes, EntryCount);

    public void Reset(long startOffset)
    {
        StartOffset = startOffset;
        DataBytes = 0;
        EntryCount = 0;
        (LastClosed, LastHeld, Windows) = (null, null, null);
    }

    /// <summary>Copies as much as there is room for; returns how much.</summary>
    public int AddData(ReadOnlySpan<byte> bytes)
    {
        int count = Math.Min(bytes.Length, dataCapacity - DataBytes);
        bytes[..count].CopyTo(_buffer.AsSpan(BlockFormat.HeaderBytes + DataBytes));
        DataBytes += count;
        return count;
    }

    public void AddEntry(in LogEntry entry)
    {
        _entries[EntryCount++] = entry;
        Note(entry);
    }

    /// <summary>Puts an entry in the place of one of its kind, if nothing came since that it could not be moved before: a longer run of
    /// empty versions for a shorter one, a later cut for an earlier one. Cuts and runs alternate in a backup's log that is idle.</summary>
    public bool TryReplace(in LogEntry entry)
    {
        for (int i = EntryCount - 1; i >= 0 && i >= EntryCount - 2; i--)
        {
            if (_entries[i].Kind == entry.Kind)
            {
                _entries[i] = entry;
                Note(entry);
                return true;
            }
            // A cut says that the log reaches it; a run that closes more in front of it leaves that true. A cut that moves forward might
            // not be reached there.
            if (entry.Kind != EntryKind.EmptyRun || _entries[i].Kind != EntryKind.HeldCut) { return false; }
        }
        return false;
    }

    private void Note(in LogEntry entry)
    {
        if (entry.Closes) { LastClosed = entry.ToBoundary(default); }
        else if (entry.Kind == EntryKind.HeldCut) { LastHeld = entry.ToHeldCut(); }
    }

    public ReadOnlySpan<byte> Seal(uint salt, long filePosition, long syncedUpTo, long number)
    {
        MemoryMarshal.AsBytes(_entries.AsSpan(0, EntryCount)).CopyTo(_buffer.AsSpan(BlockFormat.EntriesStart(DataBytes)));
        int total = BlockFormat.Seal(
            _buffer, BlockKind.Data, salt, StartOffset, filePosition, syncedUpTo, DataBytes, EntryCount, number);
        return _buffer.AsSpan(0, total);
    }
}
