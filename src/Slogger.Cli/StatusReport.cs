// What slogger status prints. The fields are DPR.INFO's name:value lines; names that this build does not know are kept in
// --json and listed at the end of the table, so that a newer proxy loses nothing.
using System.Globalization;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Resp;
using Spectre.Console;

namespace Slogger.Cli;

/// <summary>Reads and prints the fields of DPR.INFO.</summary>
internal static class StatusReport
{
    // Shown in rows of their own or within another's; everything else is listed at the end as it came.
    private static readonly HashSet<string> Known =
    [
        "node", "node_role", "reign", "leader", "commit_version", "lease", "members", "takeovers",
        "role", "stream", "applied", "applied_time_us", "applied_age_ms", "held", "watermark", "silent_ms",
        "mode", "cluster", "shard", "worldline", "open_version", "durable_version", "committed_version", "version_interval_us",
        "lag_marker_ms", "lag_log_ms", "lag_sync_ms", "lag_record_ms", "lag_commit_ms", "stride",
        "log_bytes", "log_offset", "log_tail_bytes", "checkpoint_last_unix",
            "checkpoint_last_bytes",
        "memory_bytes", "memory_live_bytes", "memory_limit_bytes", "disk_bytes", "keys", "commits_kept", "commit_last_ms",
        "rollback_ready", "rollbacks_in_place", "rollbacks_full", "rollback_last_keys", "rollback_last_ms",
        "clients", "clients_dedicated", "ops_per_sec", "store", "store_state", "metadata_state", "uptime_s", "version",
        "backup", "backup_state", "backup_problem", "backup_watermark", "backup_watermark_worldline", "backup_lag_ms", "backup_log_bytes",
            "backup_received_bytes", "backup_durable_bytes",
        "backup_sent_bytes", "backup_bytes_per_sec", "backup_sends_windows", "backup_spared_bytes",
            "backup_window_used_bytes", "backup_kept_bytes", "backup_budget_bytes", "writes_held",
    ];

    // Names stay strings in JSON even if they look like numbers.
    private static readonly HashSet<string> Texts = ["mode", "cluster", "store", "store_state", "metadata_state", "version", "backup",
        "backup_state", "backup_problem", "role", "applied", "held", "watermark", "node", "node_role", "leader", "lease", "members"];

    /// <summary>One JSON object with every field in its order; numbers as numbers.</summary>
    public static string ToJson(IReadOnlyList<KeyValuePair<string, string>> fields)
    {
        using MemoryStream stream = new();
        using (Utf8JsonWriter writer =
            new(stream, new JsonWriterOptions { Indented = true, Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping }))
        {
            writer.WriteStartObject();
            foreach ((string name, string value) in fields)
            {
                writer.WritePropertyName(name);
                if (!Texts.Contains(name)
                    && decimal.TryParse(value, NumberStyles.AllowLeadingSign | NumberStyles.AllowDecimalPoint,
                    CultureInfo.InvariantCulture, out decimal number))
                {
                    writer.WriteNumberValue(number);
                }
                else
                {
                    writer.WriteStringValue(value);
                }
            }

            writer.WriteEndObject();
        }

        return Encoding.UTF8.GetString(stream.ToArray());
    }

