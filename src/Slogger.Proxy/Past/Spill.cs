// Work that may be larger than memory: pieces of bytes that are written once, and read in the same order. Up to a bound they are in memory,
// and what is above that is in a file. The file has no name once it is open, so it ends with the process, however that ends. It is not
// synced: nobody reads it after a crash.
//
// The file: for each piece i32 bytes, i32 commands, u32 CRC-32C of these fields and of the piece, little-endian, and the piece.
using System.Buffers.Binary;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Proxy.Past;

/// <summary>A piece.</summary>
/// <param name="Bytes">Its content.</param>
/// <param name="Count">How many commands, or keys, it has.</param>
internal readonly record struct SpilledPiece(byte[] Bytes, int Count);

/// <summary>Pieces in order. Not thread-safe.</summary>
/// <param name="files">The disk.</param>
/// <param name="directory">Where the file goes.</param>
/// <param name="heldMax">How many bytes stay in memory.</param>
internal sealed class Spill(IFileLayer files, string directory, int heldMax) : IDisposable
{
    private const int FieldBytes = 8, HeadBytes = FieldBytes + sizeof(uint);

    private readonly List<SpilledPiece> _held = [];
    private ILogFile? _file;
    private bool _isDisposed;

    /// <summary>Bytes of all pieces.</summary>
    public long Bytes { get; private set; }

    /// <summary>Bytes of the file.</summary>
    public long FileBytes { get; private set; }

    /// <summary>Deletes what a process before was just opening when it was killed.</summary>
    /// <exception cref="IOException">It cannot be deleted.</exception>
    public static void Clear(string directory)
    {
        if (Directory.Exists(directory)) { Directory.Delete(directory, recursive: true); }
    }

    /// <summary>Adds a piece; it is copied.</summary>
    /// <param name="piece">Its content.</param>
    /// <param name="count">How many commands, or keys, it has.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Append(ReadOnlySpan<byte> piece, int count)
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        if (_file is null && Bytes + piece.Length <= heldMax) { _held.Add(new(piece.ToArray(), count)); }
        else
        {
            _file ??= Open();
            Span<byte> head = stackalloc byte[HeadBytes];
            BinaryPrimitives.WriteInt32LittleEndian(head, piece.Length);
            BinaryPrimitives.WriteInt32LittleEndian(head[sizeof(int)..], count);
            BinaryPrimitives.WriteUInt32LittleEndian(head[FieldBytes..], Crc32C.Compute(piece, Crc32C.Compute(head[..FieldBytes])));
            _file.Write(head, FileBytes);
            _file.Write(piece, FileBytes + HeadBytes);
            FileBytes += HeadBytes + piece.Length;
        }
        Bytes += piece.Length;
    }

    /// <summary>All pieces.</summary>
    /// <exception cref="IOException">The disk does not give back what it took.</exception>
    public IEnumerable<SpilledPiece> Read()
    {
        ObjectDisposedException.ThrowIf(_isDisposed, this);
        foreach (SpilledPiece piece in _held) { yield return piece; }
        var head = new byte[HeadBytes];
        for (long at = 0; at < FileBytes;)
        {
            bool isWhole = _file!.Read(head, at) == HeadBytes;
            int length = BinaryPrimitives.ReadInt32LittleEndian(head);
            isWhole &= length >= 0 && length <= FileBytes - at - HeadBytes;
            byte[] piece = isWhole ? new byte[length] : [];
            if (!isWhole || _file.Read(piece, at + HeadBytes) < length || BinaryPrimitives.ReadUInt32LittleEndian(head.AsSpan(FieldBytes))
                != Crc32C.Compute(piece, Crc32C.Compute(head.AsSpan(0, FieldBytes))))
            {
                throw new IOException($"what was written to a file in {directory} is not what is read there: look at the disk");
            }
            yield return new(piece, BinaryPrimitives.ReadInt32LittleEndian(head.AsSpan(sizeof(int))));
            at += HeadBytes + length;
        }
    }

    public void Dispose()
    {
        _isDisposed = true;
        _file?.Dispose();
        _held.Clear();
    }

    private ILogFile Open()
    {
        files.CreateDirectory(directory);
        string path = Path.Combine(directory, Guid.NewGuid().ToString("N"));
        ILogFile file = files.Create(path);
        files.Delete(path);
        return file;
    }
}
