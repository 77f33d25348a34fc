// Which proxies there are, and which slots they own: from CLUSTER SLOTS at the start, after a redirection, and when a link does
// not come about. Where the keys of commands are: from COMMAND, once. Which slot a key is in: from DPR.HELLO and DPR.PARTITIONS, once.
using System.Globalization;
using Microsoft.Extensions.Logging;
using Slogger.Client.Wire;
using Slogger.Core.Ownership;
using Slogger.Resp;

namespace Slogger.Client;

/// <summary>What a client knows of its cluster, and the ways to its processes.</summary>
internal sealed partial class Discovery
{
    private static readonly TimeSpan s_refreshPause = TimeSpan.FromMilliseconds(100), s_nextAfter = TimeSpan.FromMilliseconds(200);
    private readonly SloggerClient _client;
    private readonly SloggerClientOptions _options;
    private readonly ILogger _logger;
    private readonly Routes _routes;
    private readonly CancellationToken _stop;
    private KeyFinder _keys = null!;
    private Partitioning? _partitions;
    private string? _cluster;
    private int _isRefreshing;
    private Task _refreshing = Task.CompletedTask;

    /// <param name="client">Whose cluster it is.</param>
    /// <param name="routes">Where the owners of slots are noted.</param>
    /// <param name="stop">Ends what runs by itself.</param>
    public Discovery(SloggerClient client, Routes routes, CancellationToken stop)
    {
        (_client, _options, _routes, _stop) = (client, client.Options, routes, stop);
        _logger = client.LoggerFor<SloggerClient>();
    }

    /// <summary>The cluster's name.</summary>
    public string Cluster => _cluster!;

    /// <summary>How keys fall into partitions.</summary>
    public Partitioning Partitions => _partitions!;

    /// <summary>Where the keys of commands are.</summary>
    public KeyFinder Keys => _keys;

    /// <summary>The proxies known, those of the slots first.</summary>
    public IReadOnlyList<Address> Addresses() =>
        [.. _routes.Addresses, .. _options.Endpoints.Select(Address.Parse).Where(a => !_routes.Knows(a))];

    /// <summary>When stopped: nothing runs any more.</summary>
    public Task EndAsync() => _refreshing;

    /// <summary>A connection to a process, logged in.</summary>
    public Task<RespChannel> OpenAsync(Address address, CancellationToken cancellation) =>
        RespChannel.ConnectAsync(address, _options.Tls, _options.User, _options.Password, cancellation);

    /// <summary>Asks a shard for itself.</summary>
    /// <exception cref="SloggerException">It is none that this client can use.</exception>
    public Task<Hello> AskAsync(RespChannel channel, CancellationToken cancellation) =>
        _options.ReadsBackup ? BackupWire.AskAsync(channel, cancellation) : Hello.AskAsync(channel, _client.Id, cancellation);

    /// <exception cref="SloggerException">This proxy belongs to another cluster.</exception>
    public void CheckCluster(Hello hello, string address)
    {
        string cluster = Interlocked.CompareExchange(ref _cluster, hello.Cluster, null) ?? hello.Cluster;
        if (cluster != hello.Cluster)
        {
            throw new SloggerException($"{address} belongs to the cluster '{hello.Cluster}', the others to '{cluster}'. Check Endpoints.");
        }
    }

    /// <summary>Has the owners of slots looked up, soon and only once at a time.</summary>
    public void RefreshSoon()
    {
        if (_stop.IsCancellationRequested || Interlocked.Exchange(ref _isRefreshing, 1) != 0) { return; }
        _refreshing = Task.Run(async () =>
        {
            try
            {
                await DiscoverAsync(_stop).ConfigureAwait(false);
                await Task.Delay(s_refreshPause, _stop).ConfigureAwait(false);
            }
            catch (Exception e) when (e is SloggerException or OperationCanceledException)
            {
                // Whoever misses a shard asks again.
                LogNotDiscovered(e.Message);
            }
            finally
            {
                Volatile.Write(ref _isRefreshing, 0);
            }
        });
    }

