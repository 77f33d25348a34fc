// What a proxy is given by whoever knows how sites speak with each other (Slogger.Sites).
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Links;

namespace Slogger.Proxy.Ports;

/// <summary>What lies between a shard's process and the other site.</summary>
internal sealed record SitePorts
{
    /// <summary>How the backup's processes for this shard are reached; none: nothing is shipped.</summary>
    public IReadOnlyList<IShipConnector> Backups { get; init; } = [];

    /// <summary>Receives the primary's stream while the site is a backup; null: it must be none.</summary>
    public IStreamIntake? Intake { get; init; }

    /// <summary>Has commands of two sites served for this shard until what it returns is disposed, with the site's metadata; nothing, where
    /// they are served already. Null: there are none.</summary>
    public Func<IPrimaryShard, IMetadataStore, CancellationToken, Task<IAsyncDisposable?>>? Serve { get; init; }
}

/// <summary>What a site needs cannot be had: an address, for example.</summary>
internal sealed class SiteException(ProxyExit exit) : Exception(exit.Problem)
{
    /// <summary>What to say.</summary>
    public ProxyExit Exit => exit;
}
