// The writes that put keys back as they were: prepared while clients go on, so that they wait for no more than the writing.
using System.Globalization;
using System.Text;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>Collects the writes. Not thread-safe.</summary>
/// <param name="shiftMs">Expiries are put off so long, in milliseconds.</param>
internal sealed class ResetPlan(long shiftMs)
{
    private const long BytesMax = 512L << 20;
    private const int BatchBytes = 1 << 20;

    private static readonly byte[] s_set = "SET"u8.ToArray(), s_pxat = "PXAT"u8.ToArray(), s_unlink = "UNLINK"u8.ToArray(),
        s_restore = "RESTORE"u8.ToArray(), s_replace = "REPLACE"u8.ToArray(), s_absolute = "ABSTTL"u8.ToArray(),
        s_select = "SELECT"u8.ToArray();

    private readonly HashSet<StoreKey> _keys = [];

    // First what makes room.
    private readonly List<RedisBatch> _deletions = [], _batches = [];

    /// <summary>How many keys are written.</summary>
    public int Keys => _keys.Count;

    /// <summary>Bytes of the writes.</summary>
    public long Bytes { get; private set; }

    /// <summary>Those of some keys that are not in it yet.</summary>
    public IReadOnlyList<StoreKey> Missing(IEnumerable<StoreKey> keys) => [.. keys.Where(k => !_keys.Contains(k))];

    /// <summary>Adds the writes for some keys.</summary>
    /// <param name="keys">The keys, in the order of databases.</param>
    /// <exception cref="PastException">They are too large.</exception>
    public void Add(IReadOnlyList<DumpedKey> keys)
    {
        DumpedKey[] added = [.. keys.Where(k => _keys.Add(k.Key))];
        Add(_deletions, added.Where(k => k.Value is null));
        Add(_batches, added.Where(k => k.Value is not null));
        if (Bytes > BytesMax)
        {
            throw new PastException($"more than {BytesMax >> 20} MB of values would have to be written in this shard: take a snapshot "
                + "of that instant (slogger snapshot), and put it into a new cluster (slogger load)");
        }
    }

    /// <summary>The writes, in the order in which they are done.</summary>
    public IEnumerable<RedisBatch> Batches => _deletions.Concat(_batches);

    private void Add(List<RedisBatch> batches, IEnumerable<DumpedKey> keys)
    {
        RedisBatch? batch = null;
        int selected = -1;
        foreach (DumpedKey key in keys)
        {
            if (batch is null || batch.Bytes >= BatchBytes)
            {
                Bytes += batch?.Bytes ?? 0;
                batches.Add(batch = new RedisBatch());
                selected = -1;
            }
            if (key.Key.Database != selected) { batch.Add(s_select, Number(selected = key.Key.Database)); }
            Add(batch, key);
        }
        Bytes += batch?.Bytes ?? 0;
    }

    // A string as itself: an embedded store knows no RESTORE, neither this one nor one that follows. One that has expired is not there
    // afterwards.
    private void Add(RedisBatch batch, DumpedKey key)
    {
        byte[] name = key.Key.Name, expiry = Number(key.ExpiresAtMs == 0 ? 0 : key.ExpiresAtMs + shiftMs);
        if (key.Value is not { } value) { batch.Add(s_unlink, name); }
        else if (!key.IsString) { batch.Add(s_restore, name, expiry, value, s_replace, s_absolute); }
        else if (key.ExpiresAtMs == 0) { batch.Add(s_set, name, value); }
        else { batch.Add(s_set, name, value, s_pxat, expiry); }
    }

    private static byte[] Number(long number) => Encoding.ASCII.GetBytes(number.ToString(CultureInfo.InvariantCulture));
}
