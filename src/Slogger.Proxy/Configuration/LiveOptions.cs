// Options that change while a process runs: those that OptionCatalog marks as live. SIGHUP has all options read again, and each part of the
// process takes up what is its own. A part that cannot keeps what it has, and says why.
namespace Slogger.Proxy.Configuration;

/// <summary>Hands options that were read again to the parts of a running process.</summary>
/// <param name="log">Is told what a part could not take up.</param>
public sealed class LiveOptions(ILogger log)
{
    private readonly Lock _lock = new();
    private readonly List<Func<ServeOptions, string?>> _parts = [];
    private ServeOptions? _newest;

    /// <summary>Adds a part. What was read again before is handed to it at once.</summary>
    /// <param name="take">Takes up what is the part's own. Returns why it could not, having changed nothing; null: it has. One call at a
    /// time, from any thread.</param>
    /// <returns>Disposed, the part is handed nothing any more.</returns>
    public IDisposable Add(Func<ServeOptions, string?> take)
    {
        ArgumentNullException.ThrowIfNull(take);
        lock (_lock)
        {
            _parts.Add(take);
            if (_newest is { } newest) { Hand(take, newest); }
        }
        return new Part(this, take);
    }

    /// <summary>Hands options that were read again to all parts.</summary>
    /// <returns>Whether each of them has taken them up.</returns>
    public bool Change(ServeOptions options)
    {
        lock (_lock)
        {
            _newest = options;
            bool isWhole = true;
            foreach (Func<ServeOptions, string?> take in _parts) { isWhole &= Hand(take, options); }
            return isWhole;
        }
    }

    private bool Hand(Func<ServeOptions, string?> take, ServeOptions options)
    {
        if (take(options) is not { } problem) { return true; }
        log.Warn($"{problem}; the old ones stay in use");
        return false;
    }

    private sealed class Part(LiveOptions of, Func<ServeOptions, string?> take) : IDisposable
    {
        public void Dispose()
        {
            lock (of._lock) { of._parts.Remove(take); }
        }
    }
}
