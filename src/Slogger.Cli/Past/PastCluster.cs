// The past of a whole cluster: versions that all its shards have, and reads that find the shard of their key.
using System.Globalization;
using System.Text;
using Slogger.Cli.Access;
using Slogger.Core.Versions;

namespace Slogger.Cli.Past;

/// <summary>The end of a version.</summary>
/// <param name="Version">The version.</param>
/// <param name="Time">When it ended.</param>
internal sealed record PastInstant(long Version, DateTimeOffset Time);

/// <summary>Connections to the shards of a cluster. One question at a time.</summary>
internal sealed class PastCluster : IAsyncDisposable
{
    private const string Command = "DPR.ASOF", Moved = "MOVED ", Loading = "SLOGGER LOADING ";
    private const int RedirectionsMax = 5;

    // What a refusal begins with, for programs.
    private const string NotKept = "SLOGGER NOTKEPT ";
    private static readonly string[] Codes = ["ERR SLOGGER ", NotKept, "SLOGGER NOTCLOSED "];

    // The first question about a stretch of the log has it read.
    private static readonly TimeSpan AnswerMax = TimeSpan.FromMinutes(1);

    private ProxyConnection _current;

    private PastCluster(ClusterConnections shards) => (Shards, _current, CurrentAddress) = (shards, shards.First, shards.FirstAddress);

    /// <summary>The shard that was asked last.</summary>
    public string CurrentAddress { get; private set; }

    /// <summary>The connections.</summary>
    public ClusterConnections Shards { get; }

    /// <summary>Connects.</summary>
    /// <param name="access">One of its proxies.</param>
    /// <exception cref="ProxyUnreachableException">That is not possible.</exception>
    public static async Task<PastCluster> OpenAsync(ProxyAccess access) =>
        new(await ClusterConnections.OpenAsync(access, AnswerMax).ConfigureAwait(false));

    /// <summary>Finds the version that an instant is at the proxy that is asked first.</summary>
    /// <param name="instant">The instant, as DPR.ASOF has it.</param>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public Task<PastInstant> FindThereAsync(string[] instant) => FindAsync(Shards.FirstAddress, instant);

    /// <summary>Finds one version that all shards have closed and kept: those that have slots now, and those that had some then.</summary>
    /// <param name="instant">The instant, as DPR.ASOF has it.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or does not have it; the text says which.</exception>
    public async Task<PastInstant> FindAsync(string[] instant)
    {
        List<string> addresses = [.. await Shards.AddressesAsync().ConfigureAwait(false)];
        while (true)
        {
            PastInstant found = await FindAsync(addresses, instant).ConfigureAwait(false);
            string[] others = [.. (await OwnersAsync(found.Version, found.Version).ConfigureAwait(false)).Select(o => o.Address)
                .OfType<string>().Except(addresses)];
            if (others.Length == 0) { return found; }
            addresses.AddRange(others);
        }
    }

    /// <summary>The shards that had slots at the end of one of some versions, in order.</summary>
    /// <param name="from">The first version.</param>
    /// <param name="to">The last.</param>
    /// <exception cref="ProxyUnreachableException">That cannot be told, or one of them has left.</exception>
    public async Task<IReadOnlyList<(long Shard, string Address)>> OwnersOfAllAsync(long from, long to) =>
        [.. (await OwnersAsync(from, to).ConfigureAwait(false)).Select(o => (o.Shard, o.Address ?? throw new ProxyUnreachableException(
            $"version {Text(from)} is not kept as a whole: shard {Text(o.Shard)} had slots then, and has left since",
            "values of keys that other shards had are shown (slogger get)")))];

    /// <summary>The slot of a key, or its range; of a shard alone all keys have one.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked.</exception>
    public async Task<long> SlotOfAsync(byte[] key)
    {
        ProxyReply slot = await Shards.First.CallAsync(Bytes("CLUSTER"), Bytes("KEYSLOT"), key).ConfigureAwait(false);
        return slot.IsError ? 0 : slot.Number;
    }

    /// <summary>Whether a shard had slots at the end of a version, as far as it is known.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked.</exception>
    public async Task<bool> HadSlotsAsync(string address, long version)
    {
        ProxyConnection proxy = await Shards.AtAsync(address).ConfigureAwait(false);
        ProxyReply owners = await proxy.CallAsync("DPR.OWNERS", "FROM", Text(version), "TO", Text(version)).ConfigureAwait(false);
        return owners.IsError || owners.Items.Any(o => o.Items[1] is { IsNull: false, Text.Length: 0 });
    }

