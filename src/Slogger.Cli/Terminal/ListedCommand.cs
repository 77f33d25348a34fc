// The commands that all have one form: options, and words behind them if they take any.
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>One of them.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Description">What it does, in a line.</param>
/// <param name="Options">Its options.</param>
/// <param name="Examples">For --help, without "slogger".</param>
/// <param name="Text">For --help: what happens, and what does not.</param>
/// <param name="Words">What stands behind the options; null: nothing.</param>
/// <param name="RunAsync">Does it.</param>
internal sealed record ListedCommand(
    string Name, string Description, IReadOnlyList<OptionDefinition> Options, IReadOnlyList<string> Examples, string Text, string? Words,
        Func<OptionLayer, IReadOnlyList<string>, AppHost, Task<CommandResult>> RunAsync)
{
    /// <summary>One that takes options only.</summary>
    public ListedCommand(string name, string description, IReadOnlyList<OptionDefinition> options, IReadOnlyList<string> examples,
        string text, Func<OptionLayer, AppHost, Task<CommandResult>> runAsync)
        : this(name, description, options, examples, text, null, (texts, _, host) => runAsync(texts, host))
    {
    }
}
