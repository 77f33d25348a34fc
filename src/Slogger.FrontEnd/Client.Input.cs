// Requests that are not here yet: what they cost the proxy is bounded, however slowly and in however many pieces they come.
//
// - A long one is looked at as a whole when it has come, and each time it has doubled, not with each piece (PartialRequest).
// - What all clients together have sent of such requests has a limit; beyond it the client with the most is closed.
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    // Shorter requests, and such with few arguments, cost little to look at again.
    private const int PatientBytes = 16 << 10;
    private const int PatientArguments = 16;

    private PartialRequest _partial;
    private nint _lookedAt;
    private nint _countedAt;

    /// <summary>What of requests is here, and cannot go on yet.</summary>
    public nint InputBytes => _input.Count;

    // To be kept where it is, and not copied with each piece.
    private bool IsInputLong => _input.Count >= PatientBytes;

    // The request at the head of the input has been looked at before, and nothing that has come since can matter.
    private bool IsStillIncomplete()
    {
        if (!IsInputLong || IsStreaming || (_pins & Pins.Raw) != 0) { return false; }
        bool isIncomplete = _partial.IsIncomplete(_input.Head, _input.Tail);
        bool hasDoubled = _input.Count < _lookedAt || _input.Count >= 2 * _lookedAt || _input.Count > SpecialRequestBytes;
        if (isIncomplete && _partial.Arguments > PatientArguments && !hasDoubled) { return true; }
        _partial = default;
        _lookedAt = _input.Count;
        return false;
    }

    // Counted whenever it has doubled. False: this client was closed for it.
    private bool IsInputTaken()
    {
        if (_input.Count < PatientBytes)
        {
            _countedAt = 0;
            return true;
        }
        if (_input.Count < 2 * _countedAt) { return true; }
        _countedAt = _input.Count;
        _loop.LimitInputs();
        return !IsClosed;
    }
}
