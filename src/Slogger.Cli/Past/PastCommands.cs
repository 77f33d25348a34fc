// The commands of the past: one list for parsing, dispatch and --help.
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Past;

/// <summary>The list.</summary>
internal static class PastCommands
{
    private const string Shown =
        "All keys are shown at the end of one version, the same at all shards; the first line names it. Keys that have expired or were "
        + "deleted since are there. Clients go on meanwhile: values are made from a checkpoint and the log, in a redis-server of their "
        + "own. slogger retention says how far back the log goes. For --commit log, with a redis-server that the proxy runs "
        + "(--redis-server), and for an embedded store with --retention. Put -- before a word that begins with a dash.";

    public static readonly IReadOnlyList<ListedCommand> All =
    [
        new(GetCommand.Name, "show keys as they were at an instant", PastArguments.Options,
            ["get --at 14:03:07.120 cart:7 stock:42", "get --ago 10m --address 127.0.0.1:6380 cart:7"], Shown, "KEY", GetCommand.RunAsync),
        new(RunCommand.Name, "run a command that reads, as of an instant", PastArguments.Options,
            ["run --ago 10m -- ZRANGE board 0 9 REV WITHSCORES",
                "run --version 123456 --address 127.0.0.1:6380 HGET cart:7 apples"], Shown, "COMMAND", RunCommand.RunAsync),
        new(HistoryCommand.Name, "show what was done to a key", HistoryCommand.Options,
            ["history cart:7", "history --from 10m --values cart:7",
                "history --from 14:03:07.120 --to 14:05:00 --limit 1000 --address 127.0.0.1:6380 cart:7"],
            "A line for each command that names the key, also as one of several (RENAME, MSET, LMOVE), and for each that changes all keys "
            + "(FLUSHALL); oldest first. What a script or a function did is shown as the commands that it ran, and an expiry as DEL. Of a "
            + "command that names keys which the user may not read now only the name is shown. What a recovery took back is not shown. "
            + "--json has all arguments whole. Of an embedded store it is what each commit has made of the key. For --commit log, and for "
            + "an embedded store with --retention; --values needs a redis-server that the proxy runs (--redis-server), too.",
            "KEY", HistoryCommand.RunAsync),
        new(FindCommand.Name, "show when a condition came true first, and what was done then", FindCommand.Options,
            ["find --when \"tonumber(redis.call('GET', KEYS[1])) < 0\" stock:tea",
                "find --from 2h --when \"redis.call('HGET', KEYS[1], 'total')\" --sum \"!= 1000\" account:1 account:2",
                "find --from 2h --when \"redis.call('DBSIZE')\" --sum \"> 1000\" --first --step 1s"],
            "Only versions in which one of the keys was named can change the condition; each of them is asked, in order. So it is exact, "
            + "whatever the condition does in between. The condition is a script that Redis runs as EVAL_RO with the keys as KEYS: a reply "
            + "that is not false is true. Keys of several shards are asked at their shards, at one version of all. It reads the keys that "
            + "are named and no others; commands that tell expiries are not allowed. With --first or --bisect it reads whatever it likes: "
            + "each shard's data is loaded into a redis-server beside its own, which takes memory for one more copy of it, and brought "
            + "forward from version to version. --bisect loads it again for some of the versions that it asks: as many as the number of "
            + "versions has binary digits. For either the user needs the right to replicate (SYNC). Exit code 1: it was true at no "
            + "version.",
            "[KEY]", FindCommand.RunAsync),
        new(RollCommand.Name, "run a program at one instant after the other, with all data as it was", RollCommand.Options,
            ["roll --from 1h --step 1m --exec 'redis-cli -s $SLOGGER_SOCKET_0 dbsize'",
                "roll --from 14:03:07 --to 14:05:00 --step 1s --exec ./look.sh --address 127.0.0.1:6380"],
            "At each step all shards are brought to the end of one version, each in a redis-server beside its own, and the program is run "
            + "by /bin/sh. It finds them by their Unix sockets, of which shard 0 has SLOGGER_SOCKET_0. SLOGGER_VERSION and SLOGGER_TIME "
            + "say where they stand. It can only read there, and no expiries. The sockets are on the machines of the proxies, for their "
            + "user: the command has to run there. It takes memory for one more copy of the data. The user of Redis needs the right to replicate "
            + "(SYNC). Exit code 1: it was refused, or the program failed, which ends it.",
            RollCommand.RunAsync),
        new(DiffCommand.Name, "show which keys differ between two instants", DiffCommand.Options,
            ["diff --from 10m", "diff --from 14:03:07.120 --to 14:05:00 --prefix cart: --values --address 127.0.0.1:6380",
                "diff --lost 3"],
            "A line for each key: + it is new, - it is gone, ~ it has another value, E it has the same value and expires at another time. "
            + "Both instants are the ends of versions that all shards have. The keys that commands named in between are read at both. The "
            + "user needs the right to run SCAN. --lost shows the commands that a recovery took back, at each shard, as long as the log has "
            + "them (not of an embedded store); for that the user needs the right to replicate (SYNC). For --commit log, with a "
            + "redis-server that the proxy runs (--redis-server), and for an embedded store with --retention.",
            DiffCommand.RunAsync),
        new(RetentionCommand.Name, "show how far back the past of a cluster can be read", RetentionCommand.Options,
            ["retention", "retention --address 127.0.0.1:6380 --json"],
            "Every shard of the cluster is asked. The past goes back as far as --retention of each proxy promises, if --log-budget is not "
            + "reached before. Without --retention --log-budget alone decides. Exit code 0: what is promised is kept. 1: it is not, or a "
            + "shard does not answer.",
            RetentionCommand.RunAsync),
        new(SnapshotCommand.Name, "copy all shards, as they were at an instant, into files", SnapshotCommand.Options,
            ["snapshot --to /backup", "snapshot --to /backup --at 14:03:07.120 --address 127.0.0.1:6380",
                "snapshot --to /backup --from /backup/shop-1182736"],
            "All shards are at the end of one version: a consistent cut. Without --at, --ago and --version it is the present, with all "
            + "that was acknowledged. Each shard's file is an RDB of Redis: a plain redis-server loads it. Clients go on, and the Redis "
            + "that they use is not forked: a second one on the same machine loads the checkpoint and the log, and saves. The directory "
            + "bears its name only when it is whole. With --from it has what differs from another snapshot, and slogger load needs that "
            + "one, too. The user needs the right to replicate (SYNC). slogger load puts a snapshot into another cluster. For --commit "
            + "log, with a redis-server that the proxy runs (--redis-server), and for an embedded store with --retention.",
            SnapshotCommand.RunAsync),
        new(LoadCommand.Name, "put a snapshot into an empty cluster", LoadCommand.Options,
            ["load --from /backup/shop-1182736", "load --from /backup/shop-1182736 --expiries shift --address 127.0.0.1:6380"],
            "The cluster may have another number of shards than the snapshot: each key goes to the shard that has its slot. The files are "
            + "checked first, and a cluster that has keys is refused. It ends when all is committed.",
            LoadCommand.RunAsync),
        new(ResetCommand.Name, "set all shards back to an instant, as a write that can be undone", ResetCommand.Options,
            ["reset --to 14:03:07.120 --dry-run", "reset --to 10m --prefix cart: --address 127.0.0.1:6380"],
            "Keys that were written since are written once more, with what they were. All shards are set back, or none is. Clients go on "
            + "while that is prepared; then they wait, mostly for less than a second, and are told as by a recovery: a world-line begins "
            + "in which nothing that was committed is lost. A backup follows. Nothing is forgotten: the last line tells how it is undone. "
            + "Functions stay as they are. The user needs the right to run FLUSHALL. For --commit log, with a redis-server that the "
            + "proxy runs (--redis-server); neither for replicated shards nor for an embedded store.",
            ResetCommand.RunAsync),
    ];
}
