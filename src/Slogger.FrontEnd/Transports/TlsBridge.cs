// TLS on either side of the proxy. Each TLS connection is deciphered by tasks of its own and joins the loop through a pair
// of connected sockets: the loop sees clear text, never waits for cryptography, and the pair's buffers bound the memory.
using System.Buffers;
using System.Net.Security;
using System.Net.Sockets;
using System.Security.Authentication;
using System.Security.Cryptography.X509Certificates;
using Slogger.Resp;

namespace Slogger.FrontEnd.Transports;

/// <summary>A file of certificates or keys cannot be used; the text says which and why.</summary>
internal sealed class UnusableCertificateException(string message, Exception? inner = null) : Exception(message, inner);

/// <summary>Bridges TLS connections to clear ones.</summary>
internal static class TlsBridge
{
    private const int BufferBytes = 32 << 10;
    private const string ServerUse = "1.3.6.1.5.5.7.3.1", ClientUse = "1.3.6.1.5.5.7.3.2";
    private static readonly TimeSpan HandshakeLimit = TimeSpan.FromSeconds(10);

    /// <summary>The options with which clients are served.</summary>
    /// <exception cref="UnusableCertificateException">A file cannot be used; the text says which and why.</exception>
    public static SslServerAuthenticationOptions ServerOptions(ClientTlsOptions tls)
    {
        X509Certificate2 certificate = Load(tls.CertificateFile, tls.KeyFile);
        X509Certificate2Collection? authorities = tls.ClientCaFile is { } file ? LoadAuthorities(file) : null;
        var chain = new X509Certificate2Collection();
        chain.ImportFromPemFile(tls.CertificateFile);
        return new SslServerAuthenticationOptions
        {
            ServerCertificateContext = SslStreamCertificateContext.Create(certificate, chain, offline: true),
            ClientCertificateRequired = authorities is not null,
            EnabledSslProtocols = SslProtocols.Tls12 | SslProtocols.Tls13,
            RemoteCertificateValidationCallback = authorities is null ? null
                : (_, peer, sent, _) => IsIssuedBy(peer, sent, authorities, ClientUse),
        };
    }

    /// <summary>The options with which Redis is reached.</summary>
    /// <exception cref="UnusableCertificateException">A file cannot be used; the text says which and why.</exception>
    public static SslClientAuthenticationOptions ClientOptions(RedisTlsOptions tls, string host)
    {
        var options = new SslClientAuthenticationOptions { TargetHost = host };
        if (tls.Insecure)
        {
            options.RemoteCertificateValidationCallback = (_, _, _, _) => true;
        }
        else if (tls.CaFile is { } file)
        {
            X509Certificate2Collection authorities = LoadAuthorities(file);
            options.RemoteCertificateValidationCallback = (_, peer, sent, errors) =>
                (errors & ~SslPolicyErrors.RemoteCertificateChainErrors) == 0 && IsIssuedBy(peer, sent, authorities, ServerUse);
        }
        if (tls.CertificateFile is { } own)
        {
            options.ClientCertificates = [Load(own, tls.KeyFile ?? own)];
        }
        return options;
    }

    /// <summary>Serves one client that has connected: hands the clear end over when the handshake has succeeded, and ends
    /// when either side has.</summary>
    /// <param name="socket">The connection.</param>
    /// <param name="options">Certificates.</param>
    /// <param name="admit">Takes the clear end, and what has to be told which bytes given out there tell commits; none if that does not
    /// matter.</param>
    /// <param name="mayTell">Whether commits may be told now; if not, the connection ends where one is. Asked right before each system
    /// call; none means always.</param>
    /// <param name="stop">Ends it.</param>
    public static async Task ServeAsync(Socket socket, SslServerAuthenticationOptions options, Action<Socket, ToldCommits?> admit,
        Func<bool>? mayTell, CancellationToken stop)
    {
        try
        {
            socket.NoDelay = true;
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
            GuardedStream? guarded = mayTell is null ? null : new GuardedStream(socket, mayTell);
            using var stream = new SslStream(guarded ?? new NetworkStream(socket, ownsSocket: true), leaveInnerStreamOpen: false);
            using (var limit = CancellationTokenSource.CreateLinkedTokenSource(stop))
            {
                limit.CancelAfter(HandshakeLimit);
                await stream.AuthenticateAsServerAsync(options, limit.Token).ConfigureAwait(false);
            }
            (Socket clear, Socket inner) = SocketPair.Create();
            admit(clear, guarded?.Told);
            await PumpAsync(stream, inner, guarded, stop).ConfigureAwait(false);
        }
        catch (Exception e) when (IsExpected(e))
        {
            // A client that does not speak TLS, has no right certificate, or has gone: it harms only itself.
        }
        finally
        {
            socket.Dispose();
        }
    }

