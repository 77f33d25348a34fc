// A whole reply where it lies in the receive buffer: looked at once, by the operation that it answers, and never kept.
using System.Buffers.Text;

namespace Slogger.Resp;

/// <summary>The bytes of one reply of RESP2, line ends included.</summary>
internal readonly ref struct WireReply(ReadOnlySpan<byte> bytes)
{
    public readonly ReadOnlySpan<byte> Bytes = bytes;

    public byte Kind => Bytes[0];

    public bool IsError => Bytes[0] == (byte)'-';

    /// <summary>Whether it is a null bulk string or array.</summary>
    public bool IsNull => Bytes.Length == 5 && Bytes[1] == (byte)'-' && Bytes[0] is (byte)'$' or (byte)'*';

    /// <summary>The line of a status, error or integer, or the bytes of a bulk string.</summary>
    /// <exception cref="InvalidDataException">It is an array, or null.</exception>
    public ReadOnlySpan<byte> Payload
    {
        get
        {
            if (Bytes[0] is (byte)'+' or (byte)'-' or (byte)':') { return Bytes[1..^2]; }
            if (Bytes[0] != (byte)'$' || IsNull)
            {
                throw new InvalidDataException($"A reply of kind '{(char)Bytes[0]}' came where a text or a number was expected.");
            }
            return Bytes[(Bytes.IndexOf((byte)'\n') + 1)..^2];
        }
    }

    /// <summary>An integer, or a text that is one.</summary>
    public long Integer => Number(Payload);

    public static long Number(ReadOnlySpan<byte> text) =>
        Utf8Parser.TryParse(text, out long number, out int used) && used == text.Length ? number
            : throw new InvalidDataException("A reply holds a text where a number was expected.");
}
