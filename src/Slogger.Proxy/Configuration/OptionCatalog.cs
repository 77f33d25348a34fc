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
    private const string Running = "Running";

    /// <summary>Every option, in the order of --help.</summary>
    public static readonly IReadOnlyList<OptionDefinition> All =
    [
        new("listen", Clients, "ADDRESS", "Where clients connect: HOST:PORT, [IPV6]:PORT, unix:PATH or /PATH; may be repeated. Beyond "
            + "loopback it is open to whoever reaches it, unless Redis asks for a password.", "127.0.0.1:6380",
            nameof(ServeOptions.Listen)) { Shape = OptionShape.List },
        new("tls-listen", Clients, "ADDRESS", "The same over TLS; may be repeated. Without --listen, clients can connect over TLS only.",
            "none", "ClientTls.Listen") { Shape = OptionShape.List },
        new("tls-cert", Clients, "FILE", "Certificate chain (PEM) shown to clients.", "none", "ClientTls.CertificateFile")
            { IsLive = true },
        new("tls-key", Clients, "FILE", "Private key (PEM) of --tls-cert.", "none", "ClientTls.KeyFile") { IsLive = true },
        new("tls-client-ca", Clients, "FILE", "Clients must show a certificate from these authorities (PEM).",
            "none, no certificate is asked for", "ClientTls.ClientCaFile") { IsLive = true },
        new("announce", Clients, "HOST:PORT", "Where clients and other proxies reach this one: what a cluster of several shards tells its "
            + "clients. Needed there when it listens on every interface.", "the first TCP address of --listen, else of --tls-listen",
            nameof(ServeOptions.Announce)),
        new("max-clients", Clients, "NUMBER", "Most clients at a time; further ones get an error and are closed.", "10000",
            nameof(ServeOptions.MaxClients)) { IsLive = true },
        new("client-output-limit", Clients, "SIZE", "Unread replies that one client may leave before it is disconnected.",
            "576mb, so that one value of 512mb fits", nameof(ServeOptions.ClientOutputLimitBytes)) { IsLive = true },
        new("output-memory-limit", Clients, "SIZE", "Unread replies of all clients together; beyond it the client with most is "
            + "disconnected first. The same limit, counted apart, holds for requests that have not come whole.",
            "1gb, at least --client-output-limit", nameof(ServeOptions.OutputMemoryLimitBytes)) { IsLive = true },
        new("on-rollback", Clients, "close|error", "What plain clients see after a recovery lost a suffix: their connection closes, or "
            + "their next command is answered with an error and then it closes. What a client sent before it read that is not done.",
            "close", nameof(ServeOptions.OnRollback)),

        new("redis", Store, "ADDRESS", "Attach to a Redis (7.0 or later, not a replica, not in cluster mode) that others run: HOST:PORT "
            + "or a Unix socket.", "none", nameof(ServeOptions.Redis)) { Commands = Both },
        new("redis-server", Store, "PATH", "Run this redis-server: the proxy starts it, restarts and restores it after a crash; it "
            + "outlives a killed proxy and the next one adopts it.", "none", nameof(ServeOptions.RedisServerPath)) { Commands = Both },
        new("redis-config", Store, "FILE", "A redis.conf for --redis-server. What the proxy must own (files, sockets, persistence, "
            + "replication) is overridden.", "none", nameof(ServeOptions.RedisConfigFile)) { Commands = Both },
        new("redis-directive", Store, "LINE", "A line of redis.conf for --redis-server, such as \"maxmemory 1gb\"; may be repeated. Comes "
            + "after --redis-config.", "none", nameof(ServeOptions.RedisDirectives)) { Shape = OptionShape.List, Commands = Both,
            EnvironmentSeparator = '\n' },
        new("redis-user", Store, "NAME", "ACL user for the proxy's own connections to Redis.", "Redis's user default",
            nameof(ServeOptions.RedisUser)) { Commands = Both },
        new("redis-password-file", Store, "FILE", "File whose first line is the password for the proxy's own connections to Redis.",
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

        new("faster-memory", Embedded, "SIZE", "Memory for records, rounded down to a power of two; what has been overwritten counts "
            + "until it is compacted. At the limit writes are refused as by Redis at maxmemory.", "1gb",
            nameof(ServeOptions.FasterMemoryBytes)),
        new("faster-index", Embedded, "SIZE", "Memory for the hash index, rounded down to a power of two: 8 bytes a key are good, with "
            + "less reads slow down. It does not grow.", "64mb", nameof(ServeOptions.FasterIndexBytes)),
        new("faster-page", Embedded, "SIZE", "A page of its log, rounded down to a power of two: no value is larger. Memory holds "
            + "at least four.", "32mb", nameof(ServeOptions.FasterPageBytes)),
        new("faster-stride", Embedded, "N", "Every how many versions it commits, at least: a power of two. Fewer: commits come sooner, "
            + "and cost writers more. It commits less often when the disk takes longer.", "8", nameof(ServeOptions.FasterStride)),

        new("data", Durability, "DIR", "Directory of the version log, the checkpoints and the files of a supervised Redis, or of the "
            + "embedded store. It belongs to one shard and remembers its kind of store.", "slogger-data in the current directory",
            nameof(ServeOptions.DataDirectory)) { Commands = Every },
        new("metadata", Durability, "SPEC", "Where cuts and world-lines are recorded: sqlite:FILE, postgres:CONNSTRING or "
            + "sqlserver:CONNSTRING. Keep a password off the command line: use the environment or --config.", "sqlite:DATA/metadata.db",
            nameof(ServeOptions.Metadata)) { Commands = Every, IsSecret = true },
        new("cluster", Durability, "NAME", "The cluster's name in the metadata.", "default",
            nameof(ServeOptions.Cluster)) { Commands = Proxies | OptionCommands.Recover },
        new("shard", Durability, "ID", "This shard's number in the cluster.", "0",
            nameof(ServeOptions.Shard)) { Commands = Proxies | OptionCommands.Recover },
        new("shards", Durability, "N", "How many shards the cluster has. Needed where the cluster is made, by the first of its proxies; a "
            + "later one may leave it out.", "1 when the cluster is made", nameof(ServeOptions.Shards)),
        new("join", Durability, "", "Join a running cluster as its next shard, with an empty Redis: --shard has to be the next number. It "
            + "owns no slots until slogger move gives it some. Once it has joined the option changes nothing, so it may stay.", "false",
            nameof(ServeOptions.Joins)) { Shape = OptionShape.Flag },
        new("finder", Durability, "approximate|exact|hybrid", "How the cluster finds what is committed; decided where it is made, and "
            + "kept. approximate: one version at all shards, in the order of real time. exact and hybrid: each shard as far as its "
            + "sessions' dependencies allow, so that a slow shard holds up only who depends on it; for clients that send DPR.BATCH with "
            + "DEP alone, since the order of plain clients across shards is not kept by a recovery.",
            "approximate when the cluster is made", nameof(ServeOptions.Finder)),
        new("partitions", Durability, "hash|range:KEY,...|range:@FILE", "How keys are spread over several shards; decided where the "
            + "cluster is made, and kept. hash: the slots of Redis Cluster, for its clients. range: keys in the order of their bytes, cut "
            + "at the keys given here, or in a file with one in each line, so that keys near each other are at one shard; for session "
            + "clients. A byte can be written \\xHH, as a comma, a backslash or a first @ must be.", "hash when the cluster is made",
            nameof(ServeOptions.Partitions)),
        new("commit", Durability, "log|bgsave|none|faster", "What makes a version durable. For a Redis: its part of the replication "
            + "stream on disk, a BGSAVE, or nothing (a pass-through without recovery). For the embedded store: faster, a "
            + "checkpoint of it.", "log; faster for the embedded store", nameof(ServeOptions.Commit)),
        new("version-interval", Durability, "DURATION", "Length of a version, 1ms to 60m. Shorter: less is lost at a crash and commits "
            + "come sooner. Longer: fewer disk syncs. In a cluster of several shards it counts where that is made: slogger "
            + "interval changes it.", "5ms", nameof(ServeOptions.VersionInterval)),
        new("clock-error", Durability, "DURATION", "How far the clocks of any two machines of the cluster may be apart, at most half a "
            + "version; the same at every shard. Replies wait until that long after the beginning of their version, so that cuts keep the "
            + "order that clients saw across machines.", "0ms: all shards on one machine", nameof(ServeOptions.ClockError)),
        new("checkpoint-every", Durability, "SIZE", "Bytes of log after which a checkpoint is taken at the latest. Smaller: faster "
            + "restores, but Redis forks more often.", "1gb", nameof(ServeOptions.CheckpointEveryBytes)),
        new("log-budget", Durability, "SIZE", "Bytes of log to keep; what a checkpoint covers is trimmed above it. Larger: more versions "
            + "stay restorable.", "4gb, at least twice --checkpoint-every", nameof(ServeOptions.LogBudgetBytes)),
        new("rollback", Durability, "in-place|full", "How a Redis that is alive goes back when another shard has lost its own: only the "
            + "keys written since, where that is possible, or always by a restore of everything, which clients wait for. In place takes "
            + "memory: up to 64 MB for the log since the checkpoint, and 16 bytes a key for a moment after each checkpoint.", "in-place",
            nameof(ServeOptions.Rollback)),
        new("seed", Durability, "from-redis|from-log", "Which side wins if Redis holds data that the log does not know. The other side's "
            + "data is given up. With restore only from-log has a meaning: the data of the Redis may be replaced.", "none, refuse",
            nameof(ServeOptions.Seed)) { Commands = Both },

        new("backup", Sites, "HOST:PORT[,...]", "Ship this shard's log to a backup site: the --site-listen of its slogger backup for the "
            + "shard of this number; with another number of shards there, of each that has some of this shard's slots.", "none",
            "Site.Backups"),
        new("on-backup-lag", Sites, "stall|detach", "What happens when as much of the log as --backup-budget is kept for a backup that "
            + "does not keep up or is away. stall: writes of clients wait until it has caught up, so that never more than that would be "
            + "lost with this site. detach: the backup is given up and has to be seeded anew, and clients notice nothing.", "stall",
            "Site.OnBackupLag"),
        new("backup-budget", Sites, "SIZE", "Bytes of log to keep for the backup; on disk beyond --log-budget if need be. At least twice "
            + "--backup-window.", "4gb", "Site.BackupBudgetBytes"),
        new("backup-window", Sites, "SIZE", "Bytes that are on their way to the backup at most: at least what the link holds, its "
            + "bandwidth times its round trip. The backup keeps as much in memory.", "8mb", "Site.BackupWindowBytes"),
        new("backup-pieces", Sites, "N", "Pieces of up to 256kb that are on their way to the backup at most.", "64", "Site.BackupPieces"),
        new("backup-resend", Sites, "DURATION", "What the backup has not answered for so long is sent again: several round trips.",
            "300ms", "Site.BackupResend"),
        new("backup-compression", Sites, "none|gzip", "How the log is compressed on its way. gzip: for a link that is slower than a "
            + "core compresses.", "none", "Site.BackupCompression"),
        new("site-lease", Sites, "DURATION", "Report commits only while the backup has answered so recently, so that a site that is cut "
            + "off but healthy commits nothing after the backup has taken over; a failover waits for as long. The same at both sites. "
            + "Without it the operator attests at a failover that the primary is down.", "none", "Site.Lease"),
        new("site-listen", Sites, "HOST:PORT", "Where this process is reached over gRPC by the other site and by slogger failover, "
            + "switchover and drill. A backup needs it. Beyond loopback it needs --site-secret-file or the certificates.", "none",
            "Site.Listen"),
        new("site-secret-file", Sites, "FILE", "File whose first line is a secret that both sites share. In clear text on its way without "
            + "--site-cert-file.", "none", "Site.SecretFile"),
        new("site-cert-file", Sites, "FILE", "Certificate chain (PEM) of this process for the other site, as server and as client.",
            "none, clear text", "Site.CertificateFile") { IsLive = true },
        new("site-key-file", Sites, "FILE", "Private key (PEM) of --site-cert-file.", "none", "Site.KeyFile") { IsLive = true },
        new("site-ca-file", Sites, "FILE", "The other site's processes must show a certificate from these authorities (PEM), whoever "
            + "connects to whom.", "none: callers need no certificate, servers one that this machine trusts", "Site.CaFile")
            { IsLive = true },
        new("primary-shards", Sites, "N", "How many shards the primary has, if that is another number than this site's (--shards): each "
            + "process receives those whose slots its shard has. Counts where the backup is made. The primary's keys have to be divided "
            + "by hash slots, evenly, as when a cluster is made; databases but 0, and commands whose keys are of several of this site's "
            + "shards, cannot be followed.", "as many as this site", "Site.PrimaryShards") { Commands = OptionCommands.Backup },
        new("watermark", Sites, "HOST:PORT", "Who tells the watermark: the --site-listen of a process of this site, or of a "
            + "slogger watermark.", "the process of shard 0", "Site.Watermark") { Commands = OptionCommands.Backup },
        new("failover-rehearsal", Sites, "on|off", "Rehearse a failover when this process first follows, so that a real one finds all of "
            + "the program loaded and compiled, and takes a fraction of the time: for a few seconds, when the process has little else to "
            + "do, it runs two sites in small in the directory rehearsal of --data, with four Redis servers of its own.",
            "on with --redis-server; with --redis there is no program to do it with",
                "Site.Rehearses") { Commands = OptionCommands.Backup },

        new("config", Running, "FILE", "JSON file with the same names (comments allowed); under \"of-shard\", by their numbers, what "
            + "single shards have of their own. The command line goes over the environment, the environment over the file.", "none",
            nameof(ServeOptions.ConfigFile)) { Commands = Every },
        new("transport", Running, "auto|epoll|sockets", "How sockets are driven: one epoll loop (Linux), or .NET sockets (every "
            + "system, slower).", "auto", nameof(ServeOptions.Transport)),
        new("log-level", Running, "LEVEL", "Least level that is logged to stderr: trace, debug, info, warn, error.", "info",
            nameof(ServeOptions.LogLevel)) { IsLive = true, Commands = Every },
        new("log-format", Running, "text|json", "How the log is written to stderr: a line of text for people, or an object of JSON "
            + "in each line.", "text", nameof(ServeOptions.LogFormat)) { Commands = Every },
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
    ];

    private static readonly Dictionary<string, OptionDefinition> ByName = All.ToDictionary(option => option.Name);

    /// <summary>The option of this name in the configuration file, or null.</summary>
    public static OptionDefinition? Find(string name) => ByName.GetValueOrDefault(name);

    /// <summary>The options of one command, in the order of --help.</summary>
    public static IEnumerable<OptionDefinition> For(OptionCommands command)
        => (command == OptionCommands.Restore ? RestoreOnly : []).Concat(All.Where(option => (option.Commands & command) != 0));
}
