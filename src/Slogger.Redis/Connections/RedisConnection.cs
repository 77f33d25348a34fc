// The control connection: a few commands now and then (INFO, ROLE, CONFIG, REPLICAOF). One command at a time, RESP2, bounded
// replies. Redis's `timeout` may close it while it is idle, so it connects again by itself before a command; a command whose
// reply was lost is never sent twice. So it keeps no state in Redis (SELECT, MULTI, SUBSCRIBE): that would be gone without notice.
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Resp;

namespace Slogger.Redis.Connections;

/// <summary>A small asynchronous client for control commands. Safe for use by several tasks; commands run one by one.</summary>
public sealed class RedisConnection : IAsyncDisposable
{
    /// <summary>The longest reply accepted; INFO and CONFIG GET * are far below.</summary>
    public const int ReplyBytesMax = 64 << 20;

    private readonly TimeSpan _timeout;
    private readonly bool _isOne;
    private readonly SemaphoreSlim _turn = new(1, 1);
    private Socket? _socket;
    private Stream? _stream;
    private byte[] _buffer = new byte[16 << 10];
    private int _start;
    private int _end;
    private bool _fresh; // no reply has been read yet: with TLS, session tickets may be waiting

    private RedisConnection(RedisEndpoint endpoint, TimeSpan timeout, bool isOne)
    {
        _isOne = isOne;
        Endpoint = endpoint;
        _timeout = timeout;
    }

    /// <summary>Whom it talks to.</summary>
    public RedisEndpoint Endpoint { get; }

    /// <summary>Connects and authenticates.</summary>
    /// <param name="endpoint">Address and credentials.</param>
    /// <param name="timeout">Bound for connecting and for each command; default 5 s.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="RedisException">It cannot; see <see cref="RedisException.Problem"/>.</exception>
    public static Task<RedisConnection> ConnectAsync(
        RedisEndpoint endpoint, TimeSpan? timeout = null, CancellationToken cancellation = default) =>
        ConnectAsync(endpoint, timeout ?? TimeSpan.FromSeconds(5), isOne: false, cancellation);

    /// <summary>As <see cref="ConnectAsync(RedisEndpoint, TimeSpan?, CancellationToken)"/>, but one that has ended is not made anew: each
    /// answer is of the same connection.</summary>
    /// <param name="endpoint">Address and credentials.</param>
    /// <param name="timeout">Bound for connecting and for each command.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="RedisException">It cannot.</exception>
    public static Task<RedisConnection> ConnectOnceAsync(RedisEndpoint endpoint, TimeSpan timeout, CancellationToken cancellation) =>
        ConnectAsync(endpoint, timeout, isOne: true, cancellation);

    private static async Task<RedisConnection> ConnectAsync(RedisEndpoint endpoint, TimeSpan timeout, bool isOne,
        CancellationToken cancellation)
    {
        var connection = new RedisConnection(endpoint, timeout, isOne);
        try
        {
            await connection.OpenAsync(cancellation).ConfigureAwait(false);
            return connection;
        }
        catch
        {
            await connection.DisposeAsync().ConfigureAwait(false);
            throw;
        }
    }

    /// <summary>Sends a command and returns its reply; an error reply is a value.</summary>
    /// <exception cref="RedisException">The connection failed.</exception>
    public async Task<RedisReply> CommandAsync(IReadOnlyList<string> words, CancellationToken cancellation = default) =>
        (await CommandsAsync([[.. words]], cancellation).ConfigureAwait(false))[0];

    /// <inheritdoc cref="CommandAsync(IReadOnlyList{string}, CancellationToken)"/>
    public Task<RedisReply> CommandAsync(params string[] words) => CommandAsync((IReadOnlyList<string>)words);

    /// <summary>As <see cref="CommandAsync(IReadOnlyList{string}, CancellationToken)"/>, but an error reply is thrown.</summary>
    /// <exception cref="RedisException">The connection failed or the reply is an error.</exception>
    public async Task<RedisReply> ExpectAsync(IReadOnlyList<string> words, CancellationToken cancellation = default)
    {
        RedisReply reply = await CommandAsync(words, cancellation).ConfigureAwait(false);
        Check(words, reply);
        return reply;
    }

