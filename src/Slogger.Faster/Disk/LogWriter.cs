// Puts the log into its files in whole blocks, from memory that a disk can take them from: past the page cache, where the file system can
// (SystemFileLayer). Copying a stretch there first, and checksumming it while it is in the processor's cache, costs a fraction of what the
// page cache does. The block in which the log ends is written again with what comes behind it, and holds the same up to there: a disk that
// has one of its sectors either as it was or as it is to be never loses what was durable.
//
// For one thread, that of the device; the checksums are asked for by others.
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Faster.Disk;

/// <summary>Writes stretches of the log, in batches that are synced by the caller.</summary>
/// <param name="device">Where the log is.</param>
internal sealed class LogWriter(LogDevice device)
{
    private const int BlockBytes = AlignedBuffer.Alignment;
    private const int BufferBytes = 256 << 10;
    private readonly ArraySegment<byte> _buffer = AlignedBuffer.Allocate(BufferBytes);
    private readonly byte[] _kept = new byte[BlockBytes];   // the block in which what is synced ends
    private long _end;                                      // up to where that is
    private long _at;                                       // where the buffer's memory belongs: a block's beginning
    private int _length;
    private bool _isChanged;
    private readonly LogSums _sums = new();

    private long Position => _at + _length;

    /// <summary>Where the log goes on: all before is on disk.</summary>
    public void GoOnFrom(long address)
    {
        _end = address;
        device.Read(address - Rest(address), _kept.AsSpan(0, Rest(address)));
        _sums.Restart(address);
    }

    /// <summary>A batch begins; if the one before was not <see cref="Kept"/>, it was as good as not written.</summary>
    public void Begin()
    {
        Place(_end);
        _kept.AsSpan(0, _length).CopyTo(_buffer);
    }

    /// <summary>Writes a stretch, or has it written with the next one.</summary>
    public void Append(long address, ReadOnlySpan<byte> bytes)
    {
        // Pages need not come in their order.
        if (address != Position) MoveTo(address);
        while (!bytes.IsEmpty)
        {
            int count = (int)Math.Min(Math.Min(bytes.Length, BufferBytes - _length), device.SegmentEnd(_at) - Position);
            Span<byte> copy = _buffer.AsSpan(_length, count);
            bytes[..count].CopyTo(copy);
            _sums.Add(Position, copy);
            _length += count;
            _isChanged = true;
            bytes = bytes[count..];
            if (_length == BufferBytes || Position == device.SegmentEnd(_at)) WriteOut();
        }
    }

    /// <summary>Writes what is left.</summary>
    public void End()
    {
        if (_length == 0 || !_isChanged) return;
        int blocks = (_length + BlockBytes - 1) & -BlockBytes;
        _buffer.AsSpan(_length, blocks - _length).Clear();
        device.Write(_at, _buffer.AsSpan(0, blocks));
    }

    /// <summary>The batch is on disk.</summary>
    public void Kept()
    {
        _end = Position;
        int rest = Rest(_end);
        _buffer.AsSpan(_length - rest, rest).CopyTo(_kept);
    }

    /// <summary>The batch is not: it will be written once more.</summary>
    public void Failed() => _sums.Break();

    /// <summary>A checksum is wanted of the log up to an address: from the one before.</summary>
    public void SumUntil(long address) => _sums.Until(address);

    /// <summary>The checksum of a stretch that has been written since it was asked for.</summary>
    /// <returns>No: it has to be read again.</returns>
    public bool TryTakeSum(long from, long to, out uint checksum) => _sums.TryTake(from, to, out checksum);

    private void MoveTo(long address)
    {
        End();
        Place(address);
        device.Read(_at, _buffer.AsSpan(0, _length));
    }

    private void Place(long address) => (_at, _length, _isChanged) = (address - Rest(address), Rest(address), false);

    private void WriteOut()
    {
        device.Write(_at, _buffer.AsSpan(0, _length));
        (_at, _length) = (Position, 0);
    }

    private static int Rest(long address) => (int)(address & (BlockBytes - 1));
}

/// <summary>Checksums of what lies between the ends of commits, reckoned as it passes by. Whatever did not pass in order has
/// none.</summary>
internal sealed class LogSums
{
    private const int StretchesMax = 16;
    private readonly Lock _gate = new();
    private readonly Queue<long> _ends = [];
    private readonly Queue<(long From, long To, uint Sum)> _done = [];
    private long _from, _at;
    private uint _sum;

    public void Restart(long address)
    {
        lock (_gate) Begin(address);
    }

    public void Break()
    {
        lock (_gate)
        {
            _from = _at = -1;
            // What is written once more need not be the same to the bit: FASTER may have marked a record meanwhile.
            _done.Clear();
        }
    }

    public void Until(long address)
    {
        lock (_gate) _ends.Enqueue(address);
    }

    public void Add(long address, ReadOnlySpan<byte> bytes)
    {
        lock (_gate)
        {
            while (true)
            {
                // An end that lies at the beginning of what comes now is over, and one that was passed in disorder.
                while (_ends.TryPeek(out long passed) && passed <= address)
                {
                    _ends.Dequeue();
                    if (_at == passed) Finish();
                    else if (passed == address) Begin(address);
                }

                if (bytes.IsEmpty) return;
                int count = _ends.TryPeek(out long end) ? (int)Math.Min(bytes.Length, end - address) : bytes.Length;
                if (_at == address) (_sum, _at) = (Crc32C.Compute(bytes[..count], _sum), _at + count);
                else (_from, _at) = (-1, -1);
                address += count;
                bytes = bytes[count..];
            }
        }
    }

    public bool TryTake(long from, long to, out uint checksum)
    {
        lock (_gate)
        {
            while (_done.TryPeek(out var stretch) && stretch.From <= from)
            {
                _done.Dequeue();
                checksum = stretch.Sum;
                if ((stretch.From, stretch.To) == (from, to)) return true;
            }

            checksum = _sum;
            return (_from, _at) == (from, to);
        }
    }

    private void Begin(long address) => (_from, _at, _sum) = (address, address, 0);

    private void Finish()
    {
        _done.Enqueue((_from, _at, _sum));
        if (_done.Count > StretchesMax) _done.Dequeue();
        Begin(_at);
    }
}
