// slogger diff: which keys differ between two instants. The shards tell which keys commands named in between; these are read at both ends,
// first all at the one, then all at the other: a shard shows one instant at a time.
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>Shows the keys that differ.</summary>
internal static class DiffCommand
{
    public const string Name = "diff";

    private const string What = "What is shown", From = "from", To = "to", Values = "values", Prefix = "prefix",
        Lost = "lost", Now = "0s";

    // A letter for each byte: whatever the bytes are.
    private static readonly Encoding s_exact = Encoding.Latin1;

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(From, What, "TIME|DURATION|V", "The first instant: a time (as --at of slogger get), so long ago, or a version.", "none", ""),
        new(To, What, "TIME|DURATION|V", "The second.", "now, with all that was acknowledged", ""),
        new(Prefix, What, "P", "Only keys that begin so.", "none", ""),
        new(Values, What, "", "Show the values, too.", "", "") { Shape = OptionShape.Flag },
        new(Lost, What, "N", "Show the commands that the recovery took back with which world-line N began. Stands alone.", "none", ""),
        .. PastArguments.Access,
    ];

    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? first = texts.One(From, errors), second = texts.One(To, errors);
        if (texts.One(Lost, errors) is { } line) { return ShowLostAsync(texts, line, errors, host); }
        byte[] prefix = Encoding.UTF8.GetBytes(texts.One(Prefix, errors) ?? "");
        if (first is null)
        {
            errors.Add(new OptionError("the first instant is named by --from", "the command line", "slogger diff --from 10m"));
        }
        string[]? from = first is null ? null : PastArguments.InstantOf(From, first, errors);
        string[]? to = PastArguments.InstantOf(To, second ?? Now, errors);
        return PastArguments.RunAsync(texts, host, errors, async past =>
            await CompareAsync(past, from!, to!, prefix, texts.Values.ContainsKey(Values)).ConfigureAwait(false));
    }

    private static Task<CommandResult> ShowLostAsync(OptionLayer texts, string text, List<OptionError> errors, AppHost host)
    {
        if (!OptionText.Number(2, int.MaxValue)(text, out int line, out string problem))
        {
            errors.Add(new OptionError($"--{Lost} \"{text}\" {problem}", "the command line", $"slogger diff --{Lost} 2"));
        }
        if (new[] { From, To, Prefix, Values }.FirstOrDefault(texts.Values.ContainsKey) is { } other)
        {
            errors.Add(new OptionError($"--{Lost} and --{other} do not go together", "the command line", $"slogger diff --{Lost} 2"));
        }
        return PastArguments.RunAsync(texts, host, errors, async past =>
        {
            List<LostShard> shards = [];
            foreach (string address in await past.Shards.AddressesAsync().ConfigureAwait(false))
            {
                shards.Add(await LostAtAsync(past, address, line).ConfigureAwait(false));
            }
            return new LostReport(line, shards);
        });
    }

    // Page by page.
    private static async Task<LostShard> LostAtAsync(PastCluster past, string address, int line)
    {
        List<LostCommand> commands = [];
        for (long from = 0; ;)
        {
            ProxyConnection proxy = await past.Shards.AtAsync(address).ConfigureAwait(false);
            ProxyReply reply = await proxy.CallAsync("DPR.LOST", PastCluster.Text(line), "FROM", PastCluster.Text(from))
                .ConfigureAwait(false);
            // What others have is shown all the same.
            if (reply.IsError && PastCluster.IsNotKept(reply)) { return new(address, null, null, []); }
            if (reply.IsError) { throw PastCluster.Refused(reply, $"{address}: "); }
            foreach (ProxyReply item in reply.Items[3].Items)
            {
                (long version, long timeUs) = (item.Items[0].Number, item.Items[1].Number);
                commands.Add(new(version == 0 ? null : version, version == 0 ? null : PastCluster.TimeOf(timeUs),
                    (int)item.Items[2].Number, [.. item.Items[3].Items.Select(a => a.Text)]));
            }
            from = reply.Items[2].Number;
            if (from == 0) { return new(address, reply.Items[0].Number, PastCluster.TimeOf(reply.Items[1].Number), commands); }
        }
    }

    private static async Task<Report> CompareAsync(PastCluster past, string[] from, string[] to, byte[] prefix, bool hasValues)
    {
        PastInstant begin = await past.FindAsync(from).ConfigureAwait(false), end = await past.FindAsync(to).ConfigureAwait(false);
        if (begin.Version > end.Version)
        {
            throw new ProxyUnreachableException($"--from is behind --to: version {begin.Version} came after version {end.Version}",
                "name the earlier instant by --from");
        }
        // Of two shards, one after the other, both may name a key.
        var all = new HashSet<string>(StringComparer.Ordinal);
        List<byte[]> named = [];
        foreach ((_, string address) in await past.OwnersOfAllAsync(begin.Version, end.Version).ConfigureAwait(false))
        {
            named.AddRange((await NamedAsync(past, address, begin, end, prefix).ConfigureAwait(false)).Where(all.Add)
                .Select(s_exact.GetBytes));
        }
        List<KeyState> before = await StatesAsync(past, begin, named).ConfigureAwait(false);
        List<KeyState> after = await StatesAsync(past, end, named).ConfigureAwait(false);
        int[] differing = [.. Enumerable.Range(0, named.Count).Where(i => before[i] != after[i])];
        byte[][] keys = [.. differing.Select(i => named[i])];
        List<PastKey> old = hasValues ? await ShownAsync(past, begin, keys).ConfigureAwait(false)
            : [.. differing.Select(i => before[i].Shown(named[i]))];
        List<PastKey> present = hasValues ? await ShownAsync(past, end, keys).ConfigureAwait(false)
            : [.. differing.Select(i => after[i].Shown(named[i]))];
        return new DiffReport(begin, end, named.Count, [.. differing.Select((n, i) => new KeyDifference(old[i].Key,
            KeyState.ChangeOf(before[n], after[n]), old[i], present[i])).OrderBy(d => d.Key, StringComparer.Ordinal)]);
    }

    // The keys that commands at a shard named, each once.
    private static async Task<IEnumerable<string>> NamedAsync(PastCluster past, string address, PastInstant begin, PastInstant end,
        byte[] prefix)
    {
        var named = new SortedSet<string>(StringComparer.Ordinal);
        for (long from = begin.Version; from < end.Version;)
        {
            ProxyReply reply = await past.AskAtAsync(address, "DPR.CHANGED", "FROM", PastCluster.Text(from), "TO",
                PastCluster.Text(end.Version)).ConfigureAwait(false);
            named.UnionWith(reply.Items[1].Items.Where(k => k.Bytes.AsSpan().StartsWith(prefix)).Select(k => s_exact.GetString(k.Bytes)));
            from = reply.Items[0].Number;
        }
        return named;
    }

    private static async Task<List<KeyState>> StatesAsync(PastCluster past, PastInstant at, IReadOnlyList<byte[]> keys)
    {
        List<KeyState> states = [];
        foreach (byte[] key in keys)
        {
            PastValue value = await PastValue.ReadAsync(past, at, key, forComparison: true).ConfigureAwait(false);
            states.Add(new(value.Type, value.Expires, value.Fingerprint()));
        }
        return states;
    }

    private static async Task<List<PastKey>> ShownAsync(PastCluster past, PastInstant at, IReadOnlyList<byte[]> keys)
    {
        List<PastKey> shown = [];
        foreach (byte[] key in keys) { shown.Add((await PastValue.ReadAsync(past, at, key).ConfigureAwait(false)).Shown(key)); }
        return shown;
    }
}

/// <summary>What is kept of a key to compare it.</summary>
/// <param name="Type">Its type; <see cref="PastKey.None"/>: there was no such key.</param>
/// <param name="Expires">When it was to expire; null: never.</param>
/// <param name="Fingerprint">Its value's.</param>
internal sealed record KeyState(string Type, DateTimeOffset? Expires, string Fingerprint)
{
    /// <summary>How a key has changed.</summary>
    public static KeyChange ChangeOf(KeyState before, KeyState after) => before.Type == PastKey.None ? KeyChange.New
        : after.Type == PastKey.None ? KeyChange.Gone
        : before with { Expires = null } == after with { Expires = null } ? KeyChange.Expiry : KeyChange.Changed;

    /// <summary>As it is shown, without its value.</summary>
    /// <param name="key">The key.</param>
    public PastKey Shown(byte[] key) => new(Encoding.UTF8.GetString(key), Type, Expires, null);
}
