// A reply of any command, as a value that outlives the buffer it came in.
using System.Collections.Immutable;
using System.Globalization;
using System.Text;

namespace Slogger.Resp;

/// <summary>What a <see cref="RespValue"/> is.</summary>
public enum RespKind
{
    /// <summary>Nothing: a null bulk string or array.</summary>
    Null,

    /// <summary>A simple string, as OK.</summary>
    Status,

    /// <summary>An error inside an array.</summary>
    Error,

    /// <summary>A whole number.</summary>
    Integer,

    /// <summary>Bytes.</summary>
    Bulk,

    /// <summary>An array.</summary>
    Array,
}

/// <summary>A reply of RESP2. Immutable.</summary>
public sealed class RespValue
{
    internal static readonly RespValue Null = new(RespKind.Null, default, 0, []);
    internal static readonly RespValue Ok = new(RespKind.Status, "OK"u8.ToArray(), 0, []);

    private RespValue(RespKind kind, ReadOnlyMemory<byte> bytes, long number, ImmutableArray<RespValue> items) =>
        (Kind, Bytes, Integer, Items) = (kind, bytes, number, items);

    /// <summary>What it is.</summary>
    public RespKind Kind { get; }

    /// <summary>The bytes of a status, error or bulk string; else empty.</summary>
    public ReadOnlyMemory<byte> Bytes { get; }

    /// <summary>The number of an integer; else 0.</summary>
    public long Integer { get; }

    /// <summary>The elements of an array; else none.</summary>
    public ImmutableArray<RespValue> Items { get; }

    /// <summary>Whether there is nothing.</summary>
    public bool IsNull => Kind == RespKind.Null;

    /// <summary>Bytes as UTF-8, a number in decimal, null for nothing, the elements of an array between brackets.</summary>
    public string? AsText() => Kind switch
    {
        RespKind.Null => null,
        RespKind.Integer => Integer.ToString(CultureInfo.InvariantCulture),
        RespKind.Array => "[" + string.Join(", ", Items.Select(i => i.AsText() ?? "(nil)")) + "]",
        _ => Encoding.UTF8.GetString(Bytes.Span),
    };

    /// <summary>The number of an integer, or the number that the text is.</summary>
    /// <exception cref="FormatException">It is none.</exception>
    public long AsInteger() => Kind == RespKind.Integer ? Integer
        : long.Parse(AsText() ?? "", NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture);

    /// <inheritdoc />
    public override string ToString() => AsText() ?? "(nil)";

    internal static RespValue Read(ReadOnlySpan<byte> bytes)
    {
        int at = 0;
        return Read(bytes, ref at);
    }

    private static RespValue Read(ReadOnlySpan<byte> bytes, ref int at)
    {
        byte kind = bytes[at];
        int line = at + 1, end = line + bytes[line..].IndexOf((byte)'\n') - 1;
        ReadOnlySpan<byte> text = bytes[line..end];
        at = end + 2;
        switch (kind)
        {
            case (byte)'+':
                return text.SequenceEqual("OK"u8) ? Ok : new(RespKind.Status, text.ToArray(), 0, []);
            case (byte)'-':
                return new(RespKind.Error, text.ToArray(), 0, []);
            case (byte)':':
                return new(RespKind.Integer, default, WireReply.Number(text), []);
        }

        int count = checked((int)WireReply.Number(text));
        if (count < 0) { return Null; }
        if (kind == (byte)'$')
        {
            at += count + 2;
            return new(RespKind.Bulk, bytes.Slice(at - count - 2, count).ToArray(), 0, []);
        }

        if (kind != (byte)'*')
        {
            throw new InvalidDataException($"The proxy sent a reply of kind 0x{kind:x2}, which RESP2 does not have.");
        }
        ImmutableArray<RespValue>.Builder items = ImmutableArray.CreateBuilder<RespValue>(count);
        for (int i = 0; i < count; i++) { items.Add(Read(bytes, ref at)); }
        return new(RespKind.Array, default, 0, items.MoveToImmutable());
    }
}
