// Everything `slogger serve` and `slogger backup` can be told, as immutable typed values. Made by ServeOptionsReader from the command line,
// the environment and the configuration file; checked there, so the proxy may trust every value. OptionCatalog holds the
// option's name and help for each property (a test keeps the two complete).
using System.Collections.Immutable;
using System.Text.Json.Serialization;
using Slogger.Core.Cuts;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;
using Slogger.Core.Shards;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>Options of a proxy for one shard. At most one of <see cref="Redis"/> and <see cref="RedisServerPath"/> is set. If none is, or
/// <see cref="Commit"/> is faster, the store is embedded in the proxy.</summary>
public sealed record ServeOptions
{
    /// <summary>Largest version interval.</summary>
    public static readonly TimeSpan VersionIntervalMax = TimeSpan.FromMinutes(60);

    /// <summary>Longest <see cref="Retention"/>.</summary>
    public static readonly TimeSpan RetentionMax = TimeSpan.FromDays(3650);

    /// <summary><see cref="RetentionStep"/>, if nothing else is said.</summary>
    public static readonly TimeSpan RetentionStepDefault = TimeSpan.FromSeconds(1);

    /// <summary>Smallest version interval.</summary>
    public static readonly TimeSpan VersionIntervalMin = TimeSpan.FromMilliseconds(1);

    /// <summary>The configuration file that was read, for messages. Default: none.</summary>
    public string? ConfigFile { get; init; }

    /// <summary>
    /// Addresses that take clients in clear text. Default: 127.0.0.1:6380, or none if only <see cref="ClientTlsOptions.Listen"/> is given.
    /// An address beyond loopback is open to whoever reaches it, unless Redis itself asks for a password.
    /// </summary>
    public ImmutableArray<ListenAddress> Listen { get; init; } = [ListenAddress.Tcp("127.0.0.1", 6380)];

    /// <summary>TLS towards clients. Default: null, no TLS.</summary>
    public ClientTlsOptions? ClientTls { get; init; }

    /// <summary>The Redis to attach to, run by others. If it dies the proxy waits for it and then restores it. Default: none.</summary>
    public ListenAddress? Redis { get; init; }

    /// <summary>
    /// The redis-server program (absolute path) to run for this shard: started, restarted and restored by the proxy, and left
    /// running for the next proxy if this one is killed. With an embedded store: only to show its past. Default: none.
    /// </summary>
    public string? RedisServerPath { get; init; }

    /// <summary>A redis.conf for the supervised server; what the proxy must own is overridden. Default: Redis's defaults.</summary>
    public string? RedisConfigFile { get; init; }

    /// <summary>Lines of redis.conf for the supervised server, such as "maxmemory 1gb"; after the file. Default: none.</summary>
    public ImmutableArray<string> RedisDirectives { get; init; } = [];

    /// <summary>ACL user for the proxy's own connections to Redis. Default: null, Redis's user "default".</summary>
    public string? RedisUser { get; init; }

    /// <summary>File (absolute path) whose first line is the password for the proxy's own connections. Default: no password.</summary>
    public string? RedisPasswordFile { get; init; }

    /// <summary>TLS towards Redis. Default: null, clear text.</summary>
    public RedisTlsOptions? RedisTls { get; init; }

    /// <summary>Memory for the records of the embedded store, in bytes: rounded down to a power of two, at least four pages. All data is
    /// kept there. Default: 1 GiB. At its limit writes are refused as by Redis at maxmemory.</summary>
    public long FasterMemoryBytes { get; init; } = 1L << 30;

    /// <summary>Memory for the embedded store's hash index, in bytes: rounded down to a power of two. Default: 64 MiB, good for some eight
    /// million keys; with many more reads slow down.</summary>
    public long FasterIndexBytes { get; init; } = 64L << 20;

    /// <summary>A page of the embedded store's log, in bytes: rounded down to a power of two. No value is larger. Default: 32
    /// MiB.</summary>
    public long FasterPageBytes { get; init; } = 32L << 20;

    /// <summary>Every how many versions the embedded store commits, at least: a power of two. Default: 8, every 40 ms with versions of
    /// 5 ms. Fewer: commits come sooner, and cost writers more. It commits less often when the disk takes longer.</summary>
    public int FasterStride { get; init; } = 8;

    /// <summary>
    /// Directory (absolute path) of the version log, the checkpoints and the supervised Redis's files, or of the embedded store. Default:
    /// slogger-data in the current directory. It belongs to one shard and one kind of store; losing it loses the ability to recover.
    /// </summary>
    public required string DataDirectory { get; init; }

