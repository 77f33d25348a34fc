using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>What a shard says of itself: it is durable up to a point, and can be restored to that point and to every multiple of
/// its stride from a floor up to it. Between them it cannot: a marker that came late has closed several versions at one place,
/// and at that place the later ones' operations are there too (design, section 3, restorable versions).</summary>
/// <param name="Point">The world-line, and the last version of the contiguous durable prefix.</param>
/// <param name="Stride">Every how many versions the shard closes one; a power of two, so that strides nest.</param>
/// <param name="Floor">From here on no multiple of the stride was skipped; at most the point's version.</param>
public readonly record struct DurableClaim(WorldPoint Point, long Stride, VersionNumber Floor)
{
    /// <summary>A claim of a shard that closes every version, and was here when the world-line began.</summary>
    public static DurableClaim Of(WorldPoint point) => new(point, 1, VersionNumber.Zero);

    /// <summary>Whether the shard can be restored to a version.</summary>
    public bool Restores(VersionNumber version) =>
        version == Point.Version || (version >= Floor && version < Point.Version && version.Number % Stride == 0);
}
