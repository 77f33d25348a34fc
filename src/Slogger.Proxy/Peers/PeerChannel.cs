// A connection between two proxies of a cluster, which began as a client's with DPR.PEER: from there on both sides speak frames. A frame is
// a kind (a byte), the length of what follows (4 bytes, big-endian), and that. Here are all bounds and time limits of such connections:
// a side may be silent between frames for as long as it likes, and not within one.
using System.Buffers;
using System.Buffers.Binary;
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Identities;
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Proxy.Peers;

/// <summary>The other side does not do what it should, or is not there.</summary>
internal class PeerException(string message, Exception? inner = null) : IOException(message, inner);

/// <summary>The other side has hung up, between two frames.</summary>
internal sealed class PeerGoneException(ShardId other) : PeerException($"the proxy of shard {other} has hung up");

/// <summary>A connection between proxies. One reader and one writer at a time.</summary>
internal sealed class PeerChannel : IAsyncDisposable
{
    private const int HeadBytes = 5;
    private const int AnswerBytesMax = 400;
    private const int SmallBytes = 64 << 10;
    private const int PieceBytes = 1 << 20;
    private static readonly TimeSpan ConnectLimit = TimeSpan.FromSeconds(3);
    private static readonly TimeSpan PieceLimit = TimeSpan.FromSeconds(30);
    private const int KeepAliveSeconds = 10;
    private readonly NetworkStream _stream;
    private readonly int _frameBytesMax;
    private readonly byte[] _buffer = new byte[16 << 10];
    private int _start, _end;

