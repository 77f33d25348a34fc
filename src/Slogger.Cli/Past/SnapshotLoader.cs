// Sends what RDB files hold to the shards of a cluster, by RESTORE, in batches.
using System.Globalization;
using System.Text;
using Slogger.Cli.Access;
using Slogger.Core.Ownership;
using Slogger.Redis.Connections;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Cli.Past;

/// <summary>Loads into an empty cluster. One caller at a time.</summary>
internal sealed class SnapshotLoader : IAsyncDisposable
{
    private const int BatchBytes = 1 << 20, BatchCommands = 1000, WindowBytes = 1 << 20;
    private static readonly TimeSpan AnswerMax = TimeSpan.FromMinutes(5), ToldEvery = TimeSpan.FromSeconds(2);
    private static readonly byte[] s_restore = "RESTORE"u8.ToArray(), s_absolute = "ABSTTL"u8.ToArray(), s_select = "SELECT"u8.ToArray();

    private readonly ClusterConnections _cluster;
    private readonly Func<long, long?> _expiry;
    private readonly TextWriter _progress;
    private readonly Dictionary<string, Target> _targets = [];
    private readonly HashSet<StoreKey> _known = [];
    private Partitioning _partitions = Partitioning.Hash;
    private Target[] _bySlot = [];

    private SnapshotLoader(ClusterConnections cluster, Func<long, long?> expiry, TextWriter progress) =>
        (_cluster, _expiry, _progress) = (cluster, expiry, progress);

    /// <summary>Keys that were loaded.</summary>
    public long Keys { get; private set; }

    /// <summary>Keys that were left out.</summary>
    public long Expired { get; private set; }

