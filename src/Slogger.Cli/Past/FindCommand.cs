// slogger find: the first version at which a condition on some keys came true, and what was done to them in it. Only versions in which one
// of the keys was named can change the condition, and the log says which those are: each of them is asked, in order. Of a condition on the
// whole store WholeSearch finds it.
using System.Globalization;
using System.Text;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>A command on one of the keys.</summary>
/// <param name="Key">The key; null: the whole store was looked at.</param>
/// <param name="Command">Its name and its arguments.</param>
internal sealed record FoundEffect(string? Key, IReadOnlyList<string> Command);

/// <summary>What was found.</summary>
/// <param name="Before">The last version at which the condition was not true; null: none is kept.</param>
/// <param name="At">The first at which it was; null: none.</param>
/// <param name="IsFirst">Whether it was not true at any version before that was to be asked.</param>
/// <param name="Asked">How many versions were asked.</param>
/// <param name="LeftOut">How many commands there are before those that are shown.</param>
/// <param name="Commands">What was done in between.</param>
internal sealed record FindReport(PastInstant? Before, PastInstant? At, bool IsFirst, int Asked, long LeftOut,
    IReadOnlyList<FoundEffect> Commands) : Report
{
    protected override JsonTypeInfo Shape => PastReportJson.Default.FindReport;

    public override void Print(AppHost host)
    {
        if (Before is { } before) { host.Output.WriteLine($"not true: {PastText.Of(before)}"); }
        if (At is { } at) { host.Output.WriteLine($"true:     {PastText.Of(at)}"); }
        if (LeftOut > 0) { host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# {LeftOut} older commands are left out")); }
        foreach (FoundEffect effect in Commands) { host.Output.WriteLine($"  {PastText.Of(effect.Command)}"); }
        host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"# {Asked} versions were asked"));
        if (!IsFirst) { host.Output.WriteLine("# It may have been true before, too: only --first asks all versions."); }
    }
}

/// <summary>Looks for it.</summary>
internal static class FindCommand
{
    public const string Name = "find";

