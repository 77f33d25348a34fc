// How far back the past of a shard can be read, and from what: see TilePlan for the tiles. Where the log has what follows a checkpoint each
// version that was closed can be read; where only a reduced file has it, the ends of its windows.
using Slogger.Core.Versions;

namespace Slogger.Core.Retention;

/// <summary>Which versions a reduced file has.</summary>
/// <param name="First">The version that its first window ends with.</param>
/// <param name="Last">The last version that has the state behind its last window.</param>
/// <param name="EndsAtGap">Whether writes that no log has lie behind it.</param>
public readonly record struct ReducedVersions(VersionNumber First, VersionNumber Last, bool EndsAtGap);

/// <summary>A checkpoint, and what a reduced file of it has; null: there is none.</summary>
public readonly record struct PastTile(long Offset, ReducedVersions? Reduced);

/// <summary>A window of a reduced file.</summary>
/// <param name="End">The version that it ends with.</param>
/// <param name="Through">The last version that has its state: those that follow the end are empty up to it.</param>
public readonly record struct WindowVersions(VersionNumber End, VersionNumber Through);

/// <summary>How far back the past goes.</summary>
/// <param name="From">The first version that can be read.</param>
/// <param name="Detail">The first one from which on each can be.</param>
/// <param name="IsWhole">Whether it goes back to where the history began: nothing has been deleted.</param>
public readonly record struct PastReach(VersionNumber From, VersionNumber Detail, bool IsWhole);

/// <summary>Finds what serves a version.</summary>
public static class PastTiles
{
    /// <summary>How far back the past goes.</summary>
    /// <param name="detail">The first version that ends at or above the oldest checkpoint that the log leads on from.</param>
    /// <param name="tiles">All tiles, by rising offset. Reduced ones lie below raw ones.</param>
    /// <param name="rawFrom">Where the log begins.</param>
    /// <param name="origin">Where the history began.</param>
    public static PastReach Reach(VersionNumber detail, IReadOnlyList<PastTile> tiles, long rawFrom, long origin)
    {
        ArgumentNullException.ThrowIfNull(tiles);
        bool isBelow = tiles.Count > 0 && tiles[0].Offset < rawFrom;
        return new(isBelow && tiles[0].Reduced is { } reduced ? reduced.First : detail, detail,
            (isBelow ? tiles[0].Offset : rawFrom) <= origin);
    }

    /// <summary>Which tile's reduced file serves a version that is not kept in detail; null: none does.</summary>
    /// <param name="reach">How far back the past goes.</param>
    /// <param name="tiles">All tiles, by rising offset.</param>
    /// <param name="version">The version.</param>
    public static int? ReducedAt(in PastReach reach, IReadOnlyList<PastTile> tiles, VersionNumber version) =>
        ReducedAt(reach, tiles, version, PastMutation.None);

    internal static int? ReducedAt(in PastReach reach, IReadOnlyList<PastTile> tiles, VersionNumber version, PastMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(tiles);
        if (version < reach.From || version >= reach.Detail) { return null; }
        for (int i = tiles.Count - 1; i >= 0; i--)
        {
            if (tiles[i].Reduced is not { } reduced || reduced.First > version) { continue; }
            // Writes that no log has lie between.
            return reduced.EndsAtGap && reduced.Last < version && mutation != PastMutation.GapIgnored ? null : i;
        }
        return null;
    }

    /// <summary>Which window of a reduced file serves a version, and which version its state is then called.</summary>
    /// <param name="count">How many it has.</param>
    /// <param name="windowAt">Gives them, in order.</param>
    /// <param name="version">A version at or above the first window's end.</param>
    public static (int Window, VersionNumber Version) WindowAt(int count, Func<int, WindowVersions> windowAt,
        VersionNumber version) =>
        WindowAt(count, windowAt, version, PastMutation.None);

    internal static (int Window, VersionNumber Version) WindowAt(int count, Func<int, WindowVersions> windowAt,
        VersionNumber version, PastMutation mutation)
    {
        ArgumentNullException.ThrowIfNull(windowAt);
        int low = 0, high = count - 1;
        while (low < high)
        {
            int middle = (low + high + 1) / 2;
            if (windowAt(middle).End <= version) { low = middle; } else { high = middle - 1; }
        }
        VersionNumber served = VersionNumber.Min(version, windowAt(low).Through);
        return mutation == PastMutation.LaterWindowServes && served < version && low + 1 < count
            ? (low + 1, version) : (low, served);
    }
}
