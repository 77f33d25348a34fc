// A request that comes in many pieces is looked through once, not again with each piece: a client that sends a long one byte by byte
// would else cost the square of its length. Whoever reads keeps the bytes together; this remembers how far they have been seen.
namespace Slogger.Resp;

/// <summary>How far the incomplete request at the head of a buffer has been looked through. A default value has seen nothing. To be made
/// anew whenever another request is at the head.</summary>
public unsafe struct PartialRequest
{
    private long _seen;
    private long _left;

    /// <summary>How many whole arguments have been seen.</summary>
    public long Arguments { get; private set; }

    /// <summary>Looks on where the last call ended.</summary>
    /// <param name="p">The request's first byte; where it is in memory may change between calls, what has been seen must not.</param>
    /// <param name="end">One past the last byte that has come.</param>
    /// <returns>True: more has to come. False: it is whole, or malformed, or no array of bulk strings.</returns>
    public bool IsIncomplete(byte* p, byte* end)
    {
        if (_seen == 0)
        {
            if (p >= end || *p != (byte)'*') { return false; }
            byte* q = p + 1;
            _left = CommandScanner.ReadLength(ref q, end);
            if (_left == CommandScanner.Incomplete) { return true; }
            if (_left is <= 0 or > int.MaxValue) { return false; }
            _seen = q - p;
        }

        for (; _left > 0; _left--, Arguments++)
        {
            byte* q = p + _seen;
            if (q >= end) { return true; }
            if (*q != (byte)'$') { return CommandScanner.ReadOtherLine(q, end) == CommandScanner.Incomplete; }
            q++;
            long length = CommandScanner.ReadLength(ref q, end);
            if (length == CommandScanner.Incomplete) { return true; }
            if (length is < 0 or > int.MaxValue) { return false; }
            if (end - q < length + 2) { return true; }
            _seen = q + length + 2 - p;
        }

        return false;
    }
}
