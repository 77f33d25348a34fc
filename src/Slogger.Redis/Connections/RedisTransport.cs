// Opens the byte stream to a Redis: TCP or Unix socket, with or without TLS. The blocking form never lets .NET switch the
// descriptor to non-blocking mode, so that each Receive is one recv() without a hop through the runtime's event thread;
// the replication link depends on that.
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using System.Text;
using Slogger.Resp;

namespace Slogger.Redis.Connections;

internal static class RedisTransport
{
    /// <summary>Connects with blocking calls only. <paramref name="onSocket"/> gets the socket before the connect, so that
    /// another thread can end a connect that hangs by disposing it.</summary>
    public static (Socket Socket, Stream Stream) Open(RedisEndpoint endpoint, TimeSpan timeout, Action<Socket>? onSocket = null)
    {
        Exception? last = null;
        foreach (EndPoint target in Resolve(endpoint))
        {
            Socket socket = NewSocket(target);
            onSocket?.Invoke(socket);
            using var giveUp = new Timer(static state => ((Socket)state!).Dispose(), socket, timeout, Timeout.InfiniteTimeSpan);
            try
            {
                socket.Connect(target);
                OwnConnections.Add(socket);
                giveUp.Change(Timeout.Infinite, Timeout.Infinite);
                socket.ReceiveTimeout = Milliseconds(timeout);
                socket.SendTimeout = Milliseconds(timeout);
                var network = new NetworkStream(socket, ownsSocket: true);
                if (endpoint.Tls is null)
                    return (socket, network);
                SslStream tls = NewTls(network, endpoint.Tls);
                tls.AuthenticateAsClient(TlsOptions(endpoint));
                return (socket, tls);
            }
            catch (Exception e) when (e is SocketException or ObjectDisposedException or IOException or AuthenticationException)
            {
                socket.Dispose();
                last = e;
            }
        }
        throw Failure(endpoint, last);
    }

    /// <summary>Connects with asynchronous calls, for the control connection.</summary>
    public static async Task<(Socket Socket, Stream Stream)> OpenAsync(
        RedisEndpoint endpoint, TimeSpan timeout, CancellationToken cancellation)
    {
        Exception? last = null;
        foreach (EndPoint target in Resolve(endpoint))
        {
            using var limited = CancellationTokenSource.CreateLinkedTokenSource(cancellation);
            limited.CancelAfter(timeout);
            Socket socket = NewSocket(target);
            try
            {
                await socket.ConnectAsync(target, limited.Token).ConfigureAwait(false);
                OwnConnections.Add(socket);
                var network = new NetworkStream(socket, ownsSocket: true);
                if (endpoint.Tls is null)
                    return (socket, network);
                SslStream tls = NewTls(network, endpoint.Tls);
                await tls.AuthenticateAsClientAsync(TlsOptions(endpoint), limited.Token).ConfigureAwait(false);
                return (socket, tls);
            }
            catch (Exception e) when (e is SocketException or IOException or AuthenticationException or OperationCanceledException)
            {
                socket.Dispose();
                cancellation.ThrowIfCancellationRequested();
                last = e;
            }
        }
        throw Failure(endpoint, last);
    }

    /// <summary>Writes a command of the proxy's own, in upper case, as an array of bulk strings, spelled so that MONITOR and the slow log
    /// do not show it to clients (<see cref="OwnSpelling"/>).</summary>
    public static byte[] EncodeOwn(ReadOnlySpan<string> words) => Encode([OwnSpelling.Of(words[0]), .. words[1..]]);

    /// <summary>Writes a command as an array of bulk strings.</summary>
    public static byte[] Encode(params ReadOnlySpan<string> words)
    {
        using var bytes = new MemoryStream();
        bytes.Write(Encoding.ASCII.GetBytes($"*{words.Length}\r\n"));
        foreach (string word in words)
        {
            byte[] body = Encoding.UTF8.GetBytes(word);
            bytes.Write(Encoding.ASCII.GetBytes($"${body.Length}\r\n"));
            bytes.Write(body);
            bytes.Write("\r\n"u8);
        }
        return bytes.ToArray();
    }

    private static EndPoint[] Resolve(RedisEndpoint endpoint)
    {
        if (endpoint.UnixSocketPath is { } path)
            return [new UnixDomainSocketEndPoint(path)];
        if (IPAddress.TryParse(endpoint.Host, out IPAddress? address))
            return [new IPEndPoint(address, endpoint.Port)];
        try
        {
            // IPv4 first: a Redis bound to 127.0.0.1 only is the common case for "localhost".
            return [.. Dns.GetHostAddresses(endpoint.Host).OrderBy(a => a.AddressFamily == AddressFamily.InterNetwork ? 0 : 1)
                .Select(a => new IPEndPoint(a, endpoint.Port))];
        }
        catch (SocketException e)
        {
            throw new RedisException(RedisProblem.Unreachable, $"The host name of Redis at {endpoint} is not known: {e.Message}.", e);
        }
    }

    private static Socket NewSocket(EndPoint target)
    {
        if (target is UnixDomainSocketEndPoint)
            return new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
        return new Socket(target.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
    }

    private static SslStream NewTls(Stream inner, RedisTlsOptions options)
    {
        if (options.Insecure)
            return new SslStream(inner, false, static (_, _, _, _) => true);
        if (options.CaFile is null)
            return new SslStream(inner, false);
        var roots = new X509Certificate2Collection();
        roots.ImportFromPemFile(options.CaFile);
        return new SslStream(inner, false, (_, certificate, _, errors) =>
        {
            if (certificate is null || (errors & SslPolicyErrors.RemoteCertificateNameMismatch) != 0)
                return false;
            using var chain = new X509Chain();
            chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
            chain.ChainPolicy.CustomTrustStore.AddRange(roots);
            chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
            return chain.Build(new X509Certificate2(certificate));
        });
    }

    private static SslClientAuthenticationOptions TlsOptions(RedisEndpoint endpoint)
    {
        RedisTlsOptions tls = endpoint.Tls!;
        var options = new SslClientAuthenticationOptions { TargetHost = endpoint.Host };
        if (tls.CertificateFile is { } certificate)
            options.ClientCertificates = [X509Certificate2.CreateFromPemFile(certificate, tls.KeyFile)];
        return options;
    }

    private static RedisException Failure(RedisEndpoint endpoint, Exception? cause) => cause switch
    {
        AuthenticationException => new(RedisProblem.Tls, $"The TLS handshake with Redis at {endpoint} failed: {cause.Message}", cause),
        OperationCanceledException or ObjectDisposedException =>
            new(RedisProblem.Timeout, $"Redis at {endpoint} did not accept a connection in time.", cause),
        IOException when endpoint.Tls is not null =>
            new(RedisProblem.Tls, $"The TLS handshake with Redis at {endpoint} failed: {cause.Message}", cause),
        _ => new(RedisProblem.Unreachable, $"Redis at {endpoint} cannot be reached: {cause?.Message ?? "no address"}.", cause),
    };

    private static int Milliseconds(TimeSpan time) => (int)Math.Clamp(time.TotalMilliseconds, 1, int.MaxValue);
}
