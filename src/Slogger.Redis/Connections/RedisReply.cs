// One RESP2 reply as a value: small and simple, for the control connection only. Nothing on a hot path uses it.
using System.Globalization;
using System.Text;

namespace Slogger.Redis.Connections;

/// <summary>The five kinds of RESP2 reply, and nil.</summary>
public enum RedisReplyKind
{
    /// <summary><c>+text</c></summary>
    Status,
    /// <summary><c>-text</c></summary>
    Error,
    /// <summary><c>:number</c></summary>
    Integer,
    /// <summary><c>$bytes</c></summary>
    Bulk,
    /// <summary><c>*items</c></summary>
    Array,
    /// <summary>A nil bulk or array.</summary>
    Nil,
}

/// <summary>A RESP2 reply. <see cref="Text"/> is the UTF-8 text of a status, error, integer or bulk.</summary>
public sealed class RedisReply
{
    private readonly byte[] _bytes;

    private RedisReply(RedisReplyKind kind, byte[] bytes, IReadOnlyList<RedisReply> items, long integer)
    {
        Kind = kind;
        _bytes = bytes;
        Items = items;
        Integer = integer;
    }

    /// <summary>What the reply is.</summary>
    public RedisReplyKind Kind { get; }

    /// <summary>The items of an array; empty otherwise.</summary>
    public IReadOnlyList<RedisReply> Items { get; }

    /// <summary>The value of an integer reply; 0 otherwise.</summary>
    public long Integer { get; }

    /// <summary>The raw bytes of a status, error or bulk.</summary>
    public ReadOnlyMemory<byte> Bytes => _bytes;

    /// <summary>Whether it is an error reply.</summary>
    public bool IsError => Kind == RedisReplyKind.Error;

    /// <summary>The text.</summary>
    public string Text => Kind == RedisReplyKind.Integer
        ? Integer.ToString(CultureInfo.InvariantCulture) : Encoding.UTF8.GetString(_bytes);

    internal static RedisReply OfText(RedisReplyKind kind, byte[] bytes) => new(kind, bytes, [], 0);
    internal static RedisReply OfInteger(long value) => new(RedisReplyKind.Integer, [], [], value);
    internal static RedisReply OfItems(IReadOnlyList<RedisReply> items) => new(RedisReplyKind.Array, [], items, 0);
    internal static readonly RedisReply Nil = new(RedisReplyKind.Nil, [], [], 0);

    /// <inheritdoc />
    public override string ToString() => Kind switch
    {
        RedisReplyKind.Array => "[" + string.Join(", ", Items) + "]",
        RedisReplyKind.Nil => "(nil)",
        RedisReplyKind.Error => "-" + Text,
        _ => Text,
    };
}
