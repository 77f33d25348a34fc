// Who watches which keys (WATCH). Lists for each lock, changed and read by who holds it: so nobody who changes a key overlooks who watches
// it, and where nobody watches anything that is one look at a number.
namespace Slogger.Faster.Commands;

/// <summary>A key that a connection watches.</summary>
internal sealed class WatchedKey(byte[] key, Watches watcher, bool hadExpired)
{
    public byte[] Key { get; } = key;

    public Watches Watcher { get; } = watcher;

    /// <summary>It had expired when it was watched first, and is still there: that it is removed is no change.</summary>
    public bool HadExpired { get; set; } = hadExpired;
}

/// <summary>The keys that connections watch.</summary>
internal sealed class WatchedKeys(int stripes)
{
    private readonly List<WatchedKey>?[] _lists = new List<WatchedKey>?[stripes];
    private int _count;

    /// <summary>Whether any key is watched. Asked by who holds the lock of the one in question.</summary>
    public bool Any => Volatile.Read(ref _count) != 0;

    /// <summary>A key is watched from now on. Its lock is held.</summary>
    /// <returns>Whether its connection did not watch it yet.</returns>
    public bool Add(int stripe, WatchedKey watched)
    {
        List<WatchedKey> list = _lists[stripe] ??= [];
        if (list.Exists(w => w.Watcher == watched.Watcher && w.Key.AsSpan().SequenceEqual(watched.Key))) return false;
        list.Add(watched);
        Interlocked.Increment(ref _count);
        return true;
    }

    /// <summary>A connection watches nothing of this lock's any more. The lock is held.</summary>
    public void Remove(int stripe, Watches watcher)
    {
        if (_lists[stripe] is not { } list) return;
        Interlocked.Add(ref _count, -list.RemoveAll(w => w.Watcher == watcher));
        if (list.Count == 0) _lists[stripe] = null;
    }

    /// <summary>What a connection watches of this lock's. The lock is held.</summary>
    public IEnumerable<WatchedKey> Of(int stripe, Watches watcher) => _lists[stripe]?.Where(w => w.Watcher == watcher) ?? [];

    /// <summary>A key was changed, or removed since it had expired. Its lock is held.</summary>
    public void Touch(int stripe, ReadOnlySpan<byte> key, bool hadExpired)
    {
        if (_lists[stripe] is not { } list) return;
        foreach (WatchedKey watched in list)
        {
            if (!key.SequenceEqual(watched.Key)) continue;
            if (!hadExpired || !watched.HadExpired) watched.Watcher.OnChanged();
            watched.HadExpired = false;
        }
    }
}