    /// <summary>Connects to Redis over TLS; the returned clear end can be used at once, and ends if the attempt fails.</summary>
    public static Socket Connect(Func<CancellationToken, Task<Socket>> connect, SslClientAuthenticationOptions options,
        Action<string> failed)
    {
        (Socket clear, Socket inner) = SocketPair.Create();
        _ = Task.Run(async () =>
        {
            try
            {
                using var limit = new CancellationTokenSource(HandshakeLimit);
                Socket socket = await connect(limit.Token).ConfigureAwait(false);
                using var stream = new SslStream(new NetworkStream(socket, ownsSocket: true), leaveInnerStreamOpen: false);
                await stream.AuthenticateAsClientAsync(options, limit.Token).ConfigureAwait(false);
                await PumpAsync(stream, inner, null, CancellationToken.None).ConfigureAwait(false);
            }
            catch (Exception e) when (IsExpected(e))
            {
                failed(e is OperationCanceledException ? "no TLS handshake in time"
                    : e.InnerException is { } inside ? $"{e.Message} ({inside.Message})" : e.Message);
            }
            finally
            {
                inner.Dispose();
            }
        });
        return clear;
    }

    private static async Task PumpAsync(SslStream stream, Socket inner, GuardedStream? guarded, CancellationToken stop)
    {
        using var clear = new NetworkStream(inner, ownsSocket: true);
        using var end = CancellationTokenSource.CreateLinkedTokenSource(stop);
        // The peer's end of stream is passed on, so that it still gets what it is owed; then all ends.
        Task towards = CopyAsync(stream, clear, () => inner.Shutdown(SocketShutdown.Send), null, end.Token);
        Task back = CopyAsync(clear, stream, null, guarded, end.Token);
        await Task.WhenAny(back, towards).ConfigureAwait(false);
        if (back.IsCompleted || towards.IsFaulted) { await end.CancelAsync().ConfigureAwait(false); }
        try
        {
            await Task.WhenAll(towards, back).ConfigureAwait(false);
        }
        catch (OperationCanceledException) when (!stop.IsCancellationRequested)
        {
            // Ended because the other direction has.
        }
        if (guarded is not null) { guarded.Tells = false; }
        await stream.ShutdownAsync().ConfigureAwait(false);
    }

    // Waits with an empty read, so that an idle connection holds no buffer.
    private static async Task CopyAsync(Stream from, Stream to, Action? atEnd, GuardedStream? guarded, CancellationToken stop)
    {
        long readBytes = 0;
        while (true)
        {
            await from.ReadAsync(Memory<byte>.Empty, stop).ConfigureAwait(false);
            byte[] buffer = ArrayPool<byte>.Shared.Rent(BufferBytes);
            try
            {
                int count = await from.ReadAsync(buffer, stop).ConfigureAwait(false);
                if (count == 0) { break; }
                if (guarded is not null) { guarded.Tells = guarded.Told.IsAnyBehind(readBytes); }
                readBytes += count;
                await to.WriteAsync(buffer.AsMemory(0, count), stop).ConfigureAwait(false);
            }
            finally
            {
                ArrayPool<byte>.Shared.Return(buffer);
            }
        }
        atEnd?.Invoke();
    }

    private static bool IsExpected(Exception e) => e is IOException or AuthenticationException or SocketException
        or OperationCanceledException or ObjectDisposedException or System.Security.Cryptography.CryptographicException;

    private static X509Certificate2 Load(string certificateFile, string keyFile)
    {
        try
        {
            using var pem = X509Certificate2.CreateFromPemFile(certificateFile, keyFile);
            // A key that exists in memory only cannot be used by every platform's TLS.
            return OperatingSystem.IsWindows() ? X509CertificateLoader.LoadPkcs12(pem.Export(X509ContentType.Pkcs12), null)
                : new X509Certificate2(pem);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or System.Security.Cryptography.CryptographicException
            or ArgumentException)
        {
            throw new UnusableCertificateException($"the certificate {certificateFile} with the key {keyFile} cannot be used: {e.Message}",
                e);
        }
    }

    private static X509Certificate2Collection LoadAuthorities(string file)
    {
        try
        {
            var authorities = new X509Certificate2Collection();
            authorities.ImportFromPemFile(file);
            return authorities.Count > 0 ? authorities : throw new UnusableCertificateException($"{file} holds no certificate");
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException or System.Security.Cryptography.CryptographicException)
        {
            throw new UnusableCertificateException($"the authorities in {file} cannot be used: {e.Message}", e);
        }
    }

    // For the authorities given, and for this use if the certificate says what it may be used for.
    private static bool IsIssuedBy(X509Certificate? peer, X509Chain? sent, X509Certificate2Collection authorities, string use)
    {
        if (peer is not X509Certificate2 certificate) { return false; }
        using var chain = new X509Chain();
        chain.ChainPolicy.TrustMode = X509ChainTrustMode.CustomRootTrust;
        chain.ChainPolicy.CustomTrustStore.AddRange(authorities);
        if (sent is not null) { chain.ChainPolicy.ExtraStore.AddRange(sent.ChainPolicy.ExtraStore); }
        chain.ChainPolicy.ApplicationPolicy.Add(new System.Security.Cryptography.Oid(use));
        chain.ChainPolicy.RevocationMode = X509RevocationMode.NoCheck;
        return chain.Build(certificate);
    }
}
