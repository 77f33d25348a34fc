// Reads the stream's bytes back: for feeding a store, and for shipping. Follows the log: at its durable end it returns 0 and goes
// on when there is more. A reader never returns a byte of an abandoned world-line: after a change of history it throws.
using Slogger.Log.Format;
using Slogger.Log.Segments;

namespace Slogger.Log;

/// <summary>A cursor over the durable bytes of a <see cref="VersionLog"/>. Not thread-safe; independent of other
/// readers.</summary>
public sealed class LogReader : IDisposable
{
    private readonly Func<LogView> _view;
    private readonly long _generation;
    private readonly long _toOffset;
    private Segment? _segment;
    private BlockReader? _blocks;
    private long _nextBlock, _nextOffset;   // where the next block is in the segment, and in the stream
    private bool _hasBlock;

    internal LogReader(Func<LogView> view, long generation, long fromOffset, long toOffset)
    {
        _view = view;
        _generation = generation;
        _toOffset = toOffset;
        Position = fromOffset;
    }

    /// <summary>The stream offset of the next byte.</summary>
    public long Position { get; private set; }

    /// <summary>Reads bytes at <see cref="Position"/>, as many as lie together; 0 at the end given, or if no more are durable
    /// yet.</summary>
    /// <exception cref="LogHistoryChangedException">The history changed, or the position was trimmed away.</exception>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public int Read(Span<byte> destination)
    {
        LogView view = CurrentView();
        long available = Math.Min(view.Durable.Offset, _toOffset) - Position;
        if (available <= 0 || destination.IsEmpty)
        {
            return 0;
        }
        int index = view.ExtentAt(Position);
        if (index < 0)
        {
            throw new LogHistoryChangedException(
                $"Offset {Position} was trimmed; the log starts at {view.StartOffset}. Start from a checkpoint above that.");
        }
        Extent extent = view.Extents[index];
        ReadOnlySpan<byte> data = DataAtPosition(extent);
        available = Math.Min(available, extent.EndOffset - Position);
        int count = (int)Math.Min(Math.Min(available, destination.Length), data.Length);
        data[..count].CopyTo(destination);
        // Whoever starts a world-line may rely on it that no reader hands out what it voided.
        CurrentView();
        Position += count;
        return count;
    }

    /// <summary>Moves on to a later offset without reading what lies between.</summary>
    /// <param name="offset">At or above <see cref="Position"/>.</param>
    public void SkipTo(long offset)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(offset, Position);
        Position = offset;
        if (_segment is not { } segment) { return; }
        int index = CurrentView().ExtentAt(offset);
        if (index < 0 || CurrentView().Extents[index].Segment != segment) { return; }
        IndexPoint nearest = segment.FindOffset(offset);
        if (nearest.FilePosition <= _nextBlock) { return; }
        (_nextBlock, _nextOffset) = (nearest.FilePosition, nearest.StreamOffset);
        _blocks?.Seek(nearest);
        _hasBlock = false;
    }

    /// <summary>Closes the file.</summary>
    public void Dispose() => _blocks?.Dispose();

    private LogView CurrentView()
    {
        LogView view = _view();
        return view.Generation == _generation ? view : throw new LogHistoryChangedException(
            "A new world-line or history has started since this reader was opened.");
    }

    private ReadOnlySpan<byte> DataAtPosition(Extent extent)
    {
        Segment segment = extent.Segment;
        if (_segment != segment)
        {
            _blocks?.Dispose();
            _blocks = null;
            _hasBlock = false;
            try
            {
                IndexPoint nearest = segment.FindOffset(Position);
                (_nextBlock, _nextOffset) = (nearest.FilePosition, nearest.StreamOffset);
                _blocks = segment.OpenReader();
                _blocks.Seek(nearest);
            }
            catch (FileNotFoundException)
            {
                throw new LogHistoryChangedException($"Offset {Position} was trimmed while it was being read.");
            }
            _segment = segment;
        }
        while (!_hasBlock || Position >= _blocks!.Header.StreamOffset + _blocks.Header.DataBytes)
        {
            _hasBlock = false;
            // Those between are passed.
            long wantedFrom = _nextOffset < Position ? Position : long.MinValue;
            if (_blocks!.Read(_nextBlock, segment.DurableEnd, wantedFrom) != BlockStatus.Valid)
            {
                throw segment.Corrupt(_nextBlock, "a block that was durable is missing or damaged", _blocks);
            }
            _hasBlock = true;
            _nextBlock += _blocks.Header.TotalBytes;
            _nextOffset = _blocks.Header.StreamOffset + _blocks.Header.DataBytes;
        }
        return _blocks.Data[(int)(Position - _blocks.Header.StreamOffset)..];
    }
}
