// slogger leave: options, and then the departure.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Has a shard leave its cluster.</summary>
internal static class LeaveCommand
{
    public const string Name = "leave";

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        OptionsResult<RecoverOptions> read = ServeOptionsReader.ReadRecover(texts, OptionLayer.FromEnvironment(host.Environment));
        if (read.Options is not { } options)
        {
            return CommandResult.BadOptions(read.Errors);
        }

        using AppLog log = new(host, options.LogLevel, options.LogFormat);
        FileModes.WarnOfReadable(options.Metadata, log);
        using StopSignals signals = new(log, host.HandlesSignals);
        ProxyExit exit = await host.Leave(options, log, signals.Token).ConfigureAwait(false);
        return exit.IsDone ? CommandResult.Done : CommandResult.Failed(exit.Problem!, exit.Remedy);
    }
}
