// Where each key's entry is in a checkpoint's RDB file: a file beside it, built in the background, so that the values of a few
// thousand keys among millions are found in milliseconds. It can be lost at any time, and is built again then.
//
// The file: "SLGRIX01", i64 length of the RDB file, i64 the caller's mark for it, u32 its format version, u32 0, i64 count, u64
// CRC-64 of what follows and of these fields; then the entries, ordered by hash: u64 hash of database and key, u64 place in the
// RDB file (48 bits) and database (16 bits above). All little-endian.
using System.Buffers.Binary;
using System.Runtime.InteropServices;
using Microsoft.Win32.SafeHandles;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;

namespace Slogger.Redis.Rollback;

/// <summary>The index of one checkpoint. Look-ups are for one thread at a time.</summary>
public sealed class CheckpointIndex : IDisposable
{
    /// <summary>Most keys that are indexed: building takes 16 bytes of memory for each.</summary>
    public const int KeysMax = 16_000_000;

    private const int HeadBytes = 48;
    private const int EntryBytes = 16;
    private const int EntriesPerBucket = 64;
    private const int BuildWindowBytes = 1 << 20;
    private const int FindWindowBytes = 4 << 10;
    private static ReadOnlySpan<byte> Magic => "SLGRIX01"u8;

    private readonly SafeFileHandle _file;
    private readonly RdbCursor _rdb;
    private readonly int[] _buckets; // of each value of the hash's first bits, the first entry at or above it
    private readonly int _shift;
    private byte[] _found = new byte[EntriesPerBucket * 4 * EntryBytes];

    private CheckpointIndex(SafeFileHandle file, RdbCursor rdb, int formatVersion, int[] buckets, int shift)
    {
        _file = file;
        _rdb = rdb;
        FormatVersion = formatVersion;
        _buckets = buckets;
        _shift = shift;
    }

    /// <summary>The format version of the RDB file, which a value taken from it has to name.</summary>
    public int FormatVersion { get; }

    /// <summary>How many keys the checkpoint holds.</summary>
    public int Count => _buckets[^1];

    /// <summary>Builds the index of an RDB file; replaces one that is there.</summary>
    /// <param name="rdbPath">The RDB file.</param>
    /// <param name="indexPath">Where the index goes.</param>
    /// <param name="mark">Tells this RDB file from others: its checksum.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="RedisException">The file cannot be walked (LocalFile); the text says why.</exception>
    /// <exception cref="IOException">A file cannot be read or written.</exception>
    public static void Build(string rdbPath, string indexPath, long mark, CancellationToken stop)
    {
        using var rdb = new RdbCursor(rdbPath, BuildWindowBytes);
        int version = rdb.ReadHead();
        var hashes = new List<ulong>();
        var places = new List<ulong>();
        while (rdb.ReadEntry() is { } entry)
        {
            if (hashes.Count == KeysMax || entry.Database > ushort.MaxValue)
            {
                throw new RedisException(RedisProblem.LocalFile, $"{rdbPath} holds more keys ({KeysMax}) or databases than are indexed.");
            }
            hashes.Add(StoreKey.HashOf(entry.Database, entry.Key));
            places.Add((ulong)entry.Start | ((ulong)entry.Database << 48));
            if ((hashes.Count & 0xFFF) == 0) { stop.ThrowIfCancellationRequested(); }
        }
        Span<ulong> keys = CollectionsMarshal.AsSpan(hashes);
        keys.Sort(CollectionsMarshal.AsSpan(places));
        Write(indexPath, rdb.Length, mark, version, keys, CollectionsMarshal.AsSpan(places));
    }

