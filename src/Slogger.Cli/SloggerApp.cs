// One run of the executable, from arguments to exit code. Every error that a person sees is printed here, in one shape.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>The executable.</summary>
public static class SloggerApp
{
    /// <summary>Runs a command line.</summary>
    public static async Task<int> RunAsync(IReadOnlyList<string> args, AppHost host)
    {
        CommandResult result;
        try
        {
            result = await CommandLine.RunAsync(args, host).ConfigureAwait(false);
        }
        catch (Exception e)
        {
            // Nothing is known about this one, so all of it is shown that a line may hold.
            result = CommandResult.Failed($"unexpected failure: {e}", "if it happens again, please report it with the lines above");
        }

        foreach (OptionError error in result.Errors)
        {
            host.Error.WriteLine("slogger: " + LogText.Bounded(error.What));
            if (error.Origin.Length > 0)
            {
                host.Error.WriteLine("  given by: " + LogText.Bounded(error.Origin));
            }

            if (error.Remedy.Length > 0)
            {
                host.Error.WriteLine("  what to do: " + LogText.Bounded(error.Remedy));
            }
        }

        host.Error.Flush();
        host.Output.Flush();
        return result.ExitCode;
    }
}
