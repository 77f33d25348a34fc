// Whether requests may be forwarded to the store. Shut at once by whoever suspects that the store was lost; opened again only by
// the recovery, and only if nothing was suspected since it began; shut for good at the end.
namespace Slogger.Proxy.Shards;

/// <summary>The door to the store. Any thread.</summary>
internal sealed class StoreDoor
{
    private readonly Lock _lock = new();
    private long _suspicions;
    private long _taken;
    private volatile bool _isOpen;
    private bool _isShut;

    public bool IsOpen => _isOpen;

    /// <summary>What was suspected last.</summary>
    public string LastReason { get; private set; } = "";

    /// <summary>Whether something is suspected that nobody has looked into.</summary>
    public bool IsSuspected
    {
        get
        {
            lock (_lock) { return _suspicions != _taken; }
        }
    }

    /// <summary>The store may be lost.</summary>
    public void Suspect(string reason)
    {
        lock (_lock)
        {
            _isOpen = false;
            _suspicions++;
            LastReason = reason;
        }
    }

    /// <summary>Whatever is suspected after this is looked into after what is done now, and keeps the door shut until then.</summary>
    public long Take()
    {
        lock (_lock) { return _taken = _suspicions; }
    }

    /// <summary>Shuts for good: the end has begun, whatever a recovery under way may find.</summary>
    public void Shut()
    {
        lock (_lock)
        {
            _isShut = true;
            _isOpen = false;
        }
    }

    /// <summary>Opens, unless something was suspected since <see cref="Take"/> returned this number.</summary>
    public bool TryOpen(long taken)
    {
        lock (_lock)
        {
            if (_isShut || _suspicions != taken) { return false; }
            _isOpen = true;
            return true;
        }
    }
}