    /// <summary>Opens the index of an RDB file; null if there is none, or none of exactly this file.</summary>
    /// <param name="rdbPath">The RDB file.</param>
    /// <param name="indexPath">The index.</param>
    /// <param name="mark">As it was built with.</param>
    /// <exception cref="IOException">A file cannot be read.</exception>
    public static CheckpointIndex? Open(string rdbPath, string indexPath, long mark)
    {
        if (!File.Exists(indexPath)) { return null; }
        var rdb = new RdbCursor(rdbPath, FindWindowBytes);
        SafeFileHandle file = File.OpenHandle(indexPath, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
        if (Load(file, rdb.Length, mark) is { } loaded)
        {
            return new CheckpointIndex(file, rdb, loaded.Version, loaded.Buckets, loaded.Shift);
        }
        file.Dispose();
        rdb.Dispose();
        return null;
    }

    /// <summary>Finds a key's entry.</summary>
    /// <exception cref="RedisException">The RDB file is not what it was (LocalFile).</exception>
    /// <exception cref="IOException">A file cannot be read.</exception>
    public RdbEntry? Find(in StoreKey key)
    {
        int bucket = (int)(key.Hash >> _shift);
        int first = _buckets[bucket];
        int count = _buckets[bucket + 1] - first;
        if (count * EntryBytes > _found.Length) { _found = new byte[count * EntryBytes]; }
        Span<byte> found = _found.AsSpan(0, count * EntryBytes);
        ReadAll(_file, found, HeadBytes + ((long)first * EntryBytes));
        for (int i = 0; i < found.Length; i += EntryBytes)
        {
            if (BinaryPrimitives.ReadUInt64LittleEndian(found[i..]) != key.Hash) { continue; }
            ulong place = BinaryPrimitives.ReadUInt64LittleEndian(found[(i + 8)..]);
            if ((int)(place >> 48) != key.Database) { continue; }
            _rdb.Seek((long)(place & 0xFFFF_FFFF_FFFF));
            if (_rdb.ReadEntry() is { } entry && entry.Key.AsSpan().SequenceEqual(key.Name))
            {
                return entry with { Database = key.Database };
            }
        }
        return null;
    }

    /// <summary>Reads the value of an entry as RESTORE takes it: type, value, format version, checksum.</summary>
    /// <exception cref="RedisException">The RDB file is not what it was (LocalFile).</exception>
    public byte[] PayloadOf(in RdbEntry entry) => RdbPayload.Of(_rdb, entry, FormatVersion);

    /// <inheritdoc />
    public void Dispose()
    {
        _file.Dispose();
        _rdb.Dispose();
    }

    private static void Write(string path, long rdbBytes, long mark, int version, ReadOnlySpan<ulong> hashes, ReadOnlySpan<ulong> places)
    {
        string aside = path + ".tmp";
        using (FileStream file = PrivateFile.Create(aside, FileShare.None, bufferBytes: 0))
        {
            Span<byte> head = stackalloc byte[HeadBytes];
            head.Clear();
            Magic.CopyTo(head);
            BinaryPrimitives.WriteInt64LittleEndian(head[8..], rdbBytes);
            BinaryPrimitives.WriteInt64LittleEndian(head[16..], mark);
            BinaryPrimitives.WriteInt32LittleEndian(head[24..], version);
            BinaryPrimitives.WriteInt64LittleEndian(head[32..], hashes.Length);
            ulong crc = Crc64.Append(0, head[..40]);
            file.Write(head);
            var piece = new byte[BuildWindowBytes];
            for (int at = 0; at < hashes.Length;)
            {
                int count = Math.Min(piece.Length / EntryBytes, hashes.Length - at);
                for (int i = 0; i < count; i++)
                {
                    BinaryPrimitives.WriteUInt64LittleEndian(piece.AsSpan(i * EntryBytes), hashes[at + i]);
                    BinaryPrimitives.WriteUInt64LittleEndian(piece.AsSpan((i * EntryBytes) + 8), places[at + i]);
                }
                Span<byte> bytes = piece.AsSpan(0, count * EntryBytes);
                crc = Crc64.Append(crc, bytes);
                file.Write(bytes);
                at += count;
            }
            BinaryPrimitives.WriteUInt64LittleEndian(head[40..], crc);
            file.Position = 40;
            file.Write(head[40..]);
        }
        // Nothing is synced: what a crash leaves is checked before it is used.
        File.Move(aside, path, overwrite: true);
    }

    private static (int Version, int[] Buckets, int Shift)? Load(SafeFileHandle file, long rdbBytes, long mark)
    {
        Span<byte> head = stackalloc byte[HeadBytes];
        if (RandomAccess.Read(file, head, 0) < HeadBytes || !head[..8].SequenceEqual(Magic)) { return null; }
        long count = BinaryPrimitives.ReadInt64LittleEndian(head[32..]);
        bool isOfFile = BinaryPrimitives.ReadInt64LittleEndian(head[8..]) == rdbBytes
            && BinaryPrimitives.ReadInt64LittleEndian(head[16..]) == mark;
        if (!isOfFile || count is < 0 or > KeysMax || RandomAccess.GetLength(file) != HeadBytes + (count * EntryBytes)) { return null; }
        int bits = Math.Max(1, System.Numerics.BitOperations.Log2((ulong)(count / EntriesPerBucket) + 1));
        int shift = 64 - bits;
        var buckets = new int[(1 << bits) + 1];
        ulong crc = Crc64.Append(0, head[..40]);
        var piece = new byte[BuildWindowBytes];
        int bucket = 0;
        for (long at = 0; at < count;)
        {
            Span<byte> bytes = piece.AsSpan(0, (int)Math.Min(piece.Length / EntryBytes, count - at) * EntryBytes);
            ReadAll(file, bytes, HeadBytes + (at * EntryBytes));
            crc = Crc64.Append(crc, bytes);
            for (int i = 0; i < bytes.Length; i += EntryBytes, at++)
            {
                int of = (int)(BinaryPrimitives.ReadUInt64LittleEndian(bytes[i..]) >> shift);
                while (bucket < of) { buckets[++bucket] = (int)at; }
            }
        }
        while (bucket < buckets.Length - 1) { buckets[++bucket] = (int)count; }
        return crc == BinaryPrimitives.ReadUInt64LittleEndian(head[40..])
            ? (BinaryPrimitives.ReadInt32LittleEndian(head[24..]), buckets, shift) : null;
    }

    private static void ReadAll(SafeFileHandle file, Span<byte> destination, long position)
    {
        while (!destination.IsEmpty)
        {
            int read = RandomAccess.Read(file, destination, position);
            if (read == 0) { throw new EndOfStreamException("The index of a checkpoint is cut short."); }
            destination = destination[read..];
            position += read;
        }
    }
}
