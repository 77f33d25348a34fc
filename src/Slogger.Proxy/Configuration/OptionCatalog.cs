// The one list of options: name, help, default, and the property it fills. The command line, the environment (SLOGGER_ and
// the name in capitals), the configuration file and --help are all made from it.
namespace Slogger.Proxy.Configuration;

/// <summary>How an option takes its value.</summary>
public enum OptionShape
{
    /// <summary>One value.</summary>
    Value,

    /// <summary>No value: present means true.</summary>
    Flag,

    /// <summary>May be given several times; a list in the configuration file.</summary>
    List,
}

/// <summary>The commands that know an option.</summary>
[Flags]
public enum OptionCommands
{
    /// <summary>slogger serve.</summary>
    Serve = 1,

    /// <summary>slogger restore.</summary>
    Restore = 2,

    /// <summary>slogger recover.</summary>
    Recover = 4,

    /// <summary>slogger backup: all of serve's, and its own.</summary>
    Backup = 8,
}

/// <summary>One option.</summary>
/// <param name="Name">Its name in the configuration file; -- before it on the command line.</param>
/// <param name="Group">Heading in --help.</param>
/// <param name="ValueName">What --help calls its value; empty for a flag.</param>
/// <param name="Help">What it does, with the consequence of changing it.</param>
/// <param name="Default">The default, for people.</param>
/// <param name="Property">The property of <see cref="ServeOptions"/> (or <see cref="RestoreOptions"/>) that it fills.</param>
public sealed record OptionDefinition(string Name, string Group, string ValueName, string Help, string Default, string Property)
{
    /// <summary>How it takes its value.</summary>
    public OptionShape Shape { get; init; } = OptionShape.Value;

    /// <summary>The commands that know it.</summary>
    public OptionCommands Commands { get; init; } = OptionCommands.Serve | OptionCommands.Backup;

    /// <summary>What separates values in the environment variable of a list.</summary>
    public char EnvironmentSeparator { get; init; } = ',';

    /// <summary>True if its value may hold a password and must not be repeated in messages.</summary>
    public bool IsSecret { get; init; }

    /// <summary>True if a running process takes up another value at SIGHUP; see <see cref="LiveOptions"/>.</summary>
    public bool IsLive { get; init; }

    /// <summary>Its name on the command line.</summary>
    public string Switch => "--" + Name;

    /// <summary>Its environment variable.</summary>
    public string EnvironmentVariable => OptionCatalog.EnvironmentPrefix + Name.ToUpperInvariant().Replace('-', '_');
}

/// <summary>All options of serve, backup, restore and recover.</summary>
public static class OptionCatalog
{
    /// <summary>How the environment variables of all options begin.</summary>
    public const string EnvironmentPrefix = "SLOGGER_";

    private const OptionCommands Proxies = OptionCommands.Serve | OptionCommands.Backup;
    private const OptionCommands Both = Proxies | OptionCommands.Restore;
    private const OptionCommands Every = Both | OptionCommands.Recover;
    private const string Clients = "Clients";
    private const string Store = "Redis (--redis or --redis-server)";
    private const string Embedded = "Embedded store (without --redis and --redis-server)";
    private const string Durability = "Versions and durability";
    private const string Sites = "Two sites";
    private const string Replicas = "Replicated shards";
    private const string Running = "Running";

