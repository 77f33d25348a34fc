// Writes an RDB file, for a store that is no Redis and has strings only: so that its states can be loaded by one.
using System.Buffers.Binary;

namespace Slogger.Redis.Rdb;

/// <summary>Writes a file, one key after the other. Whoever ends before <see cref="Finish"/> leaves a part, which is no RDB file. Not
/// thread-safe.</summary>
public sealed class RdbWriter : IDisposable
{
    private const int BufferBytes = 1 << 20;
    private const byte OpExpiry = 0xFC, OpDatabase = 0xFE, OpEof = 0xFF, StringType = 0;
    private const byte Length14 = 0x40, Length32 = 0x80;

    private readonly FileStream _file;
    private readonly byte[] _buffer = new byte[BufferBytes];
    private int _used;
    private ulong _crc;

    /// <summary>Makes the file, or empties one that is there.</summary>
    /// <param name="path">The file; nobody but its owner may read it.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public RdbWriter(string path)
    {
        _file = PrivateFile.Create(path, bufferBytes: 0);
        // Redis 5 and later.
        Write("REDIS0009"u8);
        Write([OpDatabase, 0]);
    }

    /// <summary>Bytes of the file so far.</summary>
    public long Bytes { get; private set; }

    /// <summary>Adds a key that was not added before.</summary>
    /// <param name="key">The key.</param>
    /// <param name="value">Its value.</param>
    /// <param name="expiresAtMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Add(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiresAtMs)
    {
        if (expiresAtMs != 0)
        {
            Span<byte> expiry = stackalloc byte[1 + sizeof(long)];
            expiry[0] = OpExpiry;
            BinaryPrimitives.WriteInt64LittleEndian(expiry[1..], expiresAtMs);
            Write(expiry);
        }
        Write([StringType]);
        WriteText(key);
        WriteText(value);
    }

    /// <summary>Ends the file. It is not synced.</summary>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Finish()
    {
        Write([OpEof]);
        Flush();
        Span<byte> checksum = stackalloc byte[RdbFile.ChecksumBytes];
        BinaryPrimitives.WriteUInt64LittleEndian(checksum, _crc);
        Write(checksum);
        Flush();
    }

    /// <inheritdoc />
    public void Dispose() => _file.Dispose();

    private void WriteText(ReadOnlySpan<byte> text)
    {
        Span<byte> length = stackalloc byte[1 + sizeof(uint)];
        if (text.Length < 1 << 6)
        {
            length[0] = (byte)text.Length;
            length = length[..1];
        }
        else if (text.Length < 1 << 14)
        {
            BinaryPrimitives.WriteUInt16BigEndian(length, (ushort)((Length14 << 8) | text.Length));
            length = length[..2];
        }
        else
        {
            length[0] = Length32;
            BinaryPrimitives.WriteUInt32BigEndian(length[1..], (uint)text.Length);
        }
        Write(length);
        Write(text);
    }

    private void Write(ReadOnlySpan<byte> bytes)
    {
        Bytes += bytes.Length;
        while (!bytes.IsEmpty)
        {
            if (_used == _buffer.Length) { Flush(); }
            int count = Math.Min(bytes.Length, _buffer.Length - _used);
            bytes[..count].CopyTo(_buffer.AsSpan(_used));
            _used += count;
            bytes = bytes[count..];
        }
    }

    private void Flush()
    {
        _crc = Crc64.Append(_crc, _buffer.AsSpan(0, _used));
        _file.Write(_buffer, 0, _used);
        _used = 0;
    }
}
