// What the two ends of shipping have to have in common. The shipper says it with each hello, and the receiver's process looks at it before anything else is done: a process of another cluster, reached by
// a wrong address, would depose this one's site by its epoch, or have a stream seeded with another's data; and a failover that waits for a shorter lease than the primary has, or for one that it has not, would leave two sites that report commits.
using Slogger.Proxy.Configuration;

namespace Slogger.Sites.Shipping;

/// <summary>Of a process.</summary>
/// <param name="Cluster">Its cluster.</param>
/// <param name="Lease">Its site lease; zero: none.</param>
internal sealed record ShipTerms(string Cluster, TimeSpan Lease)
{
    /// <summary>Of what a process is configured with.</summary>
    public static ShipTerms Of(ServeOptions options) => new(options.Cluster, options.Site.Lease ?? TimeSpan.Zero);

    /// <summary>Why a shipper of these terms is refused here; null: it is not.</summary>
    public string? Against(ShipTerms shipper) =>
        shipper.Cluster != Cluster ? $"this process is of cluster \"{Cluster}\", and the shipper of \"{shipper.Cluster}\": look where --backup of that leads, and at --cluster of both"
        : shipper.Lease != Lease ? $"the primary has {Text(shipper.Lease)}, and the backup {Text(Lease)}: a failover would not wait as it has to. Give the same to all processes of both sites"
        : null;

    private static string Text(TimeSpan lease) => lease == TimeSpan.Zero ? "no --site-lease" : $"--site-lease {OptionText.FormatDuration(lease)}";
}
