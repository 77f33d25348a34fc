// What the versions of a range depend on at other shards (DPR, section 3.1). Only the largest version per shard is kept.
//
// Why that is enough: a cut takes of each shard a prefix of its versions. If operations of the range follow operations of
// versions m1 < m2 at one shard, a cut that holds the range must cover both, and covers both exactly if it covers m2. And
// since the range is inside or outside of a cut as a whole, it does not matter which of its operations follows which.
using Slogger.Core.Identities;
using Slogger.Core.Versions;

namespace Slogger.Core.Cuts;

/// <summary>An operation followed, in its session, an operation of this version at this shard. A version that a store did
/// not close by itself is closed with a later one; what counts is that a cut covers it.</summary>
public readonly record struct Dependency(ShardId Shard, VersionNumber Version);

/// <summary>The dependencies of a range of versions: at most one per shard, in order of shards. Immutable.</summary>
public sealed class DependencySet
{
    /// <summary>Depends on nothing.</summary>
    public static readonly DependencySet Empty = new([]);

    private readonly Dependency[] _items;

    private DependencySet(Dependency[] items) => _items = items;

    /// <summary>The largest version of each shard named, in order of shards.</summary>
    public ReadOnlySpan<Dependency> Items => _items;

    /// <summary>Makes a set of dependencies in any order, several of one shard allowed.</summary>
    public static DependencySet Of(params ReadOnlySpan<Dependency> dependencies)
    {
        if (dependencies.IsEmpty) return Empty;
        Dependency[] items = dependencies.ToArray();
        Array.Sort(items, static (a, b) => a.Shard != b.Shard ? a.Shard.Number.CompareTo(b.Shard.Number) : b.Version.CompareTo(a.Version));
        int kept = 1;
        for (int i = 1; i < items.Length; i++)
            if (items[i].Shard != items[kept - 1].Shard) items[kept++] = items[i];
        return new(kept == items.Length ? items : items[..kept]);
    }

    /// <summary>What two ranges together depend on.</summary>
    public DependencySet Union(DependencySet other)
    {
        if (other._items.Length == 0) return this;
        if (_items.Length == 0) return other;
        Dependency[] joined = new Dependency[_items.Length + other._items.Length];
        int a = 0, b = 0, count = 0;
        while (a < _items.Length || b < other._items.Length)
        {
            int order = a == _items.Length ? 1 : b == other._items.Length ? -1
                : _items[a].Shard.Number.CompareTo(other._items[b].Shard.Number);
            joined[count++] = order < 0 ? _items[a++] : order > 0 ? other._items[b++]
                : new(_items[a].Shard, VersionNumber.Max(_items[a++].Version, other._items[b++].Version));
        }

        return new(count == joined.Length ? joined : joined[..count]);
    }
}
