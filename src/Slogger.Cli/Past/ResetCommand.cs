// slogger reset: sets all shards of a cluster back to an instant, by writes. Clients go on while it is prepared, and wait while it is
// written. Each shard asks for the steps in this order; what they are for is said in ResetHold (Core). This process may be killed at any
// step: then the shards end it themselves, and all of it is done or nothing.
using System.Diagnostics;
using System.Globalization;
using System.Text;
using Slogger.Cli.Access;
using Slogger.Cli.Terminal;
using Slogger.Core.Resets;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Past;

/// <summary>Sets a cluster back.</summary>
internal static class ResetCommand
{
    public const string Name = "reset";

    private const string What = "What is set back", To = "to", Prefix = "prefix", DryRun = "dry-run", Expiries = "expiries";

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new(To, What, "TIME|DURATION|V", "The instant: a time (as --at of slogger get), so long ago, or a version.", "none", ""),
        new(Prefix, What, "P", "Only keys that begin so.", "all", ""),
        new(Expiries, What, "keep|shift", "keep: a key expires when it would have, so one that has meanwhile is not there. shift: each "
            + "key that is written lives as long as it had left.", "keep", ""),
        new(DryRun, What, "", "Show how many keys would be written, and about how long clients would wait, and write nothing.", "", "")
        {
            Shape = OptionShape.Flag,
        },
        .. PastArguments.Access,
    ];

    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? to = texts.One(To, errors), expiries = texts.One(Expiries, errors) ?? "keep";
        byte[] prefix = Encoding.UTF8.GetBytes(texts.One(Prefix, errors) ?? "");
        string[]? instant = to is null ? null : PastArguments.InstantOf(To, to, errors);
        if (to is null)
        {
            errors.Add(new OptionError("the instant is named by --to", "the command line", "slogger reset --to 14:03:07.120"));
        }
        if (expiries is not ("keep" or "shift"))
        {
            errors.Add(new OptionError($"--expiries \"{expiries}\" is neither keep nor shift", "the command line",
                "write --expiries keep"));
        }
        TextWriter progress = Report.Progress(host, texts.Values.ContainsKey(Report.Option));
        return PastArguments.RunAsync(texts, host, errors, async past =>
        {
            PastInstant at = await past.FindAsync(instant!).ConfigureAwait(false);
            var run = new ResetRun(past.Shards, at, prefix, isShifted: expiries == "shift", progress);
            return await run.RunAsync(isDry: texts.Values.ContainsKey(DryRun)).ConfigureAwait(false);
        });
    }
}

/// <summary>One run of it.</summary>
/// <param name="cluster">The shards.</param>
/// <param name="at">The instant.</param>
/// <param name="prefix">Only of keys that begin so.</param>
/// <param name="isShifted">Whether expiries are put off by the time since.</param>
/// <param name="progress">Where the steps are told.</param>
internal sealed class ResetRun(ClusterConnections cluster, PastInstant at, byte[] prefix, bool isShifted, TextWriter progress)
{
    private const string Command = "DPR.RESET";
    private static readonly TimeSpan Pause = TimeSpan.FromMilliseconds(20), Touch = TimeSpan.FromSeconds(1);
    private static readonly TimeSpan Told = TimeSpan.FromSeconds(5), CommitMax = TimeSpan.FromSeconds(10);

    private readonly List<Part> _parts = [];

