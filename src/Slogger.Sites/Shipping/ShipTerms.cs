// What the two ends of shipping have to have in common. The shipper says it with each hello, and the receiver's process looks at it before
// anything else is done: a process of another cluster, reached by a wrong address, would depose this one's site by its epoch, or have a
// stream seeded with another's data; and a failover that waits for a shorter lease than the primary has, or for one that it has not, would
// leave two sites that report commits.
using Slogger.Core.Cohorts;
using Slogger.Core.Ownership;
using Slogger.Core.Sites;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;

namespace Slogger.Sites.Shipping;

/// <summary>Of a process.</summary>
/// <param name="Cluster">Its cluster.</param>
/// <param name="Lease">Its site lease; zero: none.</param>
internal sealed record ShipTerms(string Cluster, TimeSpan Lease)
{
    /// <summary>Of a shipper: how its site's keys are divided; the default: it does not say.</summary>
    public ShipShape Shape { get; init; }

    /// <summary>Of a shipper: which node of a cohort it is; empty: the shard has none.</summary>
    public string Node { get; init; } = "";

    /// <summary>Of such a node: the members of its reign.</summary>
    public Cohort? Members { get; init; }

    /// <summary>Of what a process is configured with.</summary>
    public static ShipTerms Of(ServeOptions options) =>
        new(options.Cluster, options.Site.Lease ?? TimeSpan.Zero) { Node = options.Cohort?.Node.Text ?? "" };

    /// <summary>Why a shipper of these terms is refused here; null: it is not.</summary>
    public string? Against(ShipTerms shipper) =>
        shipper.Cluster != Cluster ? $"this process is of cluster \"{Cluster}\", and the shipper of \"{shipper.Cluster}\": look where "
            + "--backup of that leads, and at --cluster of both"
        : shipper.Lease != Lease ? $"the primary has {Text(shipper.Lease)}, and the backup {Text(Lease)}: a failover would not wait as it "
        + "has to. Give the same to all processes of both sites"
        : null;

    /// <summary>Why a shipper is refused by a backup; null: it is not.</summary>
    /// <param name="site">What this site is.</param>
    /// <param name="shape">How the shipper's keys are divided.</param>
    /// <param name="source">Its shard.</param>
    public static string? Against(SiteState site, ShipShape shape, int source) =>
        shape.Shards == 0 ? null
        : shape.Shards != site.Sources
        ? $"the primary has {shape.Shards} shards, and this backup was made for a primary of {site.Sources}: make it anew, with metadata "
        + "and data directories of its own and slogger backup --shards "
        + $"{site.Shards}{(site.Shards == shape.Shards ? "" : $" --primary-shards {shape.Shards}")}"
        : !site.Layout.IsPlain && source >= 0 && source < site.Sources && shape.Slots != SlotMap.EvenSlots(site.Sources, source).ToString()
            ? $"the primary's shard {source} has slots {(shape.Slots.Length == 0 ? "that are none of a cluster" : shape.Slots)}, and not "
                + $"{SlotMap.EvenSlots(site.Sources, source)}: a backup of another number of shards needs them as they are when a cluster "
                + $"is made. Move them back (slogger move), or make a backup of {site.Sources} shards"
        : null;

    private static string Text(TimeSpan lease) => lease == TimeSpan.Zero ? "no --site-lease"
        : $"--site-lease {OptionText.FormatDuration(lease)}";
}
