// What a shard tells the finder about what is durable. A report may be doubled, late, overtaken, or lost and sent again.
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Cuts;

/// <summary>A shard's durable versions, and what the last of them depend on.</summary>
/// <param name="Shard">The shard.</param>
/// <param name="Durable">The last version up to which all that it closed is durable, without a hole; itself closed.</param>
/// <param name="Stride">In versions, at least 1: the shard can be restored to every multiple of it that lies above the cut
/// that the shard knows and not above <paramref name="Durable"/>. A shard whose stride shrinks goes on giving the larger one until the
/// cut has passed what it closed with it. Each report stands for itself, so that none is missed when it is lost.</param>
/// <param name="After">The range (After, Durable] is what <paramref name="Dependencies"/> speaks of: normally the version of
/// the report before. Equal to Durable: this report knows of no dependencies.</param>
/// <param name="Dependencies">What operations in the range follow at other shards.</param>
public readonly record struct VersionReport(
    ShardId Shard, WorldPoint Durable, long Stride, VersionNumber After, DependencySet Dependencies)
{
    /// <summary>Multiples of the stride below it cannot be restored to: some were skipped. At most the durable version.</summary>
    public VersionNumber Floor { get; init; }

    /// <summary>What a shard claims, and what the versions of a row depend on.</summary>
    public static VersionReport Of(ShardId shard, in DurableClaim claim, VersionNumber after, DependencySet dependencies) =>
        new(shard, claim.Point, claim.Stride, after, dependencies) { Floor = claim.Floor };

    /// <summary>A report that says only what is durable: all that the approximate finder needs, and all that is left after
    /// the precedence graph was lost.</summary>
    public static VersionReport WithoutDependencies(ShardId shard, WorldPoint durable, long stride) =>
        new(shard, durable, stride, durable.Version, DependencySet.Empty);

    /// <summary>Its part of the precedence graph.</summary>
    public PrecedenceRow Row => new(Shard, Durable, After, Dependencies);

    /// <summary>Checks that it fits a cluster.</summary>
    /// <exception cref="ArgumentException">As <see cref="IDprFinder.Report"/> says.</exception>
    internal void Validate(Cut cluster)
    {
        if (Stride < 1) throw new ArgumentException($"Shard {Shard} reports a stride of {Stride}.");
        if (Floor > Durable.Version)
            throw new ArgumentException($"Shard {Shard} reports the floor {Floor} above version {Durable.Version}.");
        Row.Validate(cluster);
    }
}

/// <summary>A vertex of the precedence graph with its outgoing edges (DPR, section 3.1): the versions (After, Through] of a
/// shard, all of them durable, are inside a cut together, and only with what they depend on.</summary>
/// <param name="Shard">The shard.</param>
/// <param name="Through">The last version of the range: one that the shard can be restored to.</param>
/// <param name="After">The version before the range.</param>
/// <param name="Dependencies">What operations in the range follow at other shards.</param>
public readonly record struct PrecedenceRow(ShardId Shard, WorldPoint Through, VersionNumber After, DependencySet Dependencies)
{
    /// <summary>Checks that it fits a cluster.</summary>
    /// <exception cref="ArgumentException">It goes back, or names a shard that the cluster does not have.</exception>
    internal void Validate(Cut cluster)
    {
        cluster.Index(Shard);
        if (After > Through.Version)
            throw new ArgumentException($"Shard {Shard} reports the range ({After}, {Through.Version}], which goes back.");
        ReadOnlySpan<Dependency> items = Dependencies.Items;
        if (items.IsEmpty) return;
        cluster.Index(items[0].Shard);
        cluster.Index(items[^1].Shard);
    }
}
