// Finds the boundaries of requests in bytes from a client, exactly as Redis 7.0's processMultibulkBuffer reads them: a
// request that passes here parses there too, since many clients share one connection to Redis and a protocol error on it
// would hit them all. What Redis does not check (the bytes of a line end) is not checked here either.
using System.Runtime.CompilerServices;
using Slogger.Core.Ownership;

namespace Slogger.Resp;

/// <summary>Why a scan of requests stopped.</summary>
public enum ScanStop
{
    /// <summary>The bytes ended, between two requests or inside one.</summary>
    NeedMore,

    /// <summary>The next request's name is in the set of special names.</summary>
    Special,

    /// <summary>The next request is not an array of bulk strings but a line of words.</summary>
    Inline,

    /// <summary>The next request is larger than the limit, complete or not.</summary>
    Large,

    /// <summary>As many requests were scanned as were wanted.</summary>
    Enough,

    /// <summary>The next bytes are no request; <see cref="CommandScanner.Classify"/> says which error Redis would give.</summary>
    Malformed,

    /// <summary>The next request is whole, and may have a key outside the slots that were asked for.</summary>
    Slot,
}

/// <summary>Scans requests of the RESP protocol without copying. Source: Redis 7.0 networking.c.</summary>
public static unsafe class CommandScanner
{
    /// <summary>The longest line that Redis accepts as an inline request or as a length. Unit: bytes.</summary>
    public const int MaxLineBytes = 64 * 1024;

    internal const long Incomplete = long.MinValue;
    internal const long Invalid = long.MinValue + 1;
    internal const long TooLong = long.MinValue + 2;

    /// <summary>Scans whole ordinary requests from <paramref name="p"/>. Requests with a count of 0 or less have no
    /// reply: they are passed over without being counted.</summary>
    /// <param name="p">The first byte.</param>
    /// <param name="end">One past the last byte.</param>
    /// <param name="special">Names at which the scan stops.</param>
    /// <param name="largeBytes">A request that is, or promises to be, larger than this stops the scan.</param>
    /// <param name="count">Raised by the number of requests that will be answered. Where it begins below zero, the scan stops when
    /// it has come to zero.</param>
    /// <param name="stop">Why the scan ended at the returned pointer.</param>
    /// <param name="specialValue">With <see cref="ScanStop.Special"/> the number of the name, else 0.</param>
    /// <returns>The first byte that was not consumed.</returns>
    public static byte* ScanRun(
        byte* p, byte* end, SpecialNames special, long largeBytes, ref int count, out ScanStop stop, out byte specialValue) =>
        ScanRun(p, end, special, largeBytes, ref count, out stop, out specialValue, out _);

    /// <summary>As the first, and says whether all that was scanned only reads: names that <paramref name="special"/> has with
    /// <see cref="ReadsOnly"/> do.</summary>
    /// <param name="p">As the first.</param>
    /// <param name="end">As the first.</param>
    /// <param name="special">As the first; no scan stops at names with <see cref="ReadsOnly"/>.</param>
    /// <param name="largeBytes">As the first.</param>
    /// <param name="count">As the first.</param>
    /// <param name="stop">As the first.</param>
    /// <param name="specialValue">As the first.</param>
    /// <param name="mayWrite">Whether any request that was passed may change data.</param>
    public static byte* ScanRun(byte* p, byte* end, SpecialNames special, long largeBytes, ref int count, out ScanStop stop,
        out byte specialValue, out bool mayWrite) =>
        Scan<AnySlot>(p, end, special, null, 0, largeBytes, ref count, out stop, out specialValue, out mayWrite);

    /// <summary>The value of a name, of those that a scan does not stop at, whose command changes no data.</summary>
    public const byte ReadsOnly = SlotTable.FirstRule;

