// The commands that all have one form: options, and nothing else. Parsing, dispatch and --help go by these lists.
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>One of them.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Description">What it does, in a line.</param>
/// <param name="Options">Its options.</param>
/// <param name="Examples">For --help, without "slogger".</param>
/// <param name="Text">For --help: what happens, and what does not.</param>
/// <param name="RunAsync">Does it.</param>
internal sealed record ListedCommand(
    string Name, string Description, IReadOnlyList<OptionDefinition> Options, IReadOnlyList<string> Examples, string Text,
        Func<OptionLayer, AppHost, Task<CommandResult>> RunAsync)
{
    /// <summary>All there are.</summary>
    public static IEnumerable<ListedCommand> All => PastCommands.All.Concat(SiteCommands.All).Concat(CohortCommands.All);

    /// <summary>The one with a name; null: none has it.</summary>
    public static ListedCommand? Find(string? name) => All.FirstOrDefault(c => c.Name == name);
}
