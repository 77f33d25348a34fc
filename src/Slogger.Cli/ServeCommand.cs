// slogger serve and slogger backup: options, data directory, log, signals, and then the proxy until it ends. SIGHUP has the options read
// again.
using Slogger.Cli.Terminal;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Runs a proxy.</summary>
internal static class ServeCommand
{
    private const string EmbeddedText =
        "slogger serve without a Redis serves strings, counters, bits, keys with expiry, transactions and published messages; "
        + "for lists, sets, hashes and all else start with --redis-server redis-server";

    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host) => RunAsync(
        () => ServeOptionsReader.ReadServe(texts, OptionLayer.FromEnvironment(host.Environment)), host.Serve, "serves", host);

    public static Task<CommandResult> RunBackupAsync(OptionLayer texts, AppHost host) => RunAsync(
        () => ServeOptionsReader.ReadBackup(texts, OptionLayer.FromEnvironment(host.Environment)), host.Backup, "backup of", host);

    private static async Task<CommandResult> RunAsync(Func<OptionsResult<ServeOptions>> readOptions,
        Func<ServeOptions, LiveOptions, ILogger, CancellationToken, Task<ProxyExit>> run, string what, AppHost host)
    {
        OptionsResult<ServeOptions> read = readOptions();
        if (read.Options is not { } options)
        {
            return CommandResult.BadOptions(read.Errors);
        }

        using AppLog log = new(host, options.LogLevel, options.LogFormat);
        foreach (string warning in read.Warnings)
        {
            log.Warn(warning);
        }

        FileModes.WarnOfReadable(options.Metadata, log);

        DataDirectoryResult opened = DataDirectory.OpenForServe(options);
        if (opened.Opened is not { } data)
        {
            return new CommandResult(opened.IsOptionError ? ExitCodes.BadOptions : ExitCodes.Failed,
                [new OptionError(opened.Problem, "", opened.Remedy)]);
        }

        using (data)
        {
            if (data.PreviousCommit is { } previous && previous != options.Commit)
            {
                log.Warn($"the last start of {data.Path} was with --commit {Word(previous)}, this one is with --commit "
                    + $"{Word(options.Commit)}");
            }

            LiveOptions live = new(log);
            using IDisposable level = live.Add(again =>
            {
                log.Level = again.LogLevel;
                return null;
            });
            OptionsResult<ServeOptions> counts = read;
            using StopSignals signals = new(log, host.HandlesSignals, host.Stop,
                () => counts = Reload(counts, read, readOptions(), live, log));
            string store = options.Redis is { } redis ? $"redis {redis}"
                : options.Store == StoreKind.RedisServer ? $"supervised {options.RedisServerPath}" : "embedded store";
            log.Info($"slogger {ProductVersion.Text}: {what} cluster {options.Cluster} shard {options.Shard}, {store}, data {data.Path}, "
                + $"metadata {options.Metadata}, commit {Word(options.Commit)}, versions of "
                + $"{OptionText.FormatDuration(options.VersionInterval)}");
            if (options.Store == StoreKind.Faster) { log.Info(EmbeddedText); }
            ProxyExit exit = await run(options, live, log, signals.Token).ConfigureAwait(false);
            if (exit.IsDone)
            {
                log.Info("stopped");
                return CommandResult.Done;
            }

            data.ForgetFailedFirstStart();
            return CommandResult.Failed(exit.Problem!, exit.Remedy);
        }
    }

    // What counts afterwards: the options as they are now, or as they were.
    private static OptionsResult<ServeOptions> Reload(OptionsResult<ServeOptions> before, OptionsResult<ServeOptions> atStart,
        OptionsResult<ServeOptions> now, LiveOptions live, ILogger log)
    {
        const string signal = "SIGHUP";
        foreach (string warning in now.Warnings) { log.Warn($"{signal}: {warning}"); }
        if (now.Options is not { } options)
        {
            foreach (OptionError error in now.Errors)
            {
                log.Warn($"{signal}: {error.What}{(error.Origin.Length > 0 ? $" ({error.Origin})" : "")}: {error.Remedy}");
            }
            log.Warn($"{signal}: nothing was changed");
            return before;
        }
        bool isWhole = live.Change(options);
        string changed = string.Join(", ", now.ChangedSince(before).Where(option => option.IsLive).Select(option => option.Switch));
        log.Info($"{signal}: {(isWhole ? "certificates were read again" : "not all of it could be taken up")}; "
            + (changed.Length > 0 ? $"changed: {changed}" : "no option that may has changed"));
        string[] later = [.. now.ChangedSince(atStart).Where(option => !option.IsLive).Select(option => option.Switch)];
        if (later.Length > 0)
        {
            log.Warn($"{signal}: {string.Join(", ", later)} changed in the configuration file: that takes effect at the next start");
        }
        return now;
    }

    private static string Word(CommitMode mode) =>
        mode switch { CommitMode.Log => "log", CommitMode.Bgsave => "bgsave", CommitMode.Faster => "faster", _ => "none" };
}
