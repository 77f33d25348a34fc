// What is copied of a key, how it goes from one proxy to the other, and the work at a Redis: reading keys, writing them, deleting
// all of some slots. A key is copied as DUMP gives it, with the time at which it expires.
using System.Buffers;
using System.Buffers.Binary;
using System.Collections.Immutable;
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.FrontEnd;
using Slogger.Proxy.Peers;
using Slogger.Proxy.Stores;
using Slogger.Redis.Connections;

namespace Slogger.Proxy.Moves;

/// <summary>A key as it is at one moment.</summary>
/// <param name="Key">Its name.</param>
/// <param name="ExpiresAt">Milliseconds since 1970-01-01 UTC; 0: never.</param>
/// <param name="Value">What DUMP gives; null: there is no such key.</param>
internal readonly record struct CopiedKey(byte[] Key, long ExpiresAt, byte[]? Value);

/// <summary>Keys on their way.</summary>
internal static class KeyFrame
{
    /// <summary>Writes how much is left, and keys.</summary>
    public static byte[] Write(int left, IReadOnlyList<CopiedKey> keys)
    {
        var to = new ArrayBufferWriter<byte>(64 << 10);
        Number(to, left);
        foreach (CopiedKey key in keys)
        {
            Number(to, key.Key.Length);
            to.Write(key.Key);
            BinaryPrimitives.WriteInt64BigEndian(to.GetSpan(8), key.ExpiresAt);
            to.Advance(8);
            Number(to, key.Value?.Length ?? -1);
            to.Write(key.Value);
        }
        return to.WrittenSpan.ToArray();
    }

    /// <summary>Reads them.</summary>
    /// <exception cref="PeerException">They are no such frame.</exception>
    public static (int Left, List<CopiedKey> Keys) Read(byte[] body)
    {
        try
        {
            int at = 0;
            int left = Number(body, ref at);
            var keys = new List<CopiedKey>();
            while (at < body.Length)
            {
                byte[] key = Take(body, ref at, Number(body, ref at));
                long expires = BinaryPrimitives.ReadInt64BigEndian(body.AsSpan(at, 8));
                at += 8;
                int length = Number(body, ref at);
                keys.Add(new(key, expires, length < 0 ? null : Take(body, ref at, length)));
            }
            return (left, keys);
        }
        catch (ArgumentOutOfRangeException e)
        {
            throw new PeerException("a frame of keys is cut short", e);
        }
    }

    private static void Number(ArrayBufferWriter<byte> to, int number)
    {
        BinaryPrimitives.WriteInt32BigEndian(to.GetSpan(4), number);
        to.Advance(4);
    }

    private static int Number(byte[] body, ref int at)
    {
        int number = BinaryPrimitives.ReadInt32BigEndian(body.AsSpan(at, 4));
        at += 4;
        return number;
    }

    private static byte[] Take(byte[] body, ref int at, int length)
    {
        byte[] bytes = body.AsSpan(at, length).ToArray();
        at += length;
        return bytes;
    }
}

