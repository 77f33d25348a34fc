// A request that is too large to be kept goes on, or is dropped, as it comes: its end is found meanwhile.
using System.Globalization;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>A large request that has not come to its end.</summary>
internal sealed unsafe class LargeRequest
{
    private long _arguments;

    // Of the argument that has begun, its line end included.
    private long _bytes;

    /// <summary>Begins with the first line of a request, which has come whole.</summary>
    /// <param name="p">The request.</param>
    /// <param name="isDropped">See <see cref="IsDropped"/>.</param>
    /// <param name="header">The length of that line.</param>
    public LargeRequest(byte* p, bool isDropped, out nint header)
    {
        byte* q = p + 1;
        while (*q != (byte)'\r') { q++; }
        _arguments = long.Parse(new ReadOnlySpan<byte>(p + 1, (int)(q - p - 1)), NumberStyles.AllowLeadingSign,
            CultureInfo.InvariantCulture);
        header = (nint)(q + 2 - p);
        IsDropped = isDropped;
    }

    /// <summary>It is not done: what comes of it is passed over.</summary>
    public bool IsDropped { get; }

    /// <summary>Its last argument has come.</summary>
    public bool IsComplete => _arguments == 0;

    /// <summary>Passes over what has come of it.</summary>
    /// <param name="start">What has come and was not passed over.</param>
    /// <param name="end">The end of that.</param>
    /// <param name="count">How much of it can go on.</param>
    /// <returns>Whether it is well formed so far.</returns>
    public bool TryAdvance(byte* start, byte* end, out nint count)
    {
        count = 0;
        byte* p = start;
        while (p < end)
        {
            if (_bytes > 0)
            {
                long take = Math.Min(_bytes, end - p);
                p += take;
                _bytes -= take;
                if (_bytes > 0 || --_arguments == 0) { break; }
                continue;
            }
            byte* q = p;
            // Behind a zero byte Redis sees no line end. It says what is wrong with a line only when that has ended, or is too long:
            // before, nothing may be sent
            // on as if it were all, for the version would wait for an answer.
            while (q < end && *q is not ((byte)'\r' or 0)) { q++; }
            if (end - q < 2 || *q == 0)
            {
                if (end - p > CommandScanner.MaxLineBytes) { return false; }
                break;
            }
            if (*p != (byte)'$' ||
                !long.TryParse(new ReadOnlySpan<byte>(p + 1, (int)(q - p - 1)), NumberStyles.None, CultureInfo.InvariantCulture,
                    out long length))
            {
                return false;
            }
            p = q + 2;
            _bytes = length + 2;
        }
        count = (nint)(p - start);
        return true;
    }
}
