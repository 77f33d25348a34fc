// What others than the front end have written to the store since versions were last ended. No request tells of it: whoever notices says so,
// and the version that is open then, or a later one, has it.
using Slogger.Core.Time;

namespace Slogger.Proxy.Shards;

/// <summary>Such changes, as far as they were noticed. Under the machine's lock, if nothing else is said.</summary>
internal sealed class ChangesElsewhere(VersionedShard shard)
{
    private HybridTimestamp _firstAt;
    private volatile bool _any;

    /// <summary>Whether there was one since <see cref="Take"/>. Any thread.</summary>
    public bool Any => _any;

    /// <summary>When the first one since then was noticed; null: there was none.</summary>
    public HybridTimestamp? FirstAt => _any ? _firstAt : null;

    /// <summary>There is one. Any thread.</summary>
    public void Mark()
    {
        // The tick that learns of an earlier one is still to come, and ends a version with this one, too. The loop is awake for it.
        if (_any) { return; }
        lock (shard.Versions.Lock)
        {
            if (_any) { return; }
            _firstAt = shard.Now();
            _any = true;
        }
        shard.Access.Loop?.Boundary.Disturb();
    }

    /// <summary>The machine is told.</summary>
    /// <returns>Whether there was one.</returns>
    public bool Take()
    {
        bool any = _any;
        _any = false;
        return any;
    }
}
