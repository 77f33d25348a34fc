// The entry point of `slogger backup`: a proxy for one shard whose site follows another. It receives the primary's stream of that shard,
// has its store follow, serves reads; and when its site has taken over it goes on as the shard of a primary, in the same process, with the
// same log, store and connections.
using Slogger.Core.Shards;
using Slogger.Grpc.Server;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Replication.Following;
using Slogger.Sites.Access;
using Slogger.Sites.Backup;
using Slogger.Sites.Merging;

namespace Slogger.Sites;

/// <summary>Runs a process of a backup.</summary>
internal static class BackupHost
{
    private static Task? s_ready;

    /// <summary>As the other, with options that stay as they are.</summary>
    public static Task<ProxyExit> RunAsync(ServeOptions options, ILogger log, CancellationToken stop) =>
        RunAsync(options, new(log), log, stop);

    /// <summary>Serves until cancelled, then stops in order. The caller holds the <see cref="DataDirectory"/>. Expected failures are
    /// returned. By <paramref name="live"/> come limits and certificates that change meanwhile.</summary>
    public static async Task<ProxyExit> RunAsync(ServeOptions options, LiveOptions live, ILogger log, CancellationToken stop)
    {
        await Rehearsal.ClearAsync(options).ConfigureAwait(false);
        (SiteCredentials? credentials, ProxyExit? failed) = SiteCredentials.Load(options.Site);
        if (failed is not null) { return failed; }
        using IDisposable changes = live.Add(again => credentials!.Renew(again.Site));
        (GrpcServerOptions? server, failed) = credentials!.ServerAt(options.Site.Listen!);
        if (failed is not null) { return failed; }
        Task ready = !options.Site.Rehearses ? Task.CompletedTask
            : s_ready ??= Readiness.PrepareAsync(typeof(BackupHost).Assembly, isEmbedded: options.Commit == CommitMode.Faster, log);
        await using Rehearsal? rehearsal = options.Site.Rehearses && options.RedisServerPath is not null ? new(options, ready, log) : null;
        await using var intake = new StreamIntake(options, credentials, server!, log, rehearsal);
        using var ways = new ShipWays(options, credentials);
        return await ProxyHost.RunAsync(options, log, null, stop, site: new()
        {
            Backups = ways.All,
            Intake = intake,
            // While it follows, and afterwards, it listens already; a process that is started after a failover is the primary's from the
            // beginning.
            Serve = async (primary, metadata, starting) =>
            {
                if (intake.IsListening) { return null; }
                MergedStore.Clear(options.DataDirectory);
                return await PrimaryHost.ServeAsync(options, options.Site.Listen!, credentials, primary, metadata,
                    starting).ConfigureAwait(false);
            },
        }, live: live).ConfigureAwait(false);
    }
}
