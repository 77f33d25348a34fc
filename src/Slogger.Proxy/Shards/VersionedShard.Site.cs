// A shard as one of a primary's, beside another site (PrimarySite), as its neighbours see it.
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;
using Slogger.FrontEnd;
using Slogger.Proxy.Ports;

namespace Slogger.Proxy.Shards;

internal abstract partial class VersionedShard : IPrimaryShard
{
    protected readonly PrimarySite _site;

    ShardId IPrimaryShard.Shard => _options.Shard;

    SiteEpoch IPrimaryShard.SiteEpoch => _site.State.Epoch;

    WorldPoint IPrimaryShard.Watermark => Watermark ?? default;

    /// <inheritdoc />
    public virtual string ShippingState => "off";

    bool IPrimaryShard.Attach() => AttachBackup();

    Task<WorldPoint?> IPrimaryShard.HoldAllAsync(long number, CancellationToken stop) => _site.HoldAllAsync(number, stop);

    /// <summary>Ships again to a backup that was given up. Whether it ships now.</summary>
    protected virtual bool AttachBackup() => false;

    public Hold Hold => _site.HoldsAll ? Hold.All : HoldsWrites ? Hold.Writes : Hold.None;

    /// <summary>Whether writes of clients wait, since the backup does not keep up.</summary>
    protected virtual bool HoldsWrites => false;

    /// <summary>Ends commands that wait in the store, of these connections.</summary>
    protected internal virtual void EndBlocked(IReadOnlyList<(long Id, string Address)> connections, CancellationToken stop)
    {
    }
}