    /// <inheritdoc cref="ExpectAsync(IReadOnlyList{string}, CancellationToken)"/>
    public Task<RedisReply> ExpectAsync(params string[] words) => ExpectAsync((IReadOnlyList<string>)words);

    /// <summary>Sends several commands at once and returns their replies; error replies are values. State that they keep in Redis
    /// must be over at their end.</summary>
    /// <param name="commands">The commands' bytes.</param>
    /// <param name="count">How many they are.</param>
    /// <param name="cancellation">Gives up.</param>
    /// <exception cref="RedisException">The connection failed: some of them may have been executed, or all, or none.</exception>
    public async Task<IReadOnlyList<RedisReply>> PipelineAsync(ReadOnlyMemory<byte> commands, int count,
        CancellationToken cancellation = default)
    {
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        try
        {
            await EnsureOpenAsync(cancellation).ConfigureAwait(false);
            return await ExchangeAsync(commands, count, "several commands", cancellation).ConfigureAwait(false);
        }
        finally
        {
            _turn.Release();
        }
    }

    /// <summary>As <see cref="CommandAsync(IReadOnlyList{string}, CancellationToken)"/>, of several commands at once, which are executed
    /// one after the other whatever the replies are.</summary>
    /// <exception cref="RedisException">The connection failed: some of them may have been executed, or all, or none.</exception>
    public async Task<IReadOnlyList<RedisReply>> CommandsAsync(IReadOnlyList<string[]> commands, CancellationToken cancellation = default)
    {
        await _turn.WaitAsync(cancellation).ConfigureAwait(false);
        var counted = new List<IDisposable>();
        try
        {
            await EnsureOpenAsync(cancellation).ConfigureAwait(false);
            using var bytes = new MemoryStream();
            foreach (string[] words in commands)
            {
                if (Endpoint.Counts?.Send(words) is { } sending) { counted.Add(sending); }
                bytes.Write(RedisTransport.EncodeOwn(words));
            }
            return await ExchangeAsync(bytes.ToArray(), commands.Count, commands[0][0], cancellation).ConfigureAwait(false);
        }
        finally
        {
            foreach (IDisposable sending in counted) { sending.Dispose(); }
            _turn.Release();
        }
    }

    /// <summary>A section of INFO as name and value.</summary>
    /// <exception cref="RedisException">The connection failed or INFO is refused.</exception>
    public async Task<Dictionary<string, string>> InfoAsync(string section, CancellationToken cancellation = default) =>
        InfoOf(section, await CommandAsync(["INFO", section], cancellation).ConfigureAwait(false));

    /// <summary>The same of a reply that is here.</summary>
    /// <exception cref="RedisException">INFO is refused.</exception>
    internal Dictionary<string, string> InfoOf(string section, RedisReply reply)
    {
        Check(["INFO", section], reply);
        var fields = new Dictionary<string, string>(StringComparer.Ordinal);
        foreach (string line in reply.Text.Split('\n'))
        {
            int colon = line.IndexOf(':', StringComparison.Ordinal);
            if (colon > 0)
                fields[line[..colon]] = line[(colon + 1)..].TrimEnd('\r');
        }
        return fields;
    }

    /// <summary>The role, and the offset of history executed: the answer of ROLE.</summary>
    /// <exception cref="RedisException">The connection failed or ROLE is refused.</exception>
    public async Task<RedisRole> RoleAsync(CancellationToken cancellation = default)
    {
        RedisReply reply = await ExpectAsync(["ROLE"], cancellation).ConfigureAwait(false);
        if (reply.Items.Count >= 2 && reply.Items[0].Text == "master")
            return new RedisRole(true, reply.Items[1].Integer, "", "", 0);
        if (reply.Items.Count >= 5 && reply.Items[0].Text == "slave")
            return new RedisRole(false, reply.Items[4].Integer, reply.Items[3].Text, reply.Items[1].Text, (int)reply.Items[2].Integer);
        throw new RedisException(RedisProblem.Protocol, $"Redis at {Endpoint} answered ROLE with {reply}.");
    }