    /// <summary>Does it.</summary>
    /// <param name="isDry">Only prepares it.</param>
    /// <exception cref="ProxyUnreachableException">It was not done, or it is not known whether it was; the text says which.</exception>
    public async Task<ResetReport> RunAsync(bool isDry)
    {
        foreach (string address in await cluster.AddressesAsync().ConfigureAwait(false))
        {
            _parts.Add(new(cluster, await cluster.AtAsync(address).ConfigureAwait(false), address));
        }
        bool isEnded = false;
        try
        {
            await PrepareAsync().ConfigureAwait(false);
            await RequireAllAsync().ConfigureAwait(false);
            if (isDry) { return new(at.Version, at.Time, Sum(p => p.Keys), Sum(p => p.Bytes), ExpectedMs, 0, null, null); }
            progress.WriteLine($"{Prepared} are written; clients wait from now on, for about {ResetReport.Text(ExpectedMs)}");
            long began = Stopwatch.GetTimestamp();
            (long undo, long before) = await HoldAsync().ConfigureAwait(false);
            long above = await WriteAsync().ConfigureAwait(false);
            long line = await FinishAsync(above, undo).ConfigureAwait(false);
            isEnded = true;
            await ServeAsync(line).ConfigureAwait(false);
            return new(at.Version, at.Time, Sum(p => p.Keys), Sum(p => p.Bytes), ExpectedMs,
                (long)Stopwatch.GetElapsedTime(began).TotalMilliseconds, undo, line > before ? line : null);
        }
        finally
        {
            if (!isEnded) { await CallOffAsync().ConfigureAwait(false); }
        }
    }

    private long Sum(Func<Part, long> of) => _parts.Sum(of);

    private string Prepared => string.Create(CultureInfo.InvariantCulture,
        $"{Sum(p => p.Keys)} keys, {ConsoleText.Bytes(Sum(p => p.Bytes))},");

    // All shards write at the same time.
    private long ExpectedMs => (long)_parts.Max(p => ResetTime.Expected(p.Keys, p.Bytes)).TotalMilliseconds;

    private TimeSpan WriteMax => _parts.Max(p => p.WriteMax);

    private async Task PrepareAsync()
    {
        List<string> words = ["PREPARE", PastCluster.Text(at.Version)];
        long shift = (long)(DateTimeOffset.UtcNow - at.Time).TotalMilliseconds;
        if (isShifted && shift > 0) { words.AddRange(["SHIFT", PastCluster.Text(shift)]); }
        foreach (Part part in _parts)
        {
            ProxyReply begun = await part.PrepareAsync([.. words.Select(Encoding.UTF8.GetBytes),
                .. prefix.Length > 0 ? new[] { "PREFIX"u8.ToArray(), prefix } : []]).ConfigureAwait(false);
            part.Name = begun.Items[0].Text;
            if (begun.Items[2].Number != at.Version)
            {
                throw new ProxyUnreachableException($"{part.Address}: version {at.Version} has just been undone by a recovery",
                    "give the command again");
            }
        }
        // All are asked until all are ready: one that nobody asks gives it up.
        long told = Stopwatch.GetTimestamp();
        while ((await Task.WhenAll(_parts.Select(p => p.StateAsync("STATE"))).ConfigureAwait(false)).Any(s => s != "ready"))
        {
            await Task.Delay(Pause).ConfigureAwait(false);
            if (Stopwatch.GetElapsedTime(told) < Told) { continue; }
            progress.WriteLine($"{Prepared} are prepared so far; clients go on");
            told = Stopwatch.GetTimestamp();
        }
    }

    // If slots move from then on, no shard writes. One that has got its first just before is not among these; who was asked last knows it.
    private async Task RequireAllAsync()
    {
        foreach (Part part in _parts)
        {
            IReadOnlyList<string> owners = await cluster.AddressesAsync(part.Address).ConfigureAwait(false);
            if (owners.Except(_parts.SelectMany(p => p.Addresses)).FirstOrDefault() is not { } other) { continue; }
            throw new ProxyUnreachableException($"{other} has got slots since, or leads its shard since: nothing was set back",
                "give the command again");
        }
    }

    // Until all that was acknowledged is committed, at every shard. Gives the version that has it, and nothing else, and its world-line.
    private async Task<(long Undo, long Line)> HoldAsync()
    {
        long began = Stopwatch.GetTimestamp();
        while (true)
        {
            string[] states = await Task.WhenAll(_parts.Select(p => p.StateAsync("HOLD"))).ConfigureAwait(false);
            if (states.All(s => s == "held")) { return (_parts.Max(p => p.Committed), _parts.Max(p => p.Line)); }
            if (Stopwatch.GetElapsedTime(began) > CommitMax)
            {
                throw new ProxyUnreachableException("what clients have done is not committed everywhere within "
                    + $"{CommitMax.TotalSeconds:0} s: nothing was set back", "slogger status shows what commits wait for");
            }
        }
    }

