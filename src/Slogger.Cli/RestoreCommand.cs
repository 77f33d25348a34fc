// slogger restore: options, the data directory's owner, the existing data directory (so no proxy may run on it), and then the restore.
using Slogger.Cli.Terminal;
using Slogger.Proxy;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli;

/// <summary>Restores offline.</summary>
internal static class RestoreCommand
{
    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        OptionsResult<RestoreOptions> read = ServeOptionsReader.ReadRestore(texts, OptionLayer.FromEnvironment(host.Environment));
        if (read.Options is not { } options)
        {
            return CommandResult.BadOptions(read.Errors);
        }

        // Often it is root who restores, and not who runs the proxy.
        if (FileModes.BecomeOwner(options.DataDirectory) is { } problem)
        {
            return CommandResult.Failed(problem, "run the command as that user");
        }

        DataDirectoryResult opened = DataDirectory.OpenExisting(options.DataDirectory);
        if (opened.Opened is not { } data)
        {
            return new CommandResult(opened.IsOptionError ? ExitCodes.BadOptions : ExitCodes.Failed,
                [new OptionError(opened.Problem, "", opened.Remedy)]);
        }

        using (data)
        using (AppLog log = new(host, options.LogLevel, options.LogFormat))
        using (StopSignals signals = new(log, host.HandlesSignals))
        {
            foreach (string warning in read.Warnings)
            {
                log.Warn(warning);
            }

            FileModes.WarnOfReadable(options.Metadata, log);

            if (data.Store.Store == StoreKind.Faster && (options.Redis is not null || options.RedisServerPath is not null))
            {
                return CommandResult.Failed($"{data.Path} belongs to an embedded store, which slogger restore cannot put into a Redis",
                    "leave --redis and --redis-server out: --version V --keep has the next slogger serve go on from that version");
            }

            options = WithStore(options, data.Store);
            ProxyExit exit = options.List ? await ListAsync(options, host, signals.Token).ConfigureAwait(false)
                : await host.Restore(options, log, signals.Token).ConfigureAwait(false);
            return exit.IsDone ? CommandResult.Done : CommandResult.Failed(exit.Problem!, exit.Remedy);
        }
    }

    private static async Task<ProxyExit> ListAsync(RestoreOptions options, AppHost host, CancellationToken stop)
    {
        List<RestorableVersions> versions = [];
        ProxyExit exit = await OfflineRestore.ListAsync(options, versions.Add, stop).ConfigureAwait(false);
        if (exit.IsDone) { new VersionsReport(versions).Write(host, options.Json); }
        return exit;
    }

    // The directory's own cluster and shard, and its own store where the options name none.
    private static RestoreOptions WithStore(RestoreOptions options, StoreRecord store)
    {
        options = options with { Cluster = store.Cluster, Shard = store.ShardId };
        if (options.Redis is not null || options.RedisServerPath is not null)
        {
            return options;
        }

        return store.Store == StoreKind.Faster ? options
            : store.Store == StoreKind.RedisServer
            ? options with { RedisServerPath = store.Address }
            : options with { Redis = ListenAddress.TryParse(store.Address, out ListenAddress? address, out _) ? address : null };
    }
}