    /// <summary>Where cuts and world-lines are recorded. Default: sqlite in metadata.db of the data directory.</summary>
    public required MetadataSpec Metadata { get; init; }

    /// <summary>The cluster's name in the metadata. Default: "default". Shards of one cluster recover together.</summary>
    public string Cluster { get; init; } = "default";

    /// <summary>This shard's number in its cluster, from 0. Default: 0.</summary>
    public ShardId Shard { get; init; } = new(0);

    /// <summary>Who finds the cut of a cluster of several shards. Decided where the cluster is made, by the first of its proxies, and kept.
    /// Default: null, as the cluster was made; approximate when it is made. With another one cuts respect the order of
    /// sessions only.</summary>
    public FinderKind? Finder { get; init; }

    /// <summary>How keys fall into partitions. Default: null, whatever the cluster was made with; where it is made, hash. Kept with the
    /// cluster.</summary>
    public Partitioning? Partitions { get; init; }

    /// <summary>How many shards the cluster has, 1 to 1024: 0 to one less. Needed where the cluster is made, by the first of its
    /// proxies; a later one that gives another number is refused. Default: null, 1 when the cluster is made.</summary>
    public int? Shards { get; init; }

    /// <summary>Has this proxy join a running cluster as its next shard, with an empty Redis. Default: false, so that a wrong number makes
    /// no shard. Of no consequence once it has joined.</summary>
    public bool Joins { get; init; }

    /// <summary>What makes a version durable. Default: log for a Redis, faster for the embedded store, each with no other of the
    /// two.</summary>
    public CommitMode Commit { get; init; } = CommitMode.Log;

    /// <summary>When replies leave. Default: early, at once. Committed: nothing that a client was told is lost in a crash, and a reply to a
    /// write takes as long as its commit. For mode log only.</summary>
    public ReplyTiming Replies { get; init; } = ReplyTiming.Early;

    /// <summary>
    /// Length of a version, 1 ms to 60 min. Default: 5 ms; with committed replies, which wait for its end, 1 ms. Shorter means less is
    /// lost at a crash and a shorter wait for a commit; longer means fewer disk syncs. Of a cluster of several shards it counts where
    /// that is made. </summary>
    public TimeSpan VersionInterval { get; init; } = TimeSpan.FromMilliseconds(5);

    /// <summary>
    /// How far the clocks of any two shards may be apart, up to half a version. Default: 0, all shards run on one machine. With more,
    /// replies wait until that long after the beginning of their version, so that order in real time holds across machines.
    /// </summary>
    public TimeSpan ClockError { get; init; }

    /// <summary>What plain clients see after a recovery. Default: close.</summary>
    public RollbackAction OnRollback { get; init; } = RollbackAction.Close;

    /// <summary>How a Redis that is alive goes back when another shard has lost its own. Default: in place, where that is
    /// possible.</summary>
    public RollbackMethod Rollback { get; init; } = RollbackMethod.InPlace;

    /// <summary>What wins when Redis holds data of unknown origin. Default: null, refuse to start.</summary>
    public SeedSource? Seed { get; init; }

    /// <summary>
    /// Bytes of version log after which a new checkpoint is taken. Default: 1 GiB. Smaller means faster restores and more forks of Redis.
    /// </summary>
    public long CheckpointEveryBytes { get; init; } = 1L << 30;

    /// <summary>
    /// Bytes of version log to keep on disk; what a checkpoint covers is trimmed above it. Default: 4 GiB; at least twice
    /// <see cref="CheckpointEveryBytes"/>. Larger keeps more versions restorable.
    /// </summary>
    public long LogBudgetBytes { get; init; } = 4L << 30;

    /// <summary>
    /// Further directories of the version log, up to 7, beside the one in <see cref="DataDirectory"/>, each best on a disk of its own.
    /// Default: none. As many syncs run at a time as there are directories. One cannot be taken away while the log lives; it
    /// can be moved as a whole, and is then given by its new path.
    /// </summary>
    public ImmutableArray<string> LogDirectories { get; init; } = [];

    /// <summary>
    /// How far back the past can be read, 1 s to 3650 days, while <see cref="LogBudgetBytes"/> is not reached. Older log is deleted with
    /// the next checkpoint. Default: 0, as far as that budget allows; of an embedded store none is kept then.
    /// </summary>
    public TimeSpan Retention { get; init; }

    /// <summary>
    /// How far back each version can be read, 1 s to <see cref="Retention"/>. What is older is reduced to about one version in each
    /// <see cref="RetentionStep"/>, as fewer commands. Default: 0, all of the past. Smaller takes less room.
    /// </summary>
    public TimeSpan RetentionDetail { get; init; }

