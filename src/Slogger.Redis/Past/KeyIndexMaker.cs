// Makes the index of a segment's keys: reads the commands that begin in it, or takes them from the index of the log's tail, which has read
// them already; orders them by key, and writes the file (see KeyIndex).
using System.Buffers.Binary;
using System.Runtime.InteropServices;
using System.Text;
using Slogger.Redis.Feeding;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Past;

/// <summary>Makes indexes. One caller at a time.</summary>
public sealed class KeyIndexMaker
{
    /// <summary>What is added to the name of a file that is not whole yet.</summary>
    public const string AsideExtension = ".tmp";

    private const int PieceBytes = 256 << 10, CommandBytesMax = EffectReader.CommandBytesMax;

    private List<uint> _hashes = [], _places = [];
    private readonly List<(uint Place, int Database)> _databases = [];
    private readonly List<(uint Place, byte[] Name)> _unconfined = [];
    private readonly List<EffectKey> _keys = [];
    private long _first, _end, _madeTo;

    /// <summary>Reads a segment.</summary>
    /// <param name="history">The bytes.</param>
    /// <param name="before">A place outside of commands at or below the segment's start.</param>
    /// <param name="database">The database selected there.</param>
    /// <param name="start">The segment's first offset.</param>
    /// <param name="end">The offset behind its last byte.</param>
    /// <param name="limit">How far there are bytes: the last command may end behind the segment.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: the last command's end has not come yet.</returns>
    /// <exception cref="PastException">It cannot be indexed; the text says why.</exception>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public bool Read(IHistorySource history, long before, int database, long start, long end, long limit,
        CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(history);
        _hashes.Clear();
        _places.Clear();
        _databases.Clear();
        _unconfined.Clear();
        var cutter = new Cutting(history, before, limit);
        long? first = null;
        while (true)
        {
            long begun = cutter.At;
            if (begun >= start && first is null)
            {
                first = begun;
                _databases.Add((0, database));
            }
            if (begun >= end) { break; }
            if (!cutter.Next(stop)) { return false; }
            EffectReach reach = EffectScope.Find(cutter.Effect, database, _keys);
            if (reach == EffectReach.Select) { database = EffectScope.DatabaseOf(cutter.Effect) ?? database; }
            if (first is not { } origin) { continue; }
            if (begun - origin > uint.MaxValue) { throw new PastException("it is too large"); }
            Note((uint)(begun - origin), reach, cutter.Effect, database);
        }
        (_first, _end, _madeTo) = (first!.Value, cutter.At, end);
        return true;
    }

    /// <summary>Takes a segment out of the index of the log's tail, instead of reading it.</summary>
    /// <param name="tail">The index.</param>
    /// <param name="history">The bytes.</param>
    /// <param name="start">The segment's first offset.</param>
    /// <param name="end">The offset behind its last byte.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>False: the index does not know all of it.</returns>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public bool Take(TailIndex tail, IHistorySource history, long start, long end, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(tail);
        ArgumentNullException.ThrowIfNull(history);
        if (tail.PartOf(start, end) is not { } part) { return false; }
        // Its last command may end behind the segment.
        long last = part.Below;
        for (var cutter = new Cutting(history, last, long.MaxValue); last < end; last = cutter.At)
        {
            if (!cutter.Next(stop)) { return false; }
        }
        (_hashes, _places, _first) = (part.Hashes, part.Places, part.First ?? last);
        _databases.Clear();
        _databases.Add((0, part.Database));
        _databases.AddRange(part.Selects.Where(s => s.Offset > _first).Select(s => ((uint)(s.Offset - _first), s.Database)));
        _unconfined.Clear();
        foreach ((long offset, string name) in part.Unconfined)
        {
            AddUnconfined((uint)(offset - _first), Encoding.Latin1.GetBytes(name));
        }
        (_end, _madeTo) = (last, end);
        return true;
    }

    /// <summary>Writes what was read or taken last, once, and puts the file in its place. Nothing is synced: what a crash leaves is checked
    /// before it is used.</summary>
    /// <param name="path">The file.</param>
    /// <param name="mark">The segment.</param>
    /// <exception cref="IOException">It cannot be written.</exception>
    public void Write(string path, KeyIndexMark mark)
    {
        Span<uint> hashes = CollectionsMarshal.AsSpan(_hashes), places = CollectionsMarshal.AsSpan(_places);
        HashOrder.Sort(hashes, places, new uint[hashes.Length], new uint[hashes.Length]);
        int pages = KeyIndex.PagesOf(hashes.Length);
        var front = new byte[KeyIndex.HeadBytes + (8L * _databases.Count) + ((long)KeyIndex.UnconfinedBytes * _unconfined.Count)
            + (4L * pages)];
        Span<byte> head = front.AsSpan(0, KeyIndex.HeadBytes), tables = front.AsSpan(KeyIndex.HeadBytes);
        KeyIndex.Magic.CopyTo(head);
        BinaryPrimitives.WriteInt64LittleEndian(head[8..], mark.Sequence);
        BinaryPrimitives.WriteInt64LittleEndian(head[16..], _first);
        BinaryPrimitives.WriteInt64LittleEndian(head[24..], _end);
        BinaryPrimitives.WriteInt64LittleEndian(head[32..], _madeTo);
        BinaryPrimitives.WriteUInt32LittleEndian(head[40..], mark.Salt);
        BinaryPrimitives.WriteInt32LittleEndian(head[44..], hashes.Length);
        BinaryPrimitives.WriteInt32LittleEndian(head[48..], _databases.Count);
        BinaryPrimitives.WriteInt32LittleEndian(head[52..], _unconfined.Count);
        foreach ((uint place, int database) in _databases)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(tables, place);
            BinaryPrimitives.WriteInt32LittleEndian(tables[4..], database);
            tables = tables[8..];
        }
        foreach ((uint place, byte[] name) in _unconfined)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(tables, place);
            name.CopyTo(tables[4..]);
            tables = tables[KeyIndex.UnconfinedBytes..];
        }
        for (int i = 0; i < pages; i++)
        {
            BinaryPrimitives.WriteUInt32LittleEndian(tables[(4 * i)..], hashes[i * KeyIndex.EntriesOfPage]);
        }
        ulong crc = Crc64.Append(Crc64.Append(0, head[..^sizeof(ulong)]), front.AsSpan(KeyIndex.HeadBytes));
        BinaryPrimitives.WriteUInt64LittleEndian(head[^sizeof(ulong)..], crc);
        try
        {
            WriteFile(path + AsideExtension, front, mark.Salt);
            File.Move(path + AsideExtension, path, overwrite: true);
        }
        catch
        {
            // A full disk is full enough.
            File.Delete(path + AsideExtension);
            throw;
        }
    }

    private void WriteFile(string path, ReadOnlySpan<byte> front, uint salt)
    {
        ReadOnlySpan<uint> hashes = CollectionsMarshal.AsSpan(_hashes), places = CollectionsMarshal.AsSpan(_places);
        using FileStream file = PrivateFile.Create(path, FileShare.None, bufferBytes: 256 << 10);
        file.Write(front);
        var page = new byte[KeyIndex.PageBytes];
        for (int i = 0; i < hashes.Length; i += KeyIndex.EntriesOfPage)
        {
            Array.Clear(page);
            int count = Math.Min(KeyIndex.EntriesOfPage, hashes.Length - i);
            for (int k = 0; k < count; k++)
            {
                Span<byte> entry = page.AsSpan(sizeof(ulong) + (k * KeyIndex.EntryBytes));
                BinaryPrimitives.WriteUInt32LittleEndian(entry, hashes[i + k]);
                BinaryPrimitives.WriteUInt32LittleEndian(entry[4..], places[i + k]);
            }
            BinaryPrimitives.WriteUInt64LittleEndian(page, KeyIndex.CrcOf(page, i / KeyIndex.EntriesOfPage, salt));
            file.Write(page);
        }
    }

    // The commands from a place on, as far as there are bytes.
    private sealed class Cutting(IHistorySource history, long from, long limit)
    {
        private readonly EffectCutter _cutter = new();
        private readonly byte[] _piece = new byte[PieceBytes];
        private long _given = from;

        public Effect Effect => _cutter.Effect;

        // Where the last one ends.
        public long At { get; private set; } = from;

        // False: the next one's end has not come yet.
        public bool Next(CancellationToken stop)
        {
            while (!_cutter.Next())
            {
                stop.ThrowIfCancellationRequested();
                if (_cutter.Rest > CommandBytesMax)
                {
                    throw new PastException($"it has a command of more than {CommandBytesMax >> 20} MB");
                }
                int read = _given >= limit ? 0 : history.Read(_given, _piece.AsSpan(0, (int)Math.Min(PieceBytes, limit - _given)));
                if (read == 0) { return false; }
                _cutter.Give(_piece.AsSpan(0, read));
                _given += read;
            }
            At = _given - _cutter.Rest;
            return true;
        }
    }

    private void Note(uint place, EffectReach reach, Effect effect, int database)
    {
        switch (reach)
        {
            case EffectReach.Select:
                if (_databases[^1].Database != database) { _databases.Add((place, database)); }
                break;
            case EffectReach.Keys:
                foreach (EffectKey key in _keys)
                {
                    _hashes.Add((uint)(StoreKey.HashOf(key.Database, effect[key.Argument]) >> 32));
                    _places.Add(place);
                }
                break;
            case EffectReach.Anything:
                AddUnconfined(place, effect[0]);
                break;
        }
    }

    private void AddUnconfined(uint place, ReadOnlySpan<byte> name) =>
        _unconfined.Add((place, name[..Math.Min(name.Length, KeyIndex.NameBytes)].ToArray()));
}
