// Whether two addresses of a store are two ways to write one: localhost, 127.0.0.1, and a name or an address of this machine.
using System.Net;
using System.Net.NetworkInformation;
using System.Net.Sockets;
using Slogger.Resp;

namespace Slogger.Proxy.Configuration;

internal static class StoreSpelling
{
    /// <summary>Whether both lead to the same place, as far as can be told: a name that cannot be looked up is only itself.</summary>
    public static bool IsSame(string one, string other) => one == other
        || (ListenAddress.TryParse(one, out ListenAddress? a, out _) && ListenAddress.TryParse(other, out ListenAddress? b, out _)
            && !a.IsUnix && !b.IsUnix && a.Port == b.Port && Places(a.Host).Overlaps(Places(b.Host)));

    // All addresses of this machine are one place.
    private static HashSet<IPAddress> Places(string host)
    {
        try
        {
            IPAddress[] found = IPAddress.TryParse(host, out IPAddress? ip) ? [ip] : Dns.GetHostAddresses(host);
            HashSet<IPAddress> own = [.. NetworkInterface.GetAllNetworkInterfaces().SelectMany(n => n.GetIPProperties().UnicastAddresses)
                .Select(a => a.Address)];
            return [.. found.Select(a => a.IsIPv4MappedToIPv6 ? a.MapToIPv4() : a)
                .Select(a => IPAddress.IsLoopback(a) || own.Contains(a) ? IPAddress.Loopback : a)];
        }
        catch (Exception e) when (e is SocketException or NetworkInformationException)
        {
            return [];
        }
    }
}
