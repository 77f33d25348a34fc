// The approximate finder on the clock grid (DPR, section 3.4; design, sections 3 and 7): since no version depends on a larger
// one, all shards at the same version are closed under dependency, and since the version is the same slice of time on every
// shard, under real time too. All it needs is that every shard can be restored to that version.
using Slogger.Core.WorldLines;
using Version = Slogger.Core.Versions.Version;

namespace Slogger.Core.Cuts;

/// <summary>The cut of a cluster at one version of the grid.</summary>
public static class GridCut
{
    /// <summary>The newest version that all shards are durable at and can be restored to.</summary>
    /// <param name="current">The cut so far: what is returned if no newer one can be found (invariant I3).</param>
    /// <param name="claims">One of every shard of the cluster, all of the cut's world-line; one of another world-line holds the
    /// cut where it is.</param>
    public static WorldPoint Advance(WorldPoint current, IReadOnlyCollection<DurableClaim> claims)
    {
        if (claims.Count == 0) return current;
        Version durable = new(long.MaxValue), floor = Version.Zero;
        long stride = 1;
        foreach (DurableClaim claim in claims)
        {
            if (claim.Point.WorldLine != current.WorldLine) return current;
            durable = Version.Min(durable, claim.Point.Version);
            floor = Version.Max(floor, claim.Floor);
            stride = Math.Max(stride, claim.Stride);
        }

        // Strides nest: a multiple of the largest is one of each.
        Version cut = new(durable.Number - (durable.Number % stride));
        // Where all stand at the same version, that one is restorable whatever the strides say.
        if (claims.All(c => c.Point.Version == durable)) cut = durable;
        return cut >= floor && cut > current.Version ? current with { Version = cut } : current;
    }
}
