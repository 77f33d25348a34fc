// The approximate finder's rule (DPR, section 3.4; design, sections 3 and 7): since no version depends on a larger
// one, all shards at the same version are closed under dependency, and since the version is the same slice of time on every
// shard, under real time too. All it needs is that every shard can be restored to that version. The metadata applies it to the
// rows of the shards, the finders to what was reported to them.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>The cut of a cluster at one version of the grid.</summary>
public static class GridCut
{
    /// <summary>The newest version that all shards are durable at and can be restored to.</summary>
    /// <param name="current">The cut so far: what is returned if no newer one can be found (invariant I3).</param>
    /// <param name="claims">One of every shard that counts (<see cref="Membership.Members.Counts(Membership.MemberState)"/>), all of the
    /// cut's world-line; one of another world-line holds the cut where it is.</param>
    public static WorldPoint Advance(WorldPoint current, IReadOnlyList<DurableClaim> claims)
    {
        if (claims.Count == 0) return current;
        VersionNumber durable = claims[0].Point.Version;
        bool isOnePoint = true;
        foreach (DurableClaim claim in claims)
        {
            if (claim.Point.WorldLine != current.WorldLine) return current;
            isOnePoint &= claim.Point.Version == durable;
        }

        // Where all stand at the same version, that one is restorable whatever the strides say.
        VersionNumber cut = isOnePoint ? durable : Common([.. claims]);
        return cut > current.Version && claims.All(c => cut >= c.Floor) ? current with { Version = cut } : current;
    }

    /// <summary>The newest version up to which all are durable that is a multiple of every stride. The floors are the caller's
    /// business.</summary>
    /// <remarks>Strides are meant to nest (each divides the next): then it is the largest that counts. Where they do not, a
    /// multiple of the largest need not be a version of the others, so the least common multiple counts: right for any
    /// strides, and slow for ill-chosen ones (one beyond 63 bits never comes).</remarks>
    internal static VersionNumber Common(ReadOnlySpan<DurableClaim> claims, FinderMutation mutation = FinderMutation.None)
    {
        VersionNumber durable = claims[0].Point.Version;
        long multiple = 1;
        foreach (DurableClaim claim in claims)
        {
            durable = VersionNumber.Min(durable, claim.Point.Version);
            multiple = CommonMultiple(multiple, claim.Stride, mutation);
        }

        if (mutation == FinderMutation.StrideIgnored) multiple = 1;
        long down = durable.Number - (durable.Number % multiple);
        return new(mutation == FinderMutation.GridOneTooFar ? down + multiple : down);
    }

    private static long CommonMultiple(long a, long b, FinderMutation mutation)
    {
        if (a % b == 0) return a;
        if (b % a == 0) return b;
        if (mutation == FinderMutation.LargestStride) return Math.Max(a, b);
        long divisor = a, rest = b;
        while (rest != 0) (divisor, rest) = (rest, divisor % rest);
        Int128 multiple = (Int128)(a / divisor) * b;
        return multiple > long.MaxValue ? long.MaxValue : (long)multiple;
    }
}
