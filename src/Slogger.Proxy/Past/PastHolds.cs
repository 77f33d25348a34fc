// What readers of the past need of a shard's log is not deleted while they look, and for a while after.
namespace Slogger.Proxy.Past;

/// <summary>The holds of a shard's log. Any thread.</summary>
/// <param name="lastsMs">How long one holds after it was renewed, in milliseconds.</param>
internal sealed class PastHolds(long lastsMs)
{
    private readonly Lock _gate = new();
    private readonly Dictionary<long, long> _untilMs = [];

    /// <summary>The offset from which log and checkpoints are needed; <see cref="long.MaxValue"/>: nobody looks.</summary>
    /// <param name="nowMs">A clock that never goes back, in milliseconds.</param>
    public long Lowest(long nowMs)
    {
        lock (_gate)
        {
            foreach (long over in _untilMs.Where(hold => hold.Value <= nowMs).Select(hold => hold.Key).ToList()) { _untilMs.Remove(over); }
            return _untilMs.Keys.DefaultIfEmpty(long.MaxValue).Min();
        }
    }

    /// <summary>Holds what lies at an offset and above.</summary>
    /// <param name="offset">The offset.</param>
    /// <param name="nowMs">The same clock.</param>
    public void Renew(long offset, long nowMs)
    {
        lock (_gate) { _untilMs[offset] = nowMs + lastsMs; }
    }
}
