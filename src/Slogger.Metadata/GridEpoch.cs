// A stretch of the clock grid with one version interval. The list of them only grows, and each starts on a grid point of
// the one before, so that the version of an instant is a continuous, monotone function of time whatever the interval was.
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Metadata;

/// <summary>From its start on, version <c>FirstVersion + (t - StartMicroseconds) / IntervalMicroseconds</c> is open at
/// time t, until the next epoch starts.</summary>
/// <param name="FirstVersion">The version that opens at the start.</param>
/// <param name="StartMicroseconds">Microseconds since 1970-01-01 UTC.</param>
/// <param name="IntervalMicroseconds">The length of one version.</param>
public readonly record struct GridEpoch(Version FirstVersion, long StartMicroseconds, long IntervalMicroseconds)
{
    /// <summary>The epoch that follows this one with another interval, at the first grid point at or after a time, and after
    /// this epoch's own start.</summary>
    /// <exception cref="ArgumentOutOfRangeException">The interval is not positive.</exception>
    public GridEpoch Successor(long intervalMicroseconds, long notBeforeMicroseconds)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(intervalMicroseconds, 1);
        checked
        {
            long ahead = notBeforeMicroseconds - StartMicroseconds;
            long slots = ahead <= 0 ? 1 : Math.Max(1, ((ahead - 1) / IntervalMicroseconds) + 1);
            return new(
                new(FirstVersion.Number + slots),
                StartMicroseconds + (slots * IntervalMicroseconds),
                intervalMicroseconds);
        }
    }
}
