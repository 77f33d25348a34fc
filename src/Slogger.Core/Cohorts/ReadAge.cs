// How old a follower's reads may be, without comparing clocks. A follower's reply bears the time at which it was sent, by the follower's
// clock. The leader's messages say the newest such time that it had heard before it looked at what is committed, while its lease held after
// it had looked. Whatever had been committed by the time that the reply was sent is so in what the message says is committed: no other
// leader had committed anything by then, and this one has heard the reply before it looked. Once the store shows that, it shows all that
// had been committed at that time.
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cohorts;

/// <summary>Since when something may be missing in a follower's store. One thread at a time. Source: design, replicated shards,
/// 6.2.</summary>
public sealed class ReadAge
{
    /// <summary>What waits for the store to show it. When there is more the newest takes in the next, which makes reads count as older, and
    /// never as newer.</summary>
    public const int WaitingMax = 256;

    private readonly long _beganUs;
    private readonly List<(WorldPoint Commit, long HeardUs)> _waiting = [];
    private WorldPoint _shown;

    /// <summary>A follower begins.</summary>
    /// <param name="shown">What its store shows.</param>
    /// <param name="nowUs">The follower's clock. What was sent before was sent by another life, and maybe by another clock.</param>
    public ReadAge(WorldPoint shown, long nowUs) => (_shown, _beganUs) = (shown, nowUs);

    /// <summary>The store shows all that had been committed at this time, by the follower's clock. Null: nothing is known. Unit:
    /// microseconds.</summary>
    public long? CurrentUs { get; private set; }

    /// <summary>A message of the leader.</summary>
    /// <param name="commit">What it says is committed.</param>
    /// <param name="heardUs">When the newest reply was sent that the leader had heard, by the follower's clock; 0: it says
    /// nothing.</param>
    /// <param name="nowUs">The follower's clock.</param>
    public void Told(WorldPoint commit, long heardUs, long nowUs)
    {
        if (heardUs < _beganUs || heardUs > nowUs) { return; }
        if (_waiting.Count > 0 && (_waiting[^1].Commit == commit || _waiting.Count == WaitingMax))
        {
            _waiting.RemoveAt(_waiting.Count - 1);
        }
        _waiting.Add((commit, heardUs));
        Look();
    }

    /// <summary>The store shows this.</summary>
    public void Shown(WorldPoint point)
    {
        if (point > _shown) { _shown = point; }
        Look();
    }

    private void Look()
    {
        int seen = 0;
        while (seen < _waiting.Count && _waiting[seen].Commit <= _shown)
        {
            CurrentUs = Math.Max(CurrentUs ?? 0, _waiting[seen++].HeardUs);
        }
        _waiting.RemoveRange(0, seen);
    }
}
