// The commands of one form: one list for parsing, dispatch and --help.
using Slogger.Cli.Cohorts;
using Slogger.Cli.Past;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;

namespace Slogger.Cli;

/// <summary>The list.</summary>
internal static class ListedCommands
{
    /// <summary>All there are.</summary>
    public static IEnumerable<ListedCommand> All => PastCommands.All.Concat(SiteCommands.All).Concat(CohortCommands.All);

    /// <summary>The one with a name; null: none has it.</summary>
    public static ListedCommand? Find(string? name) => All.FirstOrDefault(c => c.Name == name);
}