    // Null: it has left.
    private async Task<IEnumerable<(long Shard, string? Address)>> OwnersAsync(long from, long to) =>
        (await AskAtAsync(Shards.FirstAddress, "DPR.OWNERS", "FROM", Text(from), "TO", Text(to)).ConfigureAwait(false)).Items.Select(o =>
            (o.Items[0].Number, o.Items[1].IsNull ? null : o.Items[1].Text.Length == 0 ? Shards.FirstAddress : o.Items[1].Text));

    private async Task<PastInstant> FindAsync(List<string> addresses, string[] instant)
    {
        var common = new CommonVersion(addresses.Count, isNow: instant is ["AGO", "0"]);
        PastInstant? found = null;
        while (common.Next is { } question)
        {
            string[] asked = question.Version is { } version ? ["VERSION", Text(version.Number)] : instant;
            found = await FindAsync(addresses[question.Shard], asked).ConfigureAwait(false);
            common.OnAnswer(new(found.Version));
        }
        return found!;
    }

    /// <summary>Runs a read as of a version, at the shard that has its keys.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public Task<ProxyReply> ReadAsync(PastInstant at, params byte[][] words) =>
        AskAsync([Bytes(Command), Bytes("VERSION"), Bytes(Text(at.Version)), .. words]);

    /// <summary>Asks the shard that has the keys.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public async Task<ProxyReply> AskAsync(params byte[][] words)
    {
        ProxyReply reply = await TryAsync(words).ConfigureAwait(false);
        return reply.IsError ? throw Refused(reply) : reply;
    }

    /// <summary>The same, and a refusal is an answer, too.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked.</exception>
    public async Task<ProxyReply> TryAsync(params byte[][] words)
    {
        ProxyReply reply = await CallAsync(words).ConfigureAwait(false);
        // The first may not have heard yet that it moved on.
        for (int i = 0; i < RedirectionsMax && reply.IsError && reply.Text.StartsWith(Moved, StringComparison.Ordinal); i++)
        {
            CurrentAddress = reply.Text.Split(' ')[^1];
            _current = await Shards.AtAsync(CurrentAddress).ConfigureAwait(false);
            reply = await CallAsync(words).ConfigureAwait(false);
        }
        return reply;
    }

    /// <summary>Asks one shard.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public Task<ProxyReply> AskAtAsync(string address, params string[] words) => AskAtAsync(address, [.. words.Select(Bytes)]);

    /// <inheritdoc cref="AskAtAsync(string, string[])"/>
    public async Task<ProxyReply> AskAtAsync(string address, params byte[][] words)
    {
        (CurrentAddress, _current) = (address, await Shards.AtAsync(address).ConfigureAwait(false));
        ProxyReply reply = await _current.CallAsync(words).ConfigureAwait(false);
        return reply.IsError ? throw Refused(reply, $"{address}: ") : reply;
    }

    public ValueTask DisposeAsync() => Shards.DisposeAsync();

    /// <summary>A number as a word of a question.</summary>
    public static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>A time of a reply.</summary>
    public static DateTimeOffset TimeOf(long microseconds) => DateTimeOffset.FromUnixTimeMilliseconds(microseconds / 1000);

    private async Task<PastInstant> FindAsync(string address, string[] instant)
    {
        ProxyReply reply = await AskAtAsync(address, [Command, .. instant]).ConfigureAwait(false);
        return new(reply.Items[1].Number, TimeOf(reply.Items[2].Number));
    }

    // Until all data is there, if it has to be loaded. Each answer takes some seconds.
    private async Task<ProxyReply> CallAsync(byte[][] words)
    {
        ProxyReply reply;
        do { reply = await _current.CallAsync(words).ConfigureAwait(false); }
        while (reply.IsError && reply.Text.StartsWith(Loading, StringComparison.Ordinal));
        return reply;
    }

    private static byte[] Bytes(string word) => Encoding.UTF8.GetBytes(word);

    /// <summary>Whether a refusal says that a version is not kept.</summary>
    public static bool IsNotKept(ProxyReply reply) => reply.Text.StartsWith(NotKept, StringComparison.Ordinal);

    /// <summary>What a proxy's refusal is to a person.</summary>
    public static ProxyUnreachableException Refused(ProxyReply reply, string who = "") =>
        new(who + Codes.Aggregate(reply.Text, (text, code) => text.Replace(code, "", StringComparison.Ordinal)), "");
}
