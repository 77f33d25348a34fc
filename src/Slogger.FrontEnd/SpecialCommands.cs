// The table of commands that are not ordinary. Everything that is not in it goes over the shared upstream untouched.
namespace Slogger.FrontEnd;

/// <summary>The commands that are not ordinary, and how they are handled.</summary>
internal static class SpecialCommands
{
    // The marker of an embedded store, known on connections that clients share.
    private const string OwnMarker = "SLOGGER.COMMIT";
    private const string ReadOnly = "READONLY You can't write against a read only replica.";

    private static readonly SpecialCommand OfCluster = new(CommandKind.Cluster, "CLUSTER READONLY READWRITE ASKING", ClusterCommands.Handle)
    {
        Queue = static client => client.RefuseCommand(ClusterCommands.NotQueued(client)),
    };

    /// <summary>Those that are special everywhere.</summary>
    public static readonly SpecialCommand[] Everywhere =
    [
        new(CommandKind.Dedicated, "EVAL EVALSHA EVAL_RO EVALSHA_RO FCALL FCALL_RO SCRIPT FUNCTION CLUSTER MIGRATE PFSELFTEST",
            SettingCommands.Dedicated),
        new(CommandKind.Blocking, "BLPOP BRPOP BRPOPLPUSH BLMOVE BLMPOP BZPOPMIN BZPOPMAX BZMPOP", BlockingCommands.Pop)
        {
            RefuseInBatch = BlockingCommands.PopInBatch,
            RefuseAtBackup = static _ => ReadOnly,
            ChangesConnection = true,
        },
        new(CommandKind.BlockingStream, "XREAD XREADGROUP", BlockingCommands.Read)
        {
            RefuseInBatch = BlockingCommands.ReadInBatch,
            RefuseAtBackup = BlockingCommands.ReadAtBackup,
            ChangesConnection = true,
        },

        // ---- Transactions ----
        new(CommandKind.Multi, "MULTI", TransactionCommands.Multi)
        {
            Queue = TransactionCommands.Multi, RefuseInBatch = TransactionCommands.MultiInBatch, ChangesConnection = true,
        },
        new(CommandKind.Exec, "EXEC", TransactionCommands.Exec) { Queue = TransactionCommands.Exec, ChangesConnection = true },
        new(CommandKind.Discard, "DISCARD", TransactionCommands.Discard) { Queue = TransactionCommands.Discard, ChangesConnection = true },
        new(CommandKind.Watch, "WATCH", TransactionCommands.Watch) { Queue = TransactionCommands.Watch, ChangesConnection = true },
        new(CommandKind.Unwatch, "UNWATCH", TransactionCommands.Unwatch) { ChangesConnection = true },

        // ---- The connection ----
        new(CommandKind.Subscribe, "SUBSCRIBE PSUBSCRIBE SSUBSCRIBE", ConnectionCommands.Subscribe)
        {
            Queue = ConnectionCommands.QueueSubscription, RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true,
        },
        new(CommandKind.Unsubscribe, "UNSUBSCRIBE PUNSUBSCRIBE SUNSUBSCRIBE", ConnectionCommands.Unsubscribe)
        {
            Queue = ConnectionCommands.QueueSubscription, RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true,
        },
        new(CommandKind.Monitor, "MONITOR", ConnectionCommands.Monitor) { RefuseInBatch = SpecialCommand.NotInBatch,
            ChangesConnection = true },
        new(CommandKind.Auth, "AUTH", ConnectionCommands.Auth) { Queue = ConnectionCommands.QueueChange, ChangesConnection = true },
        new(CommandKind.Hello, "HELLO", ConnectionCommands.Hello) { Queue = ConnectionCommands.QueueHello, ChangesConnection = true },
        new(CommandKind.Select, "SELECT", ConnectionCommands.Select) { Queue = ConnectionCommands.QueueChange, ChangesConnection = true },
        new(CommandKind.Client, "CLIENT", ConnectionCommands.Client)
        {
            Queue = ConnectionCommands.QueueClient,
            RefuseInBatch = static client => client.ArgumentIs(1, "REPLY"u8) ? SpecialCommand.NotInBatch(client) : null,
            RefuseAtBackup = static client => client.ArgumentIs(1, "PAUSE"u8)
                ? "ERR SLOGGER a pause would hold up the versions that this backup follows: pause clients at the primary" : null,
            ChangesConnection = true,
        },
        new(CommandKind.Reset, "RESET", ConnectionCommands.Reset)
        {
            Queue = ConnectionCommands.Reset, RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true,
        },
        new(CommandKind.Quit, "QUIT", ConnectionCommands.Quit)
        {
            Queue = ConnectionCommands.Quit, RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true,
        },
        new(CommandKind.Replication, "REPLCONF PSYNC SYNC", ReplicaCommands.BecomeReplica)
        {
            Refuse = ReplicaCommands.RefuseReplica, RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true,
        },
        new(CommandKind.Abuse, "POST HOST:", ConnectionCommands.Abuse) { IsOfProxy = true },

        // ---- The store ----
        new(CommandKind.Takeover, "REPLICAOF SLAVEOF FAILOVER SHUTDOWN",
            SettingCommands.Dedicated) { Refuse = SettingCommands.RefuseTakeover },
        new(CommandKind.Debug, "DEBUG", SettingCommands.Debug)
        {
            Refuse = SettingCommands.RefuseDebug,
            RefuseAtBackup = static _ => "ERR SLOGGER DEBUG is not for a backup's Redis, which follows the primary's log",
        },
        new(CommandKind.Config, "CONFIG", SettingCommands.Config)
        {
            Queue = SettingCommands.QueueConfig,
            Refuse = SettingCommands.RefuseConfig,
            NeedsFacts = SettingCommands.ConfigNeedsFacts,
            RefuseAtBackup = SettingCommands.ConfigAtBackup,
        },
        new(CommandKind.Acl, "ACL", SettingCommands.Acl)
        {
            Queue = SettingCommands.QueueAcl, Refuse = SettingCommands.RefuseAcl, NeedsFacts = SettingCommands.AclNeedsFacts,
        },
        new(CommandKind.Module, "MODULE", SettingCommands.Module),
        new(CommandKind.Info, "INFO", StatisticsCommands.Info),
        new(CommandKind.SlowLog, "SLOWLOG", SlowLogCommand.Handle),
        new(CommandKind.Latency, "LATENCY", StatisticsCommands.Latency),
        new(CommandKind.Role, "ROLE", ReplicaCommands.Role),
        new(CommandKind.Wait, "WAIT", ReplicaCommands.Wait) { RefuseInBatch = SpecialCommand.NotInBatch, ChangesConnection = true },

        // ---- Versions and commits ----
        new(CommandKind.Dpr, "DPR.INFO DPR.CUT DPR.WORLDLINE DPR.WAIT DPR.COMMITTED DPR.HELLO DPR.PARTITIONS DPR.RESUME DPR.REACH",
            CommitCommands.Ask)
        {
            Queue = CommitCommands.Ask,
            RefuseInBatch = SpecialCommand.NotInBatch,
            RefuseAtBackup = CommitCommands.AskAtBackup,
            IgnoresNotice = CommitCommands.IgnoresNotice,
        },
        new(CommandKind.Keys, KeyCommands.Names, KeyCommands.Handle)
        {
            Queue = KeyCommands.Handle,
            RefuseAtBackup = static _ => "ERR SLOGGER this site is a backup: versions of keys are known at the primary",
        },
        new(CommandKind.Past, PastCommand.Names, PastCommand.Handle)
        {
            Queue = PastCommand.Handle,
            RefuseInBatch = SpecialCommand.NotInBatch,
            RefuseAtBackup = PastCommand.RefusalAtBackup,
        },
        new(CommandKind.WaitAof, "WAITAOF", CommitCommands.WaitAof)
        {
            Queue = CommitCommands.WaitAof, RefuseInBatch = SpecialCommand.NotInBatch, RefuseAtBackup = CommitCommands.NothingCommitted,
        },
        new(CommandKind.Batch, "DPR.BATCH", SessionCommands.Batch)
        {
            RefuseInBatch = SpecialCommand.NotInBatch,
            RefuseAtBackup = static _ => "ERR SLOGGER this site is a backup: sessions work at the primary",
            IgnoresNotice = static _ => true,
            IsOfProxy = true,
        },
        new(CommandKind.Peer, "DPR.PEER", PeerCommand.Handle)
        {
            RefuseInBatch = SpecialCommand.NotInBatch,
            RefuseAtBackup = static _ => "ERR SLOGGER this site is a backup, and has no coordinator of cuts",
            IgnoresNotice = static _ => true,
            IsOfProxy = true,
        },
        new(CommandKind.Impossible, OwnMarker, SettingCommands.RefuseUnknown) { IsOfProxy = true },
    ];

