// The commands of the past that name no keys: one list for parsing, dispatch and --help.
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Past;

/// <summary>The list.</summary>
internal static class PastCommands
{
    public static readonly IReadOnlyList<ListedCommand> All =
    [
        new(DiffCommand.Name, "show which keys differ between two instants", DiffCommand.Options,
            ["diff --from 10m", "diff --from 14:03:07.120 --to 14:05:00 --prefix cart: --values --address 127.0.0.1:6380"],
            "A line for each key: + it is new, - it is gone, ~ it has another value, E it has the same value and expires at another time. "
            + "Both instants are the ends of versions that all shards have. The keys that commands named in between are read at both. The "
            + "user needs the right to run SCAN. For --commit log, with a redis-server that the proxy runs (--redis-server).",
            DiffCommand.RunAsync),
        new(RetentionCommand.Name, "show how far back the past of a cluster can be read", RetentionCommand.Options,
            ["retention", "retention --address 127.0.0.1:6380 --json"],
            "Every shard of the cluster is asked. The past goes back as far as --retention of each proxy promises, if --log-budget is not "
            + "reached before. Without --retention --log-budget alone decides. Exit code 0: what is promised is kept. 1: it is not, or a "
            + "shard does not answer.",
            RetentionCommand.RunAsync),
        new(SnapshotCommand.Name, "copy all shards, as they were at an instant, into files", SnapshotCommand.Options,
            ["snapshot --to /backup", "snapshot --to /backup --at 14:03:07.120 --address 127.0.0.1:6380"],
            "All shards are at the end of one version: a consistent cut. Without --at, --ago and --version it is the present, with all "
            + "that was acknowledged. Each shard's file is an RDB of Redis: a plain redis-server loads it. Clients go on, and the Redis that "
            + "they use is not forked: a second one on the same machine loads the checkpoint and the log, and saves. The directory bears "
            + "its name only when it is whole. The user needs the right to replicate (SYNC). slogger load puts a snapshot into another "
            + "cluster. For --commit log, with a redis-server that the proxy runs (--redis-server).",
            SnapshotCommand.RunAsync),
        new(LoadCommand.Name, "put a snapshot into an empty cluster", LoadCommand.Options,
            ["load --from /backup/shop-1182736", "load --from /backup/shop-1182736 --expiries shift --address 127.0.0.1:6380"],
            "The cluster may have another number of shards than the snapshot: each key goes to the shard that has its slot. The files are "
            + "checked first, and a cluster that has keys is refused. It ends when all is committed.",
            LoadCommand.RunAsync),
    ];
}
