// One word of a request as callers write it: a text, bytes, or a number, without a conversion of their own.
using System.Globalization;

namespace Slogger.Resp;

/// <summary>An argument of a command: a text (sent as UTF-8), bytes, or a number (sent in decimal). Made by conversion.</summary>
public readonly struct Argument
{
    private readonly string? _text;
    private readonly ReadOnlyMemory<byte> _bytes;
    private readonly long _number;
    private readonly Kind _kind;

    private enum Kind : byte { Bytes, Text, Number }

    private Argument(Kind kind, string? text, ReadOnlyMemory<byte> bytes, long number) =>
        (_kind, _text, _bytes, _number) = (kind, text, bytes, number);

    /// <summary>A text, as UTF-8.</summary>
    /// <exception cref="ArgumentNullException">It is null: Redis has no such argument.</exception>
    public static implicit operator Argument(string text)
    {
        ArgumentNullException.ThrowIfNull(text);
        return new(Kind.Text, text, default, 0);
    }

    /// <summary>Bytes. They are copied when the operation is started.</summary>
    public static implicit operator Argument(byte[] bytes)
    {
        ArgumentNullException.ThrowIfNull(bytes);
        return new(Kind.Bytes, null, bytes, 0);
    }

    /// <summary>Bytes. They are copied when the operation is started.</summary>
    public static implicit operator Argument(ReadOnlyMemory<byte> bytes) => new(Kind.Bytes, null, bytes, 0);

    /// <summary>A whole number.</summary>
    public static implicit operator Argument(long number) => new(Kind.Number, null, default, number);

    /// <summary>A number, with as many digits as it takes to read the same one back.</summary>
    public static implicit operator Argument(double number) =>
        new(Kind.Text, number.ToString("R", CultureInfo.InvariantCulture), default, 0);

    internal void WriteTo(RequestWriter writer)
    {
        switch (_kind)
        {
            case Kind.Text: writer.Add(_text!); break;
            case Kind.Number: writer.Add(_number); break;
            default: writer.Add(_bytes.Span); break;
        }
    }

    /// <summary>For people: the text, the number, or how many bytes.</summary>
    public override string ToString() => _kind switch
    {
        Kind.Text => _text!,
        Kind.Number => _number.ToString(CultureInfo.InvariantCulture),
        _ => string.Create(CultureInfo.InvariantCulture, $"({_bytes.Length} bytes)"),
    };
}
