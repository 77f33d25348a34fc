// Which key each command of the log's tail names, in memory: eight bytes for each, filled by whoever has time for it, some way
// behind the log. It finds the commands on a few thousand keys in a tail of millions without reading that tail.
//
// It follows one history: where a world-line begins it is cut back, like the log. Bounded: beyond its bound, and at a command too
// large to be held, it says that it knows nothing, until it begins again behind the next checkpoint.
using System.Globalization;
using Slogger.Redis.Feeding;

namespace Slogger.Redis.Rollback;

/// <summary>The commands that begin in a part of the tail. Not thread-safe.</summary>
/// <param name="First">Where the first that is noted begins; null: none is.</param>
/// <param name="Below">A command boundary below the part's end: where the last begins that is noted there, or where the tail does.</param>
/// <param name="Database">The database selected at the first, or else throughout.</param>
/// <param name="Selects">Where others are selected within, in order.</param>
/// <param name="Unconfined">The commands that are not confined to keys that they name, in order.</param>
internal sealed record TailPart(long? First, long Below, int Database, IReadOnlyList<(long Offset, int Database)> Selects,
    IReadOnlyList<(long Offset, string Name)> Unconfined)
{
    /// <summary>The upper halves of hashes of keys. Those that are the same are in the order of the stream.</summary>
    public List<uint> Hashes { get; } = [];

    /// <summary>Where the command begins that names each, from the first on.</summary>
    public List<uint> Places { get; } = [];
}

/// <summary>The index of the log's tail. Thread-safe.</summary>
public sealed class TailIndex : IEffectIndex
{
    /// <summary>Entries held by default: 64 MB.</summary>
    public const int DefaultEntriesMax = 8 << 20;

    private const int ChunkEntries = 1 << 15;
    private const int PieceBytes = 1 << 20;
    private const int CommandBytesMax = 16 << 20;

    // For more keys a look at each entry takes no longer.
    private const int FewKeys = 256;

    private readonly Lock _lock = new();
    private readonly int _entriesMax;
    private readonly List<Chunk> _chunks = [];
    private readonly List<(long Offset, int Database)> _databases = [];
    private readonly List<(long Offset, string Name)> _unconfined = [];
    private readonly Effect _effect = new();
    private readonly List<EffectKey> _keys = [];
    private byte[] _buffer = new byte[PieceBytes];
    private int _database;
    private int _count;
    private string? _flaw;

    private sealed class Chunk(long origin)
    {
        public readonly long Origin = origin;
        public readonly uint[] Hashes = new uint[ChunkEntries];
        public readonly uint[] Places = new uint[ChunkEntries]; // from Origin on
        public int Count;
        public long Last;
        public bool IsByHash;

        public void Add(uint hash, long offset)
        {
            Hashes[Count] = hash;
            Places[Count++] = (uint)(offset - Origin);
            Last = offset;
        }

        /// <summary>Orders a full one by hash, once somebody looks for few keys.</summary>
        public void OrderByHash()
        {
            if (IsByHash) { return; }
            HashOrder.Sort(Hashes, Places, new uint[ChunkEntries], new uint[ChunkEntries]);
            IsByHash = true;
        }

        public IEnumerable<long> Within(long from, long to) => Places.Take(Count).Select(p => Origin + p).Where(o => o >= from && o < to);

        // Of the same hash in order, also if it is ordered by hash.
        public void CopyTo(TailPart part, long first, long to)
        {
            for (int i = 0; i < Count; i++)
            {
                long offset = Origin + Places[i];
                if (offset < first || offset >= to) { continue; }
                part.Hashes.Add(Hashes[i]);
                part.Places.Add((uint)(offset - first));
            }
        }

        /// <summary>Forgets what lies at an offset and above it.</summary>
        public void CutAt(long offset)
        {
            if (IsByHash) { Places.AsSpan(0, Count).Sort(Hashes.AsSpan(0, Count)); }
            IsByHash = false;
            while (Count > 0 && Origin + Places[Count - 1] >= offset) { Count--; }
            if (Count > 0) { Last = Origin + Places[Count - 1]; }
        }
    }

    /// <summary>Makes an empty one, at offset 0.</summary>
    public TailIndex(int entriesMax = DefaultEntriesMax) => _entriesMax = entriesMax;

    /// <inheritdoc />
    public long Start { get; private set; }

    /// <inheritdoc />
    public long Position { get; private set; }

    /// <inheritdoc />
    public string? Flaw
    {
        get
        {
            lock (_lock) { return _flaw; }
        }
    }

    /// <summary>Begins anew at a command boundary.</summary>
    /// <param name="offset">Its offset.</param>
    /// <param name="database">The database selected there.</param>
    public void Restart(long offset, int database)
    {
        lock (_lock)
        {
            _chunks.Clear();
            _databases.Clear();
            _unconfined.Clear();
            _count = 0;
            _flaw = null;
            Start = Position = offset;
            SelectAt(offset, database);
        }
    }

