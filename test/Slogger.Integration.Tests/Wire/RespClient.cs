// The harness's own Redis client: one socket, explicit pipelining, replies in order. It promises to hide nothing: every
// byte the server sends becomes a RespValue or an exception. Not thread-safe, except that one task may write while
// another reads.
using System.Buffers;
using System.Globalization;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Integration.Tests.Wire;

/// <summary>The connection ended: closed by the server, reset, or refused.</summary>
internal sealed class ConnectionLostException(string message, Exception? inner = null) : IOException(message, inner);

internal sealed class RespClient : IDisposable
{
    private const int InitialBufferBytes = 64 * 1024;
    private static readonly TimeSpan DefaultTimeout = TimeSpan.FromSeconds(30);

    private readonly Socket _socket;
    private readonly Stream _stream;
    private byte[] _buffer = new byte[InitialBufferBytes];
    private int _start;
    private int _end;

    private RespClient(Socket socket, Stream? stream = null)
    {
        _socket = socket;
        _stream = stream ?? new NetworkStream(socket, ownsSocket: true);
    }

    /// <summary>Pushes (RESP3) that arrived between replies, oldest first.</summary>
    public Queue<RespValue> Pushes { get; } = new();

    /// <summary>The local end, as Redis's CLIENT LIST would name it for a direct connection.</summary>
    public EndPoint? LocalEndPoint => _socket.LocalEndPoint;

    /// <summary>The server's end.</summary>
    public EndPoint? RemoteEndPoint => _socket.RemoteEndPoint;

    /// <summary>What every connection of this process logs in with; none by default.</summary>
    public static string? Password { get; set; }

    /// <exception cref="ConnectionLostException">Nobody listens.</exception>
    public static async Task<RespClient> ConnectAsync(EndPoint endpoint)
    {
        var socket = endpoint is UnixDomainSocketEndPoint
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            await socket.ConnectAsync(endpoint);
            var client = new RespClient(socket);
            // A Redis that wants none says so, and is used all the same.
            if (Password is { } password) { await client.CallAsync("AUTH", password); }
            return client;
        }
        catch (SocketException e)
        {
            socket.Dispose();
            throw new ConnectionLostException($"cannot connect to {endpoint}: {e.Message}", e);
        }
    }

    /// <summary>Connects over TLS, and takes any certificate.</summary>
    public static async Task<RespClient> ConnectTlsAsync(EndPoint endpoint)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        await socket.ConnectAsync(endpoint);
        var stream = new SslStream(new NetworkStream(socket, ownsSocket: true), leaveInnerStreamOpen: false, (_, _, _, _) => true);
        await stream.AuthenticateAsClientAsync("localhost");
        return new RespClient(socket, stream);
    }

    /// <summary>Wraps an accepted socket: a server reads requests as it would read replies.</summary>
    public static RespClient Adopt(Socket socket) => new(socket);

    /// <summary>Appends a command as a RESP array of bulk strings (Latin-1).</summary>
    public static void Append(ArrayBufferWriter<byte> to, IReadOnlyList<string> arguments)
    {
        Text(to, string.Create(CultureInfo.InvariantCulture, $"*{arguments.Count}\r\n"));
        foreach (string argument in arguments)
        {
            Text(to, string.Create(CultureInfo.InvariantCulture, $"${argument.Length}\r\n"));
            Text(to, argument);
            Text(to, "\r\n");
        }

        static void Text(ArrayBufferWriter<byte> to, string text) =>
            to.Advance(Encoding.Latin1.GetBytes(text, to.GetSpan(text.Length)));
    }

    /// <summary>Sends raw bytes, all of them.</summary>
    public async Task WriteAsync(ReadOnlyMemory<byte> bytes)
    {
        try
        {
            await _stream.WriteAsync(bytes);
        }
        catch (Exception e) when (e is IOException or ObjectDisposedException)
        {
            throw new ConnectionLostException("send failed: " + e.Message, e);
        }
    }

    /// <summary>Sends one command without waiting for its reply.</summary>
    public Task SendAsync(params string[] arguments)
    {
        var bytes = new ArrayBufferWriter<byte>(256);
        Append(bytes, arguments);
        return WriteAsync(bytes.WrittenMemory);
    }

    /// <summary>Sends one command and returns its reply, which may be an error.</summary>
    public async Task<RespValue> CallAsync(params string[] arguments)
    {
        await SendAsync(arguments);
        return await ReadAsync();
    }

    /// <summary>As <see cref="CallAsync"/>, but an error reply throws.</summary>
    public async Task<RespValue> DoAsync(params string[] arguments)
    {
        var reply = await CallAsync(arguments);
        return reply.IsError ? throw new InvalidDataException($"{string.Join(' ', arguments.Take(3))}: {reply}") : reply;
    }

    /// <summary>Says that a ROLLBACK error was read: behind it nothing is done before.</summary>
    public Task<RespValue> ResumeAsync(RespValue notice) => CallAsync("DPR.RESUME", notice.Text.Split("worldline=")[1].Split(' ')[0]);

    /// <summary>The next reply; RESP3 pushes are put aside unless asked for.</summary>
    /// <exception cref="ConnectionLostException">The connection ended before a whole reply came.</exception>
    /// <exception cref="TimeoutException">Nothing came in time (default 30 s); the connection is still usable.</exception>
    public async Task<RespValue> ReadAsync(TimeSpan? timeout = null, bool wantPush = false)
    {
        using var limit = new CancellationTokenSource(timeout ?? DefaultTimeout);
        while (true)
        {
            if (TryTake(out var value))
            {
                if (value.Kind == RespKind.Push && !wantPush)
                {
                    Pushes.Enqueue(value);
                    continue;
                }

                return value;
            }

            await ReceiveAsync(limit.Token);
        }
    }

    /// <summary>A reply that has already arrived, if there is a whole one.</summary>
    public bool TryTake(out RespValue value)
    {
        int at = _start;
        if (!RespParser.TryParse(_buffer.AsSpan(0, _end), ref at, out value))
        {
            return false;
        }

        _start = at;
        if (_start == _end)
        {
            _start = _end = 0;
        }

        return true;
    }

    /// <summary>True if the server has closed the connection; waits at most the given time for it.</summary>
    public async Task<bool> IsClosedWithinAsync(TimeSpan wait)
    {
        using var limit = new CancellationTokenSource(wait);
        try
        {
            while (true)
            {
                await ReceiveAsync(limit.Token);
            }
        }
        catch (ConnectionLostException)
        {
            return true;
        }
        catch (TimeoutException)
        {
            return false;
        }
    }

    public void Dispose() => _stream.Dispose();

    private async Task ReceiveAsync(CancellationToken limit)
    {
        if (_start > 0 && _end == _buffer.Length)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            _end -= _start;
            _start = 0;
        }

        if (_end == _buffer.Length)
        {
            Array.Resize(ref _buffer, _buffer.Length * 2);
        }

        try
        {
            int received = await _stream.ReadAsync(_buffer.AsMemory(_end), limit);
            if (received == 0)
            {
                throw new ConnectionLostException("closed by the server");
            }

            _end += received;
        }
        catch (OperationCanceledException)
        {
            throw new TimeoutException("no reply in time");
        }
        catch (Exception e) when (e is (IOException and not ConnectionLostException) or ObjectDisposedException)
        {
            throw new ConnectionLostException("receive failed: " + e.Message, e);
        }
    }
}
