// The recorded cuts that a receiver has heard of and its log does not reach yet. Bounded: when a backup catches up with hours of log, the
// first cut that it heard of is reached first, so the oldest stay and the newest is replaced.
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

internal sealed class HeldCuts
{
    public const int Max = 16;

    private readonly List<WorldPoint> _ahead = [];

    public void Heard(WorldPoint cut)
    {
        if (_ahead.Count > 0 && cut <= _ahead[^1]) return;
        if (_ahead.Count == Max) _ahead[^1] = cut;
        else _ahead.Add(cut);
    }

    /// <summary>The newest that a log reaches, if it is newer than the one noted last; it and all before are forgotten.</summary>
    public WorldPoint? Reached(WorldPoint log, WorldPoint noted, bool byVersion)
    {
        int n = 0;
        while (n < _ahead.Count && (byVersion ? _ahead[n].Version <= log.Version : _ahead[n] <= log)) n++;
        if (n == 0) return null;
        WorldPoint newest = _ahead[n - 1];
        _ahead.RemoveRange(0, n);
        return newest > noted ? newest : null;
    }
}