    /// <summary>As the other, and stops with <see cref="ScanStop.Slot"/> at the first request whose keys are not all in one slot of
    /// this shard's, as far as that can be seen in passing: <see cref="KeyFinder"/> has the last word.</summary>
    /// <param name="p">The first byte.</param>
    /// <param name="end">One past the last byte.</param>
    /// <param name="slots">Names at which the scan stops, places of keys, and slots.</param>
    /// <param name="within">A slot in which all keys must be; or <see cref="SlotTable.Owned"/>, or <see cref="SlotTable.None"/>.</param>
    /// <param name="largeBytes">A request that is, or promises to be, larger than this stops the scan.</param>
    /// <param name="count">Raised by the number of requests that will be answered.</param>
    /// <param name="stop">Why the scan ended at the returned pointer.</param>
    /// <param name="specialValue">With <see cref="ScanStop.Special"/> the number of the name, else 0.</param>
    /// <returns>The first byte that was not consumed.</returns>
    public static byte* ScanRun(
        byte* p, byte* end, SlotTable slots, int within, long largeBytes, ref int count, out ScanStop stop, out byte specialValue) =>
        ScanRun(p, end, slots, within, largeBytes, ref count, out stop, out specialValue, out _);

    /// <summary>The same, and says whether all that was scanned only reads.</summary>
    /// <param name="p">The first byte.</param>
    /// <param name="end">One past the last byte.</param>
    /// <param name="slots">As above.</param>
    /// <param name="within">As above.</param>
    /// <param name="largeBytes">As above.</param>
    /// <param name="count">As above.</param>
    /// <param name="stop">As above.</param>
    /// <param name="specialValue">As above.</param>
    /// <param name="mayWrite">Whether any request that was passed may change data.</param>
    public static byte* ScanRun(byte* p, byte* end, SlotTable slots, int within, long largeBytes, ref int count, out ScanStop stop,
        out byte specialValue, out bool mayWrite)
    {
        ArgumentNullException.ThrowIfNull(slots);
        return slots.Partitions.Kind == PartitionKind.Hash
            ? Scan<HashSlots>(p, end, slots.Names, slots, within, largeBytes, ref count, out stop, out specialValue, out mayWrite)
            : Scan<RangeSlots>(p, end, slots.Names, slots, within, largeBytes, ref count, out stop, out specialValue, out mayWrite);
    }

    // Compiled once for each: without slots nothing of them is left, and with one kind of partitions nothing of the other.
    private readonly struct AnySlot;

    internal readonly struct HashSlots;

    private readonly struct RangeSlots;

    private static byte* Scan<TSlots>(
        byte* p, byte* end, SpecialNames special, SlotTable? slots, int within, long largeBytes, ref int count, out ScanStop stop,
            out byte specialValue, out bool mayWrite)
        where TSlots : struct
    {
        specialValue = 0;
        mayWrite = false;
        while (p < end)
        {
            byte* start = p;
            if (*p != (byte)'*')
            {
                stop = ScanStop.Inline;
                return start;
            }
            byte* q = p + 1;
            long arguments = ReadLength(ref q, end);
            if (arguments < 0 || arguments > int.MaxValue)
            {
                if (arguments == Incomplete) { break; }
                if (arguments is Invalid or TooLong or > int.MaxValue) { stop = ScanStop.Malformed; return start; }
                p = q;
                continue;
            }
            if (arguments == 0)
            {
                p = q;
                continue;
            }
            bool first = true, reads = false;
            SlotCheck keys = default;
            for (long i = arguments; i > 0; i--)
            {
                if (q >= end) { goto incomplete; }
                if (*q != (byte)'$')
                {
                    // Redis says so only when the whole line has come.
                    if (ReadOtherLine(q, end) == Incomplete) { goto incomplete; }
                    stop = ScanStop.Malformed;
                    return start;
                }
                q++;
                long length = ReadLength(ref q, end);
                if (length < 0)
                {
                    if (length == Incomplete) { goto incomplete; }
                    stop = ScanStop.Malformed;
                    return start;
                }
                if (first)
                {
                    first = false;
                    byte value;
                    if (length > SpecialNames.LongestLookup)
                    {
                        value = special.Impossible;
                    }
                    else if (end - q >= length)
                    {
                        value = special.Find(q, (int)length);
                    }
                    else
                    {
                        goto incomplete;
                    }
                    if (typeof(TSlots) != typeof(AnySlot) && (value == 0 || value >= SlotTable.FirstRule))
                    {
                        keys = slots!.Begin(value, arguments, within);
                        value = 0;
                    }
                    if (typeof(TSlots) == typeof(AnySlot) && value == ReadsOnly)
                    {
                        reads = true;
                        value = 0;
                    }
                    if (value != 0)
                    {
                        specialValue = value;
                        stop = ScanStop.Special;
                        return start;
                    }
                }
                if (length > largeBytes || q - start > largeBytes) { stop = ScanStop.Large; return start; }
                if (end - q < length + 2) { goto incomplete; }
                if (typeof(TSlots) != typeof(AnySlot) && arguments - i == keys.Next)
                {
                    slots!.Check<TSlots>(ref keys, new ReadOnlySpan<byte>(q, (int)length));
                }
                q += length + 2;
            }
            if (typeof(TSlots) != typeof(AnySlot) && keys.Failed)
            {
                stop = ScanStop.Slot;
                return start;
            }
            p = q;
            mayWrite |= typeof(TSlots) == typeof(AnySlot) ? !reads : !keys.Reads;
            if (++count != 0) { continue; }
            stop = ScanStop.Enough;
            return p;

        incomplete:
            p = start;
            if (end - start > largeBytes) { stop = ScanStop.Large; return start; }
            break;
        }
        stop = ScanStop.NeedMore;
        return p;
    }

