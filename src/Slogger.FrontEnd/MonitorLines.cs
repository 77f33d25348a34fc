// Lines of MONITOR. Clients are shown neither what the proxy does of its own accord nor the addresses of its connections.
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

/// <summary>What of MONITOR's lines a client is shown. The loop's thread.</summary>
internal static class MonitorLines
{
    private const int AddressMax = 80;

    /// <summary>Passes a line of MONITOR on, unless it tells of the proxy's own doing. It gets the address of the client whose
    /// request it was, where that came on a connection of that client's own.</summary>
    public static void Deliver(FrontEndLoop loop, Client monitor, ReadOnlySpan<byte> line)
    {
        if (IsInternal(loop, line)) { return; }
        int open = line.IndexOf((byte)'[');
        int close = open < 0 ? -1 : line.IndexOf("] \""u8);
        int space = open < 0 ? -1 : line[open..].IndexOf((byte)' ') + open;
        if (space > open && close > space && close - space < AddressMax)
        {
            Span<char> address = stackalloc char[AddressMax];
            int length = Encoding.Latin1.GetChars(line[(space + 1)..close], address);
            if (loop.Directory.ClientAt(address[..length]) is { } client)
            {
                byte[] shown = Encoding.Latin1.GetBytes(client.Identity.MonitorAddress);
                monitor.DeliverPush([.. line[..(space + 1)], .. shown, .. line[close..]]);
                return;
            }
            if (loop.Shard.IsOwnConnection(new string(address[..length]))) { return; }
        }
        monitor.DeliverPush(line);
    }

    private static bool IsInternal(FrontEndLoop loop, ReadOnlySpan<byte> line)
    {
        int command = line.IndexOf("] \""u8);
        if (command < 0) { return false; }
        ReadOnlySpan<byte> rest = line[(command + 3)..];
        int end = rest.IndexOf((byte)'"');
        if (end > 0 && OwnSpelling.Is(rest[..end]) && !line[..command].EndsWith(" lua"u8)) { return true; }
        return NameMarkers(loop, rest);
    }

    /// <summary>Whether bytes name the channel of the markers.</summary>
    public static bool NameMarkers(FrontEndLoop loop, ReadOnlySpan<byte> bytes)
    {
        string channel = loop.Shard.MarkerChannel;
        if (channel.Length == 0) { return false; }
        Span<byte> name = stackalloc byte[64];
        int length = Encoding.ASCII.GetBytes(channel, name);
        return bytes.IndexOf(name[..length]) >= 0;
    }
}
