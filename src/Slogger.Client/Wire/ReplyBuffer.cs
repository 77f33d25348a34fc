// The receiving side of a connection: bytes in, whole replies out. A reply may come in any pieces; what was scanned is not
// scanned again.
using Slogger.Resp;

namespace Slogger.Client.Wire;

/// <summary>Cuts replies out of received bytes. One caller at a time.</summary>
internal sealed class ReplyBuffer
{
    private const int StartBytes = 64 << 10;
    private const int KeptMax = 4 << 20;
    private byte[] _bytes = new byte[StartBytes];
    private ReplyState _state;
    private int _start, _scanned, _end;

    /// <summary>Room to receive into, never empty. What was returned by TryRead before is not valid any more.</summary>
    public Memory<byte> Room()
    {
        if (_start == _end)
        {
            if (_bytes.Length > KeptMax) { _bytes = new byte[StartBytes]; }
            _start = _scanned = _end = 0;
        }
        else if (_bytes.Length - _end < _bytes.Length / 4)
        {
            int kept = _end - _start;
            // A reply that fills half of the buffer needs a larger one.
            byte[] to = kept > _bytes.Length / 2 ? new byte[checked(_bytes.Length * 2)] : _bytes;
            _bytes.AsSpan(_start, kept).CopyTo(to);
            (_bytes, _scanned, _start, _end) = (to, _scanned - _start, 0, kept);
        }

        return _bytes.AsMemory(_end);
    }

    /// <summary>So many bytes were received into the room.</summary>
    public void Received(int bytes) => _end += bytes;

    /// <summary>Whether bytes are there that belong to no reply taken yet.</summary>
    public bool HasMore => _start < _end;

    /// <summary>Takes the next reply if it is whole.</summary>
    /// <exception cref="InvalidDataException">The bytes are no reply.</exception>
    public unsafe bool TryRead(out WireReply reply)
    {
        int remaining = 1;
        fixed (byte* p = _bytes)
        {
            _scanned = (int)(ReplyScanner.Consume(p + _scanned, p + _end, ref _state, ref remaining) - p);
        }

        if (remaining > 0)
        {
            reply = default;
            return false;
        }

        reply = new(_bytes.AsSpan(_start, _scanned - _start));
        _start = _scanned;
        return true;
    }
}
