// What readers of the past need of a shard's log is not deleted while they look, and for a while after.
namespace Slogger.Core.Retention;

/// <summary>The holds of a shard's log. Not thread-safe.</summary>
public sealed class PastHolds
{
    private readonly long _lastsMs;
    private readonly PastMutation _mutation;
    private readonly Dictionary<long, long> _untilMs = [];

    /// <summary>Nobody looks.</summary>
    /// <param name="lastsMs">How long a hold lasts after it was renewed, in milliseconds.</param>
    public PastHolds(long lastsMs) : this(lastsMs, PastMutation.None)
    {
    }

    internal PastHolds(long lastsMs, PastMutation mutation) => (_lastsMs, _mutation) = (lastsMs, mutation);

    /// <summary>The offset from which log and checkpoints are needed; <see cref="long.MaxValue"/>: nobody looks.</summary>
    /// <param name="nowMs">A clock that never goes back, in milliseconds.</param>
    public long Lowest(long nowMs)
    {
        foreach (long over in _untilMs.Where(hold => hold.Value <= nowMs).Select(hold => hold.Key).ToList())
        {
            if (_mutation != PastMutation.LeaseIgnored) { _untilMs.Remove(over); }
        }
        return _untilMs.Keys.DefaultIfEmpty(long.MaxValue).Min();
    }

    /// <summary>Holds what lies at an offset and above. Nobody deletes meanwhile: who has looked at <see cref="Lowest"/> before does not
    /// know of it.</summary>
    /// <param name="offset">The offset.</param>
    /// <param name="nowMs">The same clock.</param>
    public void Take(long offset, long nowMs) => _untilMs[offset] = nowMs + _lastsMs;

    /// <summary>Goes on with a hold, if there is one of an offset or of one below: it is seen by whoever deletes.</summary>
    /// <param name="offset">The offset.</param>
    /// <param name="nowMs">The same clock.</param>
    /// <returns>Whether there is one.</returns>
    public bool TryRenew(long offset, long nowMs)
    {
        if (Lowest(nowMs) > offset) { return false; }
        Take(offset, nowMs);
        return true;
    }
}
