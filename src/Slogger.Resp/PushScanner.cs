// Tells frames that answer no request from replies, by how they begin. Whoever asks has to know that such a frame may come: in RESP2
// a message is an array like any other.
using System.Buffers.Text;

namespace Slogger.Resp;

/// <summary>What a frame that begins like a push is.</summary>
public enum PushKind
{
    /// <summary>More bytes are needed. Never said of a whole frame: nobody knows when the next byte comes.</summary>
    Incomplete,

    /// <summary>A published message, the invalidation of keys, or a line of MONITOR.</summary>
    Message,

    /// <summary>Confirms that a subscription has begun or ended.</summary>
    Confirmation,

    /// <summary>Neither: a reply, if it is an array or a line.</summary>
    Other,
}

/// <summary>Looks at how arrays and pushes begin.</summary>
public static unsafe class PushScanner
{
    private const int LongestName = 24;

    /// <summary>Tells what a frame is: <c>&gt;3\r\n$9\r\nsubscribe\r\n...</c>, its first element is a short bulk string.</summary>
    /// <param name="p">The first byte of the frame: an asterisk, or a greater-than sign.</param>
    /// <param name="end">One past the last byte that is here.</param>
    public static PushKind Classify(byte* p, byte* end)
    {
        p++;
        long elements = CommandScanner.ReadLength(ref p, end);
        if (elements == CommandScanner.Incomplete) { return PushKind.Incomplete; }
        // No name will follow: whoever waited for one would wait for the next frame.
        if (elements < 1) { return PushKind.Other; }
        if (p == end) { return PushKind.Incomplete; }
        if (*p++ != (byte)'$') { return PushKind.Other; }
        long length = CommandScanner.ReadLength(ref p, end);
        if (length == CommandScanner.Incomplete) { return PushKind.Incomplete; }
        if (length is < 0 or > LongestName) { return PushKind.Other; }
        if (end - p < length) { return PushKind.Incomplete; }
        var name = new ReadOnlySpan<byte>(p, (int)length);
        if (name.EndsWith("subscribe"u8)) { return PushKind.Confirmation; }
        return name.EndsWith("message"u8) || name.SequenceEqual("invalidate"u8) ? PushKind.Message : PushKind.Other;
    }

    /// <summary>Tells a line of MONITOR, <c>+1700000000.123456 [0 127.0.0.1:6379] ...</c>, from a status, which may begin with a digit,
    /// too.</summary>
    /// <param name="p">The first byte of the line: a plus sign.</param>
    /// <param name="end">One past the last byte that is here.</param>
    public static PushKind ClassifyLine(byte* p, byte* end)
    {
        byte* q = p + 1;
        while (q < end && char.IsAsciiDigit((char)*q)) { q++; }
        if (q == p + 1 && q < end) { return PushKind.Other; }
        // Behind the seconds; each 0 stands for a digit.
        foreach (byte wanted in ".000000 ["u8)
        {
            if (q == end) { return PushKind.Incomplete; }
            byte found = *q++;
            if (wanted == (byte)'0' ? !char.IsAsciiDigit((char)found) : found != wanted) { return PushKind.Other; }
        }
        return PushKind.Message;
    }
}
