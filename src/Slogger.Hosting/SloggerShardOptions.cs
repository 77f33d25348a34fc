// How an application says what shard it hosts: as on the command line of slogger serve.
using Slogger.Client;

namespace Slogger.Hosting;

/// <summary>Options of a shard in this process.</summary>
public sealed class SloggerShardOptions
{
    /// <summary>The options of <c>slogger serve</c>, by their names without dashes ("listen", "data", "shard", "shards", "metadata",
    /// "faster-memory"...), with their defaults, checked as there. The store is embedded: none that names a Redis is taken. Of a list,
    /// words between commas. Neither the environment nor a configuration file is looked at, unless "config" names one.</summary>
    public IDictionary<string, string> Serve { get; } = new Dictionary<string, string>(StringComparer.Ordinal);

    /// <summary>How sessions reach other shards, and hear what is committed. Default: null, over the shard's own first address in clear
    /// text, without a password.</summary>
    public SloggerClientOptions? Client { get; set; }

    /// <summary>How long an operation on the shard in this process waits while a recovery is under way, before it fails with
    /// <see cref="ShardUnreachableException"/>. Default 15 s.</summary>
    public TimeSpan GiveUpAfter { get; set; } = TimeSpan.FromSeconds(15);
}