    /// <summary>Every option, in the order of --help.</summary>
    public static readonly IReadOnlyList<OptionDefinition> All =
    [
        new("listen", Clients, "ADDRESS",
            "Where clients connect: HOST:PORT, [IPV6]:PORT, unix:PATH or /PATH; may be repeated. Beyond loopback every client that "
            + "reaches it may use it, unless Redis asks for a password.", "127.0.0.1:6380",
            nameof(ServeOptions.Listen)) { Shape = OptionShape.List },
        new("tls-listen", Clients, "ADDRESS", "The same over TLS; may be repeated. Without --listen, clients can connect over TLS only.",
            "none", "ClientTls.Listen") { Shape = OptionShape.List },
        new("tls-cert", Clients, "FILE",
            "Certificate chain (PEM) to show to clients.", "none", "ClientTls.CertificateFile")
            { IsLive = true },
        new("tls-key", Clients, "FILE", "Private key (PEM) of --tls-cert.", "none", "ClientTls.KeyFile") { IsLive = true },
        new("tls-client-ca", Clients, "FILE", "Clients must show a certificate from these authorities (PEM).",
            "none, no certificate is asked for", "ClientTls.ClientCaFile") { IsLive = true },
        new("announce", Clients, "HOST:PORT",
            "The address at which clients and other proxies reach this one. In a cluster of several shards clients are told this address, "
            + "and it is needed if the proxy listens on every interface.", "the first TCP address of --listen, else of --tls-listen",
            nameof(ServeOptions.Announce)),
        new("max-clients", Clients, "NUMBER",
            "The most clients at a time. Further ones get an error and are closed.", "10000",
            nameof(ServeOptions.MaxClients)) { IsLive = true },
        new("client-output-limit", Clients, "SIZE", "Unread replies that one client may leave before it is disconnected.",
            "576mb, so that one value of 512mb fits", nameof(ServeOptions.ClientOutputLimitBytes)) { IsLive = true },
        new("output-memory-limit", Clients, "SIZE",
            "Unread replies of all clients together. Beyond it the client with the most is disconnected first. The same limit holds, "
            + "separately, for requests that have arrived only in part.",
            "1gb, at least --client-output-limit", nameof(ServeOptions.OutputMemoryLimitBytes)) { IsLive = true },
        new("on-rollback", Clients, "close|error",
            "What plain clients see after a rollback. close: their connection closes. error: their next command gets an error, then the "
            + "connection closes. Commands behind that one are not executed.",
            "close", nameof(ServeOptions.OnRollback)),

        new("redis", Store, "ADDRESS",
            "Attach to a Redis that you run: HOST:PORT or a Unix socket. Redis 7.0 or later, not a replica, not in cluster mode.",
            "none", nameof(ServeOptions.Redis)) { Commands = Both },
        new("redis-server", Store, "PATH",
            "Run this redis-server. The proxy starts it, and restarts and restores it after a crash. If the proxy is killed, Redis goes "
            + "on, and the next proxy adopts it. With --commit faster and --retention it only shows the past of the embedded store.",
            "none", nameof(ServeOptions.RedisServerPath)) { Commands = Both },
        new("redis-config", Store, "FILE",
            "A redis.conf for --redis-server. The proxy overrides its settings of files, sockets, persistence and replication.",
            "none", nameof(ServeOptions.RedisConfigFile)) { Commands = Both },
        new("redis-directive", Store, "LINE", "A line of redis.conf for --redis-server, such as \"maxmemory 1gb\"; may be repeated. Comes "
            + "after --redis-config.", "none", nameof(ServeOptions.RedisDirectives)) { Shape = OptionShape.List, Commands = Both,
            EnvironmentSeparator = '\n' },
        new("redis-user", Store, "NAME",
            "ACL user of the proxy's own connections to Redis.", "Redis's user default",
            nameof(ServeOptions.RedisUser)) { Commands = Both },
        new("redis-password-file", Store, "FILE",
            "File whose first line is the password of the proxy's own connections to Redis.",
            "none", nameof(ServeOptions.RedisPasswordFile)) { Commands = Both },
        new("redis-tls", Store, "", "Connect to Redis over TLS.", "false", "RedisTls.Enabled") { Shape = OptionShape.Flag,
            Commands = Both },
        new("redis-tls-ca", Store, "FILE", "Authorities (PEM) that Redis's certificate must come from.", "the system's",
            "RedisTls.CaFile") { Commands = Both },
        new("redis-tls-cert", Store, "FILE", "The proxy's certificate (PEM), where Redis asks for one.", "none",
            "RedisTls.CertificateFile") { Commands = Both },
        new("redis-tls-key", Store, "FILE", "Private key (PEM) of --redis-tls-cert.", "none", "RedisTls.KeyFile") { Commands = Both },
        new("redis-tls-insecure", Store, "", "Take any certificate from Redis. Protects against eavesdropping only.", "false",
            "RedisTls.Insecure") { Shape = OptionShape.Flag, Commands = Both },

        new("faster-memory", Embedded, "SIZE",
            "Memory for records, rounded down to a power of two. Overwritten records count until they are compacted. At the limit writes "
            + "are refused, as by Redis at maxmemory.", "1gb",
            nameof(ServeOptions.FasterMemoryBytes)),
        new("faster-index", Embedded, "SIZE",
            "Memory for the hash index, rounded down to a power of two. 8 bytes a key are good; with less, reads are slower. It does not "
            + "grow.", "64mb", nameof(ServeOptions.FasterIndexBytes)),
        new("faster-page", Embedded, "SIZE",
            "Size of a page of its log, rounded down to a power of two. No value can be larger than a page. The memory must hold at least "
            + "four pages.", "32mb", nameof(ServeOptions.FasterPageBytes)),
        new("faster-stride", Embedded, "N",
            "The store commits every N versions, or less often when the disk takes longer. A power of two. With a smaller N commits come "
            + "sooner, and writes are slower.", "8", nameof(ServeOptions.FasterStride)),

        new("data", Durability, "DIR",
            "Directory of the version log, the checkpoints and the files of a supervised Redis, or of the embedded store. It belongs to "
            + "one shard, and records its kind of store.", "slogger-data in the current directory",
            nameof(ServeOptions.DataDirectory)) { Commands = Every },
        new("metadata", Durability, "SPEC", "Where cuts and world-lines are recorded: sqlite:FILE, postgres:CONNSTRING or "
            + "sqlserver:CONNSTRING. Keep a password off the command line: use the environment or --config.", "sqlite:DATA/metadata.db",
            nameof(ServeOptions.Metadata)) { Commands = Every, IsSecret = true },
        new("cluster", Durability, "NAME", "The cluster's name in the metadata.", "default",
            nameof(ServeOptions.Cluster)) { Commands = Proxies | OptionCommands.Recover },
        new("shard", Durability, "ID", "This shard's number in the cluster.", "0",
            nameof(ServeOptions.Shard)) { Commands = Proxies | OptionCommands.Recover },
        new("shards", Durability, "N",
            "How many shards the cluster has. The proxy that starts first makes the cluster, and needs this option. Later ones may leave "
            + "it out.", "1 when the cluster is made", nameof(ServeOptions.Shards)),
        new("join", Durability, "",
            "Join a running cluster as its next shard, with an empty Redis. --shard has to be the next number. The shard owns no slots "
            + "until slogger move gives it some. After it has joined the option has no effect, so it may stay.", "false",
            nameof(ServeOptions.Joins)) { Shape = OptionShape.Flag },
        new("finder", Durability, "approximate|exact|hybrid",
            "How the cluster finds the committed versions. It cannot be changed after the cluster is made. approximate: one version at "
            + "all shards, in the order of real time. exact and hybrid: each shard as far as the dependencies of sessions allow, so that "
            + "a slow shard delays only the commits that depend on it. Give them only if all clients send DPR.BATCH with DEP: a recovery "
            + "does not keep the order of plain clients across shards.",
            "approximate when the cluster is made", nameof(ServeOptions.Finder)),
        new("partitions", Durability, "hash|range:KEY,...|range:@FILE",
            "How keys are spread over several shards. It cannot be changed after the cluster is made. hash: the slots of Redis Cluster, "
            + "for its clients. range: keys in the order of their bytes, split at the keys that are given here, or in a file with one in "
            + "each line; for session clients. Neighbouring keys are at one shard. Any byte can be written as \\xHH; a comma, a backslash "
            + "and a first @ must be.", "hash when the cluster is made",
            nameof(ServeOptions.Partitions)),
        new("commit", Durability, "log|bgsave|none|faster",
            "What makes a version durable. log: its part of the replication stream is on disk. bgsave: a BGSAVE. none: nothing, a "
            + "pass-through without recovery. faster: a checkpoint of the embedded store, which has only this.",
            "log; faster for the embedded store", nameof(ServeOptions.Commit)),
        new("version-interval", Durability, "DURATION",
            "Length of a version, 1ms to 1h. Shorter: a crash loses less, and commits come sooner. Longer: fewer syncs of the disk. In a "
            + "cluster of several shards it has an effect when the cluster is made; later slogger interval changes it.",
            "5ms; 1ms with --replies committed", nameof(ServeOptions.VersionInterval)),
        new("replies", Durability, "early|committed",
            "When replies leave. early: at once. committed: when the version that they rest on is durable, so nothing that a client was told "
            + "is lost in a crash. Reads of what was not written lately do not wait. For --commit log. The same at all nodes of a cohort.",
            "early; committed with --cohort", nameof(ServeOptions.Replies)),
        new("clock-error", Durability, "DURATION",
            "How far the clocks of any two machines of the cluster may be apart, at most half a version. The same at every shard. A reply "
            + "waits until this time after the beginning of its version is over. So cuts keep the order that clients saw across machines.",
            "0ms: all shards on one machine", nameof(ServeOptions.ClockError)),
        new("checkpoint-every", Durability, "SIZE",
            "Take a checkpoint after this many bytes of log at the latest. Smaller: restores are faster, and Redis forks more often.",
            "1gb", nameof(ServeOptions.CheckpointEveryBytes)),
        new("log-budget", Durability, "SIZE",
            "Bytes of log to keep. Older log that a checkpoint covers is deleted. Larger: more versions can be restored.",
            "4gb, at least twice --checkpoint-every", nameof(ServeOptions.LogBudgetBytes)),
        new("log-dirs", Durability, "DIR[,DIR...]",
            "Up to 7 further directories for the version log, beside DATA/log, each best on a disk of its own. What is appended is dealt to "
            + "them in turn, and as many syncs run at a time. They belong to this log alone. To open the log, all of its directories are "
            + "needed. One can be added at a start. A directory cannot be taken away while the log lives. It can be moved: stop, move all "
            + "of it, and give the new path in place of the old one. For --commit log. Without it restore uses those that the log was "
            + "opened with last.", "none", nameof(ServeOptions.LogDirectories)) { Commands = Both },
        new("retention", Durability, "DURATION",
            "How far back the past can be read. Older log is deleted with the next checkpoint. --log-budget wins: if it is reached before, "
            + "the past is shorter, and slogger retention says so. For --commit log; and for the embedded store, which keeps no past "
            + "without it.", "none: as far as --log-budget allows",
            nameof(ServeOptions.Retention)),
        new("retention-detail", Durability, "DURATION",
            "How far back each version of the past can be read. What is older is reduced: about one version in each --retention-step can "
            + "be read, and the history of keys cannot. It takes less room, by half or more if keys are written again and again. At most "
            + "--retention. Not for a node of a cohort.", "none: all of --retention", nameof(ServeOptions.RetentionDetail)),
        new("retention-step", Durability, "DURATION",
            "How far versions lie apart at most that can be read behind --retention-detail. Larger: it takes less room.", "1s",
            nameof(ServeOptions.RetentionStep)),
        new("rollback", Durability, "in-place|full",
            "How a Redis goes back when another shard has lost its own. in-place: put back only the keys written since, if that is "
            + "possible. full: always restore everything; clients wait for that. In place takes memory: up to 64 MB for the log since the "
            + "checkpoint, and 16 bytes a key for a moment after each checkpoint.", "in-place",
            nameof(ServeOptions.Rollback)),
        new("seed", Durability, "from-redis|from-log",
            "Which data to keep if Redis holds data that the log does not know. The other data is lost. With restore only from-log has a "
            + "meaning: the data of the Redis may be replaced.", "none, refuse",
            nameof(ServeOptions.Seed)) { Commands = Both },

        new("backup", Sites, "HOST:PORT[,...]",
            "Ship this shard's log to a backup site. The address is the --site-listen of the slogger backup process with the same shard "
            + "number. If the backup has another number of shards, name each process that has some of this shard's slots.", "none",
            "Site.Backups"),
        new("on-backup-lag", Sites, "stall|detach",
            "What happens when the log that is kept for a slow or absent backup reaches --backup-budget. stall: writes of clients wait "
            + "until the backup has caught up. So the loss of this site loses at most that much log. detach: the backup is given up, and "
            + "has to be seeded anew; clients notice nothing.", "stall",
            "Site.OnBackupLag"),
        new("backup-budget", Sites, "SIZE",
            "Bytes of log to keep for the backup, if need be beyond --log-budget. At least twice --backup-window.",
            "4gb", "Site.BackupBudgetBytes"),
        new("backup-window", Sites, "SIZE",
            "The most bytes that are under way to the backup. Give at least the link's bandwidth times its round trip. The backup keeps "
            + "as much in memory.", "8mb", "Site.BackupWindowBytes"),
        new("backup-pieces", Sites, "N",
            "The most pieces, of up to 256kb each, that are under way to the backup.", "64", "Site.BackupPieces"),
        new("backup-resend", Sites, "DURATION",
            "Send a piece again if the backup has not answered it for this time. Give several round trips.",
            "300ms", "Site.BackupResend"),
        new("reduce-ship-above", Sites, "SIZE",
            "When the backup is so far behind, send it many versions at a time with fewer commands, after which its store is the same. Of "
            + "these versions it has the last one's state only. More than --backup-budget: never. A backup with another number of shards, "
            + "or with an embedded store, gets the log as it is.", "256mb", "Site.ReduceShipAboveBytes"),
        new("backup-compression", Sites, "none|gzip",
            "How the log is compressed for the link. gzip helps if a core compresses faster than the link transmits.",
            "none", "Site.BackupCompression"),
        new("site-lease", Sites, "DURATION",
            "Answer clients, and report commits, only while the backup has answered within this time. So a primary that is cut off "
            + "says nothing after the backup has taken over. A failover waits for the lease. Give the same at both sites. Without it the "
            + "operator attests at a failover that the primary is down.", "none", "Site.Lease"),
        new("site-listen", Sites, "HOST:PORT",
            "The address at which the other site, and the commands of two sites, reach this process over gRPC. A backup needs it. Beyond "
            + "loopback it needs --site-secret-file or the certificates.", "none",
            "Site.Listen"),
        new("site-secret-file", Sites, "FILE",
            "File whose first line is a secret that both sites share. It travels in clear text without --site-cert-file.",
            "none", "Site.SecretFile"),
        new("site-cert-file", Sites, "FILE",
            "Certificate chain (PEM) of this process for the other site, as a server and as a client.",
            "none, clear text", "Site.CertificateFile") { IsLive = true },
        new("site-key-file", Sites, "FILE", "Private key (PEM) of --site-cert-file.", "none", "Site.KeyFile") { IsLive = true },
        new("site-ca-file", Sites, "FILE",
            "The other site's processes must show a certificate from these authorities (PEM), in both directions.",
            "none: callers need no certificate, servers one that this machine trusts", "Site.CaFile")
            { IsLive = true },
        new("node", Replicas, "NAME", "Which node of the shard's cohort this process is.", "none", "Cohort.Node")
            { Commands = OptionCommands.Serve },
        new("cohort", Replicas, "NAME=HOST:PORT,...",
            "The nodes of this shard, 3 or 5, each with the address at which the others reach it over gRPC. All of them are given the same. "
            + "This is for the cohort's beginning: later members come and go by slogger cohort add and remove. "
            + "One leads and serves clients. A version is durable when a majority has it, and when the leader is lost another node leads. "
            + "Beyond loopback it needs --site-secret-file or the certificates.", "none, the shard has one process", "Cohort.Members")
            { Commands = OptionCommands.Serve },
        new("lease", Replicas, "DURATION",
            "How long a leader answers after a majority of its cohort has answered it. Another node leads no sooner than after this. "
            + "Shorter makes takeovers faster, and brings some about when machines are busy. All nodes are given the same.",
            "120ms", "Cohort.Lease") { Commands = OptionCommands.Serve },
        new("strong-reads", Replicas, "lease|quorum",
            "What makes sure that the leader reads nothing stale. lease: no other node leads while the leader's lease holds, as long as no two "
            + "machines' clocks run apart by more than half a percent. quorum: replies to reads wait, as those to writes do, until a majority "
            + "has the version in which they were read, whatever clocks do. For machines that are suspended or moved while they run.",
            "lease", "Cohort.StrongReads") { Commands = OptionCommands.Serve },
        new("reads-stale-max", Replicas, "DURATION",
            "How old what a follower reads may be. A client that has said READONLY is sent to the leader when it is older. Without a "
            + "leader it is told how old it is. 0s: of any age.", "1s", "Cohort.ReadsStaleMax") { Commands = OptionCommands.Serve },
        new("primary-shards", Sites, "N",
            "How many shards the primary has, if it is not the number of this site (--shards). Each process receives the logs of those "
            + "whose slots its own shard has. It has an effect when the backup is made. The primary must divide the hash slots evenly, as "
            + "when a cluster is made. The stream stops at a database other than 0, and at a command whose keys are in several of this "
            + "site's shards.", "as many as this site", "Site.PrimaryShards") { Commands = OptionCommands.Backup },
        new("watermark", Sites, "HOST:PORT",
            "The process that serves the watermark: the --site-listen of a process of this site, or of a slogger watermark.",
            "the process of shard 0", "Site.Watermark") { Commands = OptionCommands.Backup },
        new("failover-rehearsal", Sites, "on|off",
            "Rehearse a failover when this process first follows, so that a real one is faster. For a few seconds, when the process has "
            + "little else to do, it runs two small sites in the directory rehearsal of --data, with four Redis servers of its own.",
            "on with --redis-server; with --redis there is no program to do it with",
                "Site.Rehearses") { Commands = OptionCommands.Backup },

        new("config", Running, "FILE",
            "JSON file with the same names (comments allowed). Options of single shards stand under \"of-shard\", with their numbers. The "
            + "command line overrides the environment, and the environment overrides the file.", "none",
            nameof(ServeOptions.ConfigFile)) { Commands = Every },
        new("transport", Running, "auto|epoll|sockets",
            "The interface to sockets: one epoll loop (Linux only), or .NET sockets (every system, slower).",
            "auto", nameof(ServeOptions.Transport)),
        new("log-level", Running, "LEVEL", "Least level that is logged to stderr: trace, debug, info, warn, error.", "info",
            nameof(ServeOptions.LogLevel)) { IsLive = true, Commands = Every },
        new("log-format", Running, "text|json",
            "How the log is written to stderr: a line of text for people, or a JSON object in each line.",
            "text", nameof(ServeOptions.LogFormat)) { Commands = Every },
    ];

