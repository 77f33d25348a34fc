// Where a feed must listen for a given Redis to reach it: loopback for one on this machine, else the address by which this
// machine reaches that Redis.
using System.Net;
using System.Net.Sockets;
using Slogger.Redis.Connections;

namespace Slogger.Redis.Feeding;

/// <summary>Chooses a feed's address.</summary>
public static class FeedAddress
{
    /// <summary>Settings of a feed that the Redis at <paramref name="endpoint"/> can reach.</summary>
    public static FeedOptions For(RedisEndpoint endpoint)
    {
        ArgumentNullException.ThrowIfNull(endpoint);
        if (endpoint.UnixSocketPath is not null) { return new FeedOptions(); }
        try
        {
            IPAddress there = IPAddress.TryParse(endpoint.Host, out IPAddress? given) ? given : Dns.GetHostAddresses(endpoint.Host)[0];
            if (IPAddress.IsLoopback(there)) { return new FeedOptions(); }
            // Nothing is sent: connecting a datagram socket only asks the routing table.
            using var probe = new Socket(there.AddressFamily, SocketType.Dgram, ProtocolType.Udp);
            probe.Connect(there, endpoint.Port);
            IPAddress here = ((IPEndPoint)probe.LocalEndPoint!).Address;
            return here.Equals(there) ? new FeedOptions() : new FeedOptions { ListenAddress = here };
        }
        catch (SocketException)
        {
            return new FeedOptions();
        }
    }
}
