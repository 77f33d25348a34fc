// Operations per second for status displays: over the time since the last question, at least half a second.
using System.Diagnostics;

namespace Slogger.Proxy.Shards;

internal sealed class OperationRate
{
    private readonly Stopwatch _since = Stopwatch.StartNew();
    private readonly Stopwatch _uptime = Stopwatch.StartNew();
    private long _counted;
    private long _perSecond;

    /// <summary>Whole seconds since the start.</summary>
    public long UptimeSeconds => _uptime.ElapsedMilliseconds / 1000;

    /// <summary>The rate, given how many operations there have been since the start.</summary>
    public long PerSecond(long total)
    {
        if (_since.ElapsedMilliseconds > 500)
        {
            _perSecond = (total - _counted) * 1000 / _since.ElapsedMilliseconds;
            _counted = total;
            _since.Restart();
        }
        return _perSecond;
    }
}