    /// <inheritdoc />
    public ValueTask DisposeAsync()
    {
        _stream?.Dispose();
        _socket?.Dispose();
        return ValueTask.CompletedTask;
    }

    private async Task EnsureOpenAsync(CancellationToken cancellation)
    {
        if (_socket is not null && !IsDead(_socket) && _start == _end)
            return;
        if (_isOne)
            throw new RedisException(RedisProblem.Closed, $"The connection to Redis at {Endpoint} has ended.");
        await OpenAsync(cancellation).ConfigureAwait(false);
    }

    private async Task OpenAsync(CancellationToken cancellation)
    {
        Drop();
        (_socket, _stream) = await RedisTransport.OpenAsync(Endpoint, _timeout, cancellation).ConfigureAwait(false);
        _fresh = true;
        if (Endpoint.Password is not null)
            await LogInAsync(Endpoint.Password, cancellation).ConfigureAwait(false);
        if (Endpoint.Admission is not { } admission)
            return;
        try
        {
            if (Endpoint.Password is null)
                await ExchangeAsync(["PING"], cancellation).ConfigureAwait(false);
            await admission(cancellation).ConfigureAwait(false);
        }
        catch
        {
            Drop();
            throw;
        }
    }

    private async Task LogInAsync(string password, CancellationToken cancellation)
    {
        RedisReply reply = await ExchangeAsync(Endpoint.User is null
            ? ["AUTH", password] : ["AUTH", Endpoint.User, password], cancellation).ConfigureAwait(false);
        // A Redis without a password refuses AUTH; it lets everybody in, so that is no reason to stop.
        if (!reply.IsError || reply.Text.Contains("without any password configured", StringComparison.Ordinal))
            return;
        Drop();
        RedisProblem problem = RedisProblems.Classify(reply.Text);
        throw new RedisException(problem, $"Redis at {Endpoint} refused AUTH: {reply.Text}.");
    }

    /// <summary>Throws what an error reply to a command says.</summary>
    /// <exception cref="RedisException">The reply is an error.</exception>
    internal void Check(IReadOnlyList<string> words, RedisReply reply)
    {
        if (!reply.IsError) { return; }
        // CONFIG SET and AUTH may carry secrets: name the command, not its values.
        string name = words.Count > 1 && words[0] is "CONFIG" or "CLIENT" or "ACL" ? words[0] + " " + words[1] : words[0];
        throw new RedisException(RedisProblems.Classify(reply.Text), $"Redis at {Endpoint} refused {name}: {reply.Text}.");
    }

    private async Task<RedisReply> ExchangeAsync(string[] words, CancellationToken cancellation)
    {
        using CommandCounts.Sending? counted = Endpoint.Counts?.Send(words);
        return (await ExchangeAsync(RedisTransport.EncodeOwn(words), 1, words[0], cancellation).ConfigureAwait(false))[0];
    }

    private async Task<IReadOnlyList<RedisReply>> ExchangeAsync(ReadOnlyMemory<byte> commands, int count, string name,
        CancellationToken cancellation)
    {
        using var limited = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
        limited.CancelAfter(_timeout);
        try
        {
            await _stream!.WriteAsync(commands, limited.Token).ConfigureAwait(false);
            var replies = new RedisReply[count];
            for (int i = 0; i < count; i++) { replies[i] = await ReadReplyAsync(limited.Token).ConfigureAwait(false); }
            _fresh = false;
            return replies;
        }
        catch (Exception e) when (e is IOException or SocketException or ObjectDisposedException or OperationCanceledException)
        {
            Drop(); // the reply may still come: this connection is out of step
            cancellation.ThrowIfCancellationRequested();
            throw e is OperationCanceledException
                ? new RedisException(RedisProblem.Timeout,
                $"Redis at {Endpoint} did not answer {name} within {_timeout.TotalSeconds:0.###} s.", e)
                : new RedisException(RedisProblem.Closed, $"The connection to Redis at {Endpoint} broke during {name}: {e.Message}.", e);
        }
        catch (RedisException)
        {
            Drop();
            throw;
        }
    }

