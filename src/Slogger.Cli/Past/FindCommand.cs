// slogger find: the first version at which a condition on some keys came true, and what was done to them in it. Only versions in which one
// of the keys was named can change the condition, and the log says which those are: each of them is asked, in order.
using System.Globalization;
using System.Text;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>A command on one of the keys.</summary>
/// <param name="Key">The key.</param>
/// <param name="Command">Its name and its arguments.</param>
internal sealed record FoundEffect(string Key, IReadOnlyList<string> Command);

/// <summary>What was found.</summary>
/// <param name="Before">The last version at which the condition was not true; null: none is kept.</param>
/// <param name="At">The first at which it was; null: none.</param>
/// <param name="Asked">How many versions were asked.</param>
/// <param name="Commands">What was done to the keys in between.</param>
internal sealed record FindReport(PastInstant? Before, PastInstant? At, int Asked, IReadOnlyList<FoundEffect> Commands) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.FindReport;

    public override void Print(AppHost host)
    {
        if (Before is { } before) { host.Output.WriteLine($"not true: {PastText.Of(before)}"); }
        if (At is { } at) { host.Output.WriteLine($"true:     {PastText.Of(at)}"); }
        foreach (FoundEffect effect in Commands) { host.Output.WriteLine($"  {PastText.Of(effect.Command)}"); }
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# {Asked} versions were asked"));
    }
}

/// <summary>Looks for it.</summary>
internal static class FindCommand
{
    public const string Name = "find";

    private const string What = "What is looked for", When = "when", Sum = "sum", From = "from", To = "to", Origin = "the command line";
    private const int PageMax = 10_000, VersionsMax = 1_000_000;
    private static readonly TimeSpan ToldEvery = TimeSpan.FromSeconds(2);

