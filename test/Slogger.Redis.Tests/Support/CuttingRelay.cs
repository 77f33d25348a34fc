// Between a Redis and its feed, at another loopback address and the same port: cuts the connection behind any byte that the feed sends.
using System.Net;
using System.Net.Sockets;
using Slogger.Redis.Feeding;

namespace Slogger.Redis.Tests.Support;

internal sealed class CuttingRelay : IAsyncDisposable
{
    private static readonly IPAddress s_here = IPAddress.Parse("127.0.0.3");
    private readonly TcpListener _listener;
    private readonly CancellationTokenSource _stop = new();
    private readonly Task _accepting;
    private readonly Queue<long> _budgets = new();
    private readonly Lock _gate = new();
    private long _left = long.MaxValue;
    private Socket? _redis;

    public CuttingRelay()
    {
        Port = TestRedis.FreePort();
        _listener = new TcpListener(s_here, Port);
        _listener.Start();
        _accepting = AcceptAsync();
    }

    public int Port { get; }
    public int Cuts { get; private set; }

    /// <summary>Options with which Redis is fed through it.</summary>
    public RestoreOptions Options => new() { Feed = new() { Port = Port }, FeedHost = s_here.ToString() };

    /// <summary>Cuts when this many more bytes have been let through to Redis.</summary>
    public void CutAfter(long bytes)
    {
        lock (_gate) _left = bytes;
    }

    /// <summary>The next connection is cut after so many bytes, counted from its first; and so on.</summary>
    public void CutNext(params IEnumerable<long> bytes)
    {
        lock (_gate)
            foreach (long budget in bytes) _budgets.Enqueue(budget);
    }

    public int Planned
    {
        get
        {
            lock (_gate) return _budgets.Count;
        }
    }

    /// <summary>Sends Redis what the feed has not sent.</summary>
    public void Inject(ReadOnlySpan<byte> bytes) => _redis!.Send(bytes);

    public async ValueTask DisposeAsync()
    {
        await _stop.CancelAsync();
        _listener.Dispose();
        _redis?.Dispose();
        await _accepting;
    }

    private async Task AcceptAsync()
    {
        while (!_stop.IsCancellationRequested)
        {
            try
            {
                using Socket redis = await _listener.AcceptSocketAsync(_stop.Token);
                using var feed = new Socket(SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
                redis.NoDelay = true;
                _redis = redis;
                await feed.ConnectAsync(IPAddress.Loopback, Port, _stop.Token);
                lock (_gate)
                    _left = _budgets.TryDequeue(out long budget) ? budget : long.MaxValue;
                Task up = UpAsync(redis, feed);
                await DownAsync(feed, redis);
                redis.Dispose();
                feed.Dispose();
                await up;
            }
            catch (Exception e) when (e is SocketException or ObjectDisposedException or OperationCanceledException)
            {
            }
        }
    }

    private async Task DownAsync(Socket feed, Socket redis)
    {
        byte[] buffer = new byte[4096];
        int read;
        while ((read = await feed.ReceiveAsync(buffer, _stop.Token)) > 0)
        {
            int pass;
            lock (_gate)
            {
                pass = (int)Math.Min(read, _left);
                _left -= pass;
            }
            for (int sent = 0; sent < pass;) sent += await redis.SendAsync(buffer.AsMemory(sent, pass - sent), _stop.Token);
            if (pass == read) continue;
            Cuts++;
            return;
        }
    }

    private async Task UpAsync(Socket redis, Socket feed)
    {
        byte[] buffer = new byte[4096];
        try
        {
            int read;
            while ((read = await redis.ReceiveAsync(buffer, _stop.Token)) > 0)
                for (int sent = 0; sent < read;) sent += await feed.SendAsync(buffer.AsMemory(sent, read - sent), _stop.Token);
            feed.Shutdown(SocketShutdown.Both);
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException or OperationCanceledException)
        {
        }
    }
}
