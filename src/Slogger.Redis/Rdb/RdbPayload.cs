// What an RDB file holds, in the form in which Redis takes it by RESTORE and FUNCTION RESTORE: the same bytes, and behind them the format's
// version and a checksum.
using System.Buffers.Binary;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Rdb;

/// <summary>Makes payloads.</summary>
public static class RdbPayload
{
    private const int TailBytes = 2 + 8;

    /// <summary>The value of an entry, for RESTORE.</summary>
    /// <param name="file">The file.</param>
    /// <param name="entry">Its entry.</param>
    /// <param name="formatVersion">The version of the file's format.</param>
    /// <exception cref="RedisException">The file is not what it was (LocalFile).</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static byte[] Of(RdbCursor file, in RdbEntry entry, int formatVersion)
    {
        ArgumentNullException.ThrowIfNull(file);
        int length = checked((int)(entry.End - entry.ValueStart));
        var payload = new byte[1 + length + TailBytes];
        payload[0] = entry.Type;
        file.CopyAt(entry.ValueStart, payload.AsSpan(1, length));
        return Closed(payload, formatVersion);
    }

    /// <summary>The libraries of functions that the file has passed, for FUNCTION RESTORE.</summary>
    /// <param name="file">The file, whose place moves.</param>
    /// <param name="formatVersion">The version of the file's format.</param>
    /// <exception cref="RedisException">The file is not what it was (LocalFile).</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static byte[] OfLibraries(RdbCursor file, int formatVersion)
    {
        ArgumentNullException.ThrowIfNull(file);
        var payload = new byte[file.Libraries.Sum(l => checked((int)(l.End - l.Start))) + TailBytes];
        int at = 0;
        foreach ((long start, long end) in file.Libraries)
        {
            file.CopyAt(start, payload.AsSpan(at, (int)(end - start)));
            at += (int)(end - start);
        }
        return Closed(payload, formatVersion);
    }

    private static byte[] Closed(byte[] payload, int formatVersion)
    {
        Span<byte> tail = payload.AsSpan(payload.Length - TailBytes);
        BinaryPrimitives.WriteUInt16LittleEndian(tail, (ushort)formatVersion);
        BinaryPrimitives.WriteUInt64LittleEndian(tail[2..], Crc64.Append(0, payload.AsSpan(0, payload.Length - 8)));
        return payload;
    }
}
