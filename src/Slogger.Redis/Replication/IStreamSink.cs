// Who takes the replication stream from the link. Every call is made on the link's own thread, in stream order. The bytes
// belong to the link: copy what is kept. A sink that blocks stops the reading, and then Redis buffers: bound it, and keep
// it short, because what Redis has not sent when it dies is lost. A sink must not throw: that ends the process.
using Slogger.Core.Sessions;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

/// <summary>Takes what a <see cref="ReplicationLink"/> reads.</summary>
public interface IStreamSink
{
    /// <summary>The next bytes of history. They end at a command boundary, unless a single command is larger than the
    /// link's buffer: then they may end inside it (<see cref="ReplicationLink.Position"/> tells), and no marker comes before its
    /// end.</summary>
    /// <param name="bytes">The bytes, valid during the call.</param>
    /// <param name="startOffset">Bytes of history before them: the end of the previous call.</param>
    void OnBytes(ReadOnlySpan<byte> bytes, long startOffset);

    /// <summary>A marker of ours. Exactly the bytes up to and including it have been handed over.</summary>
    void OnMarker(in StreamMarker marker);

    /// <summary>Sessions' marks were read (<see cref="SessionMark"/>). Their bytes may not have been handed over yet.</summary>
    /// <param name="payload">The payload, valid during the call.</param>
    void OnSessionMark(ReadOnlySpan<byte> payload)
    {
    }

    /// <summary>Redis has published a message (PUBLISH), by whomever.</summary>
    /// <param name="command">The whole command in RESP; empty if it is longer than the link's buffer.</param>
    void OnPublish(ReadOnlySpan<byte> command)
    {
    }

    /// <summary>Redis's own heartbeat was read; all bytes up to <paramref name="offset"/> have been handed over.</summary>
    void OnKeepalive(long offset)
    {
    }

    /// <summary>The link has ended; the last call.</summary>
    void OnClosed(LinkClosed reason);
}

/// <summary>Why a link ended.</summary>
/// <param name="Problem">Cancelled if it was disposed.</param>
/// <param name="Message">For a person.</param>
/// <param name="Offset">Bytes of history handed over.</param>
public sealed record LinkClosed(RedisProblem Problem, string Message, long Offset);
