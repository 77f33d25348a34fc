// Everything `slogger recover` can be told.
using Slogger.Core.Identities;

namespace Slogger.Proxy.Configuration;

/// <summary>Options of a recovery from a dead shard.</summary>
public sealed record RecoverOptions
{
    /// <summary>The cluster's metadata. Default: sqlite in metadata.db of the data directory.</summary>
    public required MetadataSpec Metadata { get; init; }

    /// <summary>The cluster's name in the metadata. Default: "default".</summary>
    public string Cluster { get; init; } = "default";

    /// <summary>The dead shard.</summary>
    public ShardId Shard { get; init; }

    /// <summary>Least level that is logged to stderr. Default: info.</summary>
    public LogLevel LogLevel { get; init; } = LogLevel.Information;

    /// <summary>How the log is written to stderr. Default: text.</summary>
    public LogFormat LogFormat { get; init; } = LogFormat.Text;
}
