// Writes a reduced file (ReducedStretch has its format): aside first, then synced, then renamed, then its directory is synced. So it is
// whole or absent after a crash. What was left aside by a process that ended is overwritten by the next attempt.
using System.Runtime.InteropServices;
using System.Security.Cryptography;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Reduced;

/// <summary>One reduced file in the making. For one use, by one thread.</summary>
public sealed class ReducedFileWriter : IDisposable
{
    private const string AsideExtension = ".tmp";
    private const int BlockDataBytesMax = 1 << 20, EntriesOfEnd = 2;
    private static readonly int s_headerBytes = BlockFormat.TotalBytes(ReducedHeader.Bytes, 0);
    private static readonly int s_blockBytesMax = BlockFormat.TotalBytes(BlockDataBytesMax, EntriesOfEnd);

    private readonly IFileLayer _files;
    private readonly string _path;
    private readonly ILogFile _file;
    private readonly ArraySegment<byte> _buffer = AlignedBuffer.Allocate(s_blockBytesMax);
    private readonly uint _salt = (uint)RandomNumberGenerator.GetInt32(1, int.MaxValue);
    private Boundary? _last;
    private VersionNumber _through;
    private int _filled;
    private long _position = s_headerBytes, _dataBytes, _windows, _blocks = 1;
    private bool _isFinished;

    /// <summary>Begins a file.</summary>
    /// <param name="files">The disk.</param>
    /// <param name="path">Its name when it is finished; its directory is there.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public ReducedFileWriter(IFileLayer files, string path)
    {
        ArgumentNullException.ThrowIfNull(files);
        (_files, _path) = (files, path);
        _file = files.Create(path + AsideExtension);
    }

    /// <summary>Appends to the window under way.</summary>
    /// <exception cref="IOException">The disk refused: the file comes to nothing.</exception>
    public void Append(ReadOnlySpan<byte> data)
    {
        while (!data.IsEmpty)
        {
            if (_filled == BlockDataBytesMax) { WriteBlock(null, default); }
            int taken = Math.Min(data.Length, BlockDataBytesMax - _filled);
            data[..taken].CopyTo(_buffer.AsSpan(BlockFormat.HeaderBytes + _filled));
            _filled += taken;
            data = data[taken..];
        }
    }

    /// <summary>Ends the window under way; it may be empty.</summary>
    /// <param name="boundary">Where it ends: above the one before.</param>
    /// <param name="through">The last of the empty versions that follow it; or its own.</param>
    /// <exception cref="IOException">The disk refused: the file comes to nothing.</exception>
    public void EndWindow(in Boundary boundary, VersionNumber through)
    {
        if (through < boundary.Version || (_last is { } last && (boundary.Version <= _through || boundary.Offset < last.Offset)))
        {
            throw new ArgumentException("A window ends above the one before.", nameof(boundary));
        }
        WriteBlock(boundary, through);
        (_last, _through) = (boundary, through);
        _windows++;
    }

    /// <summary>Gives the file its name. It is durable when this returns.</summary>
    /// <param name="stretch">What it stands for.</param>
    /// <exception cref="IOException">The disk refused. A crash then leaves the whole file, or none.</exception>
    public void Finish(ReducedStretch stretch)
    {
        ArgumentNullException.ThrowIfNull(stretch);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(stretch.Next.Length, ReducedHeader.NameBytesMax, nameof(stretch));
        ArgumentOutOfRangeException.ThrowIfGreaterThan(stretch.Lines.Count, ReducedStretch.LinesMax, nameof(stretch));
        if (_filled > 0 || _last?.Offset != stretch.LastOffset || _through != stretch.Last)
        {
            throw new ArgumentException("The last window ends where the stretch does.", nameof(stretch));
        }
        new ReducedHeader(stretch, _salt, _dataBytes, _windows, _blocks).Encode(_buffer.AsSpan(BlockFormat.HeaderBytes));
        int length = BlockFormat.Seal(_buffer, BlockKind.ReducedHeader, 0, 0, 0, 0, ReducedHeader.Bytes, 0, 0);
        _file.Write(_buffer.AsSpan(0, length), 0);
        _file.SyncData();
        _file.Dispose();
        _files.Rename(_path + AsideExtension, _path);
        _files.SyncDirectory(Path.GetDirectoryName(_path)!);
        _isFinished = true;
    }

    /// <summary>Takes away what is not finished.</summary>
    public void Dispose()
    {
        _file.Dispose();
        if (_isFinished) { return; }
        try
        {
            _files.Delete(_path + AsideExtension);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The next attempt overwrites it.
        }
    }

    private void WriteBlock(Boundary? end, VersionNumber through)
    {
        int entries = 0;
        if (end is { } boundary)
        {
            int at = BlockFormat.EntriesStart(_filled);
            MemoryMarshal.Write(_buffer.AsSpan(at), new LogEntry(EntryKind.ReducedBoundary, boundary));
            MemoryMarshal.Write(_buffer.AsSpan(at + LogEntry.Bytes), new LogEntry(EntryKind.EmptyRun, boundary with { Version = through }));
            entries = EntriesOfEnd;
        }
        int length = BlockFormat.Seal(_buffer, BlockKind.Data, _salt, _dataBytes, _position, 0, _filled, entries, _blocks);
        _file.Write(_buffer.AsSpan(0, length), _position);
        _position += length;
        _dataBytes += _filled;
        _blocks++;
        _filled = 0;
    }
}
