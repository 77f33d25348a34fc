// Reads a reduced file (ReducedStretch has its format). Opening verifies all of it: every block, and that they are all there. What is read
// later is verified again, so no byte is handed out that is not as it was written.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Reduced;

/// <summary>A window of a reduced file.</summary>
/// <param name="End">The boundary that a store stands at behind it.</param>
/// <param name="Through">The last version that has this state: those that follow the end are empty up to it.</param>
/// <param name="DataStart">Where its bytes begin, in those of all windows.</param>
/// <param name="DataEnd">Where they end.</param>
public readonly record struct ReducedFileWindow(Boundary End, VersionNumber Through, long DataStart, long DataEnd);

/// <summary>An open reduced file. Not thread-safe.</summary>
public sealed class ReducedFile : IDisposable
{
    private readonly ILogFile _file;
    private readonly string _path;
    private readonly List<Block> _blocks = [];
    private readonly List<ReducedFileWindow> _windows = [];
    private readonly ReducedHeader _header;
    private byte[] _buffer = [];
    private int _loaded = -1;

    private readonly record struct Block(long Position, long DataStart, int DataBytes);

    private ReducedFile(ILogFile file, string path)
    {
        (_file, _path) = (file, path);
        BlockHeader first = Load(0, 0);
        if (first.Kind != BlockKind.ReducedHeader || first.DataBytes != ReducedHeader.Bytes) { throw Corrupt(0, "it has no header"); }
        _header = ReducedHeader.Decode(_buffer.AsSpan(BlockFormat.HeaderBytes, first.DataBytes), path);
        long position = first.TotalBytes, dataStart = 0, windowStart = 0;
        for (long number = 1; number < _header.Blocks; number++)
        {
            BlockHeader block = Load(position, _header.Salt);
            bool isInPlace = block.Kind == BlockKind.Data && block.Number == number && block.StreamOffset == dataStart;
            if (!isInPlace || block.EntryCount is not (0 or 2)) { throw Corrupt(position, "a block is not in its place"); }
            _blocks.Add(new(position, dataStart, block.DataBytes));
            dataStart += block.DataBytes;
            if (block.EntryCount == 2)
            {
                LogEntry end = BlockFormat.Entry(_buffer, block.DataBytes, 0), run = BlockFormat.Entry(_buffer, block.DataBytes, 1);
                bool isEnd = end.Kind == EntryKind.ReducedBoundary && run.Kind == EntryKind.EmptyRun && run.Version >= end.Version
                    && end.Version >= Stretch.Lines[0].Version.Number;
                if (!isEnd) { throw Corrupt(position, "an entry ends no window"); }
                _windows.Add(new(end.ToBoundary(Stretch.LineOf(new(end.Version))), new(run.Version), windowStart, dataStart));
                windowStart = dataStart;
            }
            position += block.TotalBytes;
        }
        bool isWhole = position == file.Length && dataStart == _header.DataBytes && windowStart == dataStart
            && _windows.Count == _header.Windows && _windows.Count > 0 && _windows[^1].End.Offset == Stretch.LastOffset
            && _windows[0].End.Version == Stretch.First && _windows[^1].Through == Stretch.Last;
        if (!isWhole) { throw Corrupt(position, "it is not what its header says"); }
    }

    /// <summary>What it stands for.</summary>
    public ReducedStretch Stretch => _header.Stretch;

    /// <summary>Its windows, in order.</summary>
    public IReadOnlyList<ReducedFileWindow> Windows => _windows;

    /// <summary>The size of the file, in bytes.</summary>
    public long FileBytes => _file.Length;

    /// <summary>Bytes of all windows.</summary>
    public long DataBytes => _header.DataBytes;

    /// <summary>Opens a file, and verifies all of it.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">The file.</param>
    /// <exception cref="FileNotFoundException">There is none.</exception>
    /// <exception cref="LogCorruptException">It is not what was written.</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static ReducedFile Open(IFileLayer files, string path)
    {
        ArgumentNullException.ThrowIfNull(files);
        ILogFile file = files.Open(path, writable: false);
        try
        {
            return new(file, path);
        }
        catch
        {
            file.Dispose();
            throw;
        }
    }

    /// <summary>Reads bytes of the windows.</summary>
    /// <param name="at">From where, in those of all windows.</param>
    /// <param name="destination">Is filled as far as a block goes.</param>
    /// <returns>How many were read; 0: there are no more.</returns>
    /// <exception cref="LogCorruptException">They are not what was written.</exception>
    /// <exception cref="IOException">They cannot be read.</exception>
    public int Read(long at, Span<byte> destination)
    {
        ArgumentOutOfRangeException.ThrowIfNegative(at);
        if (at >= DataBytes || destination.IsEmpty) { return 0; }
        int low = 0, high = _blocks.Count - 1;
        while (low < high)
        {
            int middle = (low + high + 1) / 2;
            if (_blocks[middle].DataStart <= at) { low = middle; } else { high = middle - 1; }
        }
        Block block = _blocks[low];
        if (_loaded != low)
        {
            _loaded = -1;
            if (Load(block.Position, _header.Salt).DataBytes != block.DataBytes) { throw Corrupt(block.Position, "a block has changed"); }
            _loaded = low;
        }
        int from = (int)(at - block.DataStart), count = Math.Min(destination.Length, block.DataBytes - from);
        _buffer.AsSpan(BlockFormat.HeaderBytes + from, count).CopyTo(destination);
        return count;
    }

    /// <inheritdoc />
    public void Dispose() => _file.Dispose();

    // A whole block, verified, in the buffer.
    private BlockHeader Load(long position, uint salt)
    {
        Span<byte> head = stackalloc byte[BlockFormat.HeaderBytes];
        if (_file.Read(head, position) < head.Length || !BlockFormat.TryDecodeHeader(head, salt, position, out BlockHeader header))
        {
            throw Corrupt(position, "a block's header is damaged or missing");
        }
        if (_buffer.Length < header.TotalBytes) { _buffer = new byte[header.TotalBytes]; }
        Span<byte> block = _buffer.AsSpan(0, header.TotalBytes);
        if (_file.Read(block, position) < block.Length || !BlockFormat.IsPayloadIntact(block, header))
        {
            throw Corrupt(position, "a block is damaged or cut short");
        }
        return header;
    }

    private LogCorruptException Corrupt(long position, string problem) => new(_path, position, problem);
}