    /// <summary>A shard says that a slot is another's.</summary>
    /// <param name="error">MOVED or ASK, slot, endpoint.</param>
    /// <param name="from">The link over which it said so.</param>
    /// <param name="isForGood">MOVED.</param>
    /// <returns>The link to that one; null if the error is no redirection that makes sense.</returns>
    public Link? Redirected(string error, Link from, bool isForGood)
    {
        if (!TryReadRedirection(error, from.Address, out int slot, out Address address)) { return null; }
        Link to = _routes.To(address);
        if (isForGood)
        {
            _routes.Own(slot, slot, to);
            RefreshSoon();
        }

        return to;
    }

    /// <summary>Reads MOVED or ASK, slot, endpoint.</summary>
    /// <param name="error">The text.</param>
    /// <param name="from">The shard that says so.</param>
    /// <param name="slot">The slot.</param>
    /// <param name="to">The shard that has it.</param>
    /// <returns>Whether the error is such a redirection, and makes sense.</returns>
    public static bool TryReadRedirection(string error, Address from, out int slot, out Address to)
    {
        string[] words = error.Split(' ');
        (slot, to) = (0, default);
        return words is ["MOVED" or "ASK", _, _, ..]
            && int.TryParse(words[1], NumberStyles.None, CultureInfo.InvariantCulture, out slot) && slot < HashSlot.Count
            // Without a host it is that of the shard that says so.
            && Address.TryParse(words[2].StartsWith(':') ? from.Host + words[2] : words[2], out to);
    }

    /// <summary>Looks up the owners of slots; the first time, all that never changes, too.</summary>
    /// <exception cref="SloggerException">No proxy can be used.</exception>
    // One after the other, without waiting long for any: those of a site that is gone may not answer at all.
    public async Task DiscoverAsync(CancellationToken cancellation)
    {
        using var over = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        var asked = new List<Task<RespChannel>>();
        var failures = new List<string>();
        var left = new Queue<Address>(Addresses());
        try
        {
            while (left.Count > 0 || asked.Count > 0)
            {
                if (left.TryDequeue(out Address address)) { asked.Add(AskAsync(address, over.Token)); }
                TimeSpan patience = left.Count > 0 ? s_nextAfter : Timeout.InfiniteTimeSpan;
                Task<RespChannel>? first = await FirstAsync(asked, patience, cancellation).ConfigureAwait(false);
                if (first is null) { continue; }
                asked.Remove(first);
                try
                {
                    using RespChannel channel = await first.ConfigureAwait(false);
                    using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
                    limit.CancelAfter(_options.ConnectTimeout);
                    await DiscoverAsync(channel, limit.Token).ConfigureAwait(false);
                    return;
                }
                catch (Exception e) when (IsNoProxy(e) || (e is OperationCanceledException && !cancellation.IsCancellationRequested))
                {
                    failures.Add(e is OperationCanceledException ? $"no answer in {_options.ConnectTimeout.TotalSeconds:0.#} s"
                        : e.Message);
                }
            }
        }
        finally
        {
            await over.CancelAsync().ConfigureAwait(false);
            foreach (Task<RespChannel> rest in asked)
            {
                _ = rest.ContinueWith(
                    t => { if (t.IsCompletedSuccessfully) { t.Result.Dispose(); } else { _ = t.Exception; } }, TaskScheduler.Default);
            }
        }

        // In an order of their own, so that the same failures are the same text.
        throw new SloggerException($"No proxy of the cluster can be used. {string.Join("; ", failures.Order(StringComparer.Ordinal))}");
    }

