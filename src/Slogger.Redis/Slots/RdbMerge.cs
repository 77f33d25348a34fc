// One RDB file of parts of several: for a backup whose shards are cut otherwise than the primary's; or of a part of one: of the keys that a
// shard had. A key's entry is taken as it stands, with its expiry and what eviction knows of it; fields about the file are left out, since
// they speak of another one. Only database 0 is known here, as in a cluster.
using System.Buffers.Binary;
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Redis.Slots;

/// <summary>A part of a merged file.</summary>
/// <param name="Path">The RDB file that it is taken from.</param>
/// <param name="Share">What of it.</param>
public readonly record struct RdbPart(string Path, SlotShare Share);

/// <summary>Merges RDB files.</summary>
public static class RdbMerge
{
    private const int WindowBytes = 1 << 20;

    /// <summary>Whether a file can be taken apart by slots; reads all of it.</summary>
    /// <returns>Why it cannot; null: it can.</returns>
    /// <exception cref="IOException">It cannot be read.</exception>
    public static string? Flaw(string path)
    {
        try
        {
            using var cursor = new RdbCursor(path, WindowBytes);
            cursor.ReadHead();
            while (cursor.ReadEntry() is { } entry) { RequireFirst(entry); }
            return null;
        }
        catch (Exception e) when (e is RedisException or SlotEffectException)
        {
            return e.Message;
        }
    }

    /// <summary>Writes a file of parts of others, with its checksum. Not synced.</summary>
    /// <param name="path">The new file.</param>
    /// <param name="parts">No key is in two of them.</param>
    /// <exception cref="RedisException">A file cannot be walked (LocalFile).</exception>
    /// <exception cref="SlotEffectException">It has keys in other databases.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static void Write(string path, IReadOnlyList<RdbPart> parts) => _ = Write(path,
        [.. parts.Select(p => (p.Path, (Func<byte[], bool>)(key => p.Share.Slots.Contains(HashSlot.Of(key))), p.Share.HasFunctions))]);

    /// <summary>Writes a file of some keys of another, and its functions. Not synced.</summary>
    /// <param name="path">The new file.</param>
    /// <param name="from">The other.</param>
    /// <param name="isWanted">Whether a key is one of them.</param>
    /// <returns>How many there are.</returns>
    /// <exception cref="RedisException">The file cannot be walked (LocalFile).</exception>
    /// <exception cref="SlotEffectException">It has keys in other databases.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    public static long Write(string path, string from, Func<byte[], bool> isWanted) => Write(path, [(from, isWanted, true)]);

    private static long Write(string path, IReadOnlyList<(string Path, Func<byte[], bool> IsWanted, bool HasFunctions)> parts)
    {
        RdbCursor[] cursors = [.. parts.Select(p => new RdbCursor(p.Path, WindowBytes))];
        long keys = 0;
        try
        {
            using FileStream file = PrivateFile.Create(path, bufferBytes: 0);
            var output = new Output(file);
            int version = cursors.Select(c => c.ReadHead()).Max();
            output.Add(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"REDIS{version:D4}")));
            output.Add([0xFE, 0]);
            for (int i = 0; i < parts.Count; i++) { keys += Copy(cursors[i], parts[i].IsWanted, parts[i].HasFunctions, output); }
            output.End();
            return keys;
        }
        finally
        {
            foreach (RdbCursor cursor in cursors) { cursor.Dispose(); }
        }
    }

    private static long Copy(RdbCursor cursor, Func<byte[], bool> isWanted, bool hasFunctions, Output output)
    {
        long keys = 0;
        while (cursor.ReadEntry() is { } entry)
        {
            RequireFirst(entry);
            if (isWanted(entry.Key))
            {
                output.Add(cursor, entry.Start, entry.End);
                keys++;
            }
            cursor.Seek(entry.End);
        }
        foreach ((long start, long end) in hasFunctions ? cursor.Libraries : []) { output.Add(cursor, start, end); }
        return keys;
    }

    private static void RequireFirst(in RdbEntry entry)
    {
        if (entry.Database != 0)
        {
            throw new SlotEffectException($"there are keys in database {entry.Database}, and a cluster has database 0 only", isOver: false);
        }
    }

    private sealed class Output(FileStream file)
    {
        private readonly byte[] _buffer = new byte[WindowBytes];
        private int _length;
        private ulong _crc;

        public void Add(ReadOnlySpan<byte> bytes)
        {
            if (_buffer.Length - _length < bytes.Length) { Flush(); }
            bytes.CopyTo(_buffer.AsSpan(_length));
            _length += bytes.Length;
        }

        public void Add(RdbCursor from, long start, long end)
        {
            while (start < end)
            {
                if (_length == _buffer.Length) { Flush(); }
                int count = (int)Math.Min(_buffer.Length - _length, end - start);
                from.CopyAt(start, _buffer.AsSpan(_length, count));
                _length += count;
                start += count;
            }
        }

        public void End()
        {
            Add([0xFF]);
            Flush();
            Span<byte> sum = stackalloc byte[RdbFile.ChecksumBytes];
            BinaryPrimitives.WriteUInt64LittleEndian(sum, _crc);
            file.Write(sum);
            file.Flush();
        }

        private void Flush()
        {
            _crc = Crc64.Append(_crc, _buffer.AsSpan(0, _length));
            file.Write(_buffer, 0, _length);
            _length = 0;
        }
    }
}
