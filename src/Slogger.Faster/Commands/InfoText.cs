// The text of INFO: Redis's sections with the fields that clients read and that make sense here.
using System.Globalization;
using System.Text;

namespace Slogger.Faster.Commands;

internal static class InfoText
{
    private static readonly string[] s_default =
        ["Server", "Clients", "Memory", "Persistence", "Stats", "Replication", "CPU", "Errorstats", "Cluster", "Keyspace"];

    /// <summary>The sections that were asked for, in small letters; none: the usual ones.</summary>
    public static string Of(CommandEngine engine, IReadOnlySet<string> asked, long now)
    {
        bool all = asked.Count == 0 || asked.Contains("default") || asked.Contains("all") || asked.Contains("everything");
        var text = new StringBuilder();
        foreach (string section in s_default)
        {
            string name = section.ToLowerInvariant();
            if (!all && !asked.Contains(name)) continue;
            var fields = new OrderedDictionary<string, string>();
            foreach ((string field, string value) in Fields(engine, name, now)) fields[field] = value;
            foreach ((string field, string value) in engine.Options.InfoFields(name)) fields[field] = value;
            if (text.Length > 0) text.Append("\r\n");
            text.Append("# ").Append(section).Append("\r\n");
            foreach ((string field, string value) in fields) text.Append(field).Append(':').Append(value).Append("\r\n");
        }

        return text.ToString();
    }

    private static IEnumerable<(string Field, string Value)> Fields(CommandEngine engine, string section, long now)
    {
        CommandCounts counts = engine.Counts();
        return section switch
        {
            "server" =>
            [
                ("redis_version", ServerCommands.RedisVersion), ("redis_mode", "standalone"), ("os", Environment.OSVersion.ToString()),
                ("arch_bits", "64"), ("process_id", Text(Environment.ProcessId)), ("run_id", engine.Options.RunId), ("tcp_port", "0"),
                ("uptime_in_seconds", Text((now - engine.StartedMs) / 1000)),
                ("uptime_in_days", Text((now - engine.StartedMs) / 86_400_000)),
            ],
            "clients" => [("connected_clients", Text(engine.Connections().Length)), ("blocked_clients", "0")],
            "memory" =>
            [
                ("used_memory", Text(Environment.WorkingSet)), ("used_memory_rss", Text(Environment.WorkingSet)), ("maxmemory", "0"),
                    ("maxmemory_policy", "noeviction"),
            ],
            "persistence" => [("loading", "0"), ("rdb_bgsave_in_progress", "0"), ("aof_enabled", "0")],
            "stats" =>
            [
                ("total_connections_received", Text(counts.Connections)), ("total_commands_processed", Text(counts.Commands)),
                ("total_net_input_bytes", Text(counts.InputBytes)),
                ("expired_keys", Text(engine.Expired)), ("evicted_keys", "0"),
                ("keyspace_hits", Text(counts.Hits)), ("keyspace_misses", Text(counts.Misses)),
                ("pubsub_channels", Text(engine.PubSub.ChannelCount)), ("pubsub_patterns", Text(engine.PubSub.PatternCount)),
                ("total_error_replies", Text(counts.Errors)),
            ],
            "replication" =>
            [
                ("role", engine.IsFollowing ? "slave" : "master"), ("connected_slaves", "0"),
                ("master_replid", engine.Options.RunId), ("master_repl_offset", "0"),
            ],
            "cpu" =>
                [("used_cpu_user", Seconds(Environment.CpuUsage.UserTime)), ("used_cpu_sys", Seconds(Environment.CpuUsage.PrivilegedTime))],
            "cluster" => [("cluster_enabled", "0")],
            "keyspace" when engine.Keys.Count > 0 =>
                [("db0", $"keys={Text(engine.Keys.Count)},expires={Text(engine.Keys.Expiring)},avg_ttl=0")],
            _ => [],
        };
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    private static string Seconds(TimeSpan time) => time.TotalSeconds.ToString("F6", CultureInfo.InvariantCulture);
}
