// Frames between two proxies of a cluster, over a connection that began as a client's: after DPR.PEER was answered with +OK
// both sides speak frames. A frame is a kind (a byte), the length of what follows (4 bytes, big-endian), and that.
using System.Buffers.Binary;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Shards;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.Peers;

/// <summary>What a connection between proxies is for.</summary>
internal enum PeerPurpose { Copy, Messages }

/// <summary>The other side does not do what it should, or is not there.</summary>
internal sealed class PeerException(string message, Exception? inner = null) : IOException(message, inner);

/// <summary>A connection between proxies. One reader and one writer at a time.</summary>
internal sealed class PeerChannel(Stream stream, ShardId other) : IAsyncDisposable
{
    /// <summary>The first argument of DPR.PEER: which frames there are.</summary>
    public const int Protocol = 1;

    // One value of Redis, and what goes with it.
    private const int FrameBytesMax = 600 << 20;
    private const int HeadBytes = 5;
    private static readonly TimeSpan ConnectLimit = TimeSpan.FromSeconds(3);
    private readonly byte[] _readHead = new byte[HeadBytes];
    private readonly byte[] _writeHead = new byte[HeadBytes];

    /// <summary>Who is at the other end.</summary>
    public ShardId Other => other;

    /// <summary>Takes over a client's connection whose handshake was answered.</summary>
    public static PeerChannel Adopt(Socket socket, ShardId other)
    {
        socket.Blocking = true;
        return new PeerChannel(new NetworkStream(socket, ownsSocket: true), other);
    }

    /// <summary>Connects to another shard's proxy.</summary>
    /// <exception cref="PeerException">It is not there, or does not want to.</exception>
    public static async Task<PeerChannel> ConnectAsync(ListenAddress address, ShardId other, ShardId self, PeerSecret secret, PeerPurpose purpose, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(ConnectLimit);
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            await socket.ConnectAsync(address.Host!, address.Port, limit.Token).ConfigureAwait(false);
            var stream = new NetworkStream(socket, ownsSocket: true);
            string[] words = ["DPR.PEER", Text(Protocol), secret.Text, Text(other.Number), Text(self.Number), purpose.ToString()];
            string request = $"*{words.Length}\r\n{string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n"))}";
            await stream.WriteAsync(Encoding.ASCII.GetBytes(request), limit.Token).ConfigureAwait(false);
            string answer = await ReadLineAsync(stream, limit.Token).ConfigureAwait(false);
            return answer == "+OK" ? new PeerChannel(stream, other) : throw new PeerException($"the proxy of shard {other} at {address} answers {answer}");
        }
        catch (Exception e) when (e is SocketException or IOException or OperationCanceledException)
        {
            socket.Dispose();
            stop.ThrowIfCancellationRequested();
            throw e as PeerException ?? new PeerException($"the proxy of shard {other} cannot be reached at {address}: {(e is OperationCanceledException ? "no answer" : e.Message)}", e);
        }
    }

    /// <summary>Sends a frame.</summary>
    /// <exception cref="IOException">The connection broke.</exception>
    public async Task SendAsync(char kind, ReadOnlyMemory<byte> body, CancellationToken stop)
    {
        _writeHead[0] = (byte)kind;
        BinaryPrimitives.WriteInt32BigEndian(_writeHead.AsSpan(1), body.Length);
        if (body.Length <= 64 << 10)
        {
            await stream.WriteAsync((byte[])[.. _writeHead, .. body.Span], stop).ConfigureAwait(false);
            return;
        }
        await stream.WriteAsync(_writeHead, stop).ConfigureAwait(false);
        await stream.WriteAsync(body, stop).ConfigureAwait(false);
    }

    /// <summary>Receives a frame.</summary>
    /// <exception cref="IOException">The connection broke, or what comes is no frame.</exception>
    public async Task<(char Kind, byte[] Body)> ReceiveAsync(CancellationToken stop)
    {
        await stream.ReadExactlyAsync(_readHead, stop).ConfigureAwait(false);
        int length = BinaryPrimitives.ReadInt32BigEndian(_readHead.AsSpan(1));
        if (length is < 0 or > FrameBytesMax) { throw new PeerException($"shard {other} sends a frame of {length} bytes"); }
        byte[] body = new byte[length];
        await stream.ReadExactlyAsync(body, stop).ConfigureAwait(false);
        return ((char)_readHead[0], body);
    }

    public ValueTask DisposeAsync() => stream.DisposeAsync();

    private static async Task<string> ReadLineAsync(NetworkStream stream, CancellationToken stop)
    {
        // Byte by byte: what follows the line are frames.
        var line = new StringBuilder();
        byte[] one = new byte[1];
        while (line.Length < 400)
        {
            await stream.ReadExactlyAsync(one, stop).ConfigureAwait(false);
            if (one[0] == '\n') { break; }
            if (one[0] != '\r') { line.Append((char)one[0]); }
        }
        return line.ToString();
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
