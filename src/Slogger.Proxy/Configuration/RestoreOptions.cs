// Everything `slogger restore` can be told: put a Redis, offline, into the state of one version of the log.
using System.Collections.Immutable;
using Slogger.Core.Identities;
using Slogger.Core.Versions;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>
/// Options of an offline restore. After the data directory was opened exactly one of <see cref="Redis"/> and
/// <see cref="RedisServerPath"/> is set: where neither is given, the directory's store is used.
/// </summary>
public sealed record RestoreOptions
{
    /// <summary>The configuration file that was read, for messages. Default: none.</summary>
    public string? ConfigFile { get; init; }

    /// <summary>The data directory (absolute path). Default: slogger-data in the current directory. Its proxy must be stopped.</summary>
    public required string DataDirectory { get; init; }

    /// <summary>Further directories of the version log (absolute paths). Default: none are given, those that it was opened with last.
    /// </summary>
    public ImmutableArray<string> LogDirectories { get; init; } = [];

    /// <summary>The version to restore; null for the newest durable one. One of --version, --latest and --list is required.</summary>
    public VersionNumber? Version { get; init; }

    /// <summary>The shard goes on from that version: the next start makes its content the next version. Default: false, a start then
    /// asks.</summary>
    public bool Keep { get; init; }

    /// <summary>The shard goes on though more was committed than the directory holds. A node of a cohort becomes the only member. Only with
    /// <see cref="Keep"/>. Default: false.</summary>
    public bool AcceptsLoss { get; init; }

    /// <summary>Nothing is restored: the versions that can be are listed. Default: false.</summary>
    public bool List { get; init; }

    /// <summary>What is listed is written as JSON. Default: false, for a person.</summary>
    public bool Json { get; init; }

    /// <summary>The running Redis to restore into; its data is replaced. Default: the directory's store.</summary>
    public ListenAddress? Redis { get; init; }

    /// <summary>The redis-server program to start and restore. Default: the directory's store.</summary>
    public string? RedisServerPath { get; init; }

    /// <summary>A redis.conf for the supervised server. Default: Redis's defaults.</summary>
    public string? RedisConfigFile { get; init; }

    /// <summary>Lines of redis.conf for the supervised server. Default: none.</summary>
    public ImmutableArray<string> RedisDirectives { get; init; } = [];

    /// <summary>ACL user for the connections to Redis. Default: null, Redis's user "default".</summary>
    public string? RedisUser { get; init; }

    /// <summary>File (absolute path) whose first line is the password. Default: no password.</summary>
    public string? RedisPasswordFile { get; init; }

    /// <summary>TLS towards Redis. Default: null, clear text.</summary>
    public RedisTlsOptions? RedisTls { get; init; }

    /// <summary>Where cuts and world-lines are recorded. Default: sqlite in metadata.db of the data directory.</summary>
    public required MetadataSpec Metadata { get; init; }

    /// <summary>Only from-log has a meaning: a Redis with data of unknown origin may be overwritten. Default: null, it is
    /// refused.</summary>
    public SeedSource? Seed { get; init; }

    /// <summary>The cluster's name, from the data directory.</summary>
    public string Cluster { get; init; } = "default";

    /// <summary>The shard's number, from the data directory.</summary>
    public ShardId Shard { get; init; }

    /// <summary>Least level that is logged to stderr. Default: info.</summary>
    public LogLevel LogLevel { get; init; } = LogLevel.Information;

    /// <summary>How the log is written to stderr. Default: text.</summary>
    public LogFormat LogFormat { get; init; } = LogFormat.Text;
}