    private async Task<long> WriteAsync() => (await AllAsync(p => p.WriteAsync()).ConfigureAwait(false)).Max();

    // What takes all shards a while. Who is done is asked now and then, or it would take this process for dead.
    private async Task<long[]> AllAsync(Func<Part, Task<long>> ask)
    {
        (Part Part, Task<long> Asked)[] asked = [.. _parts.Select(p => (p, ask(p)))];
        Task<long[]> all = Task.WhenAll(asked.Select(a => a.Asked));
        try
        {
            while (await Task.WhenAny(all, Task.Delay(Touch)).ConfigureAwait(false) != all)
            {
                foreach ((Part part, _) in asked.Where(a => a.Asked.IsCompletedSuccessfully))
                {
                    await part.StateAsync("STATE").ConfigureAwait(false);
                }
            }
        }
        finally
        {
            await ((Task)all).ConfigureAwait(ConfigureAwaitOptions.SuppressThrowing);
        }
        return await all.ConfigureAwait(false);
    }

    // From here on all of it may be done, whatever fails. Gives the world-line that begins behind it.
    private async Task<long> FinishAsync(long above, long undo)
    {
        try
        {
            long result = await CloseAsync(above).ConfigureAwait(false);
            (long line, long branch) = await EndAsync().ConfigureAwait(false);
            return branch >= result ? line : throw new ProxyUnreachableException(
                $"a recovery came between, and took the cluster to version {branch}, below version {result} that holds the reset", "");
        }
        catch (ProxyUnreachableException e)
        {
            throw new ProxyUnreachableException($"whether the cluster was set back is not known: {e.Message}",
                $"look at a key that was to change; what was before is in version {undo}: slogger reset --to {undo} would undo it");
        }
    }

    // Until the version is committed that has all of it. Gives that version.
    private async Task<long> CloseAsync(long above)
    {
        long began = Stopwatch.GetTimestamp();
        long[] results = await AllAsync(async part =>
            (await part.AskAsync("CLOSE", PastCluster.Text(above)).ConfigureAwait(false)).Number).ConfigureAwait(false);
        while (true)
        {
            await Task.WhenAll(_parts.Select(p => p.StateAsync("STATE"))).ConfigureAwait(false);
            if (_parts.Max(p => p.Committed) >= results.Max()) { return results.Max(); }
            if (Stopwatch.GetElapsedTime(began) > WriteMax)
            {
                throw new ProxyUnreachableException($"it is not committed within {WriteMax.TotalSeconds:0} s", "");
            }
            await Task.Delay(Pause / 10).ConfigureAwait(false);
        }
    }

    // One shard does it for all.
    private async Task<(long Line, long Branch)> EndAsync()
    {
        ProxyUnreachableException? failure = null;
        foreach (Part part in _parts)
        {
            try
            {
                ProxyReply ended = await part.AskAsync("END").ConfigureAwait(false);
                if (ended.Items[0].Number > 0) { return (ended.Items[0].Number, ended.Items[1].Number); }
                failure ??= new("a recovery came between", "");
            }
            catch (ProxyUnreachableException e)
            {
                failure ??= e;
            }
        }
        throw failure!;
    }

    // Clients are told, and go on.
    private async Task ServeAsync(long line)
    {
        long began = Stopwatch.GetTimestamp();
        foreach (Part part in _parts)
        {
            while (!await ServesAsync(part.Address, line).ConfigureAwait(false))
            {
                if (Stopwatch.GetElapsedTime(began) > WriteMax)
                {
                    throw new ProxyUnreachableException($"the cluster was set back, but {part.Address} does not serve yet in world-line "
                        + PastCluster.Text(line), "slogger status shows what it waits for");
                }
                await Task.Delay(Pause / 4).ConfigureAwait(false);
            }
        }
    }

