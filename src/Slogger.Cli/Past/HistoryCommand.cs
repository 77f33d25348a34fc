// slogger history: what was done to a key, newest last.
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>Shows the commands on a key.</summary>
internal static class HistoryCommand
{
    public const string Name = "history";

    private const string What = "What is shown", From = "from", To = "to", Values = "values", Limit = "limit";
    private const int LimitDefault = 100, LimitMax = 1_000_000;

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(From, What, "TIME|DURATION|V", "What was done since a time (as --at of slogger get), since so long ago, or behind a version.",
            "all that is kept", ""),
        new(To, What, "TIME|DURATION|V", "What was done until then.", "now, with all that was acknowledged", ""),
        new(Limit, What, "N", "How many commands: the newest.", "100", ""),
        new(Values, What, "", "Show the value, too, behind each version in which it changed.", "", "") { Shape = OptionShape.Flag },
        .. PastArguments.Access,
    ];

    public static Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> keys, AppHost host)
    {
        List<OptionError> errors = [];
        if (keys.Count != 1) { errors.Add(new OptionError("one key is needed", "the command line", "slogger history --from 10m KEY")); }
        string? since = texts.One(From, errors), until = texts.One(To, errors), most = texts.One(Limit, errors);
        string[]? from = since is null ? null : PastArguments.InstantOf(From, since, errors);
        string[]? to = until is null ? null : PastArguments.InstantOf(To, until, errors);
        int limit = LimitDefault;
        if (most is not null && !OptionText.Number(1, LimitMax)(most, out limit, out string problem))
        {
            errors.Add(new OptionError($"--{Limit} \"{most}\" {problem}", "the command line", $"write --{Limit} {LimitDefault}"));
        }
        return PastArguments.RunAsync(texts, host, errors, async past =>
        {
            long? begin = from is null ? null : (await past.FindThereAsync(from).ConfigureAwait(false)).Version;
            long? end = to is null ? null : (await past.FindThereAsync(to).ConfigureAwait(false)).Version;
            byte[] key = Encoding.UTF8.GetBytes(keys[0]);
            HistoryReport report = await ReadAsync(past, key, begin, end, limit).ConfigureAwait(false);
            return texts.Values.ContainsKey(Values)
                ? report with { Commands = await WithValuesAsync(past, key, report.Commands).ConfigureAwait(false) } : report;
        });
    }

    private static async Task<HistoryReport> ReadAsync(PastCluster past, byte[] key, long? begin, long? end, int limit)
    {
        List<KeyEffect> found = [];
        long from = 0, to = 0, leftOut = 0;
        await foreach (HistoryPage page in KeyHistoryPages.ReadAsync(past, key, begin, end, () => limit - found.Count)
            .ConfigureAwait(false))
        {
            (from, to) = (page.From, Math.Max(to, page.To));
            KeyEffect[] newest = [.. page.Commands.TakeLast(limit - found.Count).Select(EffectOf)];
            found.InsertRange(0, newest);
            if (found.Count == limit) { leftOut += page.LeftOut + page.Commands.Count - newest.Length; }
        }
        return new HistoryReport(Encoding.UTF8.GetString(key), from, to, leftOut, found);
    }

    private static KeyEffect EffectOf(ProxyReply item) => new(item.Items[0].Number, PastCluster.TimeOf(item.Items[1].Number),
        item.Items[2].Number, item.Items[3].Number, [.. item.Items[4].Items.Select(a => a.Text)], null);

    private static async Task<IReadOnlyList<KeyEffect>> WithValuesAsync(PastCluster past, byte[] key, IReadOnlyList<KeyEffect> effects)
    {
        List<KeyEffect> shown = [];
        (string Type, DateTimeOffset? Expires, string Value)? last = null;
        for (int i = 0; i < effects.Count; i++)
        {
            KeyEffect effect = effects[i];
            if (i + 1 == effects.Count || effects[i + 1].Version != effect.Version)
            {
                PastValue value = await PastValue.ReadAsync(past, new(effect.Version, effect.Time), key).ConfigureAwait(false);
                (string, DateTimeOffset?, string) now = (value.Type, value.Expires, value.Fingerprint());
                if (now != last) { effect = effect with { After = value.Shown(key) }; }
                last = now;
            }
            shown.Add(effect);
        }
        return shown;
    }
}
