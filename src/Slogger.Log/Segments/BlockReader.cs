// Reads and verifies the blocks of one file, one after the other, through a window so that small blocks do not cost a
// system call each. Used by recovery, by readers and by searches; not thread-safe.
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

internal sealed class BlockReader(ILogFile file, uint salt, int windowBytes = BlockReader.WindowBytes) : IDisposable
{
    private const int WindowBytes = 256 << 10;

    private byte[] _window = new byte[windowBytes];
    private long _windowStart;
    private int _windowLength;
    private int _blockStart;

    /// <summary>The header of the last block read with status <see cref="BlockStatus.Valid"/>.</summary>
    public BlockHeader Header { get; private set; }

    public ReadOnlySpan<byte> Data => Block.Slice(BlockFormat.HeaderBytes, Header.DataBytes);

    private ReadOnlySpan<byte> Block => _window.AsSpan(_blockStart, Header.TotalBytes);

    public LogEntry Entry(int index) => BlockFormat.Entry(Block, Header.DataBytes, index);

    /// <summary>Reads the block at <paramref name="position"/>, which must end at or below <paramref name="limit"/>.</summary>
    public BlockStatus Read(long position, long limit)
    {
        if (limit - position < BlockFormat.HeaderBytes || !Load(position, BlockFormat.HeaderBytes, limit))
        {
            return BlockStatus.Empty;
        }
        ReadOnlySpan<byte> headerBytes = _window.AsSpan(_blockStart, BlockFormat.HeaderBytes);
        if (!BlockFormat.TryDecodeHeader(headerBytes, salt, position, out BlockHeader header))
        {
            return BlockFormat.IsZero(headerBytes) ? BlockStatus.Empty : BlockStatus.Corrupt;
        }
        if (header.TotalBytes > limit - position || !Load(position, header.TotalBytes, limit))
        {
            return BlockStatus.Torn;
        }
        ReadOnlySpan<byte> block = _window.AsSpan(_blockStart, header.TotalBytes);
        if (!BlockFormat.IsPayloadIntact(block, header))
        {
            return BlockFormat.IsTorn(block, header) ? BlockStatus.Torn : BlockStatus.Corrupt;
        }
        Header = header;
        return BlockStatus.Valid;
    }

    /// <summary>Whether a later block proves that the bytes at <paramref name="position"/> were durable once.</summary>
    public bool WasOnceDurable(long position, long fileLength)
    {
        for (long at = position + BlockFormat.Alignment; at + BlockFormat.HeaderBytes <= fileLength; at += BlockFormat.Alignment)
        {
            if (!Load(at, BlockFormat.HeaderBytes, fileLength))
            {
                return false;
            }
            if (BlockFormat.TryDecodeHeader(_window.AsSpan(_blockStart, BlockFormat.HeaderBytes), salt, at, out BlockHeader header)
                && header.SyncedUpTo > position)
            {
                return true;
            }
        }
        return false;
    }

    /// <summary>Whether the file holds nothing but zeros from <paramref name="position"/> on.</summary>
    public bool IsZeroFrom(long position, long fileLength)
    {
        for (long at = position; at < fileLength; at += _window.Length)
        {
            int length = (int)Math.Min(_window.Length, fileLength - at);
            if (Load(at, length, fileLength) && !BlockFormat.IsZero(_window.AsSpan(_blockStart, length)))
            {
                return false;
            }
        }
        return true;
    }

    public void Dispose() => file.Dispose();

    private bool Load(long position, int length, long limit)
    {
        if (position >= _windowStart && position + length <= _windowStart + _windowLength)
        {
            _blockStart = (int)(position - _windowStart);
            return true;
        }
        if (length > _window.Length)
        {
            _window = new byte[length];
        }
        _windowStart = position;
        _blockStart = 0;
        _windowLength = file.Read(_window.AsSpan(0, (int)Math.Min(_window.Length, limit - position)), position);
        return _windowLength >= length;
    }
}
