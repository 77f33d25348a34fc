// slogger watermark: the watermark service of a backup site in a process of its own. Each slogger backup has the role too; this is for a
// machine that outlives those of the shards, or to watch it.
using Slogger.Cli.Terminal;
using Slogger.Core.Sites;
using Slogger.Grpc.Server;
using Slogger.Metadata;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Slogger.Sites.Access;
using Slogger.Sites.Watermarks;

namespace Slogger.Cli.Sites;

/// <summary>Serves the role.</summary>
internal static class WatermarkCommand
{
    public const string Name = "watermark";

    private const string Level = "log-level", Format = "log-format";

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("site-listen", "Where it listens", "HOST:PORT",
            "Start the site's processes with this address as --watermark. Beyond loopback it needs --site-secret-file or certificates. "
            + "Also SLOGGER_SITE_LISTEN.", "none", ""),
        .. SiteArguments.Common("The backup's database, as given to slogger backup"),
        OptionCatalog.Find(Level)!,
        OptionCatalog.Find(Format)!,
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        MetadataSpec? spec = arguments.Metadata("metadata", "the backup's, as for slogger backup");
        ListenAddress? listen = arguments.Value<ListenAddress?>("site-listen", Tcp, null);
        LogLevel level = arguments.Value(Level, ServeOptionsReader.Level, LogLevel.Information);
        LogFormat format = arguments.Value(Format, ServeOptionsReader.Format, LogFormat.Text);
        SiteCredentials credentials = arguments.Known();
        string cluster = arguments.Cluster;
        if (listen is null && arguments.Errors.Count == 0)
        {
            arguments.Fail("no address is given", "give --site-listen HOST:PORT, which the site's processes have as --watermark");
        }
        if (arguments.Errors.Count > 0) { return CommandResult.BadOptions(arguments.Errors); }
        if (credentials.OpenTo(listen!) is { } open) { return CommandResult.Failed(open.Problem!, open.Remedy); }
        (GrpcServerOptions? options, ProxyExit? failed) = credentials.ServerAt(listen!);
        if (failed is not null) { return CommandResult.Failed(failed.Problem!, failed.Remedy); }

        using AppLog log = new(host, level, format);
        using StopSignals signals = new(log, host.HandlesSignals, host.Stop, () =>
        {
            if (arguments.Renew(credentials) is { } problem) { log.Warn($"SIGHUP: {problem}; the old ones stay in use"); }
            else { log.Info("SIGHUP: certificates were read again"); }
        });
        try
        {
            await using SiteAccess site = await SiteAccess.OpenAsync(spec!, cluster, credentials, signals.Token).ConfigureAwait(false);
            SiteState state = await site.StateAsync(signals.Token).ConfigureAwait(false);
            if (state.Streams.Length == 0)
            {
                return CommandResult.Failed($"cluster \"{cluster}\" has no backup here: there is no watermark",
                    "give the --metadata of the backup's site, after its first slogger backup was started");
            }
            await using var role = new WatermarkRole(site.Metadata, cluster, state);
            await using var server = new GrpcServer(options!);
            role.AddTo(server);
            await server.StartAsync(signals.Token).ConfigureAwait(false);
            log.Info($"ready: the watermark of {state.Streams.Length} streams at {server.EndPoint}");
            await Task.Delay(Timeout.Infinite, signals.Token).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
            return CommandResult.Done;
        }
        catch (IOException e)
        {
            return CommandResult.Failed($"cannot listen on {listen}: {e.Message}",
                "stop what uses it, or give another address with --site-listen");
        }
        catch (MetadataException e)
        {
            return CommandResult.Failed(e.Message, "check --metadata and --cluster");
        }
        catch (OperationCanceledException)
        {
            return CommandResult.Done;
        }
    }

    private static bool Tcp(string text, out ListenAddress? value, out string problem)
    {
        bool isAddress = OptionText.Address(text, out ListenAddress address, out problem);
        value = address;
        if (isAddress && address.IsUnix) { problem = "is a Unix socket, which other machines do not reach"; }
        return problem.Length == 0;
    }
}
