// A connection of a command to a proxy: AUTH where asked for, then one question after the other. Small and patient for a few seconds only;
// every way in which it fails has its own sentence.
using System.Globalization;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Slogger.Resp;

namespace Slogger.Cli.Access;

/// <summary>A proxy could not be asked.</summary>
internal sealed class ProxyUnreachableException(string message, string remedy) : Exception(message)
{
    /// <summary>What to do.</summary>
    public string Remedy { get; } = remedy;
}

/// <summary>A reply of RESP2.</summary>
/// <param name="Kind">Its first byte: '+', '-', ':', '$' or '*'; '_': nothing.</param>
/// <param name="Bytes">Of all but arrays.</param>
/// <param name="Items">Of an array.</param>
internal sealed record ProxyReply(char Kind, byte[] Bytes, IReadOnlyList<ProxyReply> Items)
{
    /// <summary>Its bytes as text, for people.</summary>
    public string Text => Encoding.UTF8.GetString(Bytes);

    /// <summary>Whether it is an error.</summary>
    public bool IsError => Kind == '-';

    /// <summary>Whether it is nothing: a null bulk string or array.</summary>
    public bool IsNull => Kind == '_';

    /// <summary>The number of an integer reply.</summary>
    public long Number => long.Parse(Text, CultureInfo.InvariantCulture);
}

/// <summary>A connection to a proxy. One question at a time.</summary>
internal sealed class ProxyConnection : IAsyncDisposable
{
    /// <summary>Most bytes of a reply's parts.</summary>
    private const int ReplyBytesMax = 512 << 20;

    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    private readonly ProxyAccess _access;
    private readonly Socket _socket;
    private readonly Stream _stream;
    private readonly TimeSpan _answerMax;
    private byte[] _buffer = new byte[64 << 10];
    private int _start, _end;

    private ProxyConnection(ProxyAccess access, Socket socket, Stream stream, TimeSpan answerMax) =>
        (_access, _socket, _stream, _answerMax) = (access, socket, stream, answerMax);

    /// <summary>Connects, and says who asks.</summary>
    /// <exception cref="ProxyUnreachableException">That is not possible.</exception>
    /// <param name="access">The proxy, and who asks.</param>
    /// <param name="answerMax">How long an answer may take; null: 5 s.</param>
    public static async Task<ProxyConnection> OpenAsync(ProxyAccess access, TimeSpan? answerMax = null)
    {
        Socket? socket = null;
        using CancellationTokenSource limit = new(Patience);
        try
        {
            return await NamedAsync(access, async () =>
            {
                socket = await ConnectAsync(access.Address!, limit.Token).ConfigureAwait(false);
                Stream stream = await SecureAsync(socket, access, limit.Token).ConfigureAwait(false);
                var connection = new ProxyConnection(access, socket, stream, answerMax ?? Patience);
                if (access.Password is not { } password) { return connection; }
                string[] auth = access.User is { } user ? ["AUTH", user, password] : ["AUTH", password];
                ProxyReply reply = await connection.AskAsync(Bytes(auth), limit.Token).ConfigureAwait(false);
                return !reply.IsError ? connection : throw new ProxyUnreachableException(
                    $"{access.Address} refused the password: {reply.Text}", "check --user and --password-file");
            }, Patience).ConfigureAwait(false);
        }
        catch
        {
            socket?.Dispose();
            throw;
        }
    }

    /// <summary>Asks, and returns the reply; an error is one.</summary>
    /// <exception cref="ProxyUnreachableException">There was none.</exception>
    public Task<ProxyReply> CallAsync(params string[] words) => CallAsync(Bytes(words));

    /// <summary>Asks, and returns the reply; an error is one.</summary>
    /// <exception cref="ProxyUnreachableException">There was none.</exception>
    public Task<ProxyReply> CallAsync(params byte[][] words) => CallAsync(_answerMax, words);

    /// <summary>Asks what takes longer, or less long, than other answers, and returns the reply; an error is one.</summary>
    /// <param name="answerMax">How long the answer may take.</param>
    /// <param name="words">The question.</param>
    /// <exception cref="ProxyUnreachableException">There was none.</exception>
    public async Task<ProxyReply> CallAsync(TimeSpan answerMax, byte[][] words)
    {
        using CancellationTokenSource limit = new(answerMax);
        return await NamedAsync(_access, () => AskAsync(words, limit.Token), answerMax).ConfigureAwait(false);
    }

    public ValueTask DisposeAsync()
    {
        _socket.Dispose();
        return _stream.DisposeAsync();
    }

    private static async Task<T> NamedAsync<T>(ProxyAccess access, Func<Task<T>> ask, TimeSpan patience)
    {
        try
        {
            return await ask().ConfigureAwait(false);
        }
        catch (OperationCanceledException)
        {
            throw new ProxyUnreachableException($"{access.Address} does not answer within {patience.TotalSeconds:0} s",
                "it may be starting, which slogger status --data DIR shows; look at its log, and whether it is the right address");
        }
        catch (SocketException e)
        {
            throw new ProxyUnreachableException($"no proxy answers at {access.Address}: {e.Message}",
                "is the proxy running, and is it the right address?");
        }
        catch (AuthenticationException e)
        {
            throw new ProxyUnreachableException($"no TLS connection to {access.Address}: {e.InnerException?.Message ?? e.Message}",
                "give --tls-ca FILE with the authority of the proxy's certificate, or --tls-insecure");
        }
        catch (InvalidDataException e)
        {
            throw new ProxyUnreachableException($"{access.Address} is not a Slogger proxy: {e.Message}",
                "give a proxy's address (with --tls if it expects TLS)");
        }
        catch (IOException e)
        {
            throw new ProxyUnreachableException($"{access.Address} closed the connection: {e.Message}",
                access.UsesTls ? "is it the right address, and does it expect TLS?" : "is it the right address, or does it expect --tls?");
        }
    }

