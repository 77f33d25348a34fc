// One question to a proxy: connect, AUTH where asked for, DPR.INFO, read one reply. Small and patient for a few seconds only;
// every way in which it fails has its own sentence.
using System.Globalization;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Slogger.Resp;

namespace Slogger.Cli;

/// <summary>Who asks.</summary>
internal sealed record StatusCredentials(string? User, string? Password, string? CaFile, bool TakesAnyCertificate)
{
    /// <summary>Without the password.</summary>
    public override string ToString() => User ?? "default";
}

/// <summary>The fields of DPR.INFO in its order, or why there are none.</summary>
internal sealed record StatusAnswer(IReadOnlyList<KeyValuePair<string, string>>? Fields, string Problem, string Remedy);

/// <summary>Asks a proxy for its state.</summary>
internal static class StatusClient
{
    /// <summary>Most bytes of an answer. A real one has some 1 KB.</summary>
    private const int AnswerBytesMax = 1 << 20;

    private static readonly TimeSpan Patience = TimeSpan.FromSeconds(5);

    public static async Task<StatusAnswer> AskAsync(ListenAddress address, bool tls, StatusCredentials credentials)
    {
        using CancellationTokenSource limit = new(Patience);
        try
        {
            using Socket socket = await ConnectAsync(address, limit.Token).ConfigureAwait(false);
            await using Stream stream = await OpenAsync(socket, address, tls, credentials, limit.Token).ConfigureAwait(false);
            ReplyReader reader = new(stream, AnswerBytesMax);
            if (credentials.Password is not null)
            {
                string[] auth = credentials.User is null ? ["AUTH", credentials.Password]
                    : ["AUTH", credentials.User, credentials.Password];
                await stream.WriteAsync(Encode(auth), limit.Token).ConfigureAwait(false);
                if (await reader.ReadAsync(limit.Token).ConfigureAwait(false) is { IsError: true } refused)
                {
                    return Failure($"{address} refused the password: {refused.Text}", "check --user and --password-file");
                }
            }

            await stream.WriteAsync(Encode("DPR.INFO"), limit.Token).ConfigureAwait(false);
            return Understand(address, await reader.ReadAsync(limit.Token).ConfigureAwait(false));
        }
        catch (OperationCanceledException)
        {
            return Failure($"{address} does not answer within {Patience.TotalSeconds:0} s",
                "it may be starting, which slogger status --data DIR shows; look at its log, and whether it is the right address");
        }
        catch (SocketException e)
        {
            return Failure($"no proxy answers at {address}: {e.Message}", "is the proxy running, and is it the right address?");
        }
        catch (AuthenticationException e)
        {
            return Failure($"no TLS connection to {address}: {e.InnerException?.Message ?? e.Message}",
                "give --tls-ca FILE with the authority of the proxy's certificate, or --tls-insecure");
        }
        catch (InvalidDataException e)
        {
            return Failure($"{address} is not a Slogger proxy: {e.Message}", "give a proxy's address (with --tls if it expects TLS)");
        }
        catch (IOException e)
        {
            return Failure($"{address} closed the connection: {e.Message}",
                tls ? "is it the right address, and does it expect TLS?" : "is it the right address, or does it expect --tls?");
        }
    }

