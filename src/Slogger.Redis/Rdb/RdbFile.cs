// What the proxy must know of an RDB file: who wrote it and at which replication offset (its AUX fields), and whether it is
// whole (its checksum). It never parses keys; only Redis loads an RDB.
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Rdb;

/// <summary>Whether an RDB file is whole.</summary>
public enum RdbIntegrity
{
    /// <summary>The checksum matches.</summary>
    Good,
    /// <summary>Redis wrote no checksum (rdbchecksum no).</summary>
    Unchecked,
    /// <summary>Cut short, altered, or no RDB at all.</summary>
    Broken,
}

/// <summary>What an RDB file says about itself.</summary>
public sealed record RdbInfo
{
    /// <summary>Format version; 10 for Redis 7.0.</summary>
    public required int FormatVersion { get; init; }
    /// <summary>The AUX fields by name.</summary>
    public required IReadOnlyDictionary<string, string> Fields { get; init; }
    /// <summary>Size in bytes.</summary>
    public required long Bytes { get; init; }
    /// <summary>Identity of the stream it belongs to, if it says so.</summary>
    public string? ReplicationId => Fields.GetValueOrDefault("repl-id");
    /// <summary>Bytes of history that it holds, if it says so.</summary>
    public long? Offset => Number("repl-offset");
    /// <summary>The database selected in the stream at that offset, if it says so.</summary>
    public int? StreamDatabase => (int?)Number("repl-stream-db");

    private long? Number(string field) =>
        long.TryParse(Fields.GetValueOrDefault(field), CultureInfo.InvariantCulture, out long value) ? value : null;
}

/// <summary>Reads and checks RDB files, and makes an empty one.</summary>
public static class RdbFile
{
    private const byte OpAux = 0xFA;
    private const byte OpEof = 0xFF;

    /// <summary>Bytes of the checksum at the end.</summary>
    public const int ChecksumBytes = 8;

    /// <summary>Reads the header and the AUX fields.</summary>
    /// <exception cref="RedisException">It is no RDB file, or cannot be read (LocalFile).</exception>
    public static RdbInfo Inspect(string path)
    {
        try
        {
            using var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, 64 << 10);
            return Inspect(file, path);
        }
        catch (IOException e)
        {
            throw new RedisException(RedisProblem.LocalFile, $"The RDB file {path} cannot be read: {e.Message}.", e);
        }
    }

    /// <summary>Checks the whole file's checksum. Reads every byte: about 1 s per GB.</summary>
    /// <exception cref="RedisException">It cannot be read (LocalFile).</exception>
    public static RdbIntegrity Verify(string path)
    {
        try
        {
            using var file = new FileStream(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite, 1);
            return Verify(file);
        }
        catch (IOException e)
        {
            throw new RedisException(RedisProblem.LocalFile, $"The RDB file {path} cannot be read: {e.Message}.", e);
        }
    }

    /// <summary>The same of what is open.</summary>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static RdbIntegrity Verify(Stream file)
    {
        ArgumentNullException.ThrowIfNull(file);
        var check = new RdbChecker();
        byte[] buffer = new byte[1 << 20];
        int read;
        while ((read = file.Read(buffer)) > 0)
            check.Append(buffer.AsSpan(0, read));
        return check.Result();
    }

    /// <summary>An RDB of an empty data set, for a history that begins with nothing.</summary>
    public static byte[] Empty()
    {
        byte[] bytes = [.. "REDIS0010"u8, OpEof, .. new byte[ChecksumBytes]];
        BinaryPrimitives.WriteUInt64LittleEndian(bytes.AsSpan(bytes.Length - ChecksumBytes),
            Crc64.Append(0, bytes.AsSpan(0, bytes.Length - ChecksumBytes)));
        return bytes;
    }

    private static RdbInfo Inspect(FileStream file, string path)
    {
        Span<byte> header = stackalloc byte[9];
        if (file.ReadAtLeast(header, 9, throwOnEndOfStream: false) < 9 || !header[..5].SequenceEqual("REDIS"u8)
            || !int.TryParse(header[5..], CultureInfo.InvariantCulture, out int version))
            throw new RedisException(RedisProblem.LocalFile, $"{path} is no RDB file.");
        var fields = new Dictionary<string, string>(StringComparer.Ordinal);
        while (file.ReadByte() == OpAux)
        {
            string name = ReadString(file, path);
            fields[name] = ReadString(file, path);
        }
        return new RdbInfo { FormatVersion = version, Fields = fields, Bytes = file.Length };
    }

    // Lengths and integers as strings are encoded as in Redis's rdb.c: two bits of kind, then the value.
    private static string ReadString(FileStream file, string path)
    {
        int first = ReadByte(file, path);
        switch (first >> 6)
        {
            case 0: return ReadText(file, path, first & 63);
            case 1: return ReadText(file, path, ((first & 63) << 8) | ReadByte(file, path));
            case 2:
                Span<byte> big = stackalloc byte[first == 0x81 ? 8 : 4];
                file.ReadExactly(big);
                return ReadText(file, path, first == 0x81 ? BinaryPrimitives.ReadInt64BigEndian(big)
                    : BinaryPrimitives.ReadUInt32BigEndian(big));
            default:
                Span<byte> small = stackalloc byte[4];
                small.Clear();
                int size = (first & 63) switch { 0 => 1, 1 => 2, 2 => 4, _ => throw Broken(path) };
                file.ReadExactly(small[..size]);
                int value = size switch { 1 => (sbyte)small[0], 2 => BinaryPrimitives.ReadInt16LittleEndian(small), _ =>
                    BinaryPrimitives.ReadInt32LittleEndian(small) };
                return value.ToString(CultureInfo.InvariantCulture);
        }
    }

    private static string ReadText(FileStream file, string path, long length)
    {
        if (length is < 0 or > 1 << 20)
            throw Broken(path);
        byte[] bytes = new byte[length];
        file.ReadExactly(bytes);
        return Encoding.UTF8.GetString(bytes);
    }

    private static int ReadByte(FileStream file, string path)
    {
        int b = file.ReadByte();
        return b >= 0 ? b : throw Broken(path);
    }

    private static RedisException Broken(string path) =>
        new(RedisProblem.LocalFile, $"The AUX fields of the RDB file {path} are broken.");
}

