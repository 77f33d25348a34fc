// Loopback ports for the servers of tests. Each test process holds a block of its own until it ends, so that test processes beside each
// other, and whole runs beside each other, never draw the same port. The block is held by listening on its first port: the kernel
// gives it back however the process ends.
//
// All blocks, and the ports 10000 above them that nodes of a Redis Cluster use between themselves, lie below those that the system
// hands out for outgoing connections.
using System.Net;
using System.Net.Sockets;

namespace Slogger.TestSupport;

internal static class TestPorts
{
    private const int First = 10_000, BlockSize = 1_000, Blocks = 10;
    private static readonly Lazy<(int First, Socket Held)> s_block = new(TakeBlock);
    private static int s_drawn;

    /// <summary>A port on which nobody listens. It comes again only when the block's others have been drawn.</summary>
    public static int Next()
    {
        for (int i = 1; i < BlockSize; i++)
        {
            int port = s_block.Value.First + 1 + (int)((uint)Interlocked.Increment(ref s_drawn) % (BlockSize - 1));
            if (TryBind(port) is not { } probe) { continue; }
            probe.Dispose();
            return port;
        }

        throw new InvalidOperationException(
            $"All ports from {s_block.Value.First} to {s_block.Value.First + BlockSize - 1} are taken: end what listens there.");
    }

    private static (int First, Socket Held) TakeBlock()
    {
        for (int i = 0; i < Blocks; i++)
        {
            int first = First + ((Environment.ProcessId + i) % Blocks * BlockSize);
            if (TryBind(first) is not { } held) { continue; }
            try
            {
                held.Listen();
                return (first, held);
            }
            catch (SocketException)
            {
                // Another process has bound it at the same moment.
                held.Dispose();
            }
        }

        throw new InvalidOperationException(
            $"{Blocks} test processes run on this machine, or others listen on ports from {First} on: end some of them.");
    }

    private static Socket? TryBind(int port)
    {
        var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp);
        try
        {
            socket.Bind(new IPEndPoint(IPAddress.Loopback, port));
            return socket;
        }
        catch (SocketException)
        {
            socket.Dispose();
            return null;
        }
    }
}