    private static async Task<Task<RespChannel>?> FirstAsync(List<Task<RespChannel>> asked, TimeSpan limit, CancellationToken cancellation)
    {
        using var waiting = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        Task pause = Task.Delay(limit, waiting.Token);
        Task first = await Task.WhenAny([pause, .. asked]).ConfigureAwait(false);
        await waiting.CancelAsync().ConfigureAwait(false);
        cancellation.ThrowIfCancellationRequested();
        return first as Task<RespChannel>;
    }

    private static bool IsNoProxy(Exception e) =>
        e is IOException or System.Net.Sockets.SocketException or SloggerException or InvalidDataException or FormatException
            or System.Security.Authentication.AuthenticationException;

    // A connection to a proxy that serves sessions: that of a backup does not.
    private async Task<RespChannel> AskAsync(Address address, CancellationToken cancellation)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limit.CancelAfter(_options.ConnectTimeout);
        RespChannel? channel = null;
        try
        {
            channel = await OpenAsync(address, limit.Token).ConfigureAwait(false);
            _ = await AskAsync(channel, limit.Token).ConfigureAwait(false);
            return channel;
        }
        catch (OperationCanceledException) when (!cancellation.IsCancellationRequested)
        {
            channel?.Dispose();
            throw new IOException($"{address}: no answer in {_options.ConnectTimeout.TotalSeconds:0.#} s");
        }
        catch (Exception e) when (IsNoProxy(e))
        {
            channel?.Dispose();
            throw new SloggerException($"{address}: {e.Message}", e);
        }
    }

    private async Task DiscoverAsync(RespChannel channel, CancellationToken cancellation)
    {
        Hello hello = await AskAsync(channel, cancellation).ConfigureAwait(false);
        CheckCluster(hello, channel.Address.ToString());
        _client.BeginIn(hello.WorldLine);
        if (_keys is null)
        {
            await channel.Write("COMMAND").SendAsync(cancellation).ConfigureAwait(false);
            _keys = KeyFinder.FromCommandReply(await channel.ReadRawAsync(cancellation).ConfigureAwait(false));
        }

        if (_partitions is null)
        {
            _partitions = hello.HasRanges ? await RangesAsync(channel, cancellation).ConfigureAwait(false) : Partitioning.Hash;
        }
        RespValue slots = await channel.CallAsync(cancellation, "CLUSTER", "SLOTS").ConfigureAwait(false);
        if (slots.Kind == RespKind.Error)
        {
            // A shard alone is no cluster to Redis: all slots are its own.
            if (!slots.ToString().Contains("cluster support disabled", StringComparison.Ordinal))
            {
                throw new SloggerException($"CLUSTER SLOTS: {slots}");
            }
            _routes.Own(0, HashSlot.Count - 1, channel.Address);
            return;
        }

        foreach (RespValue row in slots.Items)
        {
            string host = row.Items[2].Items[0].ToString();
            var owner = new Address(host.Length == 0 ? channel.Address.Host : host, (int)row.Items[2].Items[1].Integer);
            _routes.Own((int)row.Items[0].Integer, (int)row.Items[1].Integer, owner);
        }

        if (_routes.IsEmpty) { throw new SloggerException("no shard owns slots yet"); }
    }

    // Of a cluster they never change.
    private static async Task<Partitioning> RangesAsync(RespChannel channel, CancellationToken cancellation)
    {
        RespValue reply = await channel.CallAsync(cancellation, "DPR.PARTITIONS").ConfigureAwait(false);
        if (reply.Kind != RespKind.Array || reply.Items.Length < 2)
        {
            throw new InvalidDataException($"DPR.PARTITIONS of {channel.Address} is {reply}");
        }
        return Partitioning.ByRange(reply.Items[1].Items.Select(i => i.Bytes), out string problem)
            ?? throw new InvalidDataException($"what DPR.PARTITIONS of {channel.Address} says {problem}");
    }

    [LoggerMessage(EventId = 2, Level = LogLevel.Warning, Message = "The owners of slots could not be looked up: {Why}")]
    private partial void LogNotDiscovered(string why);
}
