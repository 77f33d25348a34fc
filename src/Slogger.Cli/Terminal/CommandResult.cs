// How every command ends.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

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
