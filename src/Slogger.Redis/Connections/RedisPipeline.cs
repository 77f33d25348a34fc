// A connection to Redis for bulk work beside the clients: many commands in one write, binary arguments, replies in order. One
// batch at a time; a connection that failed is not used again.
using System.Buffers;
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Resp;

namespace Slogger.Redis.Connections;

/// <summary>Commands that are sent together.</summary>
public sealed class RedisBatch
{
    private readonly ArrayBufferWriter<byte> _bytes = new(4096);

    /// <summary>How many commands there are.</summary>
    public int Count { get; private set; }

    /// <summary>The size of all of them.</summary>
    public int Bytes => _bytes.WrittenCount;

    /// <summary>All of them, as they are on the wire; until the next is added.</summary>
    public ReadOnlyMemory<byte> Written => _bytes.WrittenMemory;

    /// <summary>Adds a command.</summary>
    /// <param name="words">Its name and arguments.</param>
    public RedisBatch Add(params ReadOnlySpan<byte[]> words)
    {
        Head('*', words.Length);
        foreach (byte[] word in words)
        {
            Head('$', word.Length);
            _bytes.Write(word);
            _bytes.Write("\r\n"u8);
        }
        Count++;
        return this;
    }

    /// <summary>Adds commands that are written already.</summary>
    /// <param name="commands">Their bytes.</param>
    /// <param name="count">How many they are.</param>
    public RedisBatch Add(ReadOnlySpan<byte> commands, int count)
    {
        _bytes.Write(commands);
        Count += count;
        return this;
    }

    /// <summary>Takes all commands out.</summary>
    public void Clear()
    {
        _bytes.ResetWrittenCount();
        Count = 0;
    }

    private void Head(char kind, int number)
    {
        Span<byte> line = _bytes.GetSpan(16);
        line[0] = (byte)kind;
        System.Buffers.Text.Utf8Formatter.TryFormat(number, line[1..], out int digits);
        "\r\n"u8.CopyTo(line[(digits + 1)..]);
        _bytes.Advance(digits + 3);
    }
}

/// <summary>A connection for batches of commands. Not thread-safe.</summary>
public sealed class RedisPipeline : IAsyncDisposable
{
    private const int ReadBytes = 64 << 10;
    private readonly Stream _stream;
    private readonly RedisEndpoint _endpoint;
    private readonly TimeSpan _timeout;
    private byte[] _buffer = new byte[ReadBytes];
    private int _start, _end;

    private RedisPipeline(Stream stream, RedisEndpoint endpoint, TimeSpan timeout)
    {
        _stream = stream;
        _endpoint = endpoint;
        _timeout = timeout;
    }

