// What the commands that read the past show. A reply is a string, a number, nothing, or a list of replies.
using System.Globalization;
using System.Text;
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
        foreach (PastKey key in Keys) { PastText.Write(host.Output, key.Key, key, indent: 0); }
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

/// <summary>A command on a key.</summary>
/// <param name="Version">The version that it is in.</param>
/// <param name="Time">When that ended.</param>
/// <param name="WorldLine">The world-line.</param>
/// <param name="Place">Its place in the shard's log.</param>
/// <param name="Command">Its name and its arguments.</param>
/// <param name="After">The key behind this version, if it was another one before and is asked for; else null.</param>
internal sealed record KeyEffect(long Version, DateTimeOffset Time, long WorldLine, long Place, IReadOnlyList<string> Command,
    PastKey? After);

/// <summary>The history of a key.</summary>
/// <param name="Key">The key.</param>
/// <param name="From">The version behind which it begins.</param>
/// <param name="To">The version with which it ends.</param>
/// <param name="LeftOut">How many commands there are before those that are shown.</param>
/// <param name="Commands">The newest.</param>
internal sealed record HistoryReport(string Key, long From, long To, long LeftOut, IReadOnlyList<KeyEffect> Commands) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.HistoryReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# versions {From + 1} to {To}"));
        if (LeftOut > 0)
        {
            host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
                $"# {LeftOut} older commands are left out (--limit, --to)"));
        }
        if (Commands.Count > 0) { host.Output.WriteLine("# time, version, world-line, command"); }
        foreach (KeyEffect effect in Commands)
        {
            host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
                $"{PastText.Of(effect.Time)}  {effect.Version}  {effect.WorldLine}  {PastText.Of(effect.Command)}"));
            if (effect.After is { } after) { PastText.Write(host.Output, after.Key, after, indent: 2); }
        }
    }
}

/// <summary>How a key has changed.</summary>
[JsonConverter(typeof(JsonStringEnumConverter<KeyChange>))]
internal enum KeyChange
{
    /// <summary>It was not there before.</summary>
    [JsonStringEnumMemberName("new")]
    New,

    /// <summary>It is not there any more.</summary>
    [JsonStringEnumMemberName("gone")]
    Gone,

    /// <summary>It has another value.</summary>
    [JsonStringEnumMemberName("changed")]
    Changed,

    /// <summary>It has the same value, and expires at another time.</summary>
    [JsonStringEnumMemberName("expiry")]
    Expiry,
}

/// <summary>A key that differs.</summary>
/// <param name="Key">The key.</param>
/// <param name="Change">How.</param>
/// <param name="Before">What it was at the first instant; its value only if it is asked for.</param>
/// <param name="After">What it was at the second.</param>
internal sealed record KeyDifference(string Key, KeyChange Change, PastKey Before, PastKey After);

/// <summary>The keys that differ between two instants.</summary>
/// <param name="From">The first.</param>
/// <param name="To">The second.</param>
/// <param name="Named">How many keys commands named in between.</param>
/// <param name="Keys">Those that differ.</param>
internal sealed record DiffReport(PastInstant From, PastInstant To, int Named, IReadOnlyList<KeyDifference> Keys) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.DiffReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine(PastText.Head(From.Version, From.Time));
        host.Output.WriteLine(PastText.Head(To.Version, To.Time));
        foreach (KeyDifference key in Keys)
        {
            host.Output.WriteLine($"{SignOf(key.Change)} {key.Key}");
            if (key.Before.Value is null && key.After.Value is null) { continue; }
            PastText.Write(host.Output, "before", key.Before, indent: 4);
            PastText.Write(host.Output, "after", key.After, indent: 4);
        }
        int Of(KeyChange change) => Keys.Count(k => k.Change == change);
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# {Named} keys were named, {Keys.Count} differ: "
            + $"{Of(KeyChange.New)} new, {Of(KeyChange.Gone)} gone, {Of(KeyChange.Changed)} changed, "
            + $"{Of(KeyChange.Expiry)} with another expiry only"));
    }

    private static char SignOf(KeyChange change) => change switch
    {
        KeyChange.New => '+',
        KeyChange.Gone => '-',
        KeyChange.Changed => '~',
        _ => 'E',
    };
}

/// <summary>A command that was taken back.</summary>
/// <param name="Version">The version that it was in; null: that was not closed any more.</param>
/// <param name="Time">When that ended.</param>
/// <param name="Database">Its database.</param>
/// <param name="Command">Its name and its arguments.</param>
internal sealed record LostCommand(long? Version, DateTimeOffset? Time, int Database, IReadOnlyList<string> Command);

/// <summary>What was taken back at a shard.</summary>
/// <param name="Address">Its address.</param>
/// <param name="Kept">The last version that was kept; null: its log does not say.</param>
/// <param name="Time">When that ended.</param>
/// <param name="Commands">The commands, in order.</param>
internal sealed record LostShard(string Address, long? Kept, DateTimeOffset? Time, IReadOnlyList<LostCommand> Commands);

/// <summary>What a recovery took back.</summary>
/// <param name="WorldLine">The world-line that began with it.</param>
/// <param name="Shards">The shards.</param>
internal sealed record LostReport(long WorldLine, IReadOnlyList<LostShard> Shards) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.LostReport;

    public override void Print(AppHost host)
    {
        foreach (LostShard shard in Shards)
        {
            host.Output.WriteLine(shard is { Kept: { } kept, Time: { } keptAt }
                ? string.Create(CultureInfo.InvariantCulture,
                    $"# {shard.Address}: world-line {WorldLine} began behind {PastText.Of(new PastInstant(kept, keptAt))}")
                : $"# {shard.Address}: not kept here (that part of the log was deleted since, or the shard came later)");
            if (shard.Commands.Count > 0) { host.Output.WriteLine("# time, version, database, command"); }
            foreach (LostCommand lost in shard.Commands)
            {
                string when = lost is { Version: { } version, Time: { } time }
                    ? string.Create(CultureInfo.InvariantCulture, $"{PastText.Of(time)}  {version}") : "not closed  -";
                host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
                    $"{when}  {lost.Database}  {PastText.Of(lost.Command)}"));
            }
        }
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"# {Shards.Sum(s => s.Commands.Count)} commands were taken back"));
    }
}

