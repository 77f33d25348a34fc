// The writes that put keys back as they were: prepared while clients go on, so that they wait for no more than the writing. A few are in
// memory; however many there are, the rest is on disk.
using System.Globalization;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Collects the writes. Not thread-safe; <see cref="Keys"/> and <see cref="Bytes"/>: any thread.</summary>
/// <param name="spill">Makes what they are collected in.</param>
/// <param name="shiftMs">Expiries are put off so long, in milliseconds.</param>
internal sealed class ResetPlan(Func<Spill> spill, long shiftMs) : IDisposable
{
    private static readonly byte[] s_set = "SET"u8.ToArray(), s_pxat = "PXAT"u8.ToArray(), s_delete = "DEL"u8.ToArray(),
        s_restore = "RESTORE"u8.ToArray(), s_replace = "REPLACE"u8.ToArray(), s_absolute = "ABSTTL"u8.ToArray();

    private readonly SpilledKeys _keys = new(spill());

    // First what makes room, and at once: UNLINK gives it later.
    private readonly Writes _deletions = new(spill()), _values = new(spill());

    /// <summary>How many keys are written.</summary>
    public long Keys => _keys.Count;

    /// <summary>Bytes of the writes.</summary>
    public long Bytes => _deletions.Bytes + _values.Bytes;

    /// <summary>Takes those out of some keys that are in it already.</summary>
    /// <exception cref="IOException">The disk does not give back what it took.</exception>
    public void RemoveKnown(HashSet<StoreKey> keys)
    {
        if (keys.Count == 0) { return; }
        HashSet<ulong> hashes = [.. keys.Select(k => k.Hash)];
        foreach (StoreKey known in _keys.Read(hashes.Contains)) { keys.Remove(known); }
    }

    /// <summary>Adds the writes for some keys that are not in it yet.</summary>
    /// <param name="keys">The keys, in the order of databases.</param>
    /// <exception cref="IOException">The disk refused.</exception>
    public void Add(IReadOnlyList<DumpedKey> keys)
    {
        foreach (DumpedKey key in keys)
        {
            RedisBatch batch = (key.Value is null ? _deletions : _values).For(key.Key.Database);
            Add(batch, key);
            _keys.Add(key.Key);
        }
    }

    /// <summary>The writes, in the order in which they are done. A batch is there until the next one is asked for.</summary>
    /// <exception cref="IOException">The disk does not give back what it took.</exception>
    public IEnumerable<RedisBatch> Batches => _deletions.Read().Concat(_values.Read());

    public void Dispose()
    {
        _keys.Dispose();
        _deletions.Dispose();
        _values.Dispose();
    }

    // A string as itself: an embedded store knows no RESTORE, neither this one nor one that follows. One that has expired is not there
    // afterwards.
    private void Add(RedisBatch batch, DumpedKey key)
    {
        byte[] name = key.Key.Name, expiry = Number(key.ExpiresAtMs == 0 ? 0 : key.ExpiresAtMs + shiftMs);
        if (key.Value is not { } value) { batch.Add(s_delete, name); }
        else if (!key.IsString) { batch.Add(s_restore, name, expiry, value, s_replace, s_absolute); }
        else if (key.ExpiresAtMs == 0) { batch.Add(s_set, name, value); }
        else { batch.Add(s_set, name, value, s_pxat, expiry); }
    }

    private static byte[] Number(long number) => Encoding.ASCII.GetBytes(number.ToString(CultureInfo.InvariantCulture));

    // Commands, in batches that each select their database.
    private sealed class Writes(Spill pieces) : IDisposable
    {
        private const int BatchBytes = 1 << 20;
        private static readonly byte[] s_select = "SELECT"u8.ToArray();

        private RedisBatch _last = new();
        private int _selected = -1;

        public long Bytes => pieces.Bytes + _last.Bytes;

        // Where the next command of a database goes.
        public RedisBatch For(int database)
        {
            if (_last.Bytes >= BatchBytes)
            {
                pieces.Append(_last.Written.Span, _last.Count);
                (_last, _selected) = (new(), -1);
            }
            if (database != _selected) { _last.Add(s_select, Number(_selected = database)); }
            return _last;
        }

        public IEnumerable<RedisBatch> Read()
        {
            var batch = new RedisBatch();
            foreach (SpilledPiece piece in pieces.Read())
            {
                batch.Clear();
                yield return batch.Add(piece.Bytes, piece.Count);
            }
            if (_last.Count > 0) { yield return _last; }
        }

        public void Dispose() => pieces.Dispose();
    }
}
