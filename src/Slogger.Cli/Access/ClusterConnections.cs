// Connections of a command to the proxies of a cluster, one for each shard.
using Slogger.Resp;

namespace Slogger.Cli.Access;

/// <summary>Connections by address; each is opened when it is needed first. One question at a time.</summary>
internal sealed class ClusterConnections : IAsyncDisposable
{
    private readonly ProxyAccess _access;
    private readonly TimeSpan _answerMax;
    private readonly Dictionary<string, ProxyConnection> _open = [];

    private ClusterConnections(ProxyAccess access, TimeSpan answerMax, ProxyConnection first)
    {
        (_access, _answerMax, First) = (access, answerMax, first);
        _open.Add(FirstAddress, first);
    }

    /// <summary>The one that was named.</summary>
    public ProxyConnection First { get; }

    /// <summary>Where that is.</summary>
    public string FirstAddress => _access.Address!.ToString();

    /// <summary>Connects to one proxy of the cluster.</summary>
    /// <param name="access">It; its address is known.</param>
    /// <param name="answerMax">How long an answer may take.</param>
    /// <exception cref="ProxyUnreachableException">It cannot be reached.</exception>
    public static async Task<ClusterConnections> OpenAsync(ProxyAccess access, TimeSpan answerMax) =>
        new(access, answerMax, await ProxyConnection.OpenAsync(access, answerMax).ConfigureAwait(false));

    /// <summary>Which slots, or partitions, the shards own; of a shard alone there is one entry, with none.</summary>
    /// <exception cref="ProxyUnreachableException">It cannot be asked.</exception>
    public async Task<IReadOnlyList<(int First, int Last, string Address)>> SlotsAsync()
    {
        ProxyReply slots = await First.CallAsync("CLUSTER", "SLOTS").ConfigureAwait(false);
        return IsAlone(slots) ? [(0, -1, FirstAddress)]
            : [.. slots.Items.Select(r => ((int)r.Items[0].Number, (int)r.Items[1].Number, LeaderOf(r)))];
    }

    /// <summary>The addresses of all shards that own slots; of a shard alone its own. Of the shard of the proxy that was named it is that
    /// one, though it may follow another.</summary>
    /// <exception cref="ProxyUnreachableException">It cannot be asked.</exception>
    public Task<IReadOnlyList<string>> AddressesAsync() => AddressesAsync(FirstAddress);

    /// <summary>The same, as one of them knows it.</summary>
    /// <param name="at">Its address.</param>
    /// <exception cref="ProxyUnreachableException">It cannot be asked.</exception>
    public async Task<IReadOnlyList<string>> AddressesAsync(string at)
    {
        ProxyConnection proxy = await AtAsync(at).ConfigureAwait(false);
        ProxyReply slots = await proxy.CallAsync("CLUSTER", "SLOTS").ConfigureAwait(false);
        if (IsAlone(slots)) { return [FirstAddress]; }
        string own = (await First.CallAsync("CLUSTER", "MYID").ConfigureAwait(false)).Text;
        return [.. slots.Items.Select(r => r.Items.Skip(2).Any(node => node.Items[2].Text == own) ? FirstAddress : LeaderOf(r)).Distinct()];
    }

    // A shard alone has no cluster.
    private static bool IsAlone(ProxyReply slots) => slots.IsError || slots.Items.Count == 0;

    private static string LeaderOf(ProxyReply row) => $"{row.Items[2].Items[0].Text}:{row.Items[2].Items[1].Text}";

    /// <summary>The connection to a proxy.</summary>
    /// <exception cref="ProxyUnreachableException">It cannot be reached.</exception>
    public async Task<ProxyConnection> AtAsync(string address) => _open.TryGetValue(address, out ProxyConnection? known) ? known
        : _open[address] = await ProxyConnection.OpenAsync(AccessTo(address), _answerMax).ConfigureAwait(false);

    /// <summary>How a proxy is reached, as the same user.</summary>
    /// <exception cref="ProxyUnreachableException">That is no address.</exception>
    public ProxyAccess AccessTo(string address) => address == FirstAddress ? _access
        : ListenAddress.TryParse(address, out ListenAddress? parsed, out _) ? _access.To(parsed)
        : throw new ProxyUnreachableException($"{_access.Address} names a shard at \"{address}\", which is no address",
            "look at --announce of that shard's proxy");

    public async ValueTask DisposeAsync()
    {
        foreach (ProxyConnection connection in _open.Values) { await connection.DisposeAsync().ConfigureAwait(false); }
    }
}
