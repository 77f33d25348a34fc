// Which commands of a segment of the log name which keys: a file beside the segment, made in the background. It finds the commands on a key
// among millions without a look at the segment. It can be lost at any time, and is made again then.
//
// It has the commands that begin in the segment. Segments are cut anywhere: the first of these may begin behind the segment's start, and
// the last may end in the next one. Places are counted from the first.
//
// The file: "SLGKIX01", i64 sequence of the segment, i64 offset of the first command, i64 offset behind the last, i64 offset behind the
// segment's bytes, u32 salt of the segment, i32 entries, i32 databases, i32 commands that are not confined to keys that they name, u64
// CRC-64 of these fields and of all up to the pages. Then for each SELECT: u32 place, i32 database, the first at place 0; for each command
// that is not confined: u32 place, 24 bytes of its name; for each page: u32 the first hash in it. Then pages of 4096 bytes: u64 CRC-64 of
// the rest, and entries, ordered by hash and place: u32 upper half of StoreKey.Hash, u32 place. A command that names several keys has
// several. All little-endian. A page's CRC begins with the page's number and the salt, so that zeros are no page, and no page is another.
using System.Buffers.Binary;
using System.Text;
using Microsoft.Win32.SafeHandles;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Of which segment an index is.</summary>
/// <param name="Sequence">Its number.</param>
/// <param name="Salt">Drawn for it.</param>
public readonly record struct KeyIndexMark(long Sequence, uint Salt);

/// <summary>A command that may change keys that it does not name.</summary>
/// <param name="Offset">Where it begins.</param>
/// <param name="Name">Its name, or how that begins.</param>
public readonly record struct UnconfinedCommand(long Offset, string Name);

/// <summary>The index of one segment. Not thread-safe.</summary>
public sealed class KeyIndex : IDisposable
{
    internal const int HeadBytes = 64, PageBytes = 4096, EntryBytes = 8, NameBytes = 24, UnconfinedBytes = 4 + NameBytes;
    internal const int EntriesOfPage = (PageBytes - sizeof(ulong)) / EntryBytes;
    internal static ReadOnlySpan<byte> Magic => "SLGKIX01"u8;

    private readonly SafeFileHandle _file;
    private readonly string _path;
    private readonly int _entries;
    private readonly uint _salt;
    private readonly (long Offset, int Database)[] _databases;
    private readonly uint[] _firsts;
    private readonly long _pagesAt;
    private readonly byte[] _page = new byte[PageBytes];
    private int _loaded = -1;

    private KeyIndex(SafeFileHandle file, string path, ReadOnlySpan<byte> head, ReadOnlySpan<byte> tables)
    {
        (_file, _path, _pagesAt) = (file, path, HeadBytes + tables.Length);
        First = BinaryPrimitives.ReadInt64LittleEndian(head[16..]);
        End = BinaryPrimitives.ReadInt64LittleEndian(head[24..]);
        MadeTo = BinaryPrimitives.ReadInt64LittleEndian(head[32..]);
        _salt = BinaryPrimitives.ReadUInt32LittleEndian(head[40..]);
        _entries = BinaryPrimitives.ReadInt32LittleEndian(head[44..]);
        _databases = new (long, int)[BinaryPrimitives.ReadInt32LittleEndian(head[48..])];
        var unconfined = new UnconfinedCommand[BinaryPrimitives.ReadInt32LittleEndian(head[52..])];
        _firsts = new uint[PagesOf(_entries)];
        foreach (ref var select in _databases.AsSpan())
        {
            select = (First + BinaryPrimitives.ReadUInt32LittleEndian(tables), BinaryPrimitives.ReadInt32LittleEndian(tables[4..]));
            tables = tables[8..];
        }
        foreach (ref UnconfinedCommand command in unconfined.AsSpan())
        {
            string name = Encoding.Latin1.GetString(tables.Slice(4, NameBytes)).TrimEnd('\0');
            command = new(First + BinaryPrimitives.ReadUInt32LittleEndian(tables), name);
            tables = tables[UnconfinedBytes..];
        }
        foreach (ref uint first in _firsts.AsSpan())
        {
            first = BinaryPrimitives.ReadUInt32LittleEndian(tables);
            tables = tables[4..];
        }
        Unconfined = unconfined;
    }

    /// <summary>Where its first command begins: at or above the segment's start.</summary>
    public long First { get; }

    /// <summary>Where its last command ends: at or above <see cref="MadeTo"/>.</summary>
    public long End { get; }

    /// <summary>The segment's end when it was made.</summary>
    public long MadeTo { get; }

    /// <summary>The commands that are not confined to keys that they name, in order.</summary>
    public IReadOnlyList<UnconfinedCommand> Unconfined { get; }

    /// <summary>Opens the index of a segment.</summary>
    /// <param name="path">The file.</param>
    /// <param name="mark">The segment.</param>
    /// <returns>Null: there is none, or none of this segment, or it is not whole, or cannot be read.</returns>
    public static KeyIndex? Open(string path, KeyIndexMark mark)
    {
        if (!File.Exists(path)) { return null; }
        SafeFileHandle? file = null;
        try
        {
            file = File.OpenHandle(path, FileMode.Open, FileAccess.Read, FileShare.ReadWrite | FileShare.Delete);
            KeyIndex? index = Load(file, path, mark);
            if (index is not null) { file = null; }
            return index;
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // The segment itself is read then.
            return null;
        }
        finally
        {
            file?.Dispose();
        }
    }

