// slogger retention: how far back the past of each shard can be read, and what was promised.
using System.Globalization;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Past;

/// <summary>How far back all shards go.</summary>
/// <param name="From">The time from which all of them can be read; null: one of them cannot be.</param>
/// <param name="Shards">Each of them.</param>
internal sealed record RetentionReport(DateTimeOffset? From, IReadOnlyList<ShardRetention> Shards) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.RetentionReport;

    public override void Print(AppHost host)
    {
        DateTimeOffset now = DateTimeOffset.UtcNow;
        foreach (ShardRetention shard in Shards)
        {
            string reach = shard.From is not { } from ? "nothing can be read yet"
                : $"from version {shard.FromVersion}, {PastText.Of(from)}, {Span(now - from)} ago";
            string detail = shard is not { DetailPromised: { } inDetail, DetailFrom: { } since } ? ""
                : $", in detail from version {shard.DetailFromVersion}, {PastText.Of(since)}, {Span(now - since)} ago ({Span(inDetail)} "
                + $"promised), before that about one in {OptionText.FormatDuration(shard.Step!.Value)}";
            string promise = shard.Promised is not { } promised ? "as far as --log-budget allows"
                : $"{Span(promised)} promised{(shard.IsShort ? ", and not kept: raise --log-budget" : "")}";
            host.Output.WriteLine($"shard {shard.Shard} ({shard.Address}): {reach}{detail}; {promise}; log "
                + ConsoleText.Bytes(shard.LogBytes));
        }
        if (Shards.Count > 1 && From is { } all) { host.Output.WriteLine($"all shards: from {PastText.Of(all)}, {Span(now - all)} ago"); }
    }

    // In its two largest units.
    private static string Span(TimeSpan span)
    {
        (long Count, string Unit)[] parts = [((long)span.TotalDays, "d"), (span.Hours, "h"), (span.Minutes, "min"), (span.Seconds, "s")];
        string[] told = [.. parts.SkipWhile(p => p.Count == 0).Take(2).Where(p => p.Count > 0)
            .Select(p => string.Create(CultureInfo.InvariantCulture, $"{p.Count} {p.Unit}"))];
        return told.Length == 0 ? "0 s" : string.Join(' ', told);
    }
}

/// <summary>How far back a shard goes.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Address">Where its proxy is.</param>
/// <param name="FromVersion">The first version that can be read; 0: none.</param>
/// <param name="From">When that ended; null: none can be read.</param>
/// <param name="Promised">What --retention promises; null: nothing.</param>
/// <param name="IsShort">Whether less is kept than that, though there was more.</param>
/// <param name="LogBytes">The size of its log.</param>
/// <param name="DetailFromVersion">The first version from which on each can be read; 0: none.</param>
/// <param name="DetailFrom">When that ended; null: none can be read.</param>
/// <param name="DetailPromised">What --retention-detail promises; null: it is not given, and all of the past is kept in detail.</param>
/// <param name="Step">How far versions lie apart behind that.</param>
internal sealed record ShardRetention(long Shard, string Address, long FromVersion, DateTimeOffset? From,
    [property: JsonPropertyName("promised_ms")] TimeSpan? Promised, bool IsShort, long LogBytes, long DetailFromVersion,
    DateTimeOffset? DetailFrom, [property: JsonPropertyName("detail_promised_ms")] TimeSpan? DetailPromised,
    [property: JsonPropertyName("step_ms")] TimeSpan? Step);

/// <summary>Asks.</summary>
internal static class RetentionCommand
{
    public const string Name = "retention";

    private static readonly TimeSpan AnswerMax = TimeSpan.FromSeconds(5);

    public static IReadOnlyList<OptionDefinition> Options => PastArguments.Access;

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        ProxyAccess? access = ProxyAccess.Read(texts, texts.One("address", errors), errors);
        if (errors.Count > 0) { return CommandResult.BadOptions(errors); }
        if (access!.Find(host) is { } failure) { return failure; }
        try
        {
            await using ClusterConnections cluster = await ClusterConnections.OpenAsync(access, AnswerMax).ConfigureAwait(false);
            List<ShardRetention> shards = [];
            foreach (string address in await cluster.AddressesAsync().ConfigureAwait(false))
            {
                shards.Add(ShardOf(address, await StatusClient.AskAsync(await cluster.AtAsync(address).ConfigureAwait(false), address)
                    .ConfigureAwait(false)));
            }
            new RetentionReport(shards.Any(s => s.From is null) ? null : shards.Max(s => s.From), shards)
                .Write(host, texts.Values.ContainsKey(Report.Option));
            return shards.Any(s => s.IsShort) ? CommandResult.Failed("less of the past is kept than --retention promises",
                "raise --log-budget, or give a shorter --retention") : CommandResult.Done;
        }
        catch (ProxyUnreachableException e)
        {
            return CommandResult.Failed(e.Message + access.Found, e.Remedy);
        }
    }

    private static ShardRetention ShardOf(string address, IReadOnlyList<KeyValuePair<string, string>> fields)
    {
        long Number(string name) => long.TryParse(fields.FirstOrDefault(f => f.Key == name).Value, NumberStyles.None,
            CultureInfo.InvariantCulture, out long number) ? number : 0;
        if (fields.All(f => f.Key != "past_from_version"))
        {
            throw new ProxyUnreachableException($"the shard at {address} keeps no past that can be read",
                "that needs --commit log and a Redis as the store, or an embedded store with --retention");
        }
        DateTimeOffset? Time(string name) => Number(name) is not 0 and var ms ? DateTimeOffset.FromUnixTimeMilliseconds(ms) : null;
        TimeSpan? Seconds(string name) => Number(name) is not 0 and var seconds ? TimeSpan.FromSeconds(seconds) : null;
        return new(Number("shard"), address, Number("past_from_version"), Time("past_from_unix_ms"), Seconds("retention_s"),
            Number("retention_short") == 1, Number("log_bytes"), Number("past_detail_from_version"), Time("past_detail_from_unix_ms"),
            Seconds("retention_detail_s"), Number("retention_step_ms") is not 0 and var step ? TimeSpan.FromMilliseconds(step) : null);
    }
}
