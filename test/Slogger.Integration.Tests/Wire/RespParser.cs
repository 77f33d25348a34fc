// Parses one RESP2/RESP3 value from a buffer that may end anywhere. Called by RespClient only; not tuned for speed.
using System.Buffers.Text;

namespace Slogger.Integration.Tests.Wire;

internal static class RespParser
{
    /// <summary>Parses a whole value at <paramref name="at"/> and moves it past the value; false if it is incomplete.</summary>
    /// <exception cref="InvalidDataException">The bytes are no RESP: the stream is out of step.</exception>
    public static bool TryParse(ReadOnlySpan<byte> bytes, ref int at, out RespValue value)
    {
        value = RespValue.Null;
        int line = at;
        if (line >= bytes.Length)
        {
            return false;
        }

        int length = bytes[line..].IndexOf("\r\n"u8);
        if (length < 0)
        {
            return false;
        }

        byte type = bytes[line];
        var rest = bytes.Slice(line + 1, length - 1);
        int next = line + length + 2;
        switch (type)
        {
            case (byte)'+':
                value = RespValue.Line(RespKind.Simple, rest.ToArray());
                break;
            case (byte)'-':
                value = RespValue.Line(RespKind.Error, rest.ToArray());
                break;
            case (byte)':':
                value = RespValue.Of(Number(rest));
                break;
            case (byte)'_':
                break;
            case (byte)',' or (byte)'#' or (byte)'(':
                value = RespValue.Line(RespKind.Scalar, rest.ToArray());
                break;
            case (byte)'$' or (byte)'=' or (byte)'!':
                return Bulk(bytes, type, Number(rest), next, ref at, out value);
            case (byte)'*' or (byte)'>' or (byte)'~' or (byte)'%':
                return Aggregate(bytes, type, Number(rest), next, ref at, out value);
            default:
                throw new InvalidDataException($"not RESP: byte 0x{type:x2}; the replies are out of step");
        }

        at = next;
        return true;
    }

    private static bool Bulk(ReadOnlySpan<byte> bytes, byte type, long length, int next, ref int at, out RespValue value)
    {
        value = RespValue.Null;
        if (length >= 0)
        {
            if (bytes.Length < next + length + 2)
            {
                return false;
            }

            var body = bytes.Slice(next, (int)length).ToArray();
            value = RespValue.Line(type == '!' ? RespKind.Error : RespKind.Bulk, body);
            next += (int)length + 2;
        }

        at = next;
        return true;
    }

    private static bool Aggregate(ReadOnlySpan<byte> bytes, byte type, long count, int next, ref int at, out RespValue value)
    {
        value = RespValue.Null;
        if (count >= 0)
        {
            var items = new RespValue[type == '%' ? count * 2 : count];
            for (int i = 0; i < items.Length; i++)
            {
                if (!TryParse(bytes, ref next, out items[i]))
                {
                    return false;
                }
            }

            value = RespValue.Aggregate(
                type switch { (byte)'>' => RespKind.Push, (byte)'~' => RespKind.Set, (byte)'%' => RespKind.Map, _ => RespKind.Array },
                items);
        }

        at = next;
        return true;
    }

    private static long Number(ReadOnlySpan<byte> digits) =>
        Utf8Parser.TryParse(digits, out long number, out int used) && used == digits.Length
            ? number
            : throw new InvalidDataException("not RESP: a length or integer that is no number");
}