    /// <summary>Finds the end and the arguments of the one request at <paramref name="p"/>.</summary>
    /// <param name="p">The first byte, a '*'.</param>
    /// <param name="end">One past the last byte.</param>
    /// <param name="arguments">Receives offset and length of each argument, relative to <paramref name="p"/>.</param>
    /// <returns>The request's length in bytes; 0 when it is not complete; -1 when it is malformed.</returns>
    public static long ReadArguments(byte* p, byte* end, List<(int Offset, int Length)> arguments)
    {
        ArgumentNullException.ThrowIfNull(arguments);
        arguments.Clear();
        byte* q = p + 1;
        long count = ReadLength(ref q, end);
        if (count == Incomplete) { return 0; }
        if (count is Invalid or TooLong or > int.MaxValue) { return -1; }
        for (long i = 0; i < count; i++)
        {
            if (q >= end) { return 0; }
            if (*q != (byte)'$') { return ReadOtherLine(q, end) == Incomplete ? 0 : -1; }
            q++;
            long length = ReadLength(ref q, end);
            if (length == Incomplete) { return 0; }
            if (length < 0 || length > int.MaxValue - 64) { return -1; }
            if (end - q < length + 2) { return 0; }
            arguments.Add(((int)(q - p), (int)length));
            q += length + 2;
        }
        return q - p;
    }

    /// <summary>The error with which Redis closes a connection that sent the malformed request at
    /// <paramref name="p"/>, without '-' and line end.</summary>
    public static string Classify(byte* p, byte* end)
    {
        byte* q = p + 1;
        long count = ReadLength(ref q, end);
        if (count is Incomplete or TooLong) { return "ERR Protocol error: too big mbulk count string"; }
        if (count is Invalid or > int.MaxValue) { return "ERR Protocol error: invalid multibulk length"; }
        while (q < end)
        {
            byte* line = q++;
            long length = *line == (byte)'$' ? ReadLength(ref q, end) : ReadOtherLine(line, end);
            if (length < 0) { return ClassifyLength(line, length); }
            if (end - q - 2 < length) { break; }
            q += length + 2;
        }
        return "ERR Protocol error: invalid bulk length";
    }

