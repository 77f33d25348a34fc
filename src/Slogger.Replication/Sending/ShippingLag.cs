// How long a version that is committed here takes until the backup has it, as a whole: from when the recorded cut covered it until the
// watermark that was told does.
using Slogger.Core.WorldLines;

namespace Slogger.Replication.Sending;

/// <summary>Measures it. Any thread.</summary>
internal sealed class ShippingLag
{
    private const int CutsMax = 4096;
    private readonly Queue<(WorldPoint Cut, long AtUs)> _ahead = new();
    private long _lastUs;

    /// <summary>The cut has moved on. When too many are ahead the oldest stay: they say how far behind the backup is.</summary>
    public void Committed(WorldPoint cut, long nowUs)
    {
        lock (_ahead)
        {
            if (_ahead.Count < CutsMax) { _ahead.Enqueue((cut, nowUs)); }
        }
    }

    /// <summary>The backup has come to a watermark.</summary>
    public void Reached(WorldPoint watermark, long nowUs)
    {
        lock (_ahead)
        {
            while (_ahead.TryPeek(out (WorldPoint Cut, long AtUs) first) && first.Cut <= watermark)
            {
                _lastUs = nowUs - first.AtUs;
                _ahead.Dequeue();
            }
        }
    }

    /// <summary>The lag of the newest version that the backup has come to; or how long the oldest one has waited that it has not, if that
    /// is more. Microseconds.</summary>
    public long At(long nowUs)
    {
        lock (_ahead) { return _ahead.TryPeek(out (WorldPoint Cut, long AtUs) first) ? Math.Max(_lastUs, nowUs - first.AtUs) : _lastUs; }
    }
}