    private const string WhatToRestore = "What to restore (--version, --latest or --list)";

    /// <summary>The restore-only options; they have no environment variable and no place in the configuration file.</summary>
    public static readonly IReadOnlyList<OptionDefinition> RestoreOnly =
    [
        new("version", WhatToRestore, "V", "The version to restore, as shown by slogger status or DPR.INFO.", "none",
            nameof(RestoreOptions.Version)) { Commands = OptionCommands.Restore },
        new("latest", WhatToRestore, "", "The newest durable version. The shard goes on from it.", "none",
            nameof(RestoreOptions.Version)) { Shape = OptionShape.Flag, Commands = OptionCommands.Restore },
        new("list", WhatToRestore, "",
            "Restore nothing; show the versions that can be restored, oldest first, with the time at which each was closed.",
            "none", nameof(RestoreOptions.List)) { Shape = OptionShape.Flag, Commands = OptionCommands.Restore },
        new("json", WhatToRestore, "", "With --list: as one JSON object, for programs.", "false", nameof(RestoreOptions.Json))
            { Shape = OptionShape.Flag, Commands = OptionCommands.Restore },
        new("keep", WhatToRestore, "",
            "With --version: the next slogger serve goes on from that version, in a new world-line. What was done after it is undone. "
            + "Of several shards: stop all, then give each the same version.",
            "none, and slogger serve asks", nameof(RestoreOptions.Keep)) { Shape = OptionShape.Flag, Commands = OptionCommands.Restore },
        new("i-accept-loss", WhatToRestore, "",
            "With --keep, and then with --latest, too: go on though more was committed than this directory holds. For when that is lost "
            + "for good. A node of a cohort becomes the only member.", "false", nameof(RestoreOptions.AcceptsLoss))
            { Shape = OptionShape.Flag, Commands = OptionCommands.Restore },
    ];

    private static readonly Dictionary<string, OptionDefinition> ByName = All.ToDictionary(option => option.Name);

    /// <summary>The option of this name in the configuration file, or null.</summary>
    public static OptionDefinition? Find(string name) => ByName.GetValueOrDefault(name);

    /// <summary>The options of one command, in the order of --help.</summary>
    public static IEnumerable<OptionDefinition> For(OptionCommands command)
        => (command == OptionCommands.Restore ? RestoreOnly : []).Concat(All.Where(option => (option.Commands & command) != 0));
}