    private static async Task<Socket> ConnectAsync(ListenAddress address, CancellationToken limit)
    {
        Socket socket = address.IsUnix
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(SocketType.Stream, ProtocolType.Tcp);
        try
        {
            await (address.IsUnix
                ? socket.ConnectAsync(new UnixDomainSocketEndPoint(address.UnixPath), limit)
                : socket.ConnectAsync(address.Host, address.Port, limit)).ConfigureAwait(false);
            if (address.IsUnix) { return socket; }
            // A machine that is lost says nothing, and some answers take long.
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
            socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveTime, 10);
            socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveInterval, 5);
            socket.SetSocketOption(SocketOptionLevel.Tcp, SocketOptionName.TcpKeepAliveRetryCount, 3);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private static async Task<Stream> SecureAsync(Socket socket, ProxyAccess access, CancellationToken limit)
    {
        NetworkStream plain = new(socket);
        if (!access.UsesTls) { return plain; }
        SslClientAuthenticationOptions options = new() { TargetHost = access.Address!.Host ?? "localhost" };
        if (access.TakesAnyCertificate) { options.RemoteCertificateValidationCallback = (_, _, _, _) => true; }
        else if (access.CaFile is { } file)
        {
            options.CertificateChainPolicy = new X509ChainPolicy { TrustMode = X509ChainTrustMode.CustomRootTrust,
                RevocationMode = X509RevocationMode.NoCheck };
            options.CertificateChainPolicy.CustomTrustStore.ImportFromPemFile(file);
        }
        SslStream secure = new(plain);
        await secure.AuthenticateAsClientAsync(options, limit).ConfigureAwait(false);
        return secure;
    }

    private static byte[][] Bytes(string[] words) => [.. words.Select(w => Encoding.UTF8.GetBytes(w))];

    private async Task<ProxyReply> AskAsync(byte[][] words, CancellationToken limit)
    {
        List<byte> bytes = [.. Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"*{words.Length}\r\n"))];
        foreach (byte[] word in words)
        {
            bytes.AddRange(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"${word.Length}\r\n")));
            bytes.AddRange(word);
            bytes.AddRange("\r\n"u8);
        }
        await _stream.WriteAsync(bytes.ToArray(), limit).ConfigureAwait(false);
        return await ReadAsync(limit).ConfigureAwait(false);
    }

    // Throws InvalidDataException for what is no reply, EndOfStreamException at the end.
    private async Task<ProxyReply> ReadAsync(CancellationToken limit)
    {
        string line = await ReadLineAsync(limit).ConfigureAwait(false);
        char kind = line.Length == 0 ? '\0' : line[0];
        switch (kind)
        {
            case '+' or '-' or ':':
                return new(kind, Encoding.UTF8.GetBytes(line[1..]), []);
            case '$' or '*' when line is "$-1" or "*-1":
                return new('_', [], []);
            case '$':
                int length = LengthIn(line);
                while (_end - _start < length + 2) { await FillAsync(limit).ConfigureAwait(false); }
                byte[] content = _buffer[_start..(_start + length)];
                _start += length + 2;
                return new(kind, content, []);
            case '*':
                var items = new List<ProxyReply>();
                for (int left = LengthIn(line); left > 0; left--) { items.Add(await ReadAsync(limit).ConfigureAwait(false)); }
                return new(kind, [], items);
            default:
                throw new InvalidDataException("it does not speak Redis's protocol as expected");
        }
    }

    private static int LengthIn(string line) =>
        int.TryParse(line.AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out int length) && length <= ReplyBytesMax ? length
            : throw new InvalidDataException("its answer has a bad length");

    private async Task<string> ReadLineAsync(CancellationToken limit)
    {
        while (true)
        {
            int length = _buffer.AsSpan(_start, _end - _start).IndexOf("\r\n"u8);
            if (length >= 0)
            {
                string line = Encoding.UTF8.GetString(_buffer, _start, length);
                _start += length + 2;
                return line;
            }
            if (_end - _start > 1 << 20) { throw new InvalidDataException("its answer is too long"); }
            await FillAsync(limit).ConfigureAwait(false);
        }
    }

    private async Task FillAsync(CancellationToken limit)
    {
        if (_start > 0)
        {
            _buffer.AsSpan(_start, _end - _start).CopyTo(_buffer);
            (_start, _end) = (0, _end - _start);
        }
        if (_end == _buffer.Length) { Array.Resize(ref _buffer, checked(2 * _buffer.Length)); }
        int read = await _stream.ReadAsync(_buffer.AsMemory(_end), limit).ConfigureAwait(false);
        _end += read > 0 ? read : throw new EndOfStreamException("without an answer");
    }
}
