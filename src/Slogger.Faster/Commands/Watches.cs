// What one connection watches (WATCH), and whether any of it has changed since.
namespace Slogger.Faster.Commands;

/// <summary>The keys that a connection watches.</summary>
internal sealed class Watches(CommandEngine engine, FasterWorker worker, Keyspace keys)
{
    private readonly List<int> _stripes = [];
    private volatile bool _isChanged;
    private long _undoneBefore;

    /// <summary>The locks of its keys.</summary>
    public IReadOnlyList<int> Stripes => _stripes;

    /// <summary>A key that is watched has been changed. Called by whoever has changed it, with its lock.</summary>
    public void OnChanged() => _isChanged = true;

    /// <summary>Watches a key. Its lock is held.</summary>
    public void Add(ReadOnlySpan<byte> key)
    {
        if (_stripes.Count == 0) _undoneBefore = engine.Store.Rollback.UndoneCount;
        int stripe = worker.StripeOf(key);
        if (engine.Watched.Add(stripe, new(key.ToArray(), this, keys.HasExpired(key)))) _stripes.Add(stripe);
    }

    /// <summary>Whether what is watched has changed: a key was written or has expired, or the store has gone back. The locks of the keys
    /// are held.</summary>
    public bool HaveChanged => _stripes.Count > 0 && (_isChanged || _undoneBefore != engine.Store.Rollback.UndoneCount || HasAnyExpired());

    /// <summary>Watches nothing any more. Some locks may be held.</summary>
    public void Clear()
    {
        foreach (int stripe in _stripes)
        {
            int entered = engine.Store.Stripes.Enter(stripe);
            engine.Watched.Remove(stripe, this);
            engine.Store.Stripes.Exit(entered);
        }

        _stripes.Clear();
        _isChanged = false;
    }

    private bool HasAnyExpired()
    {
        foreach (int stripe in _stripes)
        {
            if (engine.Watched.Of(stripe, this).Any(w => !w.HadExpired && keys.HasExpired(w.Key))) return true;
        }

        return false;
    }
}
