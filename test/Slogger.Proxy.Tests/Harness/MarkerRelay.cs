// A way to Redis on which a marker can be caught: it stays on its way, its connection breaks for the proxy and not for Redis, and in the
// end it arrives all the same. As a network does that has lost its connection to one side.
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.Proxy.Tests.Harness;

internal sealed class MarkerRelay : IDisposable
{
    /// <summary>What the relay itself asks when it has caught a marker: behind the answer Redis has said all that it had to say
    /// before.</summary>
    private const string Sentinel = "what was before has been answered";

    private readonly Socket _listener = new(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
    private readonly int _redis;
    private readonly List<Link> _links = [];
    private volatile string? _watched;
    private volatile bool _catches;
    private volatile Link? _caught;

    public MarkerRelay(RedisServer redis)
    {
        _redis = redis.Port;
        _listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _listener.Listen();
        InBackground(Accept);
    }

    private sealed record Link(Socket Proxy, Socket Redis)
    {
        public byte[] Held { get; set; } = [];
    }

    public int Port => ((IPEndPoint)_listener.LocalEndPoint!).Port;

    /// <summary>Completes when a marker has been caught.</summary>
    public TaskCompletionSource Caught { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>What Redis has said on the marker's connection since, or nothing, if it has ended that.</summary>
    public TaskCompletionSource<string> Outcome { get; } = new(TaskCreationOptions.RunContinuationsAsynchronously);

    /// <summary>Whether bytes passed that <see cref="Catch"/> was told to watch for, while Redis could still execute the marker.</summary>
    public bool IsOvertaken { get; private set; }

    /// <summary>Keeps the next marker, and whatever comes with it.</summary>
    public void Catch(string watched) => (_watched, _catches) = (watched, true);

    /// <summary>The marker's connection ends for the proxy.</summary>
    public void Break() => _caught!.Proxy.Close();

    /// <summary>The marker arrives.</summary>
    public void Deliver()
    {
        try
        {
            _caught!.Redis.Send(_caught.Held);
        }
        catch (SocketException)
        {
            // Nobody takes it.
        }
    }

    public void Dispose()
    {
        _listener.Dispose();
        lock (_links)
        {
            foreach (Link link in _links)
            {
                link.Proxy.Dispose();
                link.Redis.Dispose();
            }
        }
    }

    private void Accept()
    {
        while (true)
        {
            Socket proxy = _listener.Accept();
            var redis = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            proxy.NoDelay = true;
            redis.Connect(IPAddress.Loopback, _redis);
            var link = new Link(proxy, redis);
            lock (_links) { _links.Add(link); }
            InBackground(() => ToRedis(link));
            InBackground(() => ToProxy(link));
        }
    }

    private void ToRedis(Link link)
    {
        byte[] buffer = new byte[64 << 10];
        while (link.Proxy.Receive(buffer) is > 0 and int count)
        {
            string text = Encoding.Latin1.GetString(buffer, 0, count);
            if (_catches && text.Contains("SPUBLISH", StringComparison.Ordinal))
            {
                _catches = false;
                link.Held = buffer[..count];
                link.Redis.Send(Encoding.Latin1.GetBytes($"*2\r\n$4\r\nPING\r\n${Sentinel.Length}\r\n{Sentinel}\r\n"));
                return;
            }
            // On this machine the end of a connection is there before the answer to what has ended it.
            if (_watched is { } watched && _caught is { } caught && text.Contains(watched, StringComparison.Ordinal))
            {
                IsOvertaken |= !(caught.Redis.Poll(0, SelectMode.SelectRead) && caught.Redis.Available == 0);
            }
            link.Redis.Send(buffer, count, SocketFlags.None);
        }
        link.Redis.Shutdown(SocketShutdown.Send);
    }

    private void ToProxy(Link link)
    {
        byte[] buffer = new byte[64 << 10];
        string said = "";
        try
        {
            while (link.Redis.Receive(buffer) is > 0 and int count)
            {
                string text = Encoding.Latin1.GetString(buffer, 0, count);
                if (link == _caught)
                {
                    said = text;
                    break;
                }
                if (link.Held.Length != 0)
                {
                    said += text;
                    if (!said.EndsWith($"{Sentinel}\r\n", StringComparison.Ordinal)) { continue; }
                    link.Proxy.Send(Encoding.Latin1.GetBytes(said[..said.LastIndexOf('$')]));
                    (said, _caught) = ("", link);
                    Caught.SetResult();
                    continue;
                }
                link.Proxy.Send(buffer, count, SocketFlags.None);
            }
        }
        finally
        {
            if (link == _caught) { Outcome.TrySetResult(said); }
            else { link.Proxy.Close(); }
        }
    }

    private static void InBackground(Action action) => new Thread(() =>
    {
        try
        {
            action();
        }
        catch (Exception e) when (e is SocketException or ObjectDisposedException)
        {
            // Over.
        }
    })
    { IsBackground = true }.Start();
}