/// <summary>Work at a Redis.</summary>
internal sealed class KeyStore : IAsyncDisposable
{
    private const int DeleteBatch = 500;
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);
    private static readonly byte[] Memory = "MEMORY"u8.ToArray(), Usage = "USAGE"u8.ToArray(), Dump = "DUMP"u8.ToArray(), ExpireTime =
        "PEXPIRETIME"u8.ToArray(), Restore = "RESTORE"u8.ToArray(),
        Replace = "REPLACE"u8.ToArray(), Absolute = "ABSTTL"u8.ToArray(), Unlink = "UNLINK"u8.ToArray(), ScanName = "SCAN"u8.ToArray(),
        Count = "COUNT"u8.ToArray(), ScanCountText = "500"u8.ToArray();
    private readonly RedisBatch _batch = new();

    private readonly RedisPipeline _redis;
    private readonly GivenUpConnections? _givenUp;
    private ClientLine? _self;
    private bool _isUnderWay;

    private KeyStore(RedisPipeline redis, GivenUpConnections? givenUp) => (_redis, _givenUp) = (redis, givenUp);

    /// <summary>Connects.</summary>
    /// <param name="endpoint">Where Redis is.</param>
    /// <param name="givenUp">For one that writes: connections of before that were given up, which are ended first.</param>
    /// <param name="stop">Gives up.</param>
    public static async Task<KeyStore> ConnectAsync(RedisEndpoint endpoint, GivenUpConnections? givenUp, CancellationToken stop)
    {
        var store = new KeyStore(await RedisPipeline.ConnectAsync(endpoint, Limit, stop).ConfigureAwait(false), givenUp);
        if (givenUp is null) { return store; }
        try
        {
            await givenUp.EndAsync(store._redis, stop).ConfigureAwait(false);
            store._self = await GivenUpConnections.IdentifyAsync(store._redis, stop).ConfigureAwait(false);
            return store;
        }
        catch
        {
            await store.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Some keys of all, and where the search goes on; "0" is both its beginning and its end.</summary>
    public async Task<(byte[] Cursor, List<byte[]> Keys)> ScanAsync(byte[] cursor, Func<byte[], bool> wanted, CancellationToken stop)
    {
        _batch.Clear();
        _batch.Add(ScanName, cursor, Count, ScanCountText);
        RedisReply reply = Checked(await RunAsync(stop).ConfigureAwait(false), "SCAN")[0];
        return (reply.Items[0].Bytes.ToArray(), [.. reply.Items[1].Items.Select(k => k.Bytes.ToArray()).Where(wanted)]);
    }

    /// <summary>How much memory keys take at Redis, about; 0 for one that is not there. Unit: bytes.</summary>
    public async Task<IReadOnlyList<long>> SizesAsync(IReadOnlyList<byte[]> keys, CancellationToken stop)
    {
        _batch.Clear();
        foreach (byte[] key in keys) { _batch.Add(Memory, Usage, key); }
        return [.. Checked(await RunAsync(stop).ConfigureAwait(false), "MEMORY USAGE").Select(r => r.Integer)];
    }

    /// <summary>Reads keys.</summary>
    public async Task<List<CopiedKey>> ReadAsync(IReadOnlyList<byte[]> keys, CancellationToken stop)
    {
        var read = new List<CopiedKey>(keys.Count);
        if (keys.Count == 0) { return read; }
        _batch.Clear();
        foreach (byte[] key in keys) { _batch.Add(Dump, key).Add(ExpireTime, key); }
        IReadOnlyList<RedisReply> replies = Checked(await RunAsync(stop).ConfigureAwait(false), "DUMP");
        for (int i = 0; i < keys.Count; i++)
        {
            RedisReply value = replies[2 * i];
            long expires = replies[(2 * i) + 1].Integer;
            // Gone between the two: it counts as changed, and comes once more.
            bool isThere = value.Kind == RedisReplyKind.Bulk && expires != -2;
            read.Add(new(keys[i], Math.Max(expires, 0), isThere ? value.Bytes.ToArray() : null));
        }
        return read;
    }

    /// <summary>Writes keys as they were read elsewhere.</summary>
    public async Task WriteAsync(IReadOnlyList<CopiedKey> keys, CancellationToken stop)
    {
        if (keys.Count == 0) { return; }
        _batch.Clear();
        foreach (CopiedKey key in keys)
        {
            if (key.Value is null) { _batch.Add(Unlink, key.Key); }
            else
            {
                _batch.Add(Restore, key.Key, Encoding.ASCII.GetBytes(key.ExpiresAt.ToString(CultureInfo.InvariantCulture)), key.Value,
                    Replace, Absolute);
            }
        }
        Checked(await RunAsync(stop).ConfigureAwait(false), "RESTORE");
    }

    /// <summary>Deletes all keys that are wanted no more. Returns how many there were.</summary>
    public async Task<long> PurgeAsync(Func<byte[], bool> unwanted, CancellationToken stop)
    {
        long deleted = 0;
        byte[] cursor = "0"u8.ToArray();
        do
        {
            (cursor, List<byte[]> keys) = await ScanAsync(cursor, unwanted, stop).ConfigureAwait(false);
            foreach (byte[][] some in keys.Chunk(DeleteBatch))
            {
                _batch.Clear();
                _batch.Add([Unlink, .. some]);
                deleted += Checked(await RunAsync(stop).ConfigureAwait(false), "UNLINK")[0].Integer;
            }
        }
        while (!cursor.AsSpan().SequenceEqual("0"u8));
        return deleted;
    }

    /// <summary>Whether a key is in one of some slots.</summary>
    public static Func<byte[], bool> IsIn(Partitioning partitions, ImmutableArray<SlotRange> slots)
    {
        bool[] wanted = new bool[partitions.Count];
        foreach (SlotRange range in slots) { Array.Fill(wanted, true, range.First.Number, range.Count); }
        return key => wanted[partitions.Of(key).Number];
    }

    public ValueTask DisposeAsync()
    {
        if (_isUnderWay && _self is { } self) { _givenUp?.Add(self); }
        _isUnderWay = false;
        return _redis.DisposeAsync();
    }

    private async Task<IReadOnlyList<RedisReply>> RunAsync(CancellationToken stop)
    {
        _isUnderWay = true;
        IReadOnlyList<RedisReply> replies = await _redis.RunAsync(_batch, stop).ConfigureAwait(false);
        _isUnderWay = false;
        return replies;
    }

    private static IReadOnlyList<RedisReply> Checked(IReadOnlyList<RedisReply> replies, string what)
    {
        foreach (RedisReply reply in replies)
        {
            if (reply.IsError) { throw new RedisException(RedisProblems.Classify(reply.Text), $"Redis refuses {what}: {reply.Text}"); }
        }
        return replies;
    }
}