    /// <summary>The same for a line that should say the length of an argument.</summary>
    /// <param name="line">Its first byte.</param>
    /// <param name="length">What it was read as: no length, or one that is too large.</param>
    public static string ClassifyLength(byte* line, long length) =>
        length is Incomplete or TooLong ? "ERR Protocol error: too big bulk count string"
        : *line != (byte)'$' ? ExpectedDollar(*line) : "ERR Protocol error: invalid bulk length";

    /// <summary>The error, if any, with which Redis closes a connection that has not logged in for the request at
    /// <paramref name="p"/>, without '-' and line end: such requests have few and short arguments.</summary>
    public static string? ClassifyUnauthenticated(byte* p, byte* end)
    {
        const int ArgumentsMax = 10, ArgumentBytesMax = 16384;
        if (p >= end || *p != (byte)'*') { return null; }
        byte* q = p + 1;
        long count = ReadLength(ref q, end);
        if (count is > ArgumentsMax and <= int.MaxValue) { return "ERR Protocol error: unauthenticated multibulk length"; }
        for (; count > 0 && count <= ArgumentsMax && q < end && *q == (byte)'$'; count--)
        {
            q++;
            long length = ReadLength(ref q, end);
            if (length > ArgumentBytesMax) { return "ERR Protocol error: unauthenticated bulk length"; }
            if (length < 0 || end - q < length + 2) { return null; }
            q += length + 2;
        }
        return null;
    }

    // A zero byte ends the text, as it does where C prints it; a line end would break the protocol.
    private static string ExpectedDollar(byte got) =>
        "ERR Protocol error: expected '$', got '" + got switch { 0 => "", (byte)'\r' or (byte)'\n' => " '", _ => $"{(char)got}'" };

    // Reads a canonical decimal number and the two bytes that end its line. As Redis's string2ll: no sign but '-', no
    // leading zeros, at most 20 characters. As strchr: what is behind a zero byte is not seen, so such a line never ends.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal static long ReadLength(ref byte* p, byte* end)
    {
        byte* q = p;
        if (end - q >= 3)
        {
            uint digit = (uint)(q[0] - '0');
            if (digit <= 9 && q[1] == (byte)'\r')
            {
                p = q + 3;
                return digit;
            }
            uint second = (uint)(q[1] - '0');
            if (digit - 1 <= 8 && second <= 9 && q[2] == (byte)'\r' && end - q >= 4)
            {
                p = q + 4;
                return (digit * 10) + second;
            }
        }
        return ReadLongLength(ref p, end);
    }

    // A line that is no length: only whether it is all there.
    internal static long ReadOtherLine(byte* p, byte* end)
    {
        byte* cr = FindLineEnd(p, end);
        if (cr == null) { return end - p <= MaxLineBytes ? Incomplete : TooLong; }
        return end - cr < 2 ? Incomplete : Invalid;
    }

    private static byte* FindLineEnd(byte* p, byte* end)
    {
        byte* limit = end - p > MaxLineBytes ? p + MaxLineBytes : end;
        while (p < limit && *p != (byte)'\r' && *p != 0) { p++; }
        return p < limit && *p == (byte)'\r' ? p : null;
    }

    private static long ReadLongLength(ref byte* p, byte* end)
    {
        byte* q = p;
        byte* cr = FindLineEnd(q, end);
        if (cr == null) { return end - q < MaxLineBytes ? Incomplete : TooLong; }
        if (end - cr < 2) { return Incomplete; }
        long digits = cr - q;
        bool negative = digits > 0 && *q == (byte)'-';
        if (negative) { q++; digits--; }
        if (digits is 0 or > 19) { return Invalid; }
        if (*q == (byte)'0' && (digits > 1 || negative)) { return Invalid; }
        ulong value = 0;
        for (; q < cr; q++)
        {
            uint digit = (uint)(*q - '0');
            if (digit > 9) { return Invalid; }
            value = (value * 10) + digit;
        }
        if (value > long.MaxValue + (negative ? 1UL : 0)) { return Invalid; }
        p = cr + 2;
        // How far below zero makes no difference, but must not be one of the results above.
        return negative ? -(long)Math.Min(value, 1UL << 60) : (long)value;
    }
}
