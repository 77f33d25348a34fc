// Which version an instant is: the last one that has ended by then, once it is committed. At all shards the same number is the same slice
// of time, so it is one state of the whole cluster.
using Slogger.Core.Versions;

namespace Slogger.Core.Retention;

/// <summary>Instants of the past.</summary>
public static class PastInstant
{
    /// <summary>The last version that had ended at a time.</summary>
    /// <param name="grid">The cluster's clock grid.</param>
    /// <param name="timeUs">The time, in microseconds since the Unix epoch.</param>
    public static VersionNumber ClosedAt(VersionGrid grid, long timeUs) => ClosedAt(grid, timeUs, PastMutation.None);

    internal static VersionNumber ClosedAt(VersionGrid grid, long timeUs, PastMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(grid);
        VersionNumber open = grid.VersionAt(timeUs);
        return mutation == PastMutation.OpenIsClosed ? open : open.Previous;
    }

    /// <summary>The version that is read for a wanted one; null: it is not committed yet.</summary>
    /// <param name="wanted">What is wanted.</param>
    /// <param name="isNow">The instant is now: <paramref name="wanted"/> was open, and all that was acknowledged in it is wanted. What is
    /// acknowledged in a version that was not closed by itself is in the next one that was.</param>
    /// <param name="cut">The recorded cut.</param>
    /// <param name="lastClosed">Gives the last version at or below one that was closed by itself; zero: none was.</param>
    public static VersionNumber? Committed(VersionNumber wanted, bool isNow, VersionNumber cut,
        Func<VersionNumber, VersionNumber> lastClosed)
    {
        ArgumentNullException.ThrowIfNull(lastClosed);
        if (cut < wanted) { return null; }
        if (!isNow) { return wanted; }
        VersionNumber closed = lastClosed(cut);
        return closed >= wanted ? closed : null;
    }

    /// <summary>Whether a key is not there any more at an instant.</summary>
    /// <param name="expiresAtMs">When it expires, in milliseconds since the Unix epoch.</param>
    /// <param name="timeMs">The instant, likewise.</param>
    public static bool HasExpired(long expiresAtMs, long timeMs) => HasExpired(expiresAtMs, timeMs, PastMutation.None);

    internal static bool HasExpired(long expiresAtMs, long timeMs, PastMutation mutation) =>
        expiresAtMs <= timeMs && mutation != PastMutation.ExpiredIsShown;

    /// <summary>Whether a version can be read: before, keys may have been at other shards.</summary>
    /// <param name="version">The version.</param>
    /// <param name="settled">From it on it is known which shard had which slot.</param>
    public static bool IsSettled(VersionNumber version, VersionNumber settled) => IsSettled(version, settled, PastMutation.None);

    internal static bool IsSettled(VersionNumber version, VersionNumber settled, PastMutation mutation) =>
        version >= settled || mutation == PastMutation.SettledIgnored;
}