    private const string What = "What is looked for", When = "when", Sum = "sum", From = "from", To = "to", First = "first";
    private const string Step = "step", Bisect = "bisect", Origin = "the command line";
    private const int VersionsMax = 1_000_000;
    private static readonly TimeSpan ToldEvery = TimeSpan.FromSeconds(2), StepMin = TimeSpan.FromMilliseconds(1);
    private static readonly TimeSpan StepMax = TimeSpan.FromDays(3650);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(When, What, "LUA", "The condition: an expression of Lua, or a chunk with return. It reads the keys as scripts of Redis do.",
            "none", ""),
        new(Sum, What, "CONDITION", "The expression gives a number, and this is asked of their sum over the shards: \"< 100\".",
            "none: true at one shard is enough", ""),
        new(From, What, "TIME|DURATION|V", "Where it is begun: a time (as --at of slogger get), so long ago, or a version.",
            "all that is kept", ""),
        new(To, What, "TIME|DURATION|V", "Where it ends.", "now, with all that was acknowledged", ""),
        new(First, What, "", "The condition is on the whole store, and no key is named. Every version is asked in which something was "
            + "done.", "", "") { Shape = OptionShape.Flag },
        new(Step, What, "DURATION", "With --first: ask so often only. What is found is the first of those.", "none: every version", ""),
        new(Bisect, What, "", "The condition is on the whole store. Few versions are asked, and what is found need not be the first.",
            "", "") { Shape = OptionShape.Flag },
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
        bool isFirst = texts.Values.ContainsKey(First), isBisect = texts.Values.ContainsKey(Bisect), isWhole = isFirst || isBisect;
        if (keys.Count == 0 && !isWhole)
        {
            errors.Add(new OptionError("no key is named", Origin,
                $"name the keys that the condition reads, or give --{First}: then it is on the whole store"));
        }
        if (keys.Count > 0 && isWhole)
        {
            errors.Add(new OptionError("a key is named, and the condition is on the whole store", Origin,
                $"name no key, or leave out --{First} and --{Bisect}"));
        }
        if (isFirst && isBisect)
        {
            errors.Add(new OptionError($"--{First} and --{Bisect} exclude each other", Origin, "give one of them"));
        }
        TimeSpan? step = StepOf(texts.One(Step, errors), isFirst, errors);
        var condition = new FindCondition(when ?? "", sumText is null ? null : FindCondition.SumOf(Sum, sumText, errors));
        string[]? from = since is null ? null : PastArguments.InstantOf(From, since, errors);
        string[]? to = PastArguments.InstantOf(To, until ?? "0s", errors);
        bool isFound = false;
        TextWriter progress = Report.Progress(host, texts.Values.ContainsKey(Report.Option));
        CommandResult result = await PastArguments.RunAsync(texts, host, errors, async past =>
        {
            byte[][] names = [.. keys.Distinct().Select(k => Encoding.UTF8.GetBytes(k))];
            var whole = new WholeSearch(past, condition, progress);
            FindReport report = await (isBisect ? whole.BisectAsync(from, to!) : isFirst ? whole.FirstAsync(from, to!, step)
                : new Search(past, names, condition, progress).RunAsync(from, to!)).ConfigureAwait(false);
            isFound = report.At is not null;
            return report;
        }).ConfigureAwait(false);
        return result != CommandResult.Done || isFound ? result
            : isBisect ? CommandResult.Failed("the condition is not true at the end",
                $"--{Bisect} looks between an instant at which it is not true and one at which it is: look at --{To}, or use --{First}")
            : CommandResult.Failed("the condition was true at no version", "look at --from and --to; slogger retention says what is kept");
    }

    private static TimeSpan? StepOf(string? text, bool isFirst, List<OptionError> errors)
    {
        if (text is null) { return null; }
        if (!isFirst) { errors.Add(new OptionError($"--{Step} goes with --{First}", Origin, $"give --{First}, too, or leave it out")); }
        if (OptionText.Duration(StepMin, StepMax)(text, out TimeSpan step, out string problem)) { return step; }
        errors.Add(new OptionError($"--{Step} \"{text}\" {problem}", Origin, $"write --{Step} 1s"));
        return null;
    }

    // The versions in which the keys were named, and the condition at each.
    private sealed class Search(PastCluster past, byte[][] keys, FindCondition condition, TextWriter progress)
    {
        // Keys of one slot are together at every version: a part has these.
        private readonly List<Part> _parts = [];
        private int _asked;

        public async Task<FindReport> RunAsync(string[]? from, string[] to)
        {
            PastInstant end = await past.FindAsync(to).ConfigureAwait(false);
            PastInstant? before = from is null ? null : await past.FindAsync(from).ConfigureAwait(false);
            SortedDictionary<long, DateTimeOffset> named = [];
            long first = long.MinValue;
            Dictionary<long, Part> bySlot = [];
            foreach (byte[] key in keys)
            {
                long slot = await past.SlotOfAsync(key).ConfigureAwait(false);
                if (!bySlot.TryGetValue(slot, out Part? part)) { _parts.Add(bySlot[slot] = part = new()); }
                part.Keys.Add(key);
                first = Math.Max(first, await AddAsync(named, key, part, before?.Version, end.Version).ConfigureAwait(false));
            }
            // What was before is to be known.
            before ??= await BeginningAsync(first).ConfigureAwait(false);
            if (before is { } begin && await IsTrueAsync(begin.Version).ConfigureAwait(false)) { return Found(null, begin, []); }
            // All shards have closed it by themselves.
            if (named.Count > 0) { named.TryAdd(end.Version, end.Time); }
            long toldAt = Environment.TickCount64;
            foreach ((long version, DateTimeOffset time) in named.Where(n => n.Key > first))
            {
                if (!await IsCommonAsync(version).ConfigureAwait(false)) { continue; }
                var here = new PastInstant(version, time);
                if (await IsTrueAsync(version).ConfigureAwait(false))
                {
                    return Found(before, here, await CommandsAsync(before?.Version ?? first, version).ConfigureAwait(false));
                }
                before = here;
                if (Environment.TickCount64 - toldAt < ToldEvery.TotalMilliseconds) { continue; }
                toldAt = Environment.TickCount64;
                await progress.WriteLineAsync($"{_asked} of {named.Count} versions, now at {PastText.Of(here.Time)}").ConfigureAwait(false);
            }
            return Found(before, null, []);
        }

        private FindReport Found(PastInstant? before, PastInstant? at, IReadOnlyList<FoundEffect> commands) =>
            new(before, at, IsFirst: true, _asked, LeftOut: 0, commands);

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
            string[] shards = [.. _parts.Select(p => p.AddressAt(version)).Distinct()];
            foreach (string address in shards.Length == 1 ? [] : shards)
            {
                ProxyReply there = await past.AskAtAsync(address, "DPR.ASOF", "VERSION", PastCluster.Text(version)).ConfigureAwait(false);
                if (there.Items[1].Number != version) { return false; }
            }
            return true;
        }

        private Task<bool> IsTrueAsync(long version)
        {
            _asked++;
            return condition.IsTrueAsync(version, _parts.Select(part =>
            {
                string[] asked = ["DPR.ASOF", "VERSION", PastCluster.Text(version), "EVAL_RO", FindCondition.Script,
                    PastCluster.Text(part.Keys.Count)];
                byte[][] words = [.. asked.Select(Encoding.UTF8.GetBytes), .. part.Keys, Encoding.UTF8.GetBytes(condition.When)];
                return past.AskAtAsync(part.AddressAt(version), words);
            }));
        }

        // Returns the version behind which all is known.
        private async Task<long> AddAsync(SortedDictionary<long, DateTimeOffset> named, byte[] key, Part part, long? begin, long end)
        {
            long known = long.MinValue;
            await foreach (HistoryPage page in PagesAsync(key, begin, end).ConfigureAwait(false))
            {
                known = page.From;
                part.Note(page);
                foreach (ProxyReply effect in page.Commands) { Add(effect.Items[0].Number, effect.Items[1].Number); }
                // A key that expired while it moved was named by neither shard.
                if (page.Earlier > 0)
                {
                    ProxyReply landing = await past.AskAtAsync(page.Address, "DPR.ASOF", "VERSION", PastCluster.Text(page.Earlier))
                        .ConfigureAwait(false);
                    Add(landing.Items[1].Number, landing.Items[2].Number);
                }
            }
            return known;

            void Add(long version, long timeUs)
            {
                named[version] = PastCluster.TimeOf(timeUs);
                if (named.Count > VersionsMax)
                {
                    throw new ProxyUnreachableException($"the keys were named in more than {VersionsMax} versions", "give a later --from");
                }
            }
        }

        private async Task<IReadOnlyList<FoundEffect>> CommandsAsync(long behind, long until)
        {
            List<FoundEffect> found = [];
            foreach (byte[] key in keys)
            {
                string name = Encoding.UTF8.GetString(key);
                List<FoundEffect> ofKey = [];
                await foreach (HistoryPage page in PagesAsync(key, behind, until).ConfigureAwait(false))
                {
                    ofKey.InsertRange(0, page.Commands.Select(c => new FoundEffect(name, [.. c.Items[4].Items.Select(a => a.Text)])));
                }
                found.AddRange(ofKey);
            }
            return found;
        }

        private IAsyncEnumerable<HistoryPage> PagesAsync(byte[] key, long? begin, long end) =>
            KeyHistoryPages.ReadAsync(past, key, begin, end, () => int.MaxValue);

        private sealed class Part
        {
            // The newest first: from which version on it had the slot.
            private readonly List<(long From, string Address)> _shards = [];

            public List<byte[]> Keys { get; } = [];

            public void Note(HistoryPage page)
            {
                if (_shards.Count == 0 || page.From < _shards[^1].From) { _shards.Add((page.From, page.Address)); }
            }

            public string AddressAt(long version) => (_shards.Any(s => s.From <= version) ? _shards.First(s => s.From <= version)
                : _shards[^1]).Address;
        }
    }
}
