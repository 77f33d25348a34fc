// The sessions' marks of a window: the last of each session is all that a later one needs to know. They stand at the window's end.
using System.Buffers;
using Slogger.Core.Sessions;
using Slogger.Redis.Replication;
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>Keeps marks. Not thread-safe.</summary>
internal sealed class KeptMarks(MarkerCodec? markers)
{
    // With the channel it is less than a StreamScanner keeps of a command.
    private const int PayloadBytesMax = 512;
    private readonly Dictionary<UInt128, long> _last = [];

    /// <summary>Forgets all.</summary>
    public void Clear() => _last.Clear();

    /// <summary>Notes a message if it is a mark.</summary>
    public void Note(ReadOnlySpan<byte> channel, ReadOnlySpan<byte> payload)
    {
        if (markers?.IsChannel(channel) != true || !SessionMark.IsMark(payload)) { return; }
        while (SessionMark.TryReadNext(ref payload, out UInt128 session, out long last)) { _last[session] = last; }
    }

    /// <summary>Writes them. Returns how many bytes that takes.</summary>
    public long Write(IBufferWriter<byte> output)
    {
        if (_last.Count == 0) { return 0; }
        Span<byte> payload = stackalloc byte[PayloadBytesMax];
        int length = 0;
        long written = 0;
        foreach ((UInt128 session, long last) in _last)
        {
            if (length > PayloadBytesMax - SessionMark.EntryBytesMax - 1)
            {
                written += WriteOne(output, payload[..length]);
                length = 0;
            }
            length = SessionMark.Append(payload, length, session, last);
        }
        return written + WriteOne(output, payload[..length]);
    }

    private long WriteOne(IBufferWriter<byte> output, ReadOnlySpan<byte> payload)
    {
        var words = new RespWords(output);
        words.Begin(3);
        words.Add("SPUBLISH"u8);
        words.Add(System.Text.Encoding.ASCII.GetBytes(markers!.Channel));
        words.Add(payload);
        return words.Bytes;
    }
}