    /// <summary>Connects to all shards.</summary>
    /// <param name="access">One of the cluster's proxies.</param>
    /// <param name="expiry">When a key is to expire, of when it was to; 0: never. Null: it is left out.</param>
    /// <param name="progress">Where it is told how far it is.</param>
    /// <exception cref="ProxyUnreachableException">A shard cannot be reached, or is not empty.</exception>
    /// <exception cref="RedisException">A shard cannot be reached.</exception>
    public static async Task<SnapshotLoader> OpenAsync(ProxyAccess access, Func<long, long?> expiry, TextWriter progress)
    {
        ClusterConnections cluster = await ClusterConnections.OpenAsync(access, AnswerMax).ConfigureAwait(false);
        var loader = new SnapshotLoader(cluster, expiry, progress);
        try
        {
            IReadOnlyList<(int First, int Last, string Address)> slots = await cluster.SlotsAsync().ConfigureAwait(false);
            foreach (string address in slots.Select(s => s.Address).Distinct())
            {
                await loader.OpenShardAsync(address).ConfigureAwait(false);
            }
            await loader.NoteSlotsAsync(slots).ConfigureAwait(false);
            return loader;
        }
        catch
        {
            await loader.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Of these keys nothing is loaded any more.</summary>
    public void LeaveOut(IEnumerable<StoreKey> keys) => _known.UnionWith(keys);

    /// <summary>Loads a file. What was loaded before counts: of its keys nothing is loaded that another file had, if that was to be
    /// noted.</summary>
    /// <param name="stored">The file, which is closed at the end.</param>
    /// <param name="path">What it is called.</param>
    /// <param name="keys">How many keys it has.</param>
    /// <param name="isNoted">Whether others follow that may have the same keys.</param>
    /// <exception cref="IOException">It cannot be read, or a shard refused a key.</exception>
    /// <exception cref="RedisException">It cannot be understood, or a connection failed.</exception>
    public async Task LoadAsync(Stream stored, string path, long keys, bool isNoted)
    {
        using var file = new RdbCursor(path, stored, WindowBytes);
        int format = file.ReadHead();
        long seen = 0;
        bool hasFunctions = false;
        for (long toldAt = Environment.TickCount64; file.ReadEntry() is { } entry; seen++)
        {
            if (!hasFunctions && file.HasFunctions)
            {
                // All of them stand before the keys.
                await LoadFunctionsAsync(file, format).ConfigureAwait(false);
                hasFunctions = true;
            }
            var key = new StoreKey(entry.Database, entry.Key);
            bool isKnown = isNoted ? !_known.Add(key) : _known.Contains(key);
            if (isKnown) { }
            else if (_expiry(entry.ExpiresAtMs) is not { } expires) { Expired++; }
            else { await AddAsync(entry, RdbPayload.Of(file, entry, format), expires).ConfigureAwait(false); }
            file.Seek(entry.End);
            if (Environment.TickCount64 - toldAt < ToldEvery.TotalMilliseconds) { continue; }
            toldAt = Environment.TickCount64;
            _progress.WriteLine($"{Path.GetFileName(path)}: {seen} of {keys} keys");
        }
        if (!hasFunctions && file.HasFunctions) { await LoadFunctionsAsync(file, format).ConfigureAwait(false); }
        foreach (Target target in _targets.Values) { await SendAsync(target).ConfigureAwait(false); }
    }

    /// <summary>Waits until all of it is committed.</summary>
    /// <exception cref="IOException">That cannot be waited for.</exception>
    /// <exception cref="RedisException">A connection failed.</exception>
    public async Task CommitAsync()
    {
        foreach (Target target in _targets.Values)
        {
            await RunAsync(target, new RedisBatch().Add("WAITAOF"u8.ToArray(), "1"u8.ToArray(), "0"u8.ToArray(), "0"u8.ToArray()))
                .ConfigureAwait(false);
        }
    }

    public async ValueTask DisposeAsync()
    {
        foreach (Target target in _targets.Values) { await target.Connection.DisposeAsync().ConfigureAwait(false); }
        await _cluster.DisposeAsync().ConfigureAwait(false);
    }

    private async Task OpenShardAsync(string address)
    {
        ProxyConnection proxy = await _cluster.AtAsync(address).ConfigureAwait(false);
        ProxyReply keyspace = await proxy.CallAsync("INFO", "keyspace").ConfigureAwait(false);
        if (keyspace.IsError) { throw new ProxyUnreachableException($"{address} answers {keyspace.Text}", "give a user who may do this"); }
        if (keyspace.Text.Contains("keys=", StringComparison.Ordinal))
        {
            throw new ProxyUnreachableException($"the shard at {address} has keys: a snapshot is loaded into an empty cluster",
                "begin a new cluster, or empty this one (FLUSHALL at each shard)");
        }
        _targets[address] = new(address, await RedisPipeline.ConnectAsync(_cluster.AccessTo(address).Endpoint, AnswerMax, default)
            .ConfigureAwait(false));
    }

    private async Task NoteSlotsAsync(IReadOnlyList<(int First, int Last, string Address)> slots)
    {
        ProxyReply partitions = await _cluster.First.CallAsync("DPR.PARTITIONS").ConfigureAwait(false);
        if (partitions is { IsError: false, Items: [{ Text: "range" }, var splits] })
        {
            _partitions = Partitioning.ByRange(splits.Items.Select(s => new ReadOnlyMemory<byte>(s.Bytes)), out string problem)
                ?? throw new IOException($"the cluster's key ranges are not understood: {problem}");
        }
        _bySlot = new Target[_partitions.Count];
        Array.Fill(_bySlot, _targets.Values.First());
        foreach ((int first, int last, string address) in slots) { Array.Fill(_bySlot, _targets[address], first, last - first + 1); }
    }

    private async Task AddAsync(RdbEntry entry, byte[] payload, long expires)
    {
        if (entry.Database != 0 && _targets.Count > 1)
        {
            throw new IOException($"the snapshot has keys in database {entry.Database}, and a cluster of several shards has database 0 "
                + "only");
        }
        Target target = _bySlot[_partitions.Of(entry.Key).Number];
        if (target.Batch.Bytes >= BatchBytes || target.Batch.Count >= BatchCommands) { await SendAsync(target).ConfigureAwait(false); }
        if (target.Database != entry.Database)
        {
            target.Database = entry.Database;
            target.Batch.Add(s_select, Number(entry.Database));
        }
        target.Batch.Add(s_restore, entry.Key, Number(expires), payload, s_absolute);
        Keys++;
    }

    private async Task LoadFunctionsAsync(RdbCursor file, int format)
    {
        byte[] payload = RdbPayload.OfLibraries(file, format);
        foreach (Target target in _targets.Values)
        {
            await RunAsync(target, new RedisBatch().Add("FUNCTION"u8.ToArray(), "RESTORE"u8.ToArray(), payload, "REPLACE"u8.ToArray()))
                .ConfigureAwait(false);
        }
    }

    private static async Task SendAsync(Target target)
    {
        if (target.Batch.Count == 0) { return; }
        await RunAsync(target, target.Batch).ConfigureAwait(false);
        target.Batch.Clear();
    }

    private static async Task RunAsync(Target target, RedisBatch batch)
    {
        IReadOnlyList<RedisReply> replies = await target.Connection.RunAsync(batch, default).ConfigureAwait(false);
        if (replies.FirstOrDefault(r => r.IsError) is { } error)
        {
            throw new IOException($"the shard at {target.Address} answers {error.Text}");
        }
    }

    private static byte[] Number(long number) => Encoding.ASCII.GetBytes(number.ToString(CultureInfo.InvariantCulture));

    // A shard that is loaded into.
    private sealed class Target(string address, RedisPipeline connection)
    {
        public string Address => address;
        public RedisPipeline Connection => connection;
        public RedisBatch Batch { get; } = new();
        public int Database { get; set; }
    }
}
