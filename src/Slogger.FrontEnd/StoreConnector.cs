// How the front end's connections reach Redis.
using System.Net;
using System.Net.Security;
using System.Net.Sockets;
using Slogger.FrontEnd.Transports;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>Connects to a Redis over TCP or a Unix socket, in clear text or by TLS.</summary>
/// <param name="address">Where Redis is.</param>
/// <param name="tls">How TLS is spoken; none means clear text. See <see cref="TlsBridge.ClientOptions"/>.</param>
/// <param name="tlsFailed">Told why a TLS connection failed or broke. Any thread.</param>
internal sealed class StoreConnector(ListenAddress address, SslClientAuthenticationOptions? tls = null, Action<string>? tlsFailed = null)
    : IStoreConnector
{
    private readonly EndPoint _endPoint = Resolve(address);

    /// <inheritdoc />
    public byte[] Login { get; init; } = [];

    /// <inheritdoc />
    public string LoginUser { get; init; } = FrontEndLoop.DefaultUser;

    /// <inheritdoc />
    public string? Password { get; init; }

    /// <inheritdoc />
    public ListenAddress? Address => address;

    /// <inheritdoc />
    public IPAddress? Ip => (_endPoint as IPEndPoint)?.Address;

    /// <inheritdoc />
    public bool SpeaksTls => tls is not null;

    public Channel Connect(IPoller poller, bool mayMark) => poller.Adopt(BeginConnect());

    private Socket BeginConnect()
    {
        if (tls is not null) { return TlsBridge.Connect(ConnectAsync, tls, why => tlsFailed?.Invoke($"TLS to {this}: {why}")); }
        Socket socket = _endPoint is UnixDomainSocketEndPoint
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(_endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            socket.Blocking = false;
            socket.Connect(_endPoint);
        }
        catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.InProgress
            && socket.ProtocolType == ProtocolType.Tcp)
        {
            // The loop waits for the outcome. A Unix socket is connected at once, or not at all: where its listener's queue is full.
        }
        catch
        {
            socket.Dispose();
            throw;
        }
        return socket;
    }

    public void Connected(Socket socket)
    {
        if (socket.ProtocolType == ProtocolType.Tcp) { socket.NoDelay = true; }
    }

    private async Task<Socket> ConnectAsync(CancellationToken stop)
    {
        var socket = _endPoint is UnixDomainSocketEndPoint
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(_endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        try
        {
            await socket.ConnectAsync(_endPoint, stop).ConfigureAwait(false);
            return socket;
        }
        catch
        {
            socket.Dispose();
            throw;
        }
    }

    public override string ToString() => $"Redis at {address}";

    private static EndPoint Resolve(ListenAddress address)
    {
        if (address.UnixPath is { } path) { return new UnixDomainSocketEndPoint(path); }
        if (IPAddress.TryParse(address.Host, out IPAddress? ip)) { return new IPEndPoint(ip, address.Port); }
        IPAddress[] found = Dns.GetHostAddresses(address.Host!);
        return new IPEndPoint(Array.Find(found, a => a.AddressFamily == AddressFamily.InterNetwork) ?? found[0], address.Port);
    }
}
