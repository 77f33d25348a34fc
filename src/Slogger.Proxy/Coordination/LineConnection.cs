// A connection between two proxies: lines both ways. Writers never wait: what the other end does not take is kept, up to a bound
// beyond which the connection is given up, since the newest word is worth more than all before it, and a new connection says it.
using System.Net.Sockets;
using System.Text;
using System.Threading.Channels;

namespace Slogger.Proxy.Coordination;

internal sealed class LineConnection : IDisposable
{
    private const int QueuedLinesMax = 1024;
    private readonly NetworkStream _stream;
    private readonly StreamReader _reader;
    private readonly System.Threading.Channels.Channel<string> _queue = System.Threading.Channels.Channel.CreateBounded<string>(
        new BoundedChannelOptions(QueuedLinesMax) { SingleReader = true });

    /// <summary>Takes over a connected, blocking socket.</summary>
    public LineConnection(Socket socket)
    {
        if (socket.ProtocolType == ProtocolType.Tcp) { socket.NoDelay = true; }
        _stream = new NetworkStream(socket, ownsSocket: true);
        _reader = new StreamReader(_stream, Encoding.ASCII, detectEncodingFromByteOrderMarks: false, bufferSize: 4096);
    }

    /// <summary>Sends a line, which has its end. False if the connection is broken, or the other end does not read. Any thread.</summary>
    public bool Send(string line)
    {
        if (_queue.Writer.TryWrite(line)) { return true; }
        _queue.Writer.TryComplete();
        return false;
    }

    /// <summary>The next line without its end; null at the end of the connection.</summary>
    /// <exception cref="IOException">The connection broke, or the line is longer than any that is sent.</exception>
    public async Task<string?> ReadAsync(CancellationToken stop)
    {
        // A line comes from a program that knows the cluster's secret: the bound is against mistakes.
        string? line = await _reader.ReadLineAsync(stop).ConfigureAwait(false);
        return line is { Length: > CoordinationText.LineBytesMax } ? throw new IOException("a line is too long") : line;
    }

    /// <summary>Sends what is queued until the connection ends.</summary>
    public async Task PumpAsync(CancellationToken stop)
    {
        try
        {
            var text = new StringBuilder();
            while (await _queue.Reader.WaitToReadAsync(stop).ConfigureAwait(false))
            {
                while (text.Length < CoordinationText.LineBytesMax && _queue.Reader.TryRead(out string? line)) { text.Append(line); }
                await _stream.WriteAsync(Encoding.ASCII.GetBytes(text.ToString()), stop).ConfigureAwait(false);
                text.Clear();
            }
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            // The reading side ends too.
        }
        Dispose();
    }

    public void Dispose()
    {
        _queue.Writer.TryComplete();
        _stream.Dispose();
    }
}
