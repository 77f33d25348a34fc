// Reads and verifies the blocks of one segment, one after the other, through windows so that small blocks do not cost a
// system call each. Used by recovery, by readers and by searches; not thread-safe.
//
// A position in the segment is the sum of the bytes of all blocks before. If the segment is one file, that is the position in the file,
// and any block can be read. Of a segment of several files the blocks are read in order, from an index point on: the next one is where
// a file goes on with the block of the next number.
using System.Buffers;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Segments;

internal enum BlockStatus
{
    /// <summary>A block, verified.</summary>
    Valid,

    /// <summary>Never written.</summary>
    Empty,

    /// <summary>Written in part.</summary>
    Torn,

    /// <summary>Written, and not what it was.</summary>
    Corrupt,
}

/// <param name="files">The segment's files, which it closes.</param>
/// <param name="salt">The segment's.</param>
/// <param name="ends">Of several files: up to where each may be read; asked anew for each block.</param>
/// <param name="windowBytes">How much of a file is read at a time.</param>
internal sealed class BlockReader(
    SegmentFile files, uint salt, Func<IReadOnlyList<long>>? ends = null, int windowBytes = BlockReader.WindowBytes) : IDisposable
{
    private const int WindowBytes = 256 << 10, HeaderWindowBytes = 8 << 10;

    private readonly Window[] _windows = [.. files.Parts.Select(f => new Window(f, windowBytes))];
    private readonly long[] _next = new long[files.Parts.Count];   // of several files: where each goes on
    private long _number;                                          // of several files: of the block that is next
    private bool _isPassed = true;                                 // whether those are behind the block read last
    private int _part;
    private int _found = -1;                                       // the file that the last read found something in
    private int _blockStart;

    /// <summary>Of one file.</summary>
    public BlockReader(ILogFile file, uint salt, int windowBytes = WindowBytes) : this(new SegmentFile([file]), salt, null, windowBytes)
    {
    }

    /// <summary>The header of the last block read with status <see cref="BlockStatus.Valid"/>.</summary>
    public BlockHeader Header { get; private set; }

    public ReadOnlySpan<byte> Data => Block.Slice(BlockFormat.HeaderBytes, Header.DataBytes);

    /// <summary>Of several files: where each has its next block, the one read last included. Else empty.</summary>
    public ReadOnlySpan<long> Places => IsOneFile ? [] : _next;

    /// <summary>Of several files: which has what was read last, a block or what is left of one, and where in it; null: none has.
    /// </summary>
    public (int Part, long Position)? Found => _found < 0 ? null : (_found, _next[_found]);

    private bool IsOneFile => _windows.Length == 1;

    private ReadOnlySpan<byte> Block => _windows[_part].Bytes(_blockStart, Header.TotalBytes);

    public LogEntry Entry(int index) => BlockFormat.Entry(Block, Header.DataBytes, index);

    /// <summary>Goes to a block. Whoever reads from a position other than the one behind the last block does this first.</summary>
    public void Seek(in IndexPoint point)
    {
        if (point.Places is not { } places) { return; }
        places.CopyTo(_next, 0);
        _number = point.Number;
        _isPassed = true;
    }

    /// <summary>Reads the block at <paramref name="position"/>, which must end at or below <paramref name="limit"/>.</summary>
    /// <param name="position">Where it is in the segment.</param>
    /// <param name="limit">Up to where may be read.</param>
    /// <param name="wantedFrom">An offset in the stream. Of a block whose data ends at or below it, only the header is read and verified.
    /// </param>
    public BlockStatus Read(long position, long limit, long wantedFrom = long.MinValue)
    {
        if (IsOneFile) { return ReadAt(0, position, limit, wantedFrom); }
        PassBlock();
        _found = -1;
        if (position >= limit) { return BlockStatus.Empty; }
        IReadOnlyList<long> until = ends!();
        for (int part = 0; part < _next.Length; part++)
        {
            bool hasMore = until[part] - _next[part] >= BlockFormat.HeaderBytes;
            if (!hasMore || !TryLoad(part, _next[part], BlockFormat.HeaderBytes, until[part])) { continue; }
            ReadOnlySpan<byte> bytes = _windows[part].Bytes(_blockStart, BlockFormat.HeaderBytes);
            bool isHeader = BlockFormat.TryDecodeHeader(bytes, salt, _next[part], out BlockHeader header);
            if (isHeader && header.Number == _number)
            {
                _found = part;
                BlockStatus status = ReadAt(part, _next[part], until[part], wantedFrom);
                _isPassed = status != BlockStatus.Valid;
                return status;
            }
            // A file may be ahead, where another one lacks a block, but never behind.
            if (_found < 0 && (isHeader ? header.Number < _number : !BlockFormat.IsZero(bytes))) { _found = part; }
        }
        return _found < 0 ? BlockStatus.Empty : BlockStatus.Corrupt;
    }

    /// <summary>Where each file ends, if the segment ends behind the block read last.</summary>
    /// <param name="position">The position there.</param>
    public long[] EndsAt(long position)
    {
        PassBlock();
        return IsOneFile ? [position] : [.. _next];
    }

    private void PassBlock()
    {
        if (_isPassed) { return; }
        _next[_part] += Header.TotalBytes;
        _number++;
        _isPassed = true;
    }

    private BlockStatus ReadAt(int part, long position, long limit, long wantedFrom)
    {
        int ahead = wantedFrom == long.MinValue ? windowBytes : HeaderWindowBytes;
        if (limit - position < BlockFormat.HeaderBytes || !TryLoad(part, position, BlockFormat.HeaderBytes, limit, ahead))
        {
            return BlockStatus.Empty;
        }
        ReadOnlySpan<byte> headerBytes = _windows[part].Bytes(_blockStart, BlockFormat.HeaderBytes);
        if (!BlockFormat.TryDecodeHeader(headerBytes, salt, position, out BlockHeader header))
        {
            return BlockFormat.IsZero(headerBytes) ? BlockStatus.Empty : BlockStatus.Corrupt;
        }
        if (header.TotalBytes > limit - position) { return BlockStatus.Torn; }
        if (header.StreamOffset + header.DataBytes <= wantedFrom)
        {
            (Header, _part) = (header, part);
            return BlockStatus.Valid;
        }
        if (!TryLoad(part, position, header.TotalBytes, limit)) { return BlockStatus.Torn; }
        ReadOnlySpan<byte> block = _windows[part].Bytes(_blockStart, header.TotalBytes);
        if (!BlockFormat.IsPayloadIntact(block, header))
        {
            return BlockFormat.IsTorn(block, header) ? BlockStatus.Torn : BlockStatus.Corrupt;
        }
        (Header, _part) = (header, part);
        return BlockStatus.Valid;
    }

    /// <summary>Whether a later block proves that the bytes at <paramref name="position"/>, which were read last, were durable once.
    /// </summary>
    public bool WasOnceDurable(long position, long fileLength)
    {
        for (int part = 0; part < _windows.Length; part++)
        {
            (long at, long end) = IsOneFile ? (position + BlockFormat.Alignment, fileLength) : (_next[part], ends!()[part]);
            for (; at + BlockFormat.HeaderBytes <= end; at += BlockFormat.Alignment)
            {
                if (!TryLoad(part, at, BlockFormat.HeaderBytes, end)) { break; }
                if (BlockFormat.TryDecodeHeader(_windows[part].Bytes(_blockStart, BlockFormat.HeaderBytes), salt, at,
                    out BlockHeader header) && header.SyncedUpTo > position)
                {
                    return true;
                }
            }
        }
        return false;
    }

    /// <summary>Whether the segment holds nothing but zeros from <paramref name="position"/> on, where was read last.</summary>
    public bool IsZeroFrom(long position, long fileLength)
    {
        for (int part = 0; part < _windows.Length; part++)
        {
            (long at, long end) = IsOneFile ? (position, fileLength) : (_next[part], ends!()[part]);
            for (; at < end; at += windowBytes)
            {
                int length = (int)Math.Min(windowBytes, end - at);
                if (TryLoad(part, at, length, end) && !BlockFormat.IsZero(_windows[part].Bytes(_blockStart, length))) { return false; }
            }
        }
        return true;
    }

    public void Dispose()
    {
        files.Dispose();
        foreach (Window window in _windows) { window.Dispose(); }
    }

    private bool TryLoad(int part, long position, int length, long limit, int ahead = int.MaxValue) =>
        (_blockStart = _windows[part].Load(position, length, limit, ahead)) >= 0;

    // A part of a file, in memory.
    private sealed class Window(ILogFile file, int bytes) : IDisposable
    {
        private byte[] _bytes = [];
        private long _start;
        private int _length;

        public ReadOnlySpan<byte> Bytes(int start, int length) => _bytes.AsSpan(start, length);

        /// <summary>Where in it the bytes are then; -1: the file has not so many below the limit.</summary>
        /// <param name="position">Where they are in the file.</param>
        /// <param name="length">How many they are.</param>
        /// <param name="limit">Up to where may be read.</param>
        /// <param name="ahead">How many are read at most if they are not there, unless more are wanted.</param>
        public int Load(long position, int length, long limit, int ahead)
        {
            if (position >= _start && position + length <= _start + _length) { return (int)(position - _start); }
            if (Math.Max(length, bytes) is int room && room > _bytes.Length)
            {
                Dispose();
                _bytes = ArrayPool<byte>.Shared.Rent(room);
            }
            _start = position;
            int most = Math.Max(length, Math.Min(ahead, bytes));
            _length = file.Read(_bytes.AsSpan(0, (int)Math.Clamp(limit - position, 0, most)), position);
            return _length >= length ? 0 : -1;
        }

        public void Dispose()
        {
            if (_bytes.Length > 0) { ArrayPool<byte>.Shared.Return(_bytes); }
            (_bytes, _length) = ([], 0);
        }
    }
}
