// The commands of the past that name no keys: one list for parsing, dispatch and --help.
using Slogger.Cli.Sites;

namespace Slogger.Cli.Past;

/// <summary>The list.</summary>
internal static class PastCommands
{
    public static readonly IReadOnlyList<ListedCommand> All =
    [
        new(RetentionCommand.Name, "show how far back the past of a cluster can be read", RetentionCommand.Options,
            ["retention", "retention --address 127.0.0.1:6380 --json"],
            "Every shard of the cluster is asked. The past goes back as far as --retention of each proxy promises, if --log-budget is not "
            + "reached before. Without --retention --log-budget alone decides. Exit code 0: what is promised is kept. 1: it is not, or a "
            + "shard does not answer.",
            RetentionCommand.RunAsync),
    ];
}
