// The connection of a lens: several requests at once, and their replies as they stand on the wire, in RESP2 or RESP3.
using System.Net.Sockets;
using Slogger.Redis.Connections;
using Slogger.Resp;

namespace Slogger.Redis.Past;

/// <summary>A connection to a Redis that nobody else uses. One caller at a time.</summary>
internal sealed class LensConnection : IAsyncDisposable
{
    private readonly RedisEndpoint _endpoint;
    private readonly TimeSpan _answerMax;
    private readonly Socket _socket;
    private readonly Stream _stream;
    private byte[] _buffer = new byte[64 << 10];
    private ReplyState _state;          // of the reply that begins at _start, up to _at
    private int _start, _at, _end;

    private LensConnection(RedisEndpoint endpoint, TimeSpan answerMax, Socket socket, Stream stream) =>
        (_endpoint, _answerMax, _socket, _stream) = (endpoint, answerMax, socket, stream);

    /// <summary>Whether a reply was not read to its end: what comes next could be of another request.</summary>
    public bool IsBroken { get; private set; }

    public static async Task<LensConnection> OpenAsync(RedisEndpoint endpoint, TimeSpan answerMax, CancellationToken stop)
    {
        (Socket socket, Stream stream) = await RedisTransport.OpenAsync(endpoint, answerMax, stop).ConfigureAwait(false);
        var connection = new LensConnection(endpoint, answerMax, socket, stream);
        if (endpoint.Password is not { } password) { return connection; }
        string[] login = endpoint.User is { } user ? ["AUTH", user, password] : ["AUTH", password];
        byte[] reply = (await connection.ExchangeAsync(RedisTransport.Encode(login), 1, stop).ConfigureAwait(false))[0];
        if (reply[0] != (byte)'-') { return connection; }
        await connection.DisposeAsync().ConfigureAwait(false);
        throw new RedisException(RedisProblem.PasswordNeeded, $"Redis at {endpoint} refuses the proxy's password.");
    }

    /// <summary>Sends requests, and returns their replies.</summary>
    /// <exception cref="RedisException">The connection failed, or the answer took too long.</exception>
    public async Task<List<byte[]>> ExchangeAsync(ReadOnlyMemory<byte> requests, int count, CancellationToken stop)
    {
        var replies = new List<byte[]>(count);
        bool wasBroken = IsBroken;
        IsBroken = true;
        if (wasBroken) { throw new RedisException(RedisProblem.Closed, $"The connection to Redis at {_endpoint} has ended."); }
        using var limit = CancellationTokenSource.CreateLinkedTokenSource(stop);
        limit.CancelAfter(_answerMax);
        try
        {
            await _stream.WriteAsync(requests, limit.Token).ConfigureAwait(false);
            while (replies.Count < count)
            {
                if (Take() is { } reply)
                {
                    replies.Add(reply);
                    limit.CancelAfter(_answerMax);
                    continue;
                }
                await FillAsync(limit.Token).ConfigureAwait(false);
            }
        }
        catch (Exception e) when (e is IOException or SocketException or InvalidDataException)
        {
            throw new RedisException(RedisProblem.Closed, $"The connection to Redis at {_endpoint} failed: {e.Message}");
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            throw new RedisException(RedisProblem.Timeout,
                $"Redis at {_endpoint} did not answer within {_answerMax.TotalSeconds:0} s.");
        }
        IsBroken = false;
        return replies;
    }

    public ValueTask DisposeAsync()
    {
        IsBroken = true;
        _socket.Dispose();
        return _stream.DisposeAsync();
    }

    // The next whole reply; null: its end has not come yet.
    private unsafe byte[]? Take()
    {
        fixed (byte* bytes = _buffer)
        {
            int left = 1;
            _at = (int)(ReplyScanner.Consume(bytes + _at, bytes + _end, ref _state, ref left) - bytes);
            if (left > 0) { return null; }
        }
        byte[] reply = _buffer[_start.._at];
        _start = _at;
        return reply;
    }

    private async Task FillAsync(CancellationToken stop)
    {
        if (_start > 0)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            (_start, _at, _end) = (0, _at - _start, _end - _start);
        }
        if (_end == _buffer.Length) { Array.Resize(ref _buffer, checked(2 * _buffer.Length)); }
        int got = await _stream.ReadAsync(_buffer.AsMemory(_end), stop).ConfigureAwait(false);
        if (got == 0) { throw new EndOfStreamException("it was closed"); }
        _end += got;
    }
}