    private async Task<RedisReply> ReadReplyAsync(CancellationToken cancellation)
    {
        byte[] line = await ReadLineAsync(cancellation).ConfigureAwait(false);
        if (line.Length == 0)
            throw Malformed();
        byte[] rest = line[1..];
        switch ((char)line[0])
        {
            case '+': return RedisReply.OfText(RedisReplyKind.Status, rest);
            case '-': return RedisReply.OfText(RedisReplyKind.Error, rest);
            case ':': return RedisReply.OfInteger(Number(rest));
            case '$':
                long length = Number(rest);
                if (length < 0)
                    return RedisReply.Nil;
                if (length > ReplyBytesMax)
                    throw Malformed();
                byte[] body = await ReadBytesAsync((int)length + 2, cancellation).ConfigureAwait(false);
                return RedisReply.OfText(RedisReplyKind.Bulk, body[..^2]);
            case '*':
                long count = Number(rest);
                if (count < 0)
                    return RedisReply.Nil;
                if (count > 1 << 20)
                    throw Malformed();
                var items = new List<RedisReply>((int)count);
                for (long i = 0; i < count; i++)
                    items.Add(await ReadReplyAsync(cancellation).ConfigureAwait(false));
                return RedisReply.OfItems(items);
            default: throw Malformed();
        }
    }

    private async Task<byte[]> ReadLineAsync(CancellationToken cancellation)
    {
        int searched = 0;
        while (true)
        {
            int at = _buffer.AsSpan(_start + searched, _end - _start - searched).IndexOf((byte)'\n');
            if (at >= 0)
            {
                int length = searched + at;
                byte[] line = _buffer.AsSpan(_start, length > 0 && _buffer[_start + length - 1] == '\r' ? length - 1 : length).ToArray();
                _start += length + 1;
                return line;
            }
            searched = _end - _start;
            if (searched > 64 << 10)
                throw Malformed();
            await FillAsync(cancellation).ConfigureAwait(false);
        }
    }

    private async Task<byte[]> ReadBytesAsync(int count, CancellationToken cancellation)
    {
        var bytes = new byte[count];
        int have = Math.Min(count, _end - _start);
        _buffer.AsSpan(_start, have).CopyTo(bytes);
        _start += have;
        await _stream!.ReadExactlyAsync(bytes.AsMemory(have), cancellation).ConfigureAwait(false);
        return bytes;
    }

    private async Task FillAsync(CancellationToken cancellation)
    {
        if (_start > 0)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            _end -= _start;
            _start = 0;
        }
        if (_end == _buffer.Length)
            Array.Resize(ref _buffer, _buffer.Length * 2);
        int read = await _stream!.ReadAsync(_buffer.AsMemory(_end), cancellation).ConfigureAwait(false);
        if (read == 0)
            throw new IOException("closed by the other side");
        _end += read;
    }

    private RedisException Malformed() => new(RedisProblem.Protocol, $"What answers at {Endpoint} does not speak Redis's protocol.");

    private long Number(byte[] digits) => long.TryParse(Encoding.ASCII.GetString(digits), NumberStyles.AllowLeadingSign,
        CultureInfo.InvariantCulture, out long value) ? value : throw Malformed();

    // Readable without a command in flight means that the other side has closed (or sent what nobody asked for).
    private bool IsDead(Socket socket)
    {
        try
        {
            return socket.Poll(0, SelectMode.SelectRead) && !(_fresh && Endpoint.Tls is not null && socket.Available > 0);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            return true;
        }
    }

    private void Drop()
    {
        _stream?.Dispose();
        _socket?.Dispose();
        _stream = null;
        _socket = null;
        _start = _end = 0;
    }
}

/// <summary>The answer of ROLE.</summary>
/// <param name="IsMaster">Master or replica.</param>
/// <param name="Offset">History executed, in bytes of the replication stream.</param>
/// <param name="LinkState">Of a replica: connect, connecting, sync, connected; empty of a master.</param>
/// <param name="MasterHost">Of a replica: its master's host.</param>
/// <param name="MasterPort">Of a replica: its master's port.</param>
public readonly record struct RedisRole(bool IsMaster, long Offset, string LinkState, string MasterHost, int MasterPort);
