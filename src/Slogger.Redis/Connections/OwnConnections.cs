// Which connections at Redis are this process's own, for control and replication: the front end leaves them out of what
// clients are shown of each other, and never lets a client kill one. Known by the address they come from, so nothing is
// known of connections over Unix sockets.
using System.Collections.Concurrent;
using System.Net;
using System.Net.Sockets;

namespace Slogger.Redis.Connections;

/// <summary>The addresses from which this process is connected to Redis. Any thread.</summary>
public static class OwnConnections
{
    private const int CountMax = 64;

    // Redis may list a connection for a moment after it was closed.
    private const long ClosedMilliseconds = 2_000;

    private static readonly ConcurrentDictionary<string, Entry> s_entries = new();

    private sealed class Entry(Socket socket)
    {
        public WeakReference<Socket> Socket { get; } = new(socket);

        public long ClosedAt { get; set; }
    }

    /// <summary>Whether the connection that Redis sees come from this address ("127.0.0.1:50000") is one of them.</summary>
    public static bool Contains(string address) => s_entries.TryGetValue(address, out Entry? entry) && IsAlive(address, entry);

    internal static void Add(Socket socket)
    {
        if (socket.LocalEndPoint is not IPEndPoint local) { return; }
        if (s_entries.Count >= CountMax)
        {
            foreach ((string address, Entry entry) in s_entries) { _ = IsAlive(address, entry); }
        }
        s_entries[local.ToString()] = new Entry(socket);
    }

    private static bool IsAlive(string address, Entry entry)
    {
        if (entry.Socket.TryGetTarget(out Socket? socket) && !socket.SafeHandle.IsClosed) { return true; }
        long now = Environment.TickCount64;
        if (entry.ClosedAt == 0) { entry.ClosedAt = now; }
        if (now - entry.ClosedAt < ClosedMilliseconds) { return true; }
        s_entries.TryRemove(new KeyValuePair<string, Entry>(address, entry));
        return false;
    }
}