    private static readonly (string Sign, Func<double, double, bool> Holds)[] s_signs =
    [
        ("<=", (a, b) => a <= b), (">=", (a, b) => a >= b), ("==", (a, b) => a == b), ("!=", (a, b) => a != b), ("<", (a, b) => a < b),
        (">", (a, b) => a > b),
    ];

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(When, What, "LUA", "The condition: an expression of Lua, or a chunk with return. It reads the keys as scripts of Redis do.",
            "none", ""),
        new(Sum, What, "CONDITION", "The expression gives a number, and this is asked of their sum over the shards: \"< 100\".",
            "none: true at one shard is enough", ""),
        new(From, What, "TIME|DURATION|V", "Where it is begun: a time (as --at of slogger get), so long ago, or a version.",
            "all that is kept", ""),
        new(To, What, "TIME|DURATION|V", "Where it ends.", "now, with all that was acknowledged", ""),
        .. PastArguments.Access,
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, IReadOnlyList<string> keys, AppHost host)
    {
        List<OptionError> errors = [];
        string? when = texts.One(When, errors), sumText = texts.One(Sum, errors), since = texts.One(From, errors);
        string? until = texts.One(To, errors);
        if (when is null)
        {
            errors.Add(new OptionError("it is not said what is looked for", Origin,
                "slogger find --when \"tonumber(redis.call('GET', KEYS[1])) < 0\" stock:tea"));
        }
        if (keys.Count == 0) { errors.Add(new OptionError("no key is named", Origin, "name the keys that the condition reads")); }
        Func<double, bool>? sum = sumText is null ? null : SumOf(sumText, errors);
        string[]? from = since is null ? null : PastArguments.InstantOf(From, since, errors);
        string[]? to = PastArguments.InstantOf(To, until ?? "0s", errors);
        bool isFound = false;
        TextWriter progress = Report.Progress(host, texts.Values.ContainsKey(Report.Option));
        CommandResult result = await PastArguments.RunAsync(texts, host, errors, async past =>
        {
            byte[][] names = [.. keys.Distinct().Select(k => Encoding.UTF8.GetBytes(k))];
            var search = new Search(past, names, when!, sum, progress);
            FindReport report = await search.RunAsync(from, to!).ConfigureAwait(false);
            isFound = report.At is not null;
            return report;
        }).ConfigureAwait(false);
        return result != CommandResult.Done || isFound ? result
            : CommandResult.Failed("the condition was true at no version", "look at --from and --to; slogger retention says what is kept");
    }

    private static Func<double, bool>? SumOf(string text, List<OptionError> errors)
    {
        foreach ((string sign, Func<double, double, bool> holds) in s_signs)
        {
            if (!text.TrimStart().StartsWith(sign, StringComparison.Ordinal)) { continue; }
            if (!double.TryParse(text.TrimStart()[sign.Length..], CultureInfo.InvariantCulture, out double limit)) { break; }
            return value => holds(value, limit);
        }
        errors.Add(new OptionError($"--{Sum} \"{text}\" is no condition", Origin, $"write --{Sum} \"< 100\", with <, <=, >, >=, == or !="));
        return null;
    }

    // The condition is an expression, or else a chunk. A number is told as text: as a reply of a script it would lose its fraction.
    private const string Script = """
        local f, e = loadstring('return (\n' .. ARGV[1] .. '\n)')
        if not f then f, e = loadstring(ARGV[1]) end
        if not f then return redis.error_reply('ERR it is no Lua: ' .. e) end
        local v = f()
        if v == nil or v == false then return false elseif v == true then return '1' else return tostring(v) end
        """;

    // The versions in which the keys were named, and the condition at each.
    private sealed class Search(PastCluster past, byte[][] keys, string when, Func<double, bool>? sum, TextWriter progress)
    {
        // By the shard that has them.
        private readonly Dictionary<string, List<byte[]>> _parts = [];
        private int _asked;

        public async Task<FindReport> RunAsync(string[]? from, string[] to)
        {
            PastInstant end = await past.FindAsync(to).ConfigureAwait(false);
            PastInstant? before = from is null ? null : await past.FindAsync(from).ConfigureAwait(false);
            SortedDictionary<long, DateTimeOffset> named = [];
            long first = long.MinValue;
            foreach (byte[] key in keys)
            {
                first = Math.Max(first, await AddAsync(named, key, before?.Version, end.Version).ConfigureAwait(false));
                if (!_parts.TryGetValue(past.CurrentAddress, out List<byte[]>? there)) { _parts[past.CurrentAddress] = there = []; }
                there.Add(key);
            }
            // What was before is to be known.
            before ??= await BeginningAsync(first).ConfigureAwait(false);
            if (before is { } begin && await IsTrueAsync(begin.Version).ConfigureAwait(false)) { return new(null, begin, _asked, []); }
            // All shards have closed it by themselves.
            if (named.Count > 0) { named.TryAdd(end.Version, end.Time); }
            long toldAt = Environment.TickCount64;
            foreach ((long version, DateTimeOffset time) in named.Where(n => n.Key > first))
            {
                if (!await IsCommonAsync(version).ConfigureAwait(false)) { continue; }
                var here = new PastInstant(version, time);
                if (await IsTrueAsync(version).ConfigureAwait(false))
                {
                    return new(before, here, _asked, await CommandsAsync(before?.Version ?? first, version).ConfigureAwait(false));
                }
                before = here;
                if (Environment.TickCount64 - toldAt < ToldEvery.TotalMilliseconds) { continue; }
                toldAt = Environment.TickCount64;
                await progress.WriteLineAsync($"{_asked} of {named.Count} versions, now at {PastText.Of(here.Time)}").ConfigureAwait(false);
            }
            return new(before, null, _asked, []);
        }

        // The first instant that all shards can show; null: of a history that is kept from its first write on there is none before that.
        private async Task<PastInstant?> BeginningAsync(long first)
        {
            try
            {
                PastInstant found = await past.FindAsync(["VERSION", PastCluster.Text(first)]).ConfigureAwait(false);
                return found.Version == first ? found : null;
            }
            catch (ProxyUnreachableException)
            {
                return null;
            }
        }

        // Of several shards only what all of them have closed by themselves is a state that there was: if one has closed it together with
        // later ones, it has less of it than the others.
        private async Task<bool> IsCommonAsync(long version)
        {
            foreach (string address in _parts.Count == 1 ? [] : _parts.Keys.ToArray())
            {
                ProxyReply there = await past.AskAtAsync(address, "DPR.ASOF", "VERSION", PastCluster.Text(version)).ConfigureAwait(false);
                if (there.Items[1].Number != version) { return false; }
            }
            return true;
        }

        private async Task<bool> IsTrueAsync(long version)
        {
            _asked++;
            double total = 0;
            foreach ((string address, List<byte[]> keys) in _parts)
            {
                string[] asked = ["DPR.ASOF", "VERSION", PastCluster.Text(version), "EVAL_RO", Script, PastCluster.Text(keys.Count)];
                byte[][] words = [.. asked.Select(Encoding.UTF8.GetBytes), .. keys, Encoding.UTF8.GetBytes(when)];
                ProxyReply reply = await past.AskAtAsync(address, words).ConfigureAwait(false);
                if (sum is null && !reply.IsNull) { return true; }
                if (sum is null || reply.IsNull) { continue; }
                if (!double.TryParse(reply.Text, CultureInfo.InvariantCulture, out double number))
                {
                    throw new ProxyUnreachableException($"at version {version} the expression gives \"{reply.Text}\", which is no number",
                        "with --sum it has to give a number at each shard");
                }
                total += number;
            }
            return sum?.Invoke(total) ?? false;
        }

        // Returns the version behind which all is known.
        private async Task<long> AddAsync(SortedDictionary<long, DateTimeOffset> named, byte[] key, long? begin, long end)
        {
            long known = long.MinValue;
            await foreach ((long version, DateTimeOffset time, _) in EffectsAsync(key, begin, end, v => known = v)
                .ConfigureAwait(false))
            {
                named[version] = time;
                if (named.Count > VersionsMax)
                {
                    throw new ProxyUnreachableException($"the keys were named in more than {VersionsMax} versions", "give a later --from");
                }
            }
            return known;
        }

        private async Task<IReadOnlyList<FoundEffect>> CommandsAsync(long behind, long until)
        {
            List<FoundEffect> found = [];
            foreach (byte[] key in keys)
            {
                List<FoundEffect> newestFirst = [];
                await foreach ((_, _, string[] command) in EffectsAsync(key, behind, until, _ => { }).ConfigureAwait(false))
                {
                    newestFirst.Add(new(Encoding.UTF8.GetString(key), command));
                }
                found.AddRange(Enumerable.Reverse(newestFirst));
            }
            return found;
        }

        // What was done to a key, from the newest on, page by page.
        private async IAsyncEnumerable<(long Version, DateTimeOffset Time, string[] Command)> EffectsAsync(byte[] key, long? begin,
            long end, Action<long> isKnownBehind)
        {
            for (long? place = null; ;)
            {
                string[] options = ["TO", PastCluster.Text(end), "COUNT", PastCluster.Text(PageMax),
                    .. begin is { } b ? (string[])["FROM", PastCluster.Text(b)] : [],
                    .. place is { } p ? (string[])["BEFORE", PastCluster.Text(p)] : []];
                byte[][] words = ["DPR.HISTORY"u8.ToArray(), key, .. options.Select(Encoding.ASCII.GetBytes)];
                ProxyReply page = await past.AskAsync(words).ConfigureAwait(false);
                isKnownBehind(page.Items[0].Number);
                foreach (ProxyReply effect in page.Items[3].Items.Reverse())
                {
                    yield return (effect.Items[0].Number, PastCluster.TimeOf(effect.Items[1].Number),
                        [.. effect.Items[4].Items.Select(a => a.Text)]);
                }
                if (page.Items[2].Number == 0 || page.Items[3].Items.Count == 0) { yield break; }
                place = page.Items[3].Items[0].Items[3].Number;
            }
        }
    }
}
