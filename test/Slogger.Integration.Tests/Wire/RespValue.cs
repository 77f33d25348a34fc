// A reply as the harness sees it: any RESP2 or RESP3 value. Made by RespClient; compared with the model by Compact.
using System.Globalization;
using System.Text;

namespace Slogger.Integration.Tests.Wire;

/// <summary>What kind of reply a value is.</summary>
internal enum RespKind
{
    Simple,
    Error,
    Integer,
    Bulk,
    Null,
    Array,
    Push,
    Map,
    Set,
    Scalar,
}

/// <summary>One reply. <see cref="Items"/> is empty for scalars; a map lists its keys and values in turn.</summary>
internal sealed record RespValue(RespKind Kind, byte[] Bytes, long Number, IReadOnlyList<RespValue> Items)
{
    private static readonly byte[] NoBytes = [];
    private static readonly RespValue[] NoItems = [];

    public static readonly RespValue Null = new(RespKind.Null, NoBytes, 0, NoItems);

    public static RespValue Line(RespKind kind, byte[] bytes) => new(kind, bytes, 0, NoItems);

    public static RespValue Of(long number) => new(RespKind.Integer, NoBytes, number, NoItems);

    public static RespValue Aggregate(RespKind kind, RespValue[] items) => new(kind, NoBytes, 0, items);

    public bool IsError => Kind == RespKind.Error;

    public bool IsNull => Kind == RespKind.Null;

    /// <summary>The payload as text, byte by byte (Latin-1, so that nothing is lost).</summary>
    public string Text => Kind == RespKind.Integer ? Number.ToString(CultureInfo.InvariantCulture) : Encoding.Latin1.GetString(Bytes);

    /// <summary>A one-line form for comparison: +simple, -error, :integer, $bulk, _ for null, [a,b] for aggregates.</summary>
    public string Compact => Kind switch
    {
        RespKind.Simple => "+" + Text,
        RespKind.Error => "-" + Text,
        RespKind.Integer => ":" + Text,
        RespKind.Bulk or RespKind.Scalar => "$" + Text,
        RespKind.Null => "_",
        _ => "[" + string.Join(',', Items.Select(i => i.Compact)) + "]",
    };

    /// <summary>The number in an integer reply or in digits.</summary>
    /// <exception cref="InvalidDataException">It is none.</exception>
    public long AsInteger() => Kind == RespKind.Integer
        ? Number
        : long.TryParse(Text, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long parsed)
            ? parsed
            : throw new InvalidDataException($"expected an integer, got {this}");

    public override string ToString() => Compact.Length <= 200 ? Compact : Compact[..200] + "...";
}
