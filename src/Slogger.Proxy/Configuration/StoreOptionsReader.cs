// Reads which store a shard has, how it is reached and started, and the rules between those options. Part of what ServeOptionsReader reads.
using System.Collections.Immutable;
using Slogger.Core.Shards;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

/// <summary>Reads the options of a Redis, attached or supervised, and of the embedded store.</summary>
internal static class StoreOptionsReader
{
    private static readonly string[] OfServer = ["redis-config", "redis-directive"];

    // What has a meaning for a Redis only, and for the embedded store only.
    private static readonly string[] RedisOptions =
    [
        "redis-config", "redis-directive", "redis-user", "redis-password-file", "redis-tls", "redis-tls-ca", "redis-tls-cert",
            "redis-tls-key", "redis-tls-insecure", "rollback", "seed", "log-dirs",
    ];

    // What has a meaning for the embedded store only with --retention.
    private static readonly string[] PastOptions = ["checkpoint-every", "log-budget", "retention-detail", "retention-step"];

    private static readonly string[] FasterOptions = ["faster-memory", "faster-index", "faster-page", "faster-stride"];

    private static readonly HashSet<string> OwnedDirectives = new(StringComparer.OrdinalIgnoreCase)
    {
        "dir", "dbfilename", "unixsocket", "unixsocketperm", "pidfile", "logfile", "daemonize", "supervised", "replicaof", "slaveof",
            "cluster-enabled",
        "appendonly", "save", "repl-diskless-load", "include",
    };

    /// <summary>Whether the store is embedded: no Redis is named; or only the program is with which its past is shown.</summary>
    public static bool IsEmbedded(OptionReader reader) => !reader.IsGiven("redis")
        && (!reader.IsGiven("redis-server") || (reader.IsGiven("retention") && reader.Texts("commit")?.Texts is ["faster"]));

    /// <summary>The two exclude each other within one source; a higher source's choice replaces a lower one's.</summary>
    public static (ListenAddress? Redis, string? Server) Read(OptionReader reader)
    {
        int redisLayer = reader.LayerOf("redis");
        int serverLayer = reader.LayerOf("redis-server");
        if (!reader.IsGiven("redis") && !reader.IsGiven("redis-server"))
        {
            return (null, null);
        }

        if (redisLayer == serverLayer)
        {
            reader.Fail("redis", "and --redis-server are both given",
                "keep --redis to attach to a running Redis, or --redis-server to have the proxy run one");
            return (null, null);
        }

        return redisLayer < serverLayer
            ? (reader.Optional<ListenAddress>("redis", OptionText.ServerAddress), null)
            : (null, reader.Optional<string>("redis-server", OptionText.Program));
    }

    public static string? ReadFile(OptionReader reader, string? server)
        => server is null ? null : reader.Optional<string>("redis-config", OptionText.ExistingFile);

    public static ImmutableArray<string> ReadDirectives(OptionReader reader, string? server)
    {
        // Options for a supervised server beside --redis: a mistake, unless they belong to a lower source's --redis-server.
        int chosen = Math.Min(reader.LayerOf("redis"), reader.LayerOf("redis-server"));
        foreach (string name in OfServer)
        {
            if (reader.IsGiven(name) && reader.LayerOf("redis") == chosen && reader.IsGiven("redis") && reader.LayerOf(name) <= chosen)
            {
                reader.Fail(name, "has no effect on a Redis that others run", "remove it, and configure that Redis itself");
            }
        }

        return server is null ? [] : reader.List<string>("redis-directive", Directive, []);
    }

    public static bool Directive(string text, out string value, out string problem)
    {
        value = text.Trim();
        string name = value.Split([' ', '\t'], 2)[0];
        problem = value.Length == 0 || value.Contains('\n') || value.Contains('\r') ? "is not one line of redis.conf"
            : value.StartsWith('-') ? $"is written like a switch; write \"{value.TrimStart('-')}\""
            : OwnedDirectives.Contains(name) ? $"sets {name}, which the proxy itself must set"
            : "";
        return problem.Length == 0;
    }