    /// <summary>Forgets what lies above a command boundary: it is void.</summary>
    /// <param name="offset">Its offset.</param>
    /// <param name="database">The database selected there.</param>
    public void CutAt(long offset, int database)
    {
        lock (_lock)
        {
            if (offset < Start)
            {
                Restart(offset, database);
                return;
            }
            if (offset >= Position) { return; }
            while (_chunks.Count > 0 && _chunks[^1].Origin >= offset) { Drop(_chunks.Count - 1); }
            if (_chunks.Count > 0)
            {
                Chunk last = _chunks[^1];
                _count -= last.Count;
                last.CutAt(offset);
                _count += last.Count;
                if (last.Count == 0) { _chunks.RemoveAt(_chunks.Count - 1); }
            }
            _databases.RemoveAll(d => d.Offset > offset);
            _unconfined.RemoveAll(u => u.Offset >= offset);
            Position = offset;
            SelectAt(offset, database);
        }
    }

    /// <summary>Nothing below a checkpoint is needed any more. One that knows nothing begins again there.</summary>
    /// <param name="offset">The checkpoint's offset.</param>
    /// <param name="database">The database selected there.</param>
    public void ForgetBelow(long offset, int database)
    {
        lock (_lock)
        {
            if (offset == Start) { return; }
            if (_flaw is not null)
            {
                Restart(offset, database);
                return;
            }
            if (offset < Start || offset > Position) { return; }
            int needless = _chunks.FindIndex(c => c.Last >= offset);
            for (int i = needless < 0 ? _chunks.Count : needless; i > 0; i--) { Drop(i - 1); }
            int first = _databases.FindLastIndex(d => d.Offset <= offset);
            if (first > 0) { _databases.RemoveRange(0, first); }
            _unconfined.RemoveAll(u => u.Offset < offset);
            Start = offset;
        }
    }

    /// <summary>Reads on, up to a limit or to where the source has no more.</summary>
    /// <exception cref="Connections.RedisException">The bytes are no replication stream (Protocol).</exception>
    public void ReadTo(IHistorySource source, long limit)
    {
        ArgumentNullException.ThrowIfNull(source);
        while (ReadPiece(source, limit))
        {
            // A piece at a time: others may come between.
        }
    }

    /// <inheritdoc />
    public string? NotConfined(long from, long to)
    {
        lock (_lock)
        {
            int first = _unconfined.FindIndex(u => u.Offset >= from && u.Offset < to);
            return first < 0 ? null : _unconfined[first].Name;
        }
    }

    /// <inheritdoc />
    public long? EmptiedAt(long from, long to)
    {
        lock (_lock)
        {
            int last = _unconfined.FindLastIndex(u => u.Offset >= from && u.Offset < to);
            return last >= 0 && _unconfined[last].Name.Equals("FLUSHALL", StringComparison.OrdinalIgnoreCase) ? _unconfined[last].Offset
                : null;
        }
    }

    /// <inheritdoc />
    public bool Find(HashSet<uint> hashes, long from, long to, int most, List<(long Offset, int Database)> found)
    {
        ArgumentNullException.ThrowIfNull(hashes);
        ArgumentNullException.ThrowIfNull(found);
        // Nearly all are dismissed by one bit.
        const int FilterBits = 1 << 18;
        var filter = new ulong[FilterBits / 64];
        foreach (uint hash in hashes) { filter[(hash & (FilterBits - 1)) >> 6] |= 1UL << (int)(hash & 63); }
        lock (_lock)
        {
            foreach (Chunk chunk in _chunks)
            {
                if (chunk.Last < from) { continue; }
                if (chunk.Origin >= to) { break; }
                if (hashes.Count <= FewKeys && chunk.Count == ChunkEntries)
                {
                    if (!FindByHash(chunk, hashes, from, to, most, found)) { return false; }
                    continue;
                }
                ReadOnlySpan<uint> entries = chunk.Hashes.AsSpan(0, chunk.Count);
                int before = found.Count;
                for (int i = 0; i < entries.Length; i++)
                {
                    uint hash = entries[i];
                    if ((filter[(hash & (FilterBits - 1)) >> 6] & (1UL << (int)(hash & 63))) == 0 || !hashes.Contains(hash)) { continue; }
                    if (!Take(chunk.Origin + chunk.Places[i], from, to, most, found)) { return false; }
                }
                if (chunk.IsByHash) { found.Sort(before, found.Count - before, null); }
            }
        }
        return true;
    }

    /// <summary>All that it knows of the commands that begin in a stretch.</summary>
    /// <param name="from">Where the stretch begins.</param>
    /// <param name="to">Where it ends.</param>
    /// <returns>Null: it does not know all of them.</returns>
    internal TailPart? PartOf(long from, long to)
    {
        lock (_lock)
        {
            if (_flaw is not null || from < Start || to > Position || to - from > uint.MaxValue) { return null; }
            // What is not noted names no key, and selects nothing.
            long? first = Noted(from, to, isFirst: true);
            (long, int)[] selects = [.. _databases.Where(d => d.Offset > from && d.Offset < to)];
            (long, string)[] unconfined = [.. _unconfined.Where(u => u.Offset >= from && u.Offset < to)];
            var part = new TailPart(first, Noted(Start, to, isFirst: false) ?? Start, DatabaseAt(first ?? from), selects, unconfined);
            if (first is not { } begin) { return part; }
            foreach (Chunk chunk in _chunks.Where(c => c.Last >= begin && c.Origin < to)) { chunk.CopyTo(part, begin, to); }
            return part;
        }
    }