    /// <summary>The database selected at an offset.</summary>
    public int DatabaseAt(long offset)
    {
        int low = 0, high = _databases.Length - 1;
        while (low < high)
        {
            int middle = (low + high + 1) / 2;
            // A SELECT is not a command of what it selects.
            if (_databases[middle].Offset < offset || middle == 0) { low = middle; } else { high = middle - 1; }
        }
        return _databases[low].Database;
    }

    /// <summary>The commands that may name a key.</summary>
    /// <param name="hash">The upper half of its hash.</param>
    /// <returns>Their offsets, in order; null: the file is damaged, and deleted, or cannot be read.</returns>
    public IReadOnlyList<long>? Find(uint hash)
    {
        var found = new List<long>();
        // The page before the first one that begins with it may end with it.
        for (int page = Math.Max(0, HashOrder.LowerBound(_firsts, hash) - 1); page < _firsts.Length && _firsts[page] <= hash; page++)
        {
            if (!Load(page)) { return null; }
            int count = Math.Min(EntriesOfPage, _entries - (page * EntriesOfPage));
            for (int i = LowerBound(count, hash); i < count && HashOf(i) == hash; i++)
            {
                long offset = First + BinaryPrimitives.ReadUInt32LittleEndian(_page.AsSpan(PlaceOf(i) + 4));
                if (found.Count == 0 || found[^1] != offset) { found.Add(offset); }
            }
        }
        return found;
    }

    /// <inheritdoc />
    public void Dispose() => _file.Dispose();

    internal static ulong CrcOf(ReadOnlySpan<byte> page, int number, uint salt) =>
        Crc64.Append(((ulong)salt << 32) | (uint)(number + 1), page[sizeof(ulong)..]);

    internal static int PagesOf(int entries) => (int)(((long)entries + EntriesOfPage - 1) / EntriesOfPage);

    private static int PlaceOf(int entry) => sizeof(ulong) + (entry * EntryBytes);

    private uint HashOf(int entry) => BinaryPrimitives.ReadUInt32LittleEndian(_page.AsSpan(PlaceOf(entry)));

    private int LowerBound(int count, uint hash)
    {
        int low = 0, high = count;
        while (low < high)
        {
            int middle = (low + high) / 2;
            if (HashOf(middle) < hash) { low = middle + 1; } else { high = middle; }
        }
        return low;
    }

    private bool Load(int page)
    {
        if (_loaded == page) { return true; }
        _loaded = -1;
        try
        {
            if (TryRead(_file, _page, _pagesAt + ((long)page * PageBytes))
                && CrcOf(_page, page, _salt) == BinaryPrimitives.ReadUInt64LittleEndian(_page))
            {
                _loaded = page;
                return true;
            }
            // Whoever looks for it finds none, and it is made again.
            File.Delete(_path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            // It is no use either.
        }
        return false;
    }

    private static KeyIndex? Load(SafeFileHandle file, string path, KeyIndexMark mark)
    {
        var head = new byte[HeadBytes];
        if (!TryRead(file, head, 0) || !head.AsSpan(0, 8).SequenceEqual(Magic)) { return null; }
        bool isOfSegment = BinaryPrimitives.ReadInt64LittleEndian(head.AsSpan(8)) == mark.Sequence
            && BinaryPrimitives.ReadUInt32LittleEndian(head.AsSpan(40)) == mark.Salt;
        int entries = BinaryPrimitives.ReadInt32LittleEndian(head.AsSpan(44)), databases =
            BinaryPrimitives.ReadInt32LittleEndian(head.AsSpan(48)), unconfined = BinaryPrimitives.ReadInt32LittleEndian(head.AsSpan(52));
        if (!isOfSegment || entries < 0 || databases < 1 || unconfined < 0) { return null; }
        long pages = PagesOf(entries), tableBytes = (8L * databases) + ((long)UnconfinedBytes * unconfined) + (4 * pages);
        if (RandomAccess.GetLength(file) != HeadBytes + tableBytes + (pages * PageBytes)) { return null; }
        var tables = new byte[tableBytes];
        bool isWhole = TryRead(file, tables, HeadBytes) && Crc64.Append(Crc64.Append(0, head.AsSpan(0, HeadBytes - sizeof(ulong))), tables)
            == BinaryPrimitives.ReadUInt64LittleEndian(head.AsSpan(HeadBytes - sizeof(ulong)));
        return isWhole ? new KeyIndex(file, path, head, tables) : null;
    }

    private static bool TryRead(SafeFileHandle file, Span<byte> destination, long position)
    {
        while (!destination.IsEmpty)
        {
            int read = RandomAccess.Read(file, destination, position);
            if (read == 0) { return false; }
            destination = destination[read..];
            position += read;
        }
        return true;
    }
}
