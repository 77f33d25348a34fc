// Which commands are not ordinary, and why. Everything that is not in this table goes over the shared upstream untouched.
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>How the front end treats a command.</summary>
internal enum CommandKind : byte
{
    Ordinary = 0,

    /// <summary>May run for long, or answers about its own connection: runs on a dedicated upstream, leaves no state.</summary>
    Dedicated,
    Blocking,
    BlockingStream,
    Multi,
    Exec,
    Discard,
    Watch,
    Unwatch,
    Subscribe,
    Unsubscribe,
    Monitor,
    Auth,
    Hello,
    Select,
    Client,
    Reset,
    Quit,

    /// <summary>Turns the connection into a replication stream.</summary>
    Replication,

    /// <summary>Takes the store away from the proxy.</summary>
    Takeover,
    Debug,
    Config,
    Acl,
    Info,
    SlowLog,
    Latency,
    Role,
    Wait,
    Dpr,
    WaitAof,

    /// <summary>The header of a session's batch.</summary>
    Batch,

    /// <summary>Another proxy of the cluster introduces itself.</summary>
    Peer,

    /// <summary>Any, but spelled as the proxy's own are; see <see cref="OwnSpelling"/>.</summary>
    OwnSpelled,

    /// <summary>Loads or unloads commands.</summary>
    Module,

    /// <summary>What browsers say that were led here: Redis closes the connection at once.</summary>
    Abuse,

    /// <summary>No command's name for a client, but one that the store may take for a command; see <see cref="SpecialNames"/>.</summary>
    Impossible,

    /// <summary>Asks of a cluster, or says how to read in one. Special in a cluster of several shards only.</summary>
    Cluster,

    /// <summary>May reach into another database, or beyond its keys, which Redis Cluster refuses. Special in a cluster of several
    /// shards only.</summary>
    Reaching,
}

/// <summary>The table of commands that are not ordinary.</summary>
internal static class CommandKinds
{
    // The marker of an embedded store, known on connections that clients share.
    private const string OwnMarker = "SLOGGER.COMMIT";

    private static readonly (CommandKind Kind, string Names)[] Table =
    [
        (CommandKind.Dedicated, "EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO SCRIPT FUNCTION CLUSTER MIGRATE PFSELFTEST"),
        (CommandKind.Blocking, "BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP"),
        (CommandKind.BlockingStream, "XREAD XREADGROUP"),
        (CommandKind.Multi, "MULTI"),
        (CommandKind.Exec, "EXEC"),
        (CommandKind.Discard, "DISCARD"),
        (CommandKind.Watch, "WATCH"),
        (CommandKind.Unwatch, "UNWATCH"),
        (CommandKind.Subscribe, "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE"),
        (CommandKind.Unsubscribe, "UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE"),
        (CommandKind.Monitor, "MONITOR"),
        (CommandKind.Auth, "AUTH"),
        (CommandKind.Hello, "HELLO"),
        (CommandKind.Select, "SELECT"),
        (CommandKind.Client, "CLIENT"),
        (CommandKind.Reset, "RESET"),
        (CommandKind.Quit, "QUIT"),
        (CommandKind.Replication, "REPLCONF PSYNC SYNC"),
        (CommandKind.Takeover, "REPLICAOF SLAVEOF FAILOVER SHUTDOWN"),
        (CommandKind.Debug, "DEBUG"),
        (CommandKind.Config, "CONFIG"),
        (CommandKind.Acl, "ACL"),
        (CommandKind.Info, "INFO"),
        (CommandKind.SlowLog, "SLOWLOG"),
        (CommandKind.Latency, "LATENCY"),
        (CommandKind.Role, "ROLE"),
        (CommandKind.Wait, "WAIT"),
        (CommandKind.Dpr, "DPR.INFO DPR.CUT DPR.WORLDLINE DPR.WAIT DPR.COMMITTED DPR.HELLO DPR.PARTITIONS DPR.RESUME DPR.REACH"),
        (CommandKind.Batch, "DPR.BATCH"),
        (CommandKind.Peer, "DPR.PEER"),
        (CommandKind.WaitAof, "WAITAOF"),
        (CommandKind.Module, "MODULE"),
        (CommandKind.Abuse, "POST HOST:"),
        (CommandKind.Impossible, OwnMarker),
    ];

    /// <summary>The names at which a scan of ordinary commands stops.</summary>
    public static readonly SpecialNames Special = With([]);

    /// <summary>Those names, and more.</summary>
    public static SpecialNames With(IEnumerable<KeyValuePair<string, CommandKind>> more) => new(
        Rows.Concat(more).Select(row => KeyValuePair.Create(row.Key, (byte)row.Value)), (byte)CommandKind.Impossible, (byte)CommandKind.OwnSpelled);

    // What is special besides, or otherwise, among several shards.
    private static readonly (CommandKind Kind, string Names)[] ClusterTable =
    [
        (CommandKind.Cluster, "CLUSTER READONLY READWRITE ASKING"),
        (CommandKind.Reaching, "MOVE COPY SWAPDB SORT SORT_RO"),
    ];

    /// <summary>The names that are special in a cluster of several shards, and more.</summary>
    public static IEnumerable<KeyValuePair<string, byte>> AmongShards(IEnumerable<KeyValuePair<string, CommandKind>> more)
    {
        KeyValuePair<string, CommandKind>[] cluster = [.. RowsOf(ClusterTable)];
        return Rows.Concat(more).ExceptBy(cluster.Select(row => row.Key), row => row.Key).Concat(cluster)
            .Select(row => KeyValuePair.Create(row.Key, (byte)row.Value));
    }

    /// <summary>Names of commands which must not run on a connection that others share, because they block it or change what
    /// it is.</summary>
    public static IEnumerable<string> NotToBeShared => Rows
        .Where(row => row.Value is CommandKind.Blocking or CommandKind.BlockingStream or CommandKind.Wait or (>= CommandKind.Multi and <= CommandKind.Replication))
        .Select(row => row.Key);

    /// <summary>Whether a name is in the table.</summary>
    public static bool IsKnown(string name) => Rows.Any(row => row.Key.Equals(name, StringComparison.OrdinalIgnoreCase));

    private static IEnumerable<KeyValuePair<string, CommandKind>> Rows => RowsOf(Table);

    private static IEnumerable<KeyValuePair<string, CommandKind>> RowsOf((CommandKind Kind, string Names)[] table) =>
        table.SelectMany(row => row.Names.Split(' '), (row, name) => KeyValuePair.Create(name, row.Kind));
}
