// The entry point of `slogger serve`: the proxy, and what two sites need of it. Its log is shipped to the backup's process over gRPC, and
// commands of two sites reach it where it listens for them.
using System.Net;
using System.Net.Sockets;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Proxy.Ports;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Failovers;
using Slogger.Sites.Shipping;

namespace Slogger.Sites;

/// <summary>Runs a process of a primary.</summary>
public static class PrimaryHost
{
    /// <summary>Serves until cancelled, then stops in order, as
    /// <see cref="ProxyHost.RunAsync(ServeOptions, ILogger, CancellationToken)"/>.</summary>
    public static Task<ProxyExit> RunAsync(ServeOptions options, ILogger log, CancellationToken stop) =>
        RunAsync(options, new(log), log, stop);

    /// <summary>The same; by <paramref name="live"/> come limits and certificates that change meanwhile.</summary>
    public static async Task<ProxyExit> RunAsync(ServeOptions options, LiveOptions live, ILogger log, CancellationToken stop)
    {
        ArgumentNullException.ThrowIfNull(live);
        ArgumentNullException.ThrowIfNull(options);
        await Rehearsal.ClearAsync(options).ConfigureAwait(false);
        SiteOptions site = options.Site;
        if (site is { Backups.IsEmpty: true, Listen: null })
        {
            return await ProxyHost.RunAsync(options, log, null, stop, live: live).ConfigureAwait(false);
        }
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(site);
        if (failed is not null) { return failed; }
        using IDisposable changes = live.Add(again => credentials!.Renew(again.Site));
        using var ways = new ShipWays(options, credentials!);
        return await ProxyHost.RunAsync(options, log, null, stop, site: new()
        {
            Backups = ways.All,
            Serve = site.Listen is { } listen ? (primary, metadata, starting) =>
                ServeAsync(options, listen, credentials!, primary, metadata, starting) : null,
        }, live: live).ConfigureAwait(false);
    }

    /// <summary>Has commands of two sites reach a primary's shard.</summary>
    internal static async Task<IAsyncDisposable?> ServeAsync(
        ServeOptions options, ListenAddress listen, SiteCredentials credentials, IPrimaryShard primary, IMetadataStore metadata,
            CancellationToken stop)
    {
        (GrpcServerOptions? at, ProxyExit? failed) = credentials.ServerAt(listen);
        if (failed is not null) { throw new SiteException(failed); }
        var server = new GrpcServer(at!);
        try
        {
            new ShippingService(_ => null, ShipTerms.Of(options), () => primary.SiteEpoch).AddTo(server);
            new SiteControlService(metadata, options.Cluster, () => [], () => primary, () => [(primary.Shard, primary.Serving)],
                options.Site.Lease ?? TimeSpan.Zero).AddTo(server);
            await server.StartAsync(stop).ConfigureAwait(false);
            string host = !listen.IsEveryInterface ? listen.Host!
                : options.Announce is { IsEveryInterface: false, Host: { } announced } ? announced : Dns.GetHostName();
            await metadata.NoteSiteAddressAsync(options.Cluster, options.Shard, ListenAddress.Tcp(host, server.EndPoint.Port).ToString(),
                stop).ConfigureAwait(false);
            return server;
        }
        catch (Exception e)
        {
            await server.DisposeAsync().ConfigureAwait(false);
            throw e switch
            {
                MetadataException => new SiteException(ProxyExit.Failed($"the metadata could not be told where this process listens for "
                    + $"the other site: {e.Message}", "check --metadata")),
                IOException or SocketException =>
                    new SiteException(ProxyExit.Failed($"cannot listen on {listen} (--site-listen): {e.Message}", "stop what uses it, or "
                        + "give another address")),
                _ => e,
            };
        }
    }
}

/// <summary>The ways to the backup's processes; none: nothing is shipped.</summary>
internal sealed class ShipWays(ServeOptions options, SiteCredentials credentials) : IDisposable
{
    public IReadOnlyList<GrpcShipConnector> All { get; } =
        [.. options.Site.Backups.Select(
            b => new GrpcShipConnector(credentials.Open(b), $"{b.Host}:{b.Port}", ShipTerms.Of(options),
                options.Site.BackupCompression == ShipCompression.Gzip))];

    public void Dispose()
    {
        foreach (GrpcShipConnector way in All) { way.Dispose(); }
    }
}