/// <summary>What a reset has done, or would do.</summary>
/// <param name="Version">The version at whose end the keys are as they were.</param>
/// <param name="Time">When that was.</param>
/// <param name="Keys">How many were written.</param>
/// <param name="Bytes">Bytes of the writes.</param>
/// <param name="ExpectedMs">About how long clients would have to wait, in milliseconds.</param>
/// <param name="HeldMs">How long they waited.</param>
/// <param name="UndoVersion">The version with what was there before; null: nothing was written.</param>
/// <param name="WorldLine">The world-line that has begun; null: none has.</param>
internal sealed record ResetReport(long Version, DateTimeOffset Time, long Keys, long Bytes, long ExpectedMs, long HeldMs,
    long? UndoVersion, long? WorldLine) : Report
{
    /// <summary>About how long.</summary>
    public static string Text(long milliseconds) => milliseconds < 1000 ? "less than a second"
        : string.Create(CultureInfo.InvariantCulture, $"{(milliseconds + 999) / 1000} s");

    protected override JsonTypeInfo Shape => PastReportJson.Default.ResetReport;

    public override void Print(AppHost host)
    {
        string what = string.Create(CultureInfo.InvariantCulture, $"{Keys} keys, {ConsoleText.Bytes(Bytes)}");
        if (UndoVersion is not { } undo)
        {
            host.Output.WriteLine($"would be set back to {PastText.Of(new PastInstant(Version, Time))}: {what}. Nothing was written.");
            host.Output.WriteLine($"Clients would wait for about {Text(ExpectedMs)}, and not while it is prepared.");
            host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
                $"slogger diff --from {Version} shows which keys differ."));
            return;
        }
        host.Output.WriteLine($"set back to {PastText.Of(new PastInstant(Version, Time))}: {what}");
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
            $"clients waited {HeldMs} ms{(WorldLine is { } line ? $", and are told that world-line {line} has begun" : "")}"));
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"to undo it: slogger reset --to {undo}"));
    }
}

/// <summary>How they are written as JSON.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower, Converters = [typeof(MillisecondsJson)])]
[JsonSerializable(typeof(GetReport))]
[JsonSerializable(typeof(RunReport))]
[JsonSerializable(typeof(HistoryReport))]
[JsonSerializable(typeof(DiffReport))]
[JsonSerializable(typeof(LostReport))]
[JsonSerializable(typeof(FindReport))]
[JsonSerializable(typeof(RollReport))]
[JsonSerializable(typeof(RetentionReport))]
[JsonSerializable(typeof(SnapshotManifest))]
[JsonSerializable(typeof(LoadReport))]
[JsonSerializable(typeof(ResetReport))]
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
    public static string Head(long version, DateTimeOffset time) => $"# {Of(new PastInstant(version, time))}";

    public static string Of(PastInstant instant) =>
        string.Create(CultureInfo.InvariantCulture, $"version {instant.Version}, {Of(instant.Time)}");

    public static string Of(DateTimeOffset time) =>
        time.UtcDateTime.ToString("yyyy-MM-dd HH:mm:ss.fff 'UTC'", CultureInfo.InvariantCulture);

    /// <summary>A command in one line. What is long is shortened.</summary>
    public static string Of(IReadOnlyList<string> command) => string.Join(' ', command.Select(Word));

    private static string Word(string text)
    {
        const int Most = 60, Shown = 50;
        return text.Length <= Most ? Quoted(text)
            : string.Create(CultureInfo.InvariantCulture, $"{Quoted(text[..Shown])}...({text.Length} letters)");
    }

    // As redis-cli takes and shows it, where it is no plain word.
    private static string Quoted(string text)
    {
        bool isPlain = text.Length > 0 && !text.Any(c => char.IsWhiteSpace(c) || char.IsControl(c) || c is '"' or '\'' or '\\');
        if (isPlain) { return text; }
        var quoted = new StringBuilder("\"");
        foreach (char c in text)
        {
            quoted.Append(c switch
            {
                '"' or '\\' => $"\\{c}",
                '\n' => "\\n",
                '\r' => "\\r",
                '\t' => "\\t",
                _ when char.IsControl(c) => string.Create(CultureInfo.InvariantCulture, $"\\x{(int)c:x2}"),
                _ => $"{c}",
            });
        }
        return quoted.Append('"').ToString();
    }

    /// <summary>A key with all that is known of it.</summary>
    public static void Write(TextWriter output, string name, PastKey key, int indent)
    {
        string begin = new(' ', indent);
        string? until = key.Expires is { } expires ? $"expires {Of(expires)}" : null;
        if (key.Type == PastKey.None) { output.WriteLine($"{begin}{name}: (none)"); }
        else if (key.Type == "string") { output.WriteLine($"{begin}{name}: {key.Value}{(until is null ? "" : $" ({until})")}"); }
        else
        {
            output.WriteLine($"{begin}{name} ({(until is null ? key.Type : $"{key.Type}, {until}")}):");
            Write(output, key.Value, indent + 2);
        }
    }

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
