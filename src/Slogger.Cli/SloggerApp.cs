// One run of the executable, from arguments to exit code. Every error that a person sees is printed here, in one shape.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>Exit codes.</summary>
public static class ExitCodes
{
    /// <summary>Done, or stopped in order.</summary>
    public const int Done = 0;

    /// <summary>A failure while running: a port in use, no answer, a Redis that does not fit.</summary>
    public const int Failed = 1;

    /// <summary>Wrong options; nothing was started.</summary>
    public const int BadOptions = 2;
}

/// <summary>How a command ended: what to print on stderr, and the exit code.</summary>
/// <param name="ExitCode">See <see cref="ExitCodes"/>.</param>
/// <param name="Errors">Problems, each with its origin and remedy.</param>
public sealed record CommandResult(int ExitCode, IReadOnlyList<OptionError> Errors)
{
    /// <summary>Exit code 0.</summary>
    public static readonly CommandResult Done = new(ExitCodes.Done, []);

    /// <summary>Exit code 1.</summary>
    public static CommandResult Failed(string problem, string remedy = "") => new(ExitCodes.Failed, [new OptionError(problem, "", remedy)]);

    /// <summary>Exit code 2.</summary>
    public static CommandResult BadOptions(params IReadOnlyList<OptionError> errors) => new(ExitCodes.BadOptions, errors);
}

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
