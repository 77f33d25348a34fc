// Accepts clients that speak TLS. Their handshakes and ciphers run on the thread pool, bounded in number; the loop gets the
// clear end of each and knows nothing of TLS.
using System.Collections.Concurrent;
using System.Net;
using System.Net.Security;
using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>Accept loops for sockets that are bound and listening.</summary>
internal sealed class TlsListener : IAsyncDisposable
{
    private static readonly TimeSpan ScanInterval = TimeSpan.FromSeconds(5);
    private static readonly TimeSpan AcceptRetry = TimeSpan.FromMilliseconds(100);
    private readonly ConcurrentDictionary<Connection, byte> _connections = new();
    private readonly CancellationTokenSource _stop = new();
    private readonly Action<Socket, ToldCommits?, EndPoint?, EndPoint?> _admit;
    private readonly Func<bool>? _mayTell;
    private readonly Action<string> _warn;
    private readonly List<Task> _loops = [];
    private volatile SslServerAuthenticationOptions _options;
    private volatile int _most;

    /// <summary>Begins to accept.</summary>
    /// <param name="sockets">Bound and listening; they stay the caller's.</param>
    /// <param name="tls">Certificates; see <see cref="TlsBridge.ServerOptions"/>.</param>
    /// <param name="most">Connections at a time, those still in their handshake included; another is closed at once, and so is one where
    /// descriptors are scarce.</param>
    /// <param name="admit">Takes what <see cref="TlsBridge.ServeAsync"/> gives of a client, and the addresses of both ends of its
    /// connection. Any thread.</param>
    /// <param name="mayTell">As in <see cref="TlsBridge.ServeAsync"/>. Any thread.</param>
    /// <param name="warn">Tells the operator. Any thread.</param>
    public TlsListener(IEnumerable<Socket> sockets, SslServerAuthenticationOptions tls, int most,
        Action<Socket, ToldCommits?, EndPoint?, EndPoint?> admit, Func<bool>? mayTell, Action<string> warn)
    {
        _options = tls;
        _most = most;
        _admit = admit;
        _mayTell = mayTell;
        _warn = warn;
        foreach (Socket socket in sockets) { _loops.Add(Task.Run(() => AcceptAsync(socket))); }
        _loops.Add(Task.Run(ScanAsync));
    }

    /// <summary>Other certificates and another limit, for connections from now on. Those that are there go on. Any thread.</summary>
    public void Renew(SslServerAuthenticationOptions tls, int most) => (_options, _most) = (tls, most);

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync().ConfigureAwait(false);
        await Task.WhenAll(_loops).ConfigureAwait(false);
        await Task.WhenAll(_connections.Keys.Select(c => c.Ended)).ConfigureAwait(false);
        _stop.Dispose();
    }

    private async Task AcceptAsync(Socket listener)
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                Socket socket = await listener.AcceptAsync(_stop.Token).ConfigureAwait(false);
                if (_connections.Count >= _most || Descriptors.AreScarce(socket)) { socket.Dispose(); } else { Serve(socket); }
            }
            catch (SocketException e) when (e.SocketErrorCode is not (SocketError.ConnectionReset or SocketError.ConnectionAborted))
            {
                // Out of descriptors or memory: try again when somebody may have left.
                _warn($"cannot accept a client over TLS: {e.Message}");
                await Task.Delay(AcceptRetry, CancellationToken.None).ConfigureAwait(false);
            }
            catch (Exception e) when (e is SocketException or OperationCanceledException or ObjectDisposedException)
            {
                // A client that has gone already, or the end.
            }
        }
    }

    private void Serve(Socket socket)
    {
        var connection = new Connection(_stop.Token);
        _connections[connection] = 0;
        EndPoint? peer = socket.RemoteEndPoint, local = socket.LocalEndPoint;
        connection.Ended = Task.Run(async () =>
        {
            await TlsBridge.ServeAsync(socket, _options, (clear, told) =>
            {
                connection.Clear = clear;
                _admit(clear, told, peer, local);
            }, _mayTell, connection.Stop.Token).ConfigureAwait(false);
            _connections.TryRemove(connection, out _);
            connection.Stop.Dispose();
        });
    }

    // A client whose clear end the loop has closed, but which does not take what is left for it, must not stay for ever.
    private async Task ScanAsync()
    {
        using var timer = new PeriodicTimer(ScanInterval);
        try
        {
            while (await timer.WaitForNextTickAsync(_stop.Token).ConfigureAwait(false))
            {
                foreach (Connection connection in _connections.Keys)
                {
                    if (connection.Clear is { SafeHandle.IsClosed: true } && connection.ScansClosed++ > 0)
                    {
                        await connection.CancelAsync().ConfigureAwait(false);
                    }
                }
            }
        }
        catch (OperationCanceledException)
        {
            // The end.
        }
    }

    private sealed class Connection(CancellationToken stop)
    {
        public CancellationTokenSource Stop { get; } = CancellationTokenSource.CreateLinkedTokenSource(stop);

        public Socket? Clear { get; set; }

        public int ScansClosed { get; set; }

        public Task Ended { get; set; } = Task.CompletedTask;

        public async Task CancelAsync()
        {
            try
            {
                await Stop.CancelAsync().ConfigureAwait(false);
            }
            catch (ObjectDisposedException)
            {
                // It has ended by itself.
            }
        }
    }
}
