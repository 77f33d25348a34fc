// Requests that are not here yet: what they cost the proxy is bounded, however slowly and in however many pieces they come.
//
// - A long one is looked at as a whole when it has come, and each time it has doubled, not with each piece (PartialRequest).
// - What all clients together have sent of such requests has a limit; beyond it the client with the most is closed.
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What is known of a long request that has not come whole.</summary>
internal unsafe struct LongInput
{
    // Requests with few arguments cost little to look at again.
    private const int PatientArguments = 16;
    private PartialRequest _partial;
    private nint _lookedAt;
    private nint _countedAt;

    /// <summary>Shorter input costs little to look at again, and is not counted.</summary>
    public const int BytesMin = 16 << 10;

    /// <summary>Whether the request was looked at before, and nothing that has come since can matter. Input of
    /// <see cref="BytesMin"/> or more.</summary>
    public bool IsStillIncomplete(byte* start, byte* end)
    {
        nint count = (nint)(end - start);
        bool isIncomplete = _partial.IsIncomplete(start, end);
        bool hasDoubled = count < _lookedAt || count >= 2 * _lookedAt || count > Client.SpecialRequestBytes;
        if (isIncomplete && _partial.Arguments > PatientArguments && !hasDoubled) { return true; }
        _partial = default;
        _lookedAt = count;
        return false;
    }

    /// <summary>Whether input is to be counted: it is long, and has doubled since it was counted last.</summary>
    public bool IsDue(nint count)
    {
        if (count < BytesMin)
        {
            _countedAt = 0;
            return false;
        }
        if (count < 2 * _countedAt) { return false; }
        _countedAt = count;
        return true;
    }
}
