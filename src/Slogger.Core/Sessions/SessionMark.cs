// What follows a session's batch in the replication stream: SPUBLISH <channel of the markers> <payload>. The payload is
// "S" and then, for each of one or more sessions, 32 hexadecimal digits, ":", the number of the batch's last operation, ",".
using System.Buffers.Text;
using System.Globalization;

namespace Slogger.Core.Sessions;

/// <summary>Writes and reads the payload of session marks. A marker's begins with a digit, so neither is taken for the other.</summary>
public static class SessionMark
{
    /// <summary>The most bytes that one session takes.</summary>
    public const int EntryBytesMax = IdDigits + 1 + 19 + 1;

    private const int IdDigits = 32;
    private const byte Prefix = (byte)'S';

    /// <summary>Whether a payload on the marker channel is a mark.</summary>
    public static bool IsMark(ReadOnlySpan<byte> payload) => payload.Length > 1 && payload[0] == Prefix;

    /// <summary>Adds a session to a payload, which is begun if it is empty.</summary>
    /// <param name="payload">The payload: room for one byte and <see cref="EntryBytesMax"/> more is needed.</param>
    /// <param name="length">Bytes of it in use.</param>
    /// <param name="session">The session's id.</param>
    /// <param name="last">The number of the last operation executed.</param>
    /// <returns>Bytes in use now.</returns>
    public static int Append(Span<byte> payload, int length, UInt128 session, long last)
    {
        if (length == 0) payload[length++] = Prefix;
        _ = session.TryFormat(payload[length..], out int digits, "x32", CultureInfo.InvariantCulture);
        length += digits;
        payload[length++] = (byte)':';
        _ = Utf8Formatter.TryFormat(last, payload[length..], out digits);
        length += digits;
        payload[length++] = (byte)',';
        return length;
    }

    /// <summary>Takes the next session off a payload; false at its end, or where it is none.</summary>
    public static bool TryReadNext(ref ReadOnlySpan<byte> payload, out UInt128 session, out long last)
    {
        last = 0;
        session = default;
        if (!payload.IsEmpty && payload[0] == Prefix) payload = payload[1..];
        if (payload.Length < IdDigits + 3
            || !UInt128.TryParse(payload[..IdDigits], NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out session)
            || payload[IdDigits] != ':'
            || !Utf8Parser.TryParse(payload[(IdDigits + 1)..], out last, out int digits)
            || IdDigits + 1 + digits >= payload.Length || payload[IdDigits + 1 + digits] != ',')
            return false;
        payload = payload[(IdDigits + 1 + digits + 1)..];
        return true;
    }
}
