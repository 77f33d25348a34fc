// When the loss of a way to another process is a warning. One that starts, is seeded, or ends since its site takes over is away for a
// moment: that passes by itself.
using System.Diagnostics;

namespace Slogger.Replication.Links;

/// <summary>Warns once of a loss: when it lasts, or at once where a person has to put something right. Not thread-safe.</summary>
internal sealed class LastingLoss
{
    /// <summary>What is away for less long is no warning.</summary>
    public static readonly TimeSpan WarnAfter = TimeSpan.FromSeconds(5);

    private long _since;
    private bool _isTold;

    /// <summary>The way is there again, or another loss begins.</summary>
    public void Over() => (_since, _isTold) = (0, false);

    /// <summary>It is not there: whether that is to be told now.</summary>
    public bool IsToTell(bool needsPerson)
    {
        if (_since == 0) { _since = Stopwatch.GetTimestamp(); }
        if (_isTold || (!needsPerson && Stopwatch.GetElapsedTime(_since) < WarnAfter)) { return false; }
        return _isTold = true;
    }
}
