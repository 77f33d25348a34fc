// What a key was at an instant, read with the command that reads all of it. Two of them are the same if their fingerprints are: sets and
// hashes have no order, and what Redis chose to keep them in does not count. So DUMP would not do: of one value it has many.
using System.Buffers.Binary;
using System.Security.Cryptography;
using System.Text;
using Slogger.Cli.Access;

namespace Slogger.Cli.Past;

/// <summary>A value, with its type and its expiry.</summary>
/// <param name="Type">The type; <see cref="PastKey.None"/>: there was no such key.</param>
/// <param name="Expires">When the key was to expire; null: never.</param>
/// <param name="Reply">What the command that reads all of it replied; null: there was no such key.</param>
internal sealed record PastValue(string Type, DateTimeOffset? Expires, ProxyReply? Reply)
{
    // Of XINFO STREAM FULL: how the stream is kept in memory, and when consumers were last seen.
    private static readonly string[] s_besideTheValue = ["radix-tree-keys", "radix-tree-nodes", "seen-time", "active-time"];

    /// <summary>Reads a key.</summary>
    /// <param name="past">The cluster.</param>
    /// <param name="at">The instant.</param>
    /// <param name="key">The key.</param>
    /// <param name="forComparison">Whether a stream's groups are wanted, too.</param>
    /// <exception cref="ProxyUnreachableException">It could not be read.</exception>
    public static async Task<PastValue> ReadAsync(PastCluster past, PastInstant at, byte[] key, bool forComparison = false)
    {
        string type = (await past.ReadAsync(at, [.. Words("TYPE"), key]).ConfigureAwait(false)).Text;
        if (type == PastKey.None) { return new(type, null, null); }
        long expires = (await past.ReadAsync(at, [.. Words("PEXPIRETIME"), key]).ConfigureAwait(false)).Number;
        return new(type, expires < 0 ? null : DateTimeOffset.FromUnixTimeMilliseconds(expires),
            await past.ReadAsync(at, ReadOf(type, key, forComparison)).ConfigureAwait(false));
    }

    /// <summary>The same for equal values of one type, and only for these.</summary>
    public string Fingerprint()
    {
        using var hash = IncrementalHash.CreateHash(HashAlgorithmName.SHA256);
        Add(hash, InOrder());
        return Convert.ToHexString(hash.GetHashAndReset());
    }

    /// <summary>As it is shown.</summary>
    /// <param name="key">The key.</param>
    public PastKey Shown(byte[] key) => new(Encoding.UTF8.GetString(key), Type, Expires, ReplyJson.Of(Reply));

    private ProxyReply InOrder() => (Type, Reply) switch
    {
        (_, null) => new('_', [], []),
        ("set", { } members) => Array([.. members.Items.OrderBy(m => m.Bytes, ByteOrder.Instance)]),
        ("hash", { } fields) => Array([.. Pairs(fields).OrderBy(p => p[0].Bytes, ByteOrder.Instance).SelectMany(p => p)]),
        ("stream", { Items: [{ Kind: '$' }, ..] } facts) => WithoutWhatIsBesideIt(facts),
        (_, { } other) => other,
    };

    private static ProxyReply WithoutWhatIsBesideIt(ProxyReply facts) => Array([.. Pairs(facts)
        .Where(p => !s_besideTheValue.Contains(p[0].Text))
        .SelectMany(p => p[0].Text is "groups" or "consumers"
            ? [p[0], Array([.. p[1].Items.Select(WithoutWhatIsBesideIt)])] : p)]);

    private static IEnumerable<ProxyReply[]> Pairs(ProxyReply flat) => flat.Items.Chunk(2);

    private static ProxyReply Array(IReadOnlyList<ProxyReply> items) => new('*', [], items);

    // Each part with its kind and its length: so no two have the same bytes.
    private static void Add(IncrementalHash hash, ProxyReply reply)
    {
        Span<byte> head = stackalloc byte[5];
        head[0] = (byte)reply.Kind;
        BinaryPrimitives.WriteInt32LittleEndian(head[1..], reply.Kind == '*' ? reply.Items.Count : reply.Bytes.Length);
        hash.AppendData(head);
        hash.AppendData(reply.Bytes);
        foreach (ProxyReply item in reply.Items) { Add(hash, item); }
    }

    private static byte[][] ReadOf(string type, byte[] key, bool forComparison) => type switch
    {
        "string" => [.. Words("GET"), key],
        "list" => [.. Words("LRANGE"), key, .. Words("0", "-1")],
        "set" => [.. Words("SMEMBERS"), key],
        "hash" => [.. Words("HGETALL"), key],
        "zset" => [.. Words("ZRANGE"), key, .. Words("0", "-1", "WITHSCORES")],
        "stream" when forComparison => [.. Words("XINFO", "STREAM"), key, .. Words("FULL", "COUNT", "0")],
        "stream" => [.. Words("XRANGE"), key, .. Words("-", "+")],
        // Of a module.
        _ => [.. Words("DUMP"), key],
    };

    private static byte[][] Words(params string[] words) => [.. words.Select(w => Encoding.ASCII.GetBytes(w))];

    private sealed class ByteOrder : IComparer<byte[]>
    {
        public static readonly ByteOrder Instance = new();

        public int Compare(byte[]? x, byte[]? y) => x.AsSpan().SequenceCompareTo(y);
    }
}
