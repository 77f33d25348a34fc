// What slogger get and slogger run show. A reply is a string, a number, nothing, or a list of replies.
using System.Globalization;
using System.Text.Json.Nodes;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Past;

/// <summary>A key at an instant.</summary>
/// <param name="Key">Its name.</param>
/// <param name="Type">Its type; "none": there was no such key.</param>
/// <param name="Expires">When it was to expire; null: never.</param>
/// <param name="Value">Its value, as the command that reads it all replies.</param>
internal sealed record PastKey(string Key, string Type, DateTimeOffset? Expires, JsonNode? Value)
{
    public const string None = "none";
}

/// <summary>Keys at an instant.</summary>
/// <param name="Version">The version at whose end they are shown.</param>
/// <param name="Time">When that was.</param>
/// <param name="Keys">The keys.</param>
internal sealed record GetReport(long Version, DateTimeOffset Time, IReadOnlyList<PastKey> Keys) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.GetReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(Version, Time));
        foreach (PastKey key in Keys)
        {
            string? until = key.Expires is { } expires ? $"expires {PastText.Of(expires)}" : null;
            if (key.Type == PastKey.None) { host.Output.WriteLine($"{key.Key}: (none)"); }
            else if (key.Type == "string")
            {
                host.Output.WriteLine($"{key.Key}: {key.Value}{(until is null ? "" : $" ({until})")}");
            }
            else
            {
                host.Output.WriteLine($"{key.Key} ({(until is null ? key.Type : $"{key.Type}, {until}")}):");
                PastText.Write(host.Output, key.Value, indent: 2);
            }
        }
    }
}

/// <summary>What a command would have read.</summary>
/// <param name="Version">The version at whose end it reads.</param>
/// <param name="Time">When that was.</param>
/// <param name="Reply">The reply.</param>
internal sealed record RunReport(long Version, DateTimeOffset Time, JsonNode? Reply) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.RunReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(Version, Time));
        PastText.Write(host.Output, Reply, indent: 0);
    }
}

/// <summary>How they are written as JSON.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower, Converters = [typeof(MillisecondsJson)])]
[JsonSerializable(typeof(GetReport))]
[JsonSerializable(typeof(RunReport))]
[JsonSerializable(typeof(RetentionReport))]
[JsonSerializable(typeof(SnapshotManifest))]
[JsonSerializable(typeof(LoadReport))]
internal sealed partial class PastReportJson : JsonSerializerContext;

/// <summary>Replies as JSON.</summary>
internal static class ReplyJson
{
    public static JsonNode? Of(ProxyReply? reply) => reply switch
    {
        null or { IsNull: true } => null,
        { Kind: '*' } => new JsonArray([.. reply.Items.Select(Of)]),
        { Kind: ':' } => JsonValue.Create(reply.Number),
        _ => JsonValue.Create(reply.Text),
    };
}

/// <summary>The same for people.</summary>
internal static class PastText
{
    public static string Head(long version, DateTimeOffset time) =>
        string.Create(CultureInfo.InvariantCulture, $"# version {version}, {Of(time)}");

    public static string Of(DateTimeOffset time) =>
        time.UtcDateTime.ToString("yyyy-MM-dd HH:mm:ss.fff 'UTC'", CultureInfo.InvariantCulture);

    /// <summary>A line for each value, indented by how deep it is.</summary>
    public static void Write(TextWriter output, JsonNode? value, int indent)
    {
        if (value is not JsonArray items)
        {
            output.WriteLine(new string(' ', indent) + (value is null ? "(none)" : value.ToString()));
            return;
        }
        if (items.Count == 0) { output.WriteLine(new string(' ', indent) + "(empty)"); }
        foreach (JsonNode? item in items) { Write(output, item, item is JsonArray ? indent + 2 : indent); }
    }
}