    /// <summary>
    /// How far versions lie apart at most behind <see cref="RetentionDetail"/>, 1 ms to 1 h. Default: 1 s. Larger takes less room.
    /// </summary>
    public TimeSpan RetentionStep { get; init; } = RetentionStepDefault;

    /// <summary>Size of a file of the version log, in bytes. Not to be chosen by people.</summary>
    internal int LogSegmentBytes { get; init; } = 64 << 20;

    /// <summary>Nobody's data is there: a broken invariant ends this shard, and not the process, which is another's.</summary>
    internal bool IsRehearsal { get; init; }

    /// <summary>The machine's clocks. A test has time pass as it likes.</summary>
    internal TimeProvider Time { get; init; } = TimeProvider.System;

    /// <summary>Where clients and other proxies reach this one: a TCP address. Default: null, the first TCP address that it listens
    /// on, which will not do in a cluster of several shards if it stands for every interface.</summary>
    public ListenAddress? Announce { get; init; }

    /// <summary>Most clients at a time; further ones get an error and are closed. Default: 10000.</summary>
    public int MaxClients { get; init; } = 10_000;

    /// <summary>
    /// Bytes of replies that one client may leave unread before it is disconnected. Default: 576 MiB, so that one value of 512 MiB fits.
    /// </summary>
    public long ClientOutputLimitBytes { get; init; } = 576L << 20;

    /// <summary>
    /// Bytes of unread replies of all clients together; beyond it the client with most is disconnected first. Default: 1 GiB; at
    /// least <see cref="ClientOutputLimitBytes"/>.
    /// </summary>
    public long OutputMemoryLimitBytes { get; init; } = 1L << 30;

    /// <summary>What concerns another site. Default: nothing.</summary>
    public SiteOptions Site { get; init; } = new();

    /// <summary>What concerns the shard's cohort. Default: null, the shard has one process.</summary>
    public CohortOptions? Cohort { get; init; }

    /// <summary>How sockets are driven. Default: auto, which is epoll on Linux and .NET sockets elsewhere.</summary>
    public TransportKind Transport { get; init; } = TransportKind.Auto;

    /// <summary>Least level that is logged to stderr. Default: info.</summary>
    public LogLevel LogLevel { get; init; } = LogLevel.Information;

    /// <summary>How the log is written to stderr. Default: text.</summary>
    public LogFormat LogFormat { get; init; } = LogFormat.Text;

    /// <summary>What <see cref="DataDirectory"/> remembers: attached, supervised or embedded.</summary>
    public StoreKind Store => Commit == CommitMode.Faster ? StoreKind.Faster
        : RedisServerPath is null ? StoreKind.Redis : StoreKind.RedisServer;
}

/// <summary>What plain clients (those that do not use DPR commands) see after a recovery lost a suffix of history.</summary>
public enum RollbackAction
{
    /// <summary>Their connection closes, so that they start afresh.</summary>
    Close,

    /// <summary>Their next command is answered with an error; then they go on.</summary>
    Error,
}

/// <summary>When replies leave.</summary>
public enum ReplyTiming
{
    /// <summary>At once.</summary>
    Early,

    /// <summary>When the version that they rest on is settled.</summary>
    Committed,
}

/// <summary>How a Redis that is alive goes back to the branch of a world-line.</summary>
public enum RollbackMethod
{
    /// <summary>Only the keys that were written since are put back, where that is possible and faster; else everything is
    /// restored.</summary>
    InPlace,

    /// <summary>Everything is restored.</summary>
    Full,
}

/// <summary>Which side wins when Redis holds data that the log does not know.</summary>
public enum SeedSource
{
    /// <summary>Redis: its data becomes the start of a new history; the log's is given up.</summary>
    FromRedis,

    /// <summary>The log: Redis's data is overwritten with the log's last durable state.</summary>
    FromLog,
}

/// <summary>How sockets are driven.</summary>
public enum TransportKind
{
    /// <summary>The best for this system.</summary>
    Auto,

    /// <summary>One epoll loop; Linux only.</summary>
    Epoll,

    /// <summary>.NET sockets; every system.</summary>
    Sockets,
}

/// <summary>The kinds of store that a data directory can belong to.</summary>
public enum StoreKind
{
    /// <summary>A Redis that others run (--redis).</summary>
    [JsonStringEnumMemberName("redis")]
    Redis,

    /// <summary>A Redis that the proxy runs (--redis-server).</summary>
    [JsonStringEnumMemberName("redis-server")]
    RedisServer,

    /// <summary>A FASTER store inside the proxy (neither is given).</summary>
    [JsonStringEnumMemberName("faster")]
    Faster,
}
