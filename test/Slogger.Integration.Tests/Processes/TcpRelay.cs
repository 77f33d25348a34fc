// A way to a server that can be cut: what goes through it stays where it is until it is open again.
using System.Net;
using System.Net.Sockets;

namespace Slogger.Integration.Tests.Processes;

internal sealed class TcpRelay : IDisposable
{
    private readonly TcpListener _listener = new(IPAddress.Loopback, 0);
    private readonly CancellationTokenSource _end = new();
    private readonly EndPoint _server;
    private readonly TaskCompletionSource _hasCut = new(TaskCreationOptions.RunContinuationsAsynchronously);
    private volatile TaskCompletionSource _isOpen = new();
    private long _passed;

    public TcpRelay(EndPoint server)
    {
        _server = server;
        _isOpen.SetResult();
        _listener.Start();
        _ = AcceptAsync();
    }

    public int Port => ((IPEndPoint)_listener.LocalEndpoint).Port;

    /// <summary>It is cut, once, before so many bytes have passed to the server.</summary>
    public long PassesAtMost { get; init; } = long.MaxValue;

    /// <summary>Completes when it was cut since <see cref="PassesAtMost"/> would have passed.</summary>
    public Task HasCut => _hasCut.Task;

    /// <summary>Nothing passes any more, and nobody is told.</summary>
    public void Cut() => _isOpen = new TaskCompletionSource(TaskCreationOptions.RunContinuationsAsynchronously);

    public void Open() => _isOpen.TrySetResult();

    public void Dispose()
    {
        _end.Cancel();
        _listener.Dispose();
    }

    private async Task AcceptAsync()
    {
        try
        {
            while (true)
            {
                Socket client = await _listener.AcceptSocketAsync(_end.Token);
                _ = PassAsync(client);
            }
        }
        catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException)
        {
            // Over.
        }
    }

    private async Task PassAsync(Socket client)
    {
        using (client)
        using (var server = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true })
        {
            try
            {
                await server.ConnectAsync(_server);
                await Task.WhenAny(PassAsync(client, server, isToServer: true), PassAsync(server, client, isToServer: false));
            }
            catch (Exception e) when (e is OperationCanceledException or SocketException or ObjectDisposedException)
            {
                // One of the two has gone.
            }
        }
    }

    private async Task PassAsync(Socket from, Socket to, bool isToServer)
    {
        byte[] buffer = new byte[64 << 10];
        while (await from.ReceiveAsync(buffer, _end.Token) is > 0 and int count)
        {
            if (isToServer && Interlocked.Add(ref _passed, count) > PassesAtMost && !_hasCut.Task.IsCompleted)
            {
                Cut();
                _hasCut.TrySetResult();
            }
            await _isOpen.Task.WaitAsync(_end.Token);
            for (int sent = 0; sent < count;) { sent += await to.SendAsync(buffer.AsMemory(sent, count - sent), _end.Token); }
        }
    }
}
