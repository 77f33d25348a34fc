// Kinds of commands that are not ordinary, and the sets of names that a scan stops at. How each is handled SpecialCommands says.
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

    /// <summary>Reads or writes keys by their versions.</summary>
    Keys,

    /// <summary>Reads the past.</summary>
    Past,

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

    /// <summary>Asks of a cluster, or says how to read in one. Special in a cluster of several shards, and with a cohort, only.</summary>
    Cluster,

    /// <summary>Asks of a cohort as of what a Sentinel watches. Special with a cohort only.</summary>
    Sentinel,

    /// <summary>May reach into another database, or beyond its keys, which Redis Cluster refuses. Special in a cluster of several
    /// shards only.</summary>
    Reaching,
}

/// <summary>The names of commands that are not ordinary.</summary>
internal static class CommandKinds
{
    /// <summary>The names at which a scan of ordinary commands stops.</summary>
    public static readonly SpecialNames Special = With([], []);

    /// <summary>The same at a cohort's node.</summary>
    public static readonly SpecialNames InCohort = With([], [], inCohort: true);

    /// <summary>Those names, and more; and, of the others, those that are known to change no data.</summary>
    public static SpecialNames With(IEnumerable<KeyValuePair<string, CommandKind>> more, IEnumerable<string> reads,
        bool inCohort = false)
    {
        IEnumerable<KeyValuePair<string, CommandKind>> rows = inCohort ? Over(Rows, RowsOf(SpecialCommands.InCohort)) : Rows;
        KeyValuePair<string, byte>[] special = [.. rows.Concat(more).Select(row => KeyValuePair.Create(row.Key, (byte)row.Value))];
        IEnumerable<string> passed = reads.Except(special.Select(row => row.Key), StringComparer.OrdinalIgnoreCase);
        return new(special.Concat(passed.Select(name => KeyValuePair.Create(name, CommandScanner.ReadsOnly))),
            (byte)CommandKind.Impossible, (byte)CommandKind.OwnSpelled);
    }

    /// <summary>The names that are special in a cluster of several shards, and more.</summary>
    public static IEnumerable<KeyValuePair<string, byte>> AmongShards(IEnumerable<KeyValuePair<string, CommandKind>> more, bool inCohort)
    {
        IEnumerable<KeyValuePair<string, CommandKind>> rows = Over(Rows.Concat(more), RowsOf(SpecialCommands.AmongShards));
        return (inCohort ? Over(rows, RowsOf(SpecialCommands.InCohort)) : rows)
            .Select(row => KeyValuePair.Create(row.Key, (byte)row.Value));
    }

    /// <summary>Names of commands which must not run on a connection that others share, because they block it or change what
    /// it is.</summary>
    public static IEnumerable<string> NotToBeShared =>
        RowsOf(SpecialCommands.Everywhere.Where(static command => command.ChangesConnection)).Select(row => row.Key);

    /// <summary>Whether a name is in the table.</summary>
    public static bool IsKnown(string name) => Rows.Any(row => row.Key.Equals(name, StringComparison.OrdinalIgnoreCase));

    // Others in the place of those that have the same names.
    private static IEnumerable<KeyValuePair<string, CommandKind>> Over(IEnumerable<KeyValuePair<string, CommandKind>> rows,
        IEnumerable<KeyValuePair<string, CommandKind>> others) =>
        rows.ExceptBy(others.Select(row => row.Key), row => row.Key).Concat(others);

    private static IEnumerable<KeyValuePair<string, CommandKind>> Rows => RowsOf(SpecialCommands.Everywhere);

    private static IEnumerable<KeyValuePair<string, CommandKind>> RowsOf(IEnumerable<SpecialCommand> table) =>
        table.SelectMany(command => command.Names.Split(' '), (command, name) => KeyValuePair.Create(name, command.Kind));
}