    private PeerChannel(Socket socket, PeerKind kind, ShardId other)
    {
        if (socket.ProtocolType == ProtocolType.Tcp)
        {
            socket.NoDelay = true;
            // One whose machine has gone is not waited for for ever.
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
            socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, KeepAliveSeconds);
        }
        socket.Blocking = true;
        _stream = new NetworkStream(socket, ownsSocket: true);
        _frameBytesMax = FrameBytesMax(kind);
        Other = other;
    }

    /// <summary>Who is at the other end.</summary>
    public ShardId Other { get; }

    /// <summary>The longest frame of a conversation: a line of the coordinator's, or one value of Redis and what goes with it.</summary>
    public static int FrameBytesMax(PeerKind kind) => kind == PeerKind.Cuts ? 64 << 10 : 600 << 20;

    /// <summary>Takes over a client's connection: the introduction was answered with +OK.</summary>
    public static PeerChannel Adopt(Socket socket, PeerIntroduction introduction) => new(socket, introduction.Kind, introduction.From);

    /// <summary>Connects to another proxy.</summary>
    /// <param name="seat">Who calls.</param>
    /// <param name="address">Where it is.</param>
    /// <param name="kind">What about.</param>
    /// <param name="to">The shard that is meant; null: whichever is there.</param>
    /// <param name="stop">Gives up.</param>
    /// <exception cref="PeerException">It is not there, or does not want to.</exception>
    public static async Task<PeerChannel> ConnectAsync(ClusterSeat seat, ListenAddress address, PeerKind kind, ShardId? to,
        CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(ConnectLimit);
        string whose = to is { } shard ? $"the proxy of shard {shard}" : "the proxy";
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await socket.ConnectAsync(address.Host!, address.Port, limit.Token).ConfigureAwait(false);
            var channel = new PeerChannel(socket, kind, to ?? default);
            await channel._stream.WriteAsync(new PeerIntroduction(kind, to, seat.Shard, seat.Epoch).Request(seat.Secret!),
                limit.Token).ConfigureAwait(false);
            string answer = await channel.ReadAnswerAsync(limit.Token).ConfigureAwait(false);
            return answer == "+OK" ? channel : throw new PeerException($"{whose} at {address} answers {answer}");
        }
        catch (Exception e) when (e is SocketException or IOException or OperationCanceledException)
        {
            socket.Dispose();
            stop.ThrowIfCancellationRequested();
            throw e is PeerException and not PeerGoneException ? e
                : new PeerException($"{whose} cannot be reached at {address}: "
                    + $"{(e is OperationCanceledException ? "no answer" : e.Message)}", e);
        }
    }

    private async Task<string> ReadAnswerAsync(CancellationToken stop)
    {
        while (true)
        {
            int length = _buffer.AsSpan(_start, _end - _start).IndexOf((byte)'\n');
            if (length >= 0)
            {
                string answer = Encoding.ASCII.GetString(_buffer, _start, length).TrimEnd('\r');
                _start += length + 1;
                return answer;
            }
            if (_end - _start > AnswerBytesMax) { throw new PeerException("what answers is no proxy"); }
            await FillAsync(_end - _start + 1, stop).ConfigureAwait(false);
        }
    }

    /// <summary>Writes a frame behind others, for <see cref="SendFramesAsync"/>.</summary>
    public static void Append(IBufferWriter<byte> frames, char kind, ReadOnlySpan<byte> body)
    {
        WriteHead(frames, kind, body.Length);
        frames.Write(body);
    }

    private static void WriteHead(IBufferWriter<byte> to, char kind, int length)
    {
        Span<byte> head = to.GetSpan(HeadBytes);
        head[0] = (byte)kind;
        BinaryPrimitives.WriteInt32BigEndian(head[1..], length);
        to.Advance(HeadBytes);
    }

    /// <summary>Sends a frame.</summary>
    /// <exception cref="IOException">The connection broke, or the other side does not read.</exception>
    public async Task SendAsync(char kind, ReadOnlyMemory<byte> body, CancellationToken stop)
    {
        // A small one in one piece.
        ReadOnlyMemory<byte> together = body.Length <= SmallBytes ? body : default;
        var head = new ArrayBufferWriter<byte>(HeadBytes + together.Length);
        WriteHead(head, kind, body.Length);
        head.Write(together.Span);
        await SendFramesAsync(head.WrittenMemory, stop).ConfigureAwait(false);
        await SendFramesAsync(body[together.Length..], stop).ConfigureAwait(false);
    }

    /// <summary>Sends frames, or a part of one.</summary>
    /// <exception cref="IOException">The connection broke, or the other side does not read.</exception>
    public async Task SendFramesAsync(ReadOnlyMemory<byte> bytes, CancellationToken stop)
    {
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        for (; !bytes.IsEmpty; bytes = bytes[Math.Min(bytes.Length, PieceBytes)..])
        {
            limit.CancelAfter(PieceLimit);
            try
            {
                await _stream.WriteAsync(bytes[..Math.Min(bytes.Length, PieceBytes)], limit.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException) when (!stop.IsCancellationRequested)
            {
                throw new PeerException($"shard {Other} does not read");
            }
        }
    }

    /// <summary>Receives a frame.</summary>
    /// <exception cref="PeerGoneException">The other side has hung up.</exception>
    /// <exception cref="IOException">The connection broke, or what comes is no frame.</exception>
    public async Task<(char Kind, byte[] Body)> ReceiveAsync(CancellationToken stop)
    {
        await FillAsync(1, stop).ConfigureAwait(false);
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(PieceLimit);
        try
        {
            await FillAsync(HeadBytes, limit.Token).ConfigureAwait(false);
            char kind = (char)_buffer[_start];
            int length = BinaryPrimitives.ReadInt32BigEndian(_buffer.AsSpan(_start + 1));
            if (length < 0 || length > _frameBytesMax) { throw new PeerException($"shard {Other} sends a frame of {length} bytes"); }
            _start += HeadBytes;
            return (kind, await ReceiveBodyAsync(length, limit).ConfigureAwait(false));
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new PeerException($"shard {Other} has stopped in the middle of a frame");
        }
    }

    // The memory grows with what has come, not with what was announced.
    private async Task<byte[]> ReceiveBodyAsync(int length, CancellationTokenSource limit)
    {
        int have = Math.Min(length, _end - _start);
        byte[] body = new byte[Math.Min(length, PieceBytes)];
        _buffer.AsSpan(_start, have).CopyTo(body);
        _start += have;
        while (have < length)
        {
            if (have == body.Length) { Array.Resize(ref body, (int)Math.Min(length, 2L * body.Length)); }
            int received = await _stream.ReadAsync(body.AsMemory(have), limit.Token).ConfigureAwait(false);
            if (received == 0) { throw new PeerException($"shard {Other} has hung up in the middle of a frame"); }
            have += received;
            limit.CancelAfter(PieceLimit);
        }
        return body;
    }

    // So many bytes are in the buffer.
    private async ValueTask FillAsync(int wanted, CancellationToken stop)
    {
        if (_end - _start >= wanted) { return; }
        _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
        (_start, _end) = (0, _end - _start);
        while (_end < wanted)
        {
            int received = await _stream.ReadAsync(_buffer.AsMemory(_end), stop).ConfigureAwait(false);
            if (received == 0) { throw new PeerGoneException(Other); }
            _end += received;
        }
    }

    public ValueTask DisposeAsync() => _stream.DisposeAsync();
}
