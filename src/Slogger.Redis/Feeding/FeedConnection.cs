// One connection of a Redis (or a stranger) to a feed: the master's side of the handshake, then acknowledgements in and
// base and tail out, at the same time.
using System.Globalization;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Redis.Feeding;

internal sealed class FeedConnection
{
    private const int CommandBytesMax = 16 << 10;

    private readonly ReplicationFeed _feed;
    private readonly Socket _socket;
    private readonly CancellationTokenSource _stop;
    private readonly TaskCompletionSource _firstAck = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private readonly byte[] _buffer = new byte[CommandBytesMax];
    private int _length;
    private Task _running = Task.CompletedTask;
    private Task _sending = Task.CompletedTask;
    private bool _baseSent;

    public FeedConnection(ReplicationFeed feed, Socket socket, CancellationToken stop)
    {
        _feed = feed;
        _socket = socket;
        _stop = CancellationTokenSource.CreateLinkedTokenSource(stop);
    }

    /// <summary>Whether the replica announced `capa eof`.</summary>
    public bool SpeaksEof { get; private set; }

    public async Task SendAsync(ReadOnlyMemory<byte> bytes, CancellationToken cancellation)
    {
        while (bytes.Length > 0)
            bytes = bytes[await _socket.SendAsync(bytes, SocketFlags.None, cancellation).ConfigureAwait(false)..];
    }

    /// <summary>Answers until the other side has proved to be our Redis. False: it has not, or is gone.</summary>
    public async Task<bool> AuthenticateAsync(FeedOptions options)
    {
        if (!options.RequireSecret)
            return true;
        using var limited = CancellationTokenSource.CreateLinkedTokenSource(_stop.Token);
        limited.CancelAfter(options.AuthenticationTimeMax);
        try
        {
            while (await ReadCommandAsync(limited.Token).ConfigureAwait(false) is { } command)
            {
                switch (command)
                {
                    case [var name, var user, var password] when Is(name, "AUTH"):
                        bool right = _feed.SecretMatches(user, password);
                        await ReplyAsync(right ? "+OK\r\n" : "-WRONGPASS this feed is for one Redis only\r\n").ConfigureAwait(false);
                        return right;
                    case [var name, ..] when Is(name, "PING"):
                        // Redis takes this error for an invitation to authenticate.
                        await ReplyAsync("-NOAUTH Authentication required.\r\n").ConfigureAwait(false);
                        break;
                    default:
                        await ReplyAsync("-NOAUTH Authentication required.\r\n").ConfigureAwait(false);
                        return false;
                }
            }
        }
        catch (Exception e) when (e is SocketException or OperationCanceledException or ObjectDisposedException or FormatException)
        {
        }
        return false;
    }

    public void Run() => _running = RunAsync();