/// <summary>Checks an RDB that passes by in pieces.</summary>
public sealed class RdbChecker
{
    private readonly byte[] _tail = new byte[RdbFile.ChecksumBytes];
    private int _tailLength;
    private ulong _crc;
    private bool _startsRight = true;

    /// <summary>Bytes seen.</summary>
    public long Bytes { get; private set; }

    /// <summary>The next piece.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        ReadOnlySpan<byte> magic = "REDIS"u8;
        for (int i = 0; i < bytes.Length && Bytes + i < magic.Length; i++)
            _startsRight &= bytes[i] == magic[(int)Bytes + i];
        Bytes += bytes.Length;
        // The last eight bytes seen stay out of the sum: they may be the checksum itself.
        if (bytes.Length >= _tail.Length)
        {
            _crc = Crc64.Append(_crc, _tail.AsSpan(0, _tailLength));
            _crc = Crc64.Append(_crc, bytes[..^_tail.Length]);
            bytes[^_tail.Length..].CopyTo(_tail);
            _tailLength = _tail.Length;
            return;
        }
        int release = Math.Max(0, _tailLength + bytes.Length - _tail.Length);
        _crc = Crc64.Append(_crc, _tail.AsSpan(0, release));
        _tail.AsSpan(release, _tailLength - release).CopyTo(_tail);
        bytes.CopyTo(_tail.AsSpan(_tailLength - release));
        _tailLength += bytes.Length - release;
    }

    /// <summary>The verdict over all pieces.</summary>
    public RdbIntegrity Result()
    {
        if (!_startsRight || Bytes < 9 + 1 + RdbFile.ChecksumBytes)
            return RdbIntegrity.Broken;
        ulong stored = BinaryPrimitives.ReadUInt64LittleEndian(_tail);
        return stored == 0 ? RdbIntegrity.Unchecked : stored == _crc ? RdbIntegrity.Good : RdbIntegrity.Broken;
    }
}