    /// <summary>What is special besides, or otherwise, among several shards.</summary>
    public static readonly SpecialCommand[] AmongShards =
    [
        OfCluster,
        new(CommandKind.Reaching, "MOVE COPY SWAPDB SORT SORT_RO", static client => client.Forward(needsDedicated: false)),
    ];

    /// <summary>What is special besides, or otherwise, at a cohort's node.</summary>
    public static readonly SpecialCommand[] InCohort =
    [
        OfCluster,
        new(CommandKind.Sentinel, "SENTINEL", CohortCommands.Sentinel)
        {
            Queue = static client => client.RefuseCommand("ERR SLOGGER SENTINEL cannot be queued in a transaction"),
        },
    ];

    private static readonly SpecialCommand?[] ByKind = MakeIndex();

    /// <summary>How a kind is handled.</summary>
    /// <exception cref="InvalidOperationException">It has no entry.</exception>
    public static SpecialCommand Of(CommandKind kind) =>
        ByKind[(int)kind] ?? throw new InvalidOperationException($"command kind {kind} is not handled");

    private static SpecialCommand?[] MakeIndex()
    {
        var index = new SpecialCommand?[byte.MaxValue + 1];
        foreach (SpecialCommand command in (SpecialCommand[])[.. Everywhere, .. AmongShards, .. InCohort])
        {
            index[(int)command.Kind] = command;
        }
        return index;
    }
}
