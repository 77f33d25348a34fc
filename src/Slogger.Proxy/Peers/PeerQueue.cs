// What one proxy tells another without ever waiting for it: messages of text, the first character of which is the kind of their frame. What
// the other side does not take is kept, up to a bound beyond which the connection is given up: the newest word is worth more than all
// before it, and a new connection says it.
using System.Buffers;
using System.Net.Sockets;
using System.Text;
using System.Threading.Channels;

namespace Slogger.Proxy.Peers;

internal sealed class PeerQueue(PeerChannel peer) : IAsyncDisposable
{
    private const int QueuedMax = 1024;
    private const int TogetherBytes = 64 << 10;
    private readonly Channel<string> _queue = Channel.CreateBounded<string>(new BoundedChannelOptions(QueuedMax) { SingleReader = true });

    /// <summary>Sends a message. False if the connection has ended, or the other side does not read. Any thread.</summary>
    public bool Send(string message)
    {
        if (_queue.Writer.TryWrite(message)) { return true; }
        _queue.Writer.TryComplete();
        return false;
    }

    /// <summary>The next message of the other side.</summary>
    /// <exception cref="IOException">The connection has ended.</exception>
    public async Task<string> ReceiveAsync(CancellationToken stop)
    {
        (char kind, byte[] body) = await peer.ReceiveAsync(stop).ConfigureAwait(false);
        return kind + Encoding.ASCII.GetString(body);
    }

    /// <summary>Sends what is queued until the connection ends.</summary>
    public async Task PumpAsync(CancellationToken stop)
    {
        try
        {
            var frames = new ArrayBufferWriter<byte>();
            while (await _queue.Reader.WaitToReadAsync(stop).ConfigureAwait(false))
            {
                while (frames.WrittenCount < TogetherBytes && _queue.Reader.TryRead(out string? message))
                {
                    PeerChannel.Append(frames, message[0], Encoding.ASCII.GetBytes(message[1..]));
                }
                await peer.SendFramesAsync(frames.WrittenMemory, stop).ConfigureAwait(false);
                frames.ResetWrittenCount();
            }
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            // The reading side ends too.
        }
        await DisposeAsync().ConfigureAwait(false);
    }

    public ValueTask DisposeAsync()
    {
        _queue.Writer.TryComplete();
        return peer.DisposeAsync();
    }
}