    /// <summary>The table for a person. <paramref name="now"/> dates the last checkpoint.</summary>
    public static void Print(IReadOnlyList<KeyValuePair<string, string>> fields, ListenAddress address, AppHost host, DateTimeOffset now)
    {
        Dictionary<string, string> values = new(fields);
        string Get(string name) => values.GetValueOrDefault(name, "?");
        string Size(string name) => ConsoleText.Bytes(Get(name));
        Table table = new Table { Border = TableBorder.Rounded,
            Title = new TableTitle(Markup.Escape($"shard {Get("shard")} of cluster {Get("cluster")} at {address}")) }
            .HideHeaders().AddColumn("").AddColumn("");
        void Row(string name, string value, Color? colour = null)
            => table.AddRow(new Text(name, new Style(Color.Grey)), new Text(value, new Style(colour)));

        // A backup has no versions of its own, and asks nobody whether its metadata is there.
        bool isBackup = Get("role") is "backup" or "follower", isNode = values.ContainsKey("node");
        Row("store", Join(Get("store"), State(Get("store_state"))), StateColour(Get("store_state")));
        if (!isBackup) { Row("metadata", State(Get("metadata_state")), StateColour(Get("metadata_state"))); }
        Row("commit mode", Join(Get("mode"), values.TryGetValue("version_interval_us", out string? interval) ? "versions of "
            + Interval(interval) + (Get("stride") is "1" or "?" ? "" : $", every {Get("stride")}th is closed") : ""));
        Row("world-line", Get("worldline"));
        if (isNode)
        {
            string doing = Get("node_role") == "leads" ? Get("lease") == "held" ? "leads" : "leads without a lease, and answers nobody"
                : $"{Get("node_role")}, leader: {Get("leader")}";
            Row("node", $"{Get("node")} of {Get("members")}: {doing}", doing == "leads" || Get("node_role") == "follows" ? Color.Green
                : Color.Yellow);
            Row("reign", $"{Get("reign")}, takeovers by this process: {Count(Get("takeovers"))}");
            Row("majority has", $"version {Get("commit_version")}");
        }
        if (isBackup)
        {
            Row("readers see", Join(Get("applied"), values.TryGetValue("applied_age_ms", out string? age) ? $"closed {age} ms ago" : ""));
        }
        if (isBackup && !isNode)
        {
            Row("held", Get("held"));
            Row("watermark", Get("watermark"));
            Row("its primary", Get("silent_ms") == "-1" ? "never heard" : $"heard {Get("silent_ms")} ms ago");
        }
        if (!isBackup)
        {
            Row("open version", Get("open_version"));
            Row("durable version", Join(Get("durable_version"), Behind(values, "open_version", "durable_version")));
            Row("recorded cut", Join(Get("committed_version"), Behind(values, "open_version", "committed_version")));
            Row("lag", $"marker {Get("lag_marker_ms")} ms, log {Get("lag_log_ms")} ms, sync {Get("lag_sync_ms")} ms, record "
                + $"{Get("lag_record_ms")} ms, commit {Get("lag_commit_ms")} ms");
        }
        if (values.ContainsKey("memory_bytes"))
        {
            Row("memory", $"{Size("memory_bytes")} of {Size("memory_limit_bytes")}, {Size("memory_live_bytes")} in use, "
                + $"{Count(Get("keys"))} keys");
            Row("disk", $"{Size("disk_bytes")}, {Count(Get("commits_kept"))} commits, the last in {Get("commit_last_ms")} ms");
        }
        else if (values.ContainsKey("log_bytes") || !isBackup)
        {
            string upTo = values.TryGetValue("log_offset", out string? offset) ? "up to offset " + Count(offset) : "";
            Row("log", Join(Size("log_bytes"), upTo));
            string checkpoint = Checkpoint(Get("checkpoint_last_unix"), Get("checkpoint_last_bytes"), now);
            Row("last checkpoint", Join(checkpoint, values.ContainsKey("log_tail_bytes") ? Size("log_tail_bytes") + " of log since" : ""));
        }
        // A shard alone never rolls back beside another.
        if (values.ContainsKey("finder") && values.ContainsKey("rollback_ready"))
        {
            Row("rollback", Get("rollback_ready") == "1" ? "would go back in place" : "would restore everything");
            Row("rollbacks", $"{Count(Get("rollbacks_in_place"))} in place, {Count(Get("rollbacks_full"))} full");
            if (Get("rollback_last_ms") is not ("0" or "?"))
            {
                Row("last rollback", $"{Count(Get("rollback_last_keys"))} keys in {Get("rollback_last_ms")} ms");
            }
        }
        if (values.TryGetValue("backup", out string? backup))
        {
            string state = Get("backup_state"), problem = Get("backup_problem");
            Row("backup", Join($"{backup}: {state}", problem is "none" or "?" ? "" : problem),
                state == "shipping" ? Color.Green : Color.Yellow);
            if (values.ContainsKey("backup_watermark"))
            {
                Row("at the backup", $"up to version {Get("backup_watermark")} of world-line {Get("backup_watermark_worldline")}, "
                    + $"{Get("backup_lag_ms")} ms behind the cut");
                Row("shipping", $"{Size("backup_bytes_per_sec")} per second, {Size("backup_window_used_bytes")} on the way, "
                    + $"{Size("backup_sent_bytes")} sent"
                    + (Get("backup_sends_windows") == "1" ? $", reduced, which has spared {Size("backup_spared_bytes")}" : ""));
                bool holds = Get("writes_held") == "1";
                string kept = Join($"{Size("backup_kept_bytes")} of {Size("backup_budget_bytes")}", holds ? "writes of clients wait" : "");
                Row("kept for the backup", kept, holds ? Color.Yellow : null);
            }
        }
        Row("clients", Join(Count(Get("clients")), Get("clients_dedicated") is not ("0" or "?") and var own ? Count(own)
            + " with a connection of their own" : ""));
        Row("operations", Count(Get("ops_per_sec")) + " per second");
        Row("proxy", $"version {Get("version")}, up for {ConsoleText.Age(Get("uptime_s"))}");
        foreach ((string name, string value) in fields.Where(field => !Known.Contains(field.Key)))
        {
            Row(name, value);
        }

        IAnsiConsole console = ConsoleText.ConsoleOf(host);
        console.Write(table);
    }

    private static string Checkpoint(string unix, string bytes, DateTimeOffset now)
        => long.TryParse(unix, NumberStyles.None, CultureInfo.InvariantCulture, out long seconds) && seconds > 0
            ? $"{ConsoleText.Age(now.ToUnixTimeSeconds() - seconds)} ago, {ConsoleText.Bytes(bytes)}"
            : "none";

    private static string Behind(Dictionary<string, string> values, string ahead, string name)
    {
        bool ok = long.TryParse(values.GetValueOrDefault(ahead), NumberStyles.None, CultureInfo.InvariantCulture, out long first)
            & long.TryParse(values.GetValueOrDefault(name), NumberStyles.None, CultureInfo.InvariantCulture, out long second);
        return ok && first >= second ? Invariant($"{first - second} behind the open one") : "";
    }

    private static string Interval(string microseconds)
        => long.TryParse(microseconds, NumberStyles.None, CultureInfo.InvariantCulture, out long number)
            && number <= (long)ServeOptions.VersionIntervalMax.TotalMicroseconds
            ? OptionText.FormatDuration(TimeSpan.FromMicroseconds(number))
            : microseconds + " us";

    private static string Count(string text)
        => decimal.TryParse(text, NumberStyles.AllowDecimalPoint, CultureInfo.InvariantCulture, out decimal number)
            ? number.ToString("#,0", CultureInfo.InvariantCulture) : text;

    /// <summary>Whether nobody need look at this state of a store, or of the metadata.</summary>
    public static bool IsWell(string state) => state is "serving" or "serving reads" or "available";

    private static Color? StateColour(string state) => IsWell(state) ? Color.Green : state is "?" ? null : Color.Yellow;

    private static string State(string state) => state == "?" ? "unknown" : state;

    private static string Join(string first, string second) => second.Length == 0 ? first : first + ", " + second;

    private static string Invariant(FormattableString text) => FormattableString.Invariant(text);
}
