// How the front end's connections reach Redis.
using System.Net;
using System.Net.Sockets;
using Slogger.Proxy.Configuration;

namespace Slogger.Proxy.FrontEnd;

/// <summary>Connects to a Redis in clear text, over TCP or a Unix socket.</summary>
internal sealed class StoreConnector(ListenAddress address) : IStoreConnector
{
    private readonly EndPoint _endPoint = Resolve(address);

    public Socket BeginConnect()
    {
        Socket socket = _endPoint is UnixDomainSocketEndPoint
            ? new Socket(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified)
            : new Socket(_endPoint.AddressFamily, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            socket.Blocking = false;
            socket.Connect(_endPoint);
        }
        catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.InProgress)
        {
            // The loop waits for the outcome.
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

    public override string ToString() => $"Redis at {address}";

    private static EndPoint Resolve(ListenAddress address)
    {
        if (address.UnixPath is { } path) { return new UnixDomainSocketEndPoint(path); }
        if (IPAddress.TryParse(address.Host, out IPAddress? ip)) { return new IPEndPoint(ip, address.Port); }
        IPAddress[] found = Dns.GetHostAddresses(address.Host!);
        return new IPEndPoint(Array.Find(found, a => a.AddressFamily == AddressFamily.InterNetwork) ?? found[0], address.Port);
    }
}
