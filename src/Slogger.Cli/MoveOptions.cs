// Options of `slogger move`. Not in OptionCatalog: they name a metadata database, and need no data directory.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>The options.</summary>
internal static class MoveOptions
{
    private const string What = "What moves", Where = "Which cluster";

    public static readonly IReadOnlyList<OptionDefinition> All =
    [
        new("slots", What, "RANGES", "The hash slots, as 0-99 or 0-99,200. All of them must belong to one shard now.", "none", ""),
        new("partitions", What, "RANGES",
            "The same, in a cluster with --partitions range. --list shows the numbers.", "none", ""),
        new("partition", What, "RANGES", "The same.", "none", ""),
        new("to", What, "SHARD", "The shard that is to own them.", "none", ""),
        new("cancel", What, "",
            "Call the unfinished move of these slots off: their owner keeps them. After its last step a move cannot be called off.",
            "false", "") { Shape = OptionShape.Flag },
        new("list", What, "",
            "Show which shard owns which slots, and the moves that are not finished.", "false", "") { Shape = OptionShape.Flag },
        new("no-wait", What, "",
            "Return when the move is planned. It goes on by itself. slogger move --list shows how far it is.",
            "false", "") { Shape = OptionShape.Flag },
        Report.Json(What),
        new("metadata", Where, "SPEC", "The cluster's metadata, as given to slogger serve: sqlite:PATH, postgres:CONNECTION or "
            + "sqlserver:CONNECTION. Also SLOGGER_METADATA.", "none", "") { IsSecret = true },
        new("cluster", Where, "NAME", "The cluster's name. Also SLOGGER_CLUSTER.", "default", ""),
    ];
}
