// A connection to a proxy as far as both uses need it: connect, TLS, login; request and reply one by one, for what is not on the
// hot path. A Link takes over the stream and what has been received.
using System.Net.Security;
using System.Net.Sockets;
using Slogger.Resp;

namespace Slogger.Client.Wire;

internal sealed class RespChannel : IDisposable
{
    private readonly RequestWriter _writer = new();

    private RespChannel(Address address, Stream stream) => (Address, Stream) = (address, stream);

    public Address Address { get; }

    public Stream Stream { get; }

    public ReplyBuffer Received { get; } = new();

    /// <summary>Connects and logs in.</summary>
    /// <exception cref="HandshakeException">The login was refused.</exception>
    public static async Task<RespChannel> ConnectAsync(
        Address address, SslClientAuthenticationOptions? tls, string? user, string? password, CancellationToken cancellation)
    {
        var socket = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        Stream? stream = null;
        try
        {
            await socket.ConnectAsync(address.Host, address.Port, cancellation).ConfigureAwait(false);
            stream = new NetworkStream(socket, ownsSocket: true);
            if (tls is not null)
            {
                var secured = new SslStream(stream);
                stream = secured;
                await secured.AuthenticateAsClientAsync(WithHost(tls, address.Host), cancellation).ConfigureAwait(false);
            }

            var channel = new RespChannel(address, stream);
            if (password is not null)
            {
                Argument[] request = user is not null ? ["AUTH", user, password] : ["AUTH", password];
                RespValue login = await channel.CallAsync(cancellation, request).ConfigureAwait(false);
                if (login.Kind == RespKind.Error)
                {
                    throw new HandshakeException($"The proxy at {address} refused the login: {login}. Check User and Password.");
                }
            }

            return channel;
        }
        catch
        {
            if (stream is not null) { await stream.DisposeAsync().ConfigureAwait(false); }
            socket.Dispose();
            throw;
        }
    }

    public async Task<RespValue> CallAsync(CancellationToken cancellation, params Argument[] request)
    {
        await Write(request).SendAsync(cancellation).ConfigureAwait(false);
        return await ReadAsync(cancellation).ConfigureAwait(false);
    }

    /// <summary>Adds a request to what <see cref="SendAsync"/> sends.</summary>
    public RespChannel Write(params ReadOnlySpan<Argument> request)
    {
        _writer.Begin(request.Length);
        foreach (Argument argument in request) { argument.WriteTo(_writer); }
        return this;
    }

    /// <summary>Sends what was written.</summary>
    public async Task SendAsync(CancellationToken cancellation)
    {
        await Stream.WriteAsync(_writer.WrittenMemory, cancellation).ConfigureAwait(false);
        _writer.Clear();
    }

    /// <summary>The bytes of the next reply.</summary>
    public async Task<byte[]> ReadRawAsync(CancellationToken cancellation)
    {
        while (true)
        {
            if (TryReadRaw() is { } bytes) { return bytes; }
            await ReceiveAsync(cancellation).ConfigureAwait(false);
        }
    }

    public async Task<RespValue> ReadAsync(CancellationToken cancellation)
    {
        while (true)
        {
            if (TryRead() is { } value) { return value; }
            await ReceiveAsync(cancellation).ConfigureAwait(false);
        }
    }

    public void Dispose() => Stream.Dispose();

    private async ValueTask ReceiveAsync(CancellationToken cancellation)
    {
        int got = await Stream.ReadAsync(Received.Room(), cancellation).ConfigureAwait(false);
        if (got == 0) { throw new IOException($"The proxy at {Address} closed the connection."); }
        Received.Received(got);
    }

    private byte[]? TryReadRaw() => Received.TryRead(out WireReply reply) ? reply.Bytes.ToArray() : null;

    private RespValue? TryRead() => Received.TryRead(out WireReply reply) ? RespValue.Read(reply.Bytes) : null;

    private static SslClientAuthenticationOptions WithHost(SslClientAuthenticationOptions given, string host)
    {
        if (given.TargetHost is { Length: > 0 }) { return given; }
        return new()
        {
            TargetHost = host,
            RemoteCertificateValidationCallback = given.RemoteCertificateValidationCallback,
            LocalCertificateSelectionCallback = given.LocalCertificateSelectionCallback,
            ClientCertificates = given.ClientCertificates,
            ClientCertificateContext = given.ClientCertificateContext,
            CertificateRevocationCheckMode = given.CertificateRevocationCheckMode,
            CertificateChainPolicy = given.CertificateChainPolicy,
            CipherSuitesPolicy = given.CipherSuitesPolicy,
            EnabledSslProtocols = given.EnabledSslProtocols,
            EncryptionPolicy = given.EncryptionPolicy,
        };
    }
}
