// A TCP connection with somebody in between, who can note what passes, cut it after any byte, or let it go silent.
using System.Net;
using System.Net.Sockets;

namespace Slogger.Grpc.Tests.Support;

public sealed class Relay : IDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _stop = new();
    private readonly int _to;
    private readonly List<Socket> _sockets = [];
    private volatile bool _isSilent;

    public Relay(int to)
    {
        _to = to;
        _listener.Start();
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>What the client has sent, and the server.</summary>
    public MemoryStream FromClient { get; } = new();

    public MemoryStream FromServer { get; } = new();

    /// <summary>Connections are cut when the server has sent so much.</summary>
    public long CutAfter { get; init; } = long.MaxValue;

    /// <summary>From now on nothing passes, and nobody is told.</summary>
    public void FallSilent() => _isSilent = true;

    public void Cut()
    {
        lock (_sockets)
        {
            foreach (Socket socket in _sockets) { Abort(socket); }
            _sockets.Clear();
        }
    }

    public void Dispose()
    {
        _stop.Cancel();
        _listener.Stop();
        Cut();
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                Socket client = await _listener.AcceptSocketAsync(_stop.Token);
                _ = PassAsync(client);
            }
        }
        catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException) { }
    }

    private static void Abort(Socket socket)
    {
        try
        {
            socket.Close(0);
        }
        catch (SocketException)
        {
            // It was being connected, or is gone.
        }
    }

    private async Task PassAsync(Socket client)
    {
        var server = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        client.NoDelay = true;
        lock (_sockets) { _sockets.Add(client); _sockets.Add(server); }
        try
        {
            await server.ConnectAsync(IPAddress.Loopback, _to, _stop.Token);
            await Task.WhenAll(CopyAsync(client, server, FromClient, long.MaxValue), CopyAsync(server, client, FromServer, CutAfter));
        }
        // Cut meanwhile, or nobody there.
        catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException) { Abort(client); }
    }

    private async Task CopyAsync(Socket from, Socket to, MemoryStream noted, long limit)
    {
        byte[] buffer = new byte[64 << 10];
        try
        {
            while (true)
            {
                int count = await from.ReceiveAsync(buffer, _stop.Token);
                if (count == 0) { break; }
                if (_isSilent) { continue; }
                int passed = (int)Math.Min(count, limit - noted.Length);
                lock (noted) { noted.Write(buffer, 0, passed); }
                await to.SendAsync(buffer.AsMemory(0, passed), _stop.Token);
                if (noted.Length >= limit) { break; }
            }
            to.Shutdown(SocketShutdown.Send);
            if (noted.Length >= limit) { Cut(); }
        }
        catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException) { }
    }
}