    // Where the first, or the last, begins of what is noted between two offsets.
    private long? Noted(long from, long to, bool isFirst)
    {
        Predicate<Chunk> isThere = c => c.Last >= from && c.Origin < to && c.Within(from, to).Any();
        IEnumerable<long> within = ((isFirst ? _chunks.Find(isThere) : _chunks.FindLast(isThere))?.Within(from, to) ?? [])
            .Concat(_databases.Select(d => d.Offset).Concat(_unconfined.Select(u => u.Offset)).Where(o => o >= from && o < to));
        return !within.Any() ? null : isFirst ? within.Min() : within.Max();
    }

    private bool FindByHash(Chunk chunk, HashSet<uint> hashes, long from, long to, int most, List<(long Offset, int Database)> found)
    {
        chunk.OrderByHash();
        int before = found.Count;
        foreach (uint hash in hashes)
        {
            for (int i = HashOrder.LowerBound(chunk.Hashes, hash); i < ChunkEntries && chunk.Hashes[i] == hash; i++)
            {
                if (!Take(chunk.Origin + chunk.Places[i], from, to, most, found)) { return false; }
            }
        }
        if (hashes.Count > 1) { found.Sort(before, found.Count - before, null); }
        return true;
    }

    private bool Take(long offset, long from, long to, int most, List<(long Offset, int Database)> found)
    {
        if (offset < from || offset >= to) { return true; }
        if (found.Count == most) { return false; }
        found.Add((offset, DatabaseAt(offset)));
        return true;
    }

    private bool ReadPiece(IHistorySource source, long limit)
    {
        lock (_lock)
        {
            if (_flaw is not null || Position >= limit) { return false; }
            int wanted = (int)Math.Min(_buffer.Length, limit - Position);
            int have = 0;
            int read;
            while (have < wanted && (read = source.Read(Position + have, _buffer.AsSpan(have, wanted - have))) > 0) { have += read; }
            int at = 0;
            while (_flaw is null && _effect.TryRead(_buffer, at, have))
            {
                Note(Position + _effect.Start);
                at = _effect.End;
            }
            Position += at;
            if (at > 0) { return have == wanted; }
            if (have < _buffer.Length) { return false; }
            if (_buffer.Length < CommandBytesMax) { _buffer = new byte[2 * _buffer.Length]; }
            else
            {
                _flaw = string.Create(CultureInfo.InvariantCulture,
                    $"a command of more than {CommandBytesMax >> 20} MB since the checkpoint");
            }
            return _flaw is null;
        }
    }

    private void Note(long offset)
    {
        switch (EffectScope.Find(_effect, _database, _keys))
        {
            case EffectReach.Select:
                if (EffectScope.DatabaseOf(_effect) is { } database) { SelectAt(offset, database); }
                break;
            case EffectReach.Keys:
                foreach (EffectKey key in _keys) { Add(offset, (uint)(StoreKey.HashOf(key.Database, _effect[key.Argument]) >> 32)); }
                break;
            case EffectReach.Anything:
                // One is as good as many.
                if (_unconfined.Count < 1000) { _unconfined.Add((offset, System.Text.Encoding.Latin1.GetString(_effect[0]))); }
                else { _flaw = "too many commands that are not confined to keys since the checkpoint"; }
                break;
        }
    }

    private void Add(long offset, uint hash)
    {
        if (_count == _entriesMax)
        {
            _flaw = string.Create(CultureInfo.InvariantCulture, $"more than {_entriesMax} writes since the checkpoint");
            _chunks.Clear();
            _count = 0;
            return;
        }
        if (_chunks.Count == 0 || _chunks[^1].Count == ChunkEntries || offset - _chunks[^1].Origin > uint.MaxValue)
        {
            _chunks.Add(new Chunk(offset));
        }
        _chunks[^1].Add(hash, offset);
        _count++;
    }

    private void Drop(int index)
    {
        _count -= _chunks[index].Count;
        _chunks.RemoveAt(index);
    }

    private void SelectAt(long offset, int database)
    {
        _database = database;
        if (_databases.Count > 0 && _databases[^1].Database == database) { return; }
        _databases.Add((offset, database));
    }

    private int DatabaseAt(long offset)
    {
        int low = 0, high = _databases.Count - 1;
        while (low < high)
        {
            int middle = (low + high + 1) / 2;
            if (_databases[middle].Offset <= offset) { low = middle; } else { high = middle - 1; }
        }
        return _databases[low].Database;
    }
}
