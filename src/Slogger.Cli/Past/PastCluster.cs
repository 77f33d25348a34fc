// The past of a whole cluster: one version at all its shards, and reads that find the shard of their key.
using System.Globalization;
using Slogger.Cli.Access;

namespace Slogger.Cli.Past;

/// <summary>Connections to the shards of a cluster. One question at a time.</summary>
internal sealed class PastCluster : IAsyncDisposable
{
    private const string Command = "DPR.ASOF", Moved = "MOVED ";
    // The first question about a stretch of the log has it read.
    private static readonly TimeSpan AnswerMax = TimeSpan.FromMinutes(1);

    private readonly ClusterConnections _shards;
    private ProxyConnection _current;

    private PastCluster(ClusterConnections shards) => (_shards, _current) = (shards, shards.First);

    /// <summary>The connections.</summary>
    public ClusterConnections Shards => _shards;

    /// <summary>The version at whose end all reads are.</summary>
    public long Version { get; private set; }

    /// <summary>When that was.</summary>
    public DateTimeOffset Time { get; private set; }

    /// <summary>Connects, and finds one version that all shards have closed and kept.</summary>
    /// <param name="access">One of its proxies.</param>
    /// <param name="instant">The instant, as DPR.ASOF has it.</param>
    /// <exception cref="ProxyUnreachableException">A shard could not be asked, or does not have it; the text says which.</exception>
    public static async Task<PastCluster> OpenAsync(ProxyAccess access, params string[] instant)
    {
        var cluster = new PastCluster(await ClusterConnections.OpenAsync(access, AnswerMax).ConfigureAwait(false));
        try
        {
            await cluster.FindAsync(instant).ConfigureAwait(false);
            return cluster;
        }
        catch
        {
            await cluster.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Runs a read as of the version, at the shard that has its keys.</summary>
    /// <exception cref="ProxyUnreachableException">It could not be asked, or has refused.</exception>
    public async Task<ProxyReply> ReadAsync(params string[] words)
    {
        string[] asked = [Command, "VERSION", Text(Version), .. words];
        ProxyReply reply = await _current.CallAsync(asked).ConfigureAwait(false);
        if (reply.IsError && reply.Text.StartsWith(Moved, StringComparison.Ordinal))
        {
            _current = await _shards.AtAsync(reply.Text.Split(' ')[^1]).ConfigureAwait(false);
            reply = await _current.CallAsync(asked).ConfigureAwait(false);
        }
        return reply.IsError ? throw Refused(reply) : reply;
    }

    public ValueTask DisposeAsync() => _shards.DisposeAsync();

    // Of a time each shard would take its own clock's, so one is asked for that. Another may not have closed the version by itself, and
    // gives one below: then all are asked for that one. It falls with each question, and so ends.
    private async Task FindAsync(string[] instant)
    {
        bool isNow = instant is ["AGO", "0"];
        IReadOnlyList<string> addresses = await _shards.AddressesAsync().ConfigureAwait(false);
        (long first, _) = (Version, Time) = await AskAsync(_shards.FirstAddress, instant).ConfigureAwait(false);
        while (!await IsCommonAsync(addresses).ConfigureAwait(false))
        {
            // What was acknowledged before the first question is to be in it.
            if (isNow && Version < first) { (Version, Time) = await AskAsync(_shards.FirstAddress, instant).ConfigureAwait(false); }
        }
    }

    // Whether all shards have closed the version; else it becomes the newest below that one of them has.
    private async Task<bool> IsCommonAsync(IReadOnlyList<string> addresses)
    {
        long asked = Version;
        foreach (string address in addresses.Count == 1 ? [] : addresses)
        {
            (long Version, DateTimeOffset) found = await AskAsync(address, "VERSION", Text(asked)).ConfigureAwait(false);
            if (found.Version < Version) { (Version, Time) = found; }
        }
        return Version == asked;
    }

    private async Task<(long Version, DateTimeOffset Time)> AskAsync(string address, params string[] instant)
    {
        ProxyConnection shard = await _shards.AtAsync(address).ConfigureAwait(false);
        ProxyReply reply = await shard.CallAsync([Command, .. instant]).ConfigureAwait(false);
        return reply.IsError ? throw Refused(reply, $"{address}: ")
            : (reply.Items[1].Number, DateTimeOffset.FromUnixTimeMilliseconds(reply.Items[2].Number / 1000));
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);

    /// <summary>What a proxy's refusal is to a person.</summary>
    public static ProxyUnreachableException Refused(ProxyReply reply, string who = "") =>
        new(who + reply.Text.Replace("ERR SLOGGER ", "", StringComparison.Ordinal), "");
}
