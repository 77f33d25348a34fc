// Two connected sockets within this process, so that what needs threads of its own (TLS) can join the loop as an ordinary
// connection.
using System.Net;
using System.Net.Sockets;
using System.Runtime.InteropServices;

namespace Slogger.FrontEnd.Transports;

/// <summary>Makes connected pairs of stream sockets.</summary>
internal static partial class SocketPair
{
    private const int UnixFamily = 1, StreamType = 1, CloseOnExec = 0x80000;

    /// <summary>Makes a pair.</summary>
    /// <exception cref="SocketException">The process has no descriptors left.</exception>
    public static unsafe (Socket First, Socket Second) Create()
    {
        if (OperatingSystem.IsLinux())
        {
            int* pair = stackalloc int[2];
            if (socketpair(UnixFamily, StreamType | CloseOnExec, 0, pair) != 0)
            {
                throw new SocketException((int)SocketError.TooManyOpenSockets);
            }
            return (new Socket(new SafeSocketHandle(pair[0], ownsHandle: true)),
                new Socket(new SafeSocketHandle(pair[1], ownsHandle: true)));
        }
        using var listener = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        listener.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        listener.Listen(1);
        var first = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { NoDelay = true };
        first.Connect(listener.LocalEndPoint!);
        while (true)
        {
            Socket second = listener.Accept();
            if (second.RemoteEndPoint!.Equals(first.LocalEndPoint))
            {
                second.NoDelay = true;
                return (first, second);
            }
            second.Dispose();
        }
    }

    [LibraryImport("libc")]
    private static unsafe partial int socketpair(int family, int type, int protocol, int* pair);
}
