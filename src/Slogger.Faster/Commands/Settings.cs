// What CONFIG GET shows: what clients ask Redis for, with the values that describe this store.
namespace Slogger.Faster.Commands;

internal static class Settings
{
    private static readonly KeyValuePair<string, string>[] s_own =
    [
        new("appendonly", "no"),
        new("cluster-enabled", "no"),
        new("databases", "1"),
        new("hz", "10"),
        new("maxclients", "10000"),
        new("maxmemory", "0"),
        new("maxmemory-policy", "noeviction"),
        new("notify-keyspace-events", ""),
        new("proto-max-bulk-len", "16777216"),
        new("requirepass", ""),
        new("save", ""),
        new("slave-read-only", "yes"),
        new("replica-read-only", "yes"),
        new("tcp-keepalive", "300"),
        new("timeout", "0"),
    ];

    public static IEnumerable<KeyValuePair<string, string>> All(EngineOptions options) => s_own.Concat(options.Settings());
}