    public async Task CloseAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        _socket.Dispose();
        await _running.ConfigureAwait(false);
        await _sending.ConfigureAwait(false);
    }

    private async Task RunAsync()
    {
        try
        {
            while (await ReadCommandAsync(_stop.Token).ConfigureAwait(false) is { } command)
                await AnswerAsync(command).ConfigureAwait(false);
        }
        catch (Exception e) when (e is SocketException or OperationCanceledException or ObjectDisposedException or FormatException)
        {
            // Redis went away; if it comes back it is served again.
        }
        await _stop.CancelAsync().ConfigureAwait(false);
        _socket.Dispose();
        _feed.ConnectionEnded();
    }

    private async Task AnswerAsync(List<string> command)
    {
        switch (command)
        {
            case [var name, ..] when Is(name, "PING"):
                await ReplyAsync("+PONG\r\n").ConfigureAwait(false);
                break;
            case [var name, ..] when Is(name, "AUTH"):
                await ReplyAsync("+OK\r\n").ConfigureAwait(false); // only where no secret is needed
                break;
            case [var name, var what, var offset, ..] when Is(name, "REPLCONF") && Is(what, "ACK"):
                if (long.TryParse(offset, NumberStyles.None, CultureInfo.InvariantCulture, out long acknowledged))
                    _feed.Acknowledge(acknowledged);
                if (Volatile.Read(ref _baseSent))
                    _firstAck.TrySetResult();
                break;
            case [var name, ..] when Is(name, "REPLCONF"):
                for (int i = 1; i + 1 < command.Count; i += 2)
                    SpeaksEof |= Is(command[i], "capa") && Is(command[i + 1], "eof");
                await ReplyAsync("+OK\r\n").ConfigureAwait(false);
                break;
            case [var name, var id, var next] when Is(name, "PSYNC") && _sending.IsCompleted:
                bool continued = long.TryParse(next, NumberStyles.None, CultureInfo.InvariantCulture, out long wanted)
                    && _feed.CanContinue(id, wanted - 1);
                if (!continued && !_feed.MayLoad())
                {
                    // Redis takes this for trouble that passes: it keeps what it has, serves it, and asks again.
                    await ReplyAsync("-NOMASTERLINK this feed only continues\r\n").ConfigureAwait(false);
                    break;
                }
                await ReplyAsync(continued ? $"+CONTINUE {_feed.ReplicationId}\r\n" : _feed.FullAnswer()).ConfigureAwait(false);
                _sending = SendHistoryAsync(continued ? wanted - 1 : null);
                break;
            default:
                await ReplyAsync("-ERR this is a feed of history, it knows only the replication handshake\r\n").ConfigureAwait(false);
                break;
        }
    }

    private async Task SendHistoryAsync(long? continueFrom)
    {
        try
        {
            if (continueFrom is null)
            {
                await _feed.SendBaseAsync(this, _stop.Token).ConfigureAwait(false);
                Volatile.Write(ref _baseSent, true);
                // With $len Redis does not hasten to acknowledge, and does not mind.
                if (SpeaksEof)
                    await _firstAck.Task.WaitAsync(_stop.Token).ConfigureAwait(false);
            }
            await _feed.SendTailAsync(this, continueFrom ?? 0, _stop.Token).ConfigureAwait(false);
        }
        catch (Exception e) when (e is SocketException or OperationCanceledException or ObjectDisposedException)
        {
        }
        catch (Exception e)
        {
            try
            {
                await _feed.FailAsync($"The history cannot be read: {e.Message}", _stop.Token).ConfigureAwait(false);
            }
            catch (OperationCanceledException)
            {
            }
        }
        _socket.Dispose();
    }

    private ValueTask ReplyAsync(string text) => new(SendAsync(Encoding.ASCII.GetBytes(text), _stop.Token));

    private static bool Is(string a, string b) => string.Equals(a, b, StringComparison.OrdinalIgnoreCase);

    // Commands of the handshake are short; anything else is none of ours. Null: the connection ended.
    private async Task<List<string>?> ReadCommandAsync(CancellationToken cancellation)
    {
        while (true)
        {
            if (TryParse(_buffer.AsSpan(0, _length), out List<string> words, out int used))
            {
                _buffer.AsSpan(used, _length - used).CopyTo(_buffer);
                _length -= used;
                if (words.Count > 0)
                    return words;
                continue;
            }
            if (_length == _buffer.Length)
                throw new FormatException("a command too long");
            int read = await _socket.ReceiveAsync(_buffer.AsMemory(_length), SocketFlags.None, cancellation).ConfigureAwait(false);
            if (read == 0)
                return null;
            _length += read;
        }
    }

    private static bool TryParse(ReadOnlySpan<byte> bytes, out List<string> words, out int used)
    {
        words = [];
        used = 0;
        if (bytes.IsEmpty)
            return false;
        if (bytes[0] == '\n' || bytes[0] == '\r')
        {
            used = 1;
            return true;
        }
        if (!TryNumber(bytes, ref used, '*', out int count))
            return false;
        for (int i = 0; i < count; i++)
        {
            if (!TryNumber(bytes, ref used, '$', out int length) || bytes.Length < used + length + 2)
                return false;
            words.Add(Encoding.UTF8.GetString(bytes.Slice(used, length)));
            used += length + 2;
        }
        return true;
    }

    private static bool TryNumber(ReadOnlySpan<byte> bytes, ref int used, char prefix, out int value)
    {
        value = 0;
        int end = bytes[used..].IndexOf("\r\n"u8);
        if (end < 0)
            return false;
        ReadOnlySpan<byte> line = bytes.Slice(used, end);
        if (line.Length < 2 || line[0] != prefix
            || !int.TryParse(line[1..], NumberStyles.None, CultureInfo.InvariantCulture, out value) || value > CommandBytesMax)
            throw new FormatException("no RESP command");
        used += end + 2;
        return true;
    }
}