    /// <summary>Connects and authenticates.</summary>
    /// <param name="endpoint">Address and credentials.</param>
    /// <param name="timeout">Bound for connecting and for each batch.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="RedisException">It cannot.</exception>
    public static async Task<RedisPipeline> ConnectAsync(RedisEndpoint endpoint, TimeSpan timeout, CancellationToken cancellation)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        (_, Stream stream) = await RedisTransport.OpenAsync(endpoint, timeout, cancellation).ConfigureAwait(false);
        var pipeline = new RedisPipeline(stream, endpoint, timeout);
        try
        {
            if (endpoint.Password is { } password)
            {
                var login = new RedisBatch();
                using CommandCounts.Sending? counted = endpoint.Counts?.Send("AUTH");
                if (endpoint.User is { } user)
                {
                    login.Add("AUTH"u8.ToArray(), Encoding.UTF8.GetBytes(user), Encoding.UTF8.GetBytes(password));
                }
                else { login.Add("AUTH"u8.ToArray(), Encoding.UTF8.GetBytes(password)); }
                RedisReply reply = (await pipeline.RunAsync(login, cancellation).ConfigureAwait(false))[0];
                if (reply.IsError && !reply.Text.Contains("without any password configured", StringComparison.Ordinal))
                    throw new RedisException(RedisProblems.Classify(reply.Text), $"Redis at {endpoint} refused AUTH: {reply.Text}.");
            }
            if (endpoint.Admission is { } admission)
            {
                if (endpoint.Password is null)
                {
                    using CommandCounts.Sending? counted = endpoint.Counts?.Send("PING");
                    await pipeline.RunAsync(new RedisBatch().Add("pING"u8.ToArray()), cancellation).ConfigureAwait(false);
                }
                await admission(cancellation).ConfigureAwait(false);
            }
            return pipeline;
        }
        catch
        {
            await pipeline.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Sends a batch and returns its replies, errors among them.</summary>
    /// <exception cref="RedisException">The connection failed: it is not known which of the commands were executed.</exception>
    public Task<IReadOnlyList<RedisReply>> RunAsync(RedisBatch batch, CancellationToken cancellation) =>
        RunAsync(batch, ReadAsync, cancellation);

    /// <summary>The same, with the replies as they stand on the wire, in RESP2 or RESP3.</summary>
    /// <exception cref="RedisException">As of <see cref="RunAsync(RedisBatch, CancellationToken)"/>.</exception>
    public Task<IReadOnlyList<byte[]>> RunOnWireAsync(RedisBatch batch, CancellationToken cancellation) =>
        RunAsync(batch, ReadWireAsync, cancellation);

    private async Task<IReadOnlyList<T>> RunAsync<T>(RedisBatch batch, Func<CancellationToken, Task<T>> read,
        CancellationToken cancellation)
    {
        ArgumentNullException.ThrowIfNull(batch);
        using var limited = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limited.CancelAfter(_timeout);
        try
        {
            // While Redis answers the first it need not be able to write the last: reading must not wait for the writing.
            Task writing = _stream.WriteAsync(batch.Written, limited.Token).AsTask();
            var replies = new List<T>(batch.Count);
            for (int i = 0; i < batch.Count; i++) { replies.Add(await read(limited.Token).ConfigureAwait(false)); }
            await writing.ConfigureAwait(false);
            return replies;
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            cancellation.ThrowIfCancellationRequested();
            throw e is OperationCanceledException
                ? new RedisException(RedisProblem.Timeout,
                $"Redis at {_endpoint} did not answer {batch.Count} commands within {_timeout.TotalSeconds:0.###} s.", e)
                : new RedisException(RedisProblem.Closed, $"The connection to Redis at {_endpoint} broke: {e.Message}.", e);
        }
    }

    /// <inheritdoc />
    public ValueTask DisposeAsync() => _stream.DisposeAsync();

    private async Task<RedisReply> ReadAsync(CancellationToken cancellation)
    {
        string line = await ReadLineAsync(cancellation).ConfigureAwait(false);
        string rest = line.Length > 0 ? line[1..] : throw Malformed();
        switch (line[0])
        {
            case '+': return RedisReply.OfText(RedisReplyKind.Status, Encoding.Latin1.GetBytes(rest));
            case '-': return RedisReply.OfText(RedisReplyKind.Error, Encoding.Latin1.GetBytes(rest));
            case ':': return RedisReply.OfInteger(Number(rest));
            case '$':
                long length = Number(rest);
                if (length < 0) { return RedisReply.Nil; }
                byte[] body = new byte[length];
                await ReadExactlyAsync(body, cancellation).ConfigureAwait(false);
                await ReadExactlyAsync(new byte[2], cancellation).ConfigureAwait(false);
                return RedisReply.OfText(RedisReplyKind.Bulk, body);
            case '*':
                long count = Number(rest);
                if (count < 0) { return RedisReply.Nil; }
                var items = new List<RedisReply>();
                for (long i = 0; i < count; i++) { items.Add(await ReadAsync(cancellation).ConfigureAwait(false)); }
                return RedisReply.OfItems(items);
            default: throw Malformed();
        }
    }

    private async ValueTask<string> ReadLineAsync(CancellationToken cancellation)
    {
        while (true)
        {
            int at = _buffer.AsSpan(_start, _end - _start).IndexOf("\r\n"u8);
            if (at >= 0)
            {
                string line = Encoding.Latin1.GetString(_buffer, _start, at);
                _start += at + 2;
                return line;
            }
            await FillAsync(cancellation).ConfigureAwait(false);
        }
    }

    private async ValueTask FillAsync(CancellationToken cancellation)
    {
        if (_start > 0)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            (_start, _end) = (0, _end - _start);
        }
        if (_end == _buffer.Length) { throw Malformed(); }
        int read = await _stream.ReadAsync(_buffer.AsMemory(_end), cancellation).ConfigureAwait(false);
        _end += read > 0 ? read : throw new IOException("closed by the other side");
    }

    private async Task<byte[]> ReadWireAsync(CancellationToken cancellation)
    {
        var reply = new ArrayBufferWriter<byte>();
        ReplyState state = default;
        while (!TakeWire(ref state, reply)) { await FillAsync(cancellation).ConfigureAwait(false); }
        return reply.WrittenSpan.ToArray();
    }

    // What is here of a reply. Whether that is its end.
    private unsafe bool TakeWire(ref ReplyState state, ArrayBufferWriter<byte> reply)
    {
        int left = 1;
        try
        {
            fixed (byte* bytes = _buffer)
            {
                int next = (int)(ReplyScanner.Consume(bytes + _start, bytes + _end, ref state, ref left) - bytes);
                reply.Write(_buffer.AsSpan(_start, next - _start));
                _start = next;
            }
        }
        catch (InvalidDataException)
        {
            throw Malformed();
        }
        return left == 0;
    }

    private async ValueTask ReadExactlyAsync(byte[] bytes, CancellationToken cancellation)
    {
        int have = Math.Min(bytes.Length, _end - _start);
        _buffer.AsSpan(_start, have).CopyTo(bytes);
        _start += have;
        if (have < bytes.Length) { await _stream.ReadExactlyAsync(bytes.AsMemory(have), cancellation).ConfigureAwait(false); }
    }

    private RedisException Malformed() => new(RedisProblem.Protocol, $"What answers at {_endpoint} does not speak Redis's protocol.");

    private long Number(string digits) =>
        long.TryParse(digits, NumberStyles.AllowLeadingSign, CultureInfo.InvariantCulture, out long value) ? value : throw Malformed();
}
