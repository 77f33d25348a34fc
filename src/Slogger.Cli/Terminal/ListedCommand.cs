// The commands that all have one form: options, and nothing else.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>One of them.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Description">What it does, in a line.</param>
/// <param name="Options">Its options.</param>
/// <param name="Examples">For --help, without "slogger".</param>
/// <param name="Text">For --help: what happens, and what does not.</param>
/// <param name="RunAsync">Does it.</param>
internal sealed record ListedCommand(
    string Name, string Description, IReadOnlyList<OptionDefinition> Options, IReadOnlyList<string> Examples, string Text,
        Func<OptionLayer, AppHost, Task<CommandResult>> RunAsync);
