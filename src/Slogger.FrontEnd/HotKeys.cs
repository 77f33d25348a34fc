// Keys that were written in versions that are not settled, so that a read of any other key need not wait for one.
namespace Slogger.FrontEnd;

/// <summary>For each key written lately the last version in which a write was forwarded, by a hash: two keys that share one are taken for
/// the same, so a reply may wait that need not. Nothing is allocated while as many are unsettled as ever were. The loop's thread.</summary>
internal sealed class HotKeys
{
    private const int PlacesMin = 1 << 10;

    // 16 MB. With more keys unsettled all are hot.
    private const int PlacesMax = 1 << 20;
    private Place[] _places = [], _spare = [];
    private int _used;

    // A version of 0: nothing was ever here. A place whose version is settled can be taken by another key: as entries are looked for in the
    // same order as places are taken, an older one of the same key is never found first.
    private struct Place
    {
        public int Hash;
        public long Version;
    }

    /// <summary>A write of this key was forwarded.</summary>
    /// <param name="key">The key, whatever its database.</param>
    /// <param name="version">The open version.</param>
    /// <param name="settled">The last version that is settled.</param>
    /// <returns>False: there is no room for it.</returns>
    public bool Add(ReadOnlySpan<byte> key, long version, long settled)
    {
        if (2 * _used >= _places.Length && !MakeRoom(settled)) { return false; }
        Put(HashOf(key), version, settled);
        return true;
    }

    /// <summary>The last version in which it was written; 0, or a settled one: none that is not settled.</summary>
    public long VersionOf(ReadOnlySpan<byte> key)
    {
        if (_used == 0) { return 0; }
        int hash = HashOf(key);
        for (int i = hash; ; i++)
        {
            ref Place place = ref _places[i & (_places.Length - 1)];
            if (place.Version == 0 || place.Hash == hash) { return place.Version; }
        }
    }

    // Seeded in each process: nobody can have all keys share a place.
    private static int HashOf(ReadOnlySpan<byte> key)
    {
        HashCode hash = default;
        hash.AddBytes(key);
        return hash.ToHashCode();
    }

    private void Put(int hash, long version, long settled)
    {
        for (int i = hash; ; i++)
        {
            ref Place place = ref _places[i & (_places.Length - 1)];
            if (place.Version == 0) { _used++; }
            else if (place.Hash != hash && place.Version > settled) { continue; }
            // Where room is made an older place of the same key may come later.
            (place.Hash, place.Version) = (hash, place.Hash == hash ? Math.Max(place.Version, version) : version);
            return;
        }
    }

    // Places are given up here only, many at a time.
    private bool MakeRoom(long settled)
    {
        int unsettled = 0;
        foreach (ref readonly Place place in _places.AsSpan()) { unsettled += place.Version > settled ? 1 : 0; }
        int places = Math.Max(PlacesMin, _places.Length);
        if (4 * unsettled > places) { places *= 2; }
        if (places > PlacesMax) { return false; }
        if (_spare.Length != places) { _spare = new Place[places]; } else { Array.Clear(_spare); }
        (_places, _spare) = (_spare, _places);
        _used = 0;
        foreach (ref readonly Place place in _spare.AsSpan())
        {
            if (place.Version > settled) { Put(place.Hash, place.Version, settled); }
        }
        return true;
    }
}