    private async Task<bool> ServesAsync(string address, long line)
    {
        try
        {
            IReadOnlyList<KeyValuePair<string, string>> facts =
                await StatusClient.AskAsync(cluster.AccessTo(address)).ConfigureAwait(false);
            string Fact(string name) => facts.FirstOrDefault(f => f.Key == name).Value ?? "";
            return Fact("store_state") == "serving" && long.TryParse(Fact("worldline"), out long current) && current >= line;
        }
        catch (ProxyUnreachableException)
        {
            return false;
        }
    }

    // Nothing, or a part of it, was written.
    private async Task CallOffAsync()
    {
        // Where something may have been written first: that ends it for all.
        foreach (Part part in _parts.Where(p => p.Name.Length > 0).OrderByDescending(p => p.MayHaveWritten))
        {
            // A shard that is not reached ends it by itself.
            try { await part.CallAsync("END").ConfigureAwait(false); } catch (ProxyUnreachableException) { }
        }
    }

    // A shard's part of it.
    private sealed class Part(ClusterConnections cluster, ProxyConnection proxy, string address)
    {
        private const string Moved = "MOVED ";

        private readonly List<string> _before = [];

        // The shard has its own limit, and says what it waits for.
        private static readonly TimeSpan Further = TimeSpan.FromSeconds(20);

        public string Address => address;

        /// <summary>As it was found, and what leads.</summary>
        public IEnumerable<string> Addresses => [.. _before, address];

        public string Name { get; set; } = "";

        public long Keys { get; private set; }

        public long Bytes { get; private set; }

        public TimeSpan WriteMax => ResetTime.Limit(Bytes) + Further;

        public long Line { get; private set; }

        public long Committed { get; private set; }

        public bool MayHaveWritten { get; private set; }

        public async Task<string> StateAsync(string step)
        {
            ProxyReply state = await AskAsync(step).ConfigureAwait(false);
            (Keys, Bytes, Line, Committed) =
                (state.Items[1].Number, state.Items[2].Number, state.Items[3].Number, state.Items[4].Number);
            return state.Items[0].Text;
        }

        public async Task<long> WriteAsync()
        {
            MayHaveWritten = true;
            ProxyReply written = await AskAsync("WRITE").ConfigureAwait(false);
            Keys = written.Items[1].Number;
            return written.Items[0].Number;
        }

        public Task<ProxyReply> AskAsync(string step, params string[] more) =>
            AskAsync([.. new[] { step, Name }.Concat(more).Select(Encoding.UTF8.GetBytes)]);

        public async Task<ProxyReply> PrepareAsync(byte[][] words)
        {
            ProxyReply reply = await CallAsync(words).ConfigureAwait(false);
            // A node that follows names the one that leads.
            if (IsMoved(reply))
            {
                _before.Add(address);
                address = reply.Text.Split(' ')[^1];
                proxy = await cluster.AtAsync(address).ConfigureAwait(false);
                reply = await CallAsync(words).ConfigureAwait(false);
            }
            return Checked(reply);
        }

        private async Task<ProxyReply> AskAsync(byte[][] words) => Checked(await CallAsync(words).ConfigureAwait(false));

        private Task<ProxyReply> CallAsync(byte[][] words) => proxy.CallAsync(WriteMax, [Encoding.UTF8.GetBytes(Command), .. words]);

        private ProxyReply Checked(ProxyReply reply) => !reply.IsError ? reply
            : throw (IsMoved(reply) ? new($"{address}: another node leads this shard by now", "")
                : PastCluster.Refused(reply, $"{address}: "));

        private static bool IsMoved(ProxyReply reply) => reply.IsError && reply.Text.StartsWith(Moved, StringComparison.Ordinal);

        public Task<ProxyReply> CallAsync(string step) => proxy.CallAsync(Command, step, Name);
    }
}
