// A way to Redis on which replies come in pieces: the proxy has read each before the next one is sent. It is a Unix socket, whose
// sender can see what the receiver has read; Linux only.
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Slogger.Proxy.Tests.Harness;

internal sealed partial class SplittingRelay : IDisposable
{
    private const nuint OutputQueue = 0x5411;
    private readonly string _directory = Directory.CreateTempSubdirectory("slogger-sr-").FullName;
    private readonly Socket _listener = new(AddressFamily.Unix, SocketType.Stream, ProtocolType.Unspecified);
    private readonly List<Socket> _sockets = [];
    private readonly int _redis;

    public SplittingRelay(RedisServer redis)
    {
        _redis = redis.Port;
        _listener.Bind(new UnixDomainSocketEndPoint(Path));
        _listener.Listen();
        InBackground(Accept);
    }

    public string Path => System.IO.Path.Combine(_directory, "s");

    /// <summary>Where what Redis says on each connection is cut.</summary>
    /// <param name="First">So many bytes of it, counted from when this is set, are the first piece.</param>
    /// <param name="Others">And so many each other one.</param>
    public sealed record Cuts(int First, int Others);

    public static Cuts EachByte { get; } = new(1, 1);

    /// <summary>None: it is passed on as it comes.</summary>
    public volatile Cuts? Cut;

    public void Dispose()
    {
        _listener.Dispose();
        lock (_sockets)
        {
            foreach (Socket socket in _sockets) { socket.Dispose(); }
        }
        Directory.Delete(_directory, recursive: true);
    }

    [LibraryImport("libc", EntryPoint = "ioctl", SetLastError = true)]
    private static partial int Ioctl(int file, nuint request, out int value);

    private void Accept()
    {
        while (true)
        {
            Socket proxy = _listener.Accept();
            var redis = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
            redis.Connect(IPAddress.Loopback, _redis);
            lock (_sockets) { _sockets.AddRange([proxy, redis]); }
            InBackground(() => Pass(proxy, redis, (buffer, count) => redis.Send(buffer, count, SocketFlags.None)));
            InBackground(() =>
            {
                Cuts? seen = null;
                int left = 0;
                Pass(redis, proxy, (buffer, count) => ToProxy(proxy, buffer, count, ref seen, ref left));
            });
        }
    }

    private static void Pass(Socket from, Socket to, Action<byte[], int> send)
    {
        byte[] buffer = new byte[64 << 10];
        while (from.Receive(buffer) is > 0 and int count) { send(buffer, count); }
        to.Shutdown(SocketShutdown.Send);
    }

    private void ToProxy(Socket proxy, byte[] buffer, int count, ref Cuts? seen, ref int left)
    {
        Cuts? cut = Cut;
        if (cut != seen) { left = cut?.First ?? 0; }
        seen = cut;
        if (cut is null)
        {
            proxy.Send(buffer, count, SocketFlags.None);
            return;
        }
        for (int at = 0; at < count;)
        {
            int piece = Math.Min(left, count - at);
            proxy.Send(buffer, at, piece, SocketFlags.None);
            at += piece;
            left = left == piece ? cut.Others : left - piece;
            while (Ioctl((int)proxy.Handle, OutputQueue, out int unread) == 0 && unread > 0) { Thread.Yield(); }
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