    private static StatusAnswer Understand(ListenAddress address, Reply reply)
    {
        if (!reply.IsError)
        {
            List<KeyValuePair<string, string>> fields = StatusReport.Parse(reply.Text);
            return fields.Count > 0
                ? new StatusAnswer(fields, "", "")
                : Failure($"{address} is not a Slogger proxy: its DPR.INFO is empty", "give a proxy's address");
        }

        if (reply.Text.StartsWith("NOAUTH", StringComparison.Ordinal) || reply.Text.StartsWith("NOPERM", StringComparison.Ordinal))
        {
            return Failure($"{address} answers {reply.Text}", "give --password-file FILE (and --user NAME)");
        }

        return reply.Text.Contains("unknown command", StringComparison.OrdinalIgnoreCase)
            ? Failure($"{address} is not a Slogger proxy: it does not know DPR.INFO", "that may be Redis itself; give the proxy's address")
            : Failure($"{address} answers {reply.Text}", "look at the proxy's log");
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
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    private static async Task<Stream> OpenAsync(Socket socket, ListenAddress address, bool tls, StatusCredentials credentials,
        CancellationToken limit)
    {
        NetworkStream plain = new(socket);
        if (!tls)
        {
            return plain;
        }

        SslClientAuthenticationOptions options = new() { TargetHost = address.Host ?? "localhost" };
        if (credentials.TakesAnyCertificate)
        {
            options.RemoteCertificateValidationCallback = (_, _, _, _) => true;
        }
        else if (credentials.CaFile is not null)
        {
            options.CertificateChainPolicy = new X509ChainPolicy { TrustMode = X509ChainTrustMode.CustomRootTrust,
                RevocationMode = X509RevocationMode.NoCheck };
            options.CertificateChainPolicy.CustomTrustStore.ImportFromPemFile(credentials.CaFile);
        }

        SslStream secure = new(plain);
        await secure.AuthenticateAsClientAsync(options, limit).ConfigureAwait(false);
        return secure;
    }

    private static byte[] Encode(params string[] words)
    {
        StringBuilder text = new();
        text.Append(CultureInfo.InvariantCulture, $"*{words.Length}\r\n");
        foreach (string word in words)
        {
            text.Append(CultureInfo.InvariantCulture, $"${Encoding.UTF8.GetByteCount(word)}\r\n{word}\r\n");
        }

        return Encoding.UTF8.GetBytes(text.ToString());
    }

    private static StatusAnswer Failure(string problem, string remedy) => new(null, problem, remedy);

    /// <summary>A reply: the text of a status line, an error line or a bulk string.</summary>
    private sealed record Reply(bool IsError, string Text);

    /// <summary>Reads the few reply shapes that AUTH and DPR.INFO have. Throws InvalidDataException for others, EndOfStreamException at the
    /// end.</summary>
    private sealed class ReplyReader(Stream stream, int bytesMax)
    {
        private readonly byte[] _buffer = new byte[bytesMax];
        private int _start;
        private int _end;

        public async Task<Reply> ReadAsync(CancellationToken limit)
        {
            string line = await ReadLineAsync(limit).ConfigureAwait(false);
            switch (line.Length == 0 ? '\0' : line[0])
            {
                case '+':
                    return new Reply(false, line[1..]);
                case '-':
                    return new Reply(true, line[1..]);
                case '$':
                    if (!int.TryParse(line.AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out int length)
                        || length > bytesMax - 64)
                    {
                        throw new InvalidDataException("its answer has a bad length");
                    }

                    while (_end - _start < length + 2)
                    {
                        await FillAsync(limit).ConfigureAwait(false);
                    }

                    string text = Encoding.UTF8.GetString(_buffer, _start, length);
                    _start += length + 2;
                    return new Reply(false, text);
                default:
                    throw new InvalidDataException("it does not speak Redis's protocol as expected");
            }
        }

        private async Task<string> ReadLineAsync(CancellationToken limit)
        {
            while (true)
            {
                int end = _buffer.AsSpan(_start, _end - _start).IndexOf("\r\n"u8);
                if (end >= 0)
                {
                    string line = Encoding.UTF8.GetString(_buffer, _start, end);
                    _start += end + 2;
                    return line;
                }

                await FillAsync(limit).ConfigureAwait(false);
            }
        }

        private async Task FillAsync(CancellationToken limit)
        {
            if (_end == _buffer.Length)
            {
                throw new InvalidDataException("its answer is too long");
            }

            int read = await stream.ReadAsync(_buffer.AsMemory(_end), limit).ConfigureAwait(false);
            _end += read > 0 ? read : throw new EndOfStreamException("without an answer");
        }
    }
}
