// The replica's end of a replication connection: blocking socket, one large receive buffer that the RDB and the stream are
// handed out of without copying, and the handshake's lines. Reading is for one thread; Send and Dispose are for any.
using System.Net.Sockets;
using System.Text;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Replication;

internal sealed class ReplicaSocket : IDisposable
{
    private const int LineBytesMax = 8 << 10;

    private readonly RedisEndpoint _endpoint;
    private readonly byte[] _buffer;
    private readonly Lock _sending = new();
    private Socket? _socket;
    private Stream? _stream;
    private int _start;
    private int _end;
    private volatile bool _disposed;

    public ReplicaSocket(RedisEndpoint endpoint, int bufferBytes)
    {
        _endpoint = endpoint;
        _buffer = GC.AllocateUninitializedArray<byte>(bufferBytes, pinned: true);
    }

    public bool IsDisposed => _disposed;

    /// <summary>Bytes received and not consumed yet.</summary>
    public ReadOnlySpan<byte> Unread => _buffer.AsSpan(_start, _end - _start);

    /// <summary>Whether there is no room behind the unread bytes, even after moving them to the front.</summary>
    public bool IsFull => _end - _start == _buffer.Length;

    public void Consume(int count) => _start += count;

    public void Connect(TimeSpan timeout)
    {
        (_socket, _stream) = RedisTransport.Open(_endpoint, timeout, socket =>
        {
            _socket = socket;
            if (_disposed)
                socket.Dispose();
        });
        if (_disposed)
            CloseBoth();
    }

    /// <summary>How long a read may wait; zero: for ever.</summary>
    public void SetReadTimeout(TimeSpan timeout) => _socket!.ReceiveTimeout = (int)Math.Min(timeout.TotalMilliseconds, int.MaxValue);

    /// <summary>Receives once into the free tail of the buffer. Returns the number of bytes; 0: closed by the other side.</summary>
    public int Receive()
    {
        if (_start == _end)
        {
            _start = _end = 0;
        }
        else if (_end == _buffer.Length || _start > _buffer.Length / 2)
        {
            Buffer.BlockCopy(_buffer, _start, _buffer, 0, _end - _start);
            _end -= _start;
            _start = 0;
        }
        int read = _stream!.Read(_buffer, _end, _buffer.Length - _end);
        _end += read;
        return read;
    }

    /// <summary>As <see cref="Receive"/>, but the end of the connection is an error.</summary>
    public void Fill()
    {
        if (Receive() == 0)
            throw new RedisException(RedisProblem.Closed, $"Redis at {_endpoint} closed the replication connection.");
    }

    public void Send(ReadOnlySpan<byte> bytes)
    {
        lock (_sending)
            _stream!.Write(bytes);
    }

    /// <summary>The next line without its end. Empty lines are skipped: Redis sends them while it prepares.</summary>
    public string ReadLine()
    {
        while (true)
        {
            int at = Unread.IndexOf((byte)'\n');
            if (at < 0)
            {
                if (Unread.Length > LineBytesMax)
                    throw new RedisException(RedisProblem.Protocol, $"What answers at {_endpoint} does not speak Redis's protocol.");
                Fill();
                continue;
            }
            string line = Encoding.UTF8.GetString(Unread[..at]).TrimEnd('\r');
            Consume(at + 1);
            if (line.Length > 0)
                return line;
        }
    }

    public string Ask(params ReadOnlySpan<string> words)
    {
        Send(RedisTransport.EncodeOwn(words));
        return ReadLine();
    }

    public void Dispose()
    {
        _disposed = true;
        CloseBoth();
    }

    // Shutdown first: closing a descriptor does not wake a thread that is blocked in recv() on it.
    private void CloseBoth()
    {
        try
        {
            _socket?.Shutdown(SocketShutdown.Both);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
        }
        _socket?.Dispose();
    }
}
