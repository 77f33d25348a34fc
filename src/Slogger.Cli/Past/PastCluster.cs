// The past of a whole cluster: versions that all its shards have, and reads that find the shard of their key.
using System.Globalization;
using System.Text;
using Slogger.Cli.Access;

namespace Slogger.Cli.Past;

/// <summary>The end of a version.</summary>
/// <param name="Version">The version.</param>
/// <param name="Time">When it ended.</param>
internal sealed record PastInstant(long Version, DateTimeOffset Time);

/// <summary>Connections to the shards of a cluster. One question at a time.</summary>
internal sealed class PastCluster : IAsyncDisposable
{
    private const string Command = "DPR.ASOF", Moved = "MOVED ";
    private const int NowTriesMax = 100;

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

    /// <summary>Finds one version that all shards have closed and kept.</summary>
    /// <param name="instant">The instant, as DPR.ASOF has it.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or does not have it; the text says which.</exception>
    public async Task<PastInstant> FindAsync(string[] instant)
    {
        IReadOnlyList<string> addresses = await Shards.AddressesAsync().ConfigureAwait(false);
        // Of a time each shard would take its own clock's, so one is asked for that.
        if (instant is not ["AGO", "0"])
        {
            return await FindCommonAsync(addresses, await FindThereAsync(instant).ConfigureAwait(false)).ConfigureAwait(false);
        }
        // What is acknowledged now must be in it at every shard. If one of them has not closed such a version by itself, a later one will
        // do.
        PastInstant now = await FindNewestAsync(addresses).ConfigureAwait(false), asked = now;
        for (int tries = 1; ; tries++)
        {
            PastInstant common = await FindCommonAsync(addresses, asked).ConfigureAwait(false);
            if (common.Version >= now.Version || tries == NowTriesMax) { return common; }
            asked = await FindNewestAsync(addresses).ConfigureAwait(false);
        }
    }

    // The last of the versions that have, each at its shard, all that was acknowledged.
    private async Task<PastInstant> FindNewestAsync(IReadOnlyList<string> addresses)
    {
        PastInstant? newest = null;
        foreach (string address in addresses)
        {
            PastInstant found = await FindAsync(address, ["AGO", "0"]).ConfigureAwait(false);
            if (newest is null || found.Version > newest.Version) { newest = found; }
        }
        return newest!;
    }

    // A shard may not have closed the version by itself, and gives one below: then all are asked for that one. It falls with each question,
    // and so ends.
    private async Task<PastInstant> FindCommonAsync(IReadOnlyList<string> addresses, PastInstant lowest)
    {
        for (bool isCommon = addresses.Count == 1; !isCommon;)
        {
            long asked = lowest.Version;
            foreach (string address in addresses)
            {
                PastInstant found = await FindAsync(address, ["VERSION", Text(asked)]).ConfigureAwait(false);
                if (found.Version < lowest.Version) { lowest = found; }
            }
            isCommon = lowest.Version == asked;
        }
        return lowest;
    }

    /// <summary>Runs a read as of a version, at the shard that has its keys.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public Task<ProxyReply> ReadAsync(PastInstant at, params byte[][] words) =>
        AskAsync([Bytes(Command), Bytes("VERSION"), Bytes(Text(at.Version)), .. words]);

    /// <summary>Asks the shard that has the keys.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public async Task<ProxyReply> AskAsync(params byte[][] words)
    {
        ProxyReply reply = await _current.CallAsync(words).ConfigureAwait(false);
        if (reply.IsError && reply.Text.StartsWith(Moved, StringComparison.Ordinal))
        {
            CurrentAddress = reply.Text.Split(' ')[^1];
            _current = await Shards.AtAsync(CurrentAddress).ConfigureAwait(false);
            reply = await _current.CallAsync(words).ConfigureAwait(false);
        }
        return reply.IsError ? throw Refused(reply) : reply;
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

    private static byte[] Bytes(string word) => Encoding.UTF8.GetBytes(word);

    /// <summary>What a proxy's refusal is to a person.</summary>
    public static ProxyUnreachableException Refused(ProxyReply reply, string who = "") =>
        new(who + reply.Text.Replace("ERR SLOGGER ", "", StringComparison.Ordinal), "");
}