    public static RedisTlsOptions? ReadRedisTls(OptionReader reader)
    {
        string[] details = ["redis-tls-ca", "redis-tls-cert", "redis-tls-key", "redis-tls-insecure"];
        RedisTlsOptions tls = new()
        {
            CaFile = reader.Optional<string>("redis-tls-ca", OptionText.ExistingFile),
            CertificateFile = reader.Optional<string>("redis-tls-cert", OptionText.ExistingFile),
            KeyFile = reader.Optional<string>("redis-tls-key", OptionText.ExistingFile),
            Insecure = reader.Value("redis-tls-insecure", OptionText.Flag, false),
        };
        bool enabled = reader.Value("redis-tls", OptionText.Flag, false);
        if (!reader.IsGiven("redis-tls") && details.FirstOrDefault(reader.IsGiven) is { } stray)
        {
            // Not implied: a file left over from another set-up must not decide whether a password travels in clear text.
            reader.Fail(stray, "is given without --redis-tls", "add --redis-tls, or remove it");
        }

        if (enabled && reader.IsGiven("redis-tls-cert") != reader.IsGiven("redis-tls-key"))
        {
            bool hasCertificate = reader.IsGiven("redis-tls-cert");
            reader.Fail(hasCertificate ? "redis-tls-cert" : "redis-tls-key",
                hasCertificate ? "needs --redis-tls-key" : "needs --redis-tls-cert", "give both files (PEM)");
        }

        if (enabled && tls.Insecure && tls.CaFile is not null)
        {
            reader.Fail("redis-tls-insecure", "makes --redis-tls-ca pointless", "remove one of them");
        }

        return enabled ? tls : null;
    }

    /// <summary>What belongs to the other kind of store is a mistake: most likely the store was forgotten.</summary>
    public static void Check(OptionReader reader, ServeOptions options, bool isEmbedded)
    {
        string why = options.RedisServerPath is null ? "since neither --redis nor --redis-server is given"
            : "by --commit faster with --retention";
        foreach (string name in (isEmbedded ? RedisOptions : FasterOptions).Where(reader.IsGiven))
        {
            reader.Fail(
                name,
                isEmbedded ? $"is for a Redis, and the store is embedded in the proxy, {why}"
                    : "is for the embedded store, and a Redis is given",
                isEmbedded ? "remove it, or name the Redis with --redis or --redis-server"
                    : "remove it, or leave out --redis and --redis-server");
        }

        foreach (string name in PastOptions.Where(n => isEmbedded && reader.IsGiven(n) && !reader.IsGiven("retention")))
        {
            reader.Fail(name, $"is for a Redis, or for the past of the embedded store (--retention), and the store is embedded, {why}",
                "remove it, give --retention, or name the Redis with --redis or --redis-server");
        }

        if (isEmbedded && options.Commit != CommitMode.Faster)
        {
            reader.Fail("commit", $"is for a Redis, and the store is embedded in the proxy, {why}",
                "remove it: the embedded store commits by its own checkpoints; or name the Redis with --redis or --redis-server");
        }

        if (!isEmbedded && options.Commit == CommitMode.Faster)
        {
            reader.Fail("commit", "faster is for the embedded store, and a Redis is given",
                "give log, bgsave or none, or leave out --redis and --redis-server; with --retention, --redis-server may name the program "
                    + "that shows the past of the embedded store");
        }

        if (!isEmbedded)
        {
            return;
        }

        if (options.Joins)
        {
            reader.Fail("join", "would make a shard that never owns anything: hash slots do not move to an embedded store yet",
                "have a shard with a Redis join, or make the cluster with this one");
        }

        if (!int.IsPow2(options.FasterStride))
        {
            reader.Fail("faster-stride", $"{options.FasterStride} is not a power of two, and the shards of a cluster would have no "
                + "versions in common", "give 2, 4, 8, 16...");
        }

        if (options.FasterMemoryBytes < 4 * options.FasterPageBytes)
        {
            reader.Fail(
                reader.IsGiven("faster-memory") ? "faster-memory" : "faster-page",
                $"leaves too little: {OptionText.FormatSize(options.FasterMemoryBytes)} are less than four pages of "
                    + $"{OptionText.FormatSize(options.FasterPageBytes)}", "raise --faster-memory or lower --faster-page");
        }
    }
}
