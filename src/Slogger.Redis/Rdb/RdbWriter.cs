// Writes an RDB file of some keys, each with its value as the past gave it. The format's version is that of the newest value; so the head
// and the checksum are written at the end.
using System.Buffers.Binary;
using System.Globalization;
using System.Text;

namespace Slogger.Redis.Rdb;

/// <summary>Writes. Not thread-safe.</summary>
/// <param name="file">An empty file, which can be read back. It is the caller's.</param>
public sealed class RdbWriter(Stream file)
{
    private const byte OpExpiry = 0xFC, OpSelect = 0xFE, OpEnd = 0xFF;
    private const int HeadBytes = 9, PayloadTailBytes = 2 + 8, BufferBytes = 1 << 20;

    // What strings and expiries need: any Redis from 5 on reads it.
    private const int FormatMin = 9;

    private readonly BufferedStream _buffered = new(file, BufferBytes);
    private int _format = FormatMin;
    private int? _database;

    /// <summary>How many keys there are.</summary>
    public long Keys { get; private set; }

    /// <summary>Adds a key.</summary>
    /// <param name="database">Its database.</param>
    /// <param name="name">Its name.</param>
    /// <param name="isString">Whether the value is that of a string. Else it is as DUMP gives it.</param>
    /// <param name="value">Its value.</param>
    /// <param name="expiresAtMs">When it is to expire, in milliseconds since the Unix epoch; 0: never.</param>
    /// <exception cref="IOException">It cannot be written.</exception>
    public void Add(int database, byte[] name, bool isString, byte[] value, long expiresAtMs)
    {
        ArgumentNullException.ThrowIfNull(name);
        ArgumentNullException.ThrowIfNull(value);
        if (_database is null) { _buffered.Write(stackalloc byte[HeadBytes]); }
        if (_database != database)
        {
            _database = database;
            _buffered.WriteByte(OpSelect);
            WriteLength(database);
        }
        if (expiresAtMs != 0)
        {
            _buffered.WriteByte(OpExpiry);
            Span<byte> time = stackalloc byte[8];
            BinaryPrimitives.WriteInt64LittleEndian(time, expiresAtMs);
            _buffered.Write(time);
        }
        _buffered.WriteByte(isString ? RdbCursor.StringType : value[0]);
        WriteString(name);
        if (isString) { WriteString(value); }
        else
        {
            // As DUMP gives it: the type, the value, the format's version, a checksum.
            _buffered.Write(value.AsSpan(1, value.Length - 1 - PayloadTailBytes));
            _format = Math.Max(_format, BinaryPrimitives.ReadUInt16LittleEndian(value.AsSpan(value.Length - PayloadTailBytes)));
        }
        Keys++;
    }

    /// <summary>Ends the file; it is on disk when this returns. Reads all of it once.</summary>
    /// <exception cref="IOException">It cannot be written.</exception>
    public void End()
    {
        if (_database is null) { _buffered.Write(stackalloc byte[HeadBytes]); }
        _buffered.WriteByte(OpEnd);
        _buffered.Position = 0;
        _buffered.Write(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"REDIS{_format:0000}")));
        _buffered.Position = 0;
        var part = new byte[BufferBytes];
        ulong checksum = 0;
        for (int read; (read = _buffered.Read(part)) > 0;) { checksum = Crc64.Append(checksum, part.AsSpan(0, read)); }
        Span<byte> tail = stackalloc byte[RdbFile.ChecksumBytes];
        BinaryPrimitives.WriteUInt64LittleEndian(tail, checksum);
        _buffered.Write(tail);
        _buffered.Flush();
        (file as FileStream)?.Flush(flushToDisk: true);
    }

    private void WriteString(byte[] text)
    {
        WriteLength(text.Length);
        _buffered.Write(text);
    }

    // As in Redis's rdb.c: two bits of kind, then the number.
    private void WriteLength(int length)
    {
        if (length < 1 << 6) { _buffered.WriteByte((byte)length); }
        else if (length < 1 << 14)
        {
            _buffered.WriteByte((byte)(0x40 | (length >> 8)));
            _buffered.WriteByte((byte)length);
        }
        else
        {
            _buffered.WriteByte(0x80);
            Span<byte> big = stackalloc byte[4];
            BinaryPrimitives.WriteInt32BigEndian(big, length);
            _buffered.Write(big);
        }
    }
}
