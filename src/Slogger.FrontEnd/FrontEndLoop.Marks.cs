// Marks behind the batches of sessions: what the shard reads them for, see Shards.SessionMarks. Written once in a turn, for all
// sessions whose batches were forwarded in it, since a mark costs Redis as much as a small command.
using System.Buffers.Text;
using System.Text;
using Slogger.Core.Sessions;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    // Who reads them keeps no more of an argument than a kilobyte, the channel's name and the command's included.
    private const int MarkBytesMax = 900;

    private readonly List<BatchMark> _marks = [];

    private byte[]? _markHead;

    private readonly record struct BatchMark(Client Client, Upstream Upstream, SessionId Session, SequenceNumber Last);

    /// <summary>All requests of a batch have been written to this upstream, or were answered.</summary>
    public void MarkBatch(Client client, Upstream upstream, SessionId session, SequenceNumber last) =>
        _marks.Add(new(client, upstream, session, last));

    // With everything of this turn written, and nothing sent since that may have been lost.
    private void WriteMarks()
    {
        if (_marks.Count == 0) { return; }
        if (!IsPaused && Shard.MarkerChannel.Length > 0)
        {
            Span<byte> alone = stackalloc byte[1 + SessionMark.EntryBytesMax], payload = stackalloc byte[MarkBytesMax];
            int length = 0;
            foreach (BatchMark mark in _marks)
            {
                if (mark.Upstream.IsClosed) { continue; }
                if (mark.Upstream != Shared)
                {
                    // In a transaction it would be queued; the session's next mark tells as much.
                    if (mark.Client.TakesMarks(mark.Upstream))
                    {
                        WriteMark(mark.Upstream, alone[..SessionMark.Append(alone, 0, mark.Session.Bits, mark.Last.Number)]);
                    }
                    continue;
                }
                length = SessionMark.Append(payload, length, mark.Session.Bits, mark.Last.Number);
                if (length <= MarkBytesMax - SessionMark.EntryBytesMax) { continue; }
                WriteMark(Shared, payload[..length]);
                length = 0;
            }
            if (length > 0) { WriteMark(Shared!, payload[..length]); }
        }
        _marks.Clear();
    }

    private void WriteMark(Upstream upstream, ReadOnlySpan<byte> payload)
    {
        string channel = Shard.MarkerChannel;
        _markHead ??= Encoding.ASCII.GetBytes($"*3\r\n$8\r\nSPUBLISH\r\n${channel.Length}\r\n{channel}\r\n$");
        Span<byte> command = stackalloc byte[MarkBytesMax + 128];
        _markHead.CopyTo(command);
        int length = _markHead.Length;
        _ = Utf8Formatter.TryFormat(payload.Length, command[length..], out int digits);
        length += digits;
        "\r\n"u8.CopyTo(command[length..]);
        length += 2;
        payload.CopyTo(command[length..]);
        length += payload.Length;
        "\r\n"u8.CopyTo(command[length..]);
        length += 2;
        // No effect on data: no version boundary waits for it, nor it for one.
        upstream.Write(command[..length], inexact: true);
        upstream.Expect(null, 1, ReplyKind.Dropped, inexact: true);
        MarkersSent++;
    }
}
