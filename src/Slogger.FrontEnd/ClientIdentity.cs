// Who a client is, as Redis would show it: its addresses, and its line in CLIENT LIST.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>Who a client is. The loop's thread.</summary>
/// <param name="client">The client.</param>
/// <param name="channel">Its connection.</param>
/// <param name="connectedAt">When it connected, by the loop's clock.</param>
internal sealed class ClientIdentity(Client client, Channel channel, long connectedAt)
{
    private string? _peerAddress, _localAddress;

    /// <summary>Where the client comes from, as Redis would write it.</summary>
    public string PeerAddress => _peerAddress ??= AddressOf(channel.Socket, local: false);

    /// <summary>Where the client has connected to, as Redis would write it.</summary>
    public string LocalAddress => _localAddress ??= AddressOf(channel.Socket, local: true);

    /// <summary>Where the client comes from, as Redis would write it in MONITOR.</summary>
    public string MonitorAddress => PeerAddress.StartsWith('/') ? $"unix:{PeerAddress[..^2]}" : PeerAddress;

    /// <summary>The addresses of a client whose socket does not tell them (TLS).</summary>
    public void SetAddresses(EndPoint? peer, EndPoint? local)
    {
        if (peer is IPEndPoint from) { _peerAddress = UpstreamDirectory.TextOf(from); }
        if (local is IPEndPoint to) { _localAddress = UpstreamDirectory.TextOf(to); }
    }

    private static string AddressOf(Socket socket, bool local)
    {
        try
        {
            // Both ends of a Unix socket are known by the path that is listened on.
            if (socket.AddressFamily == AddressFamily.Unix) { return $"{socket.LocalEndPoint}:0"; }
            return (local ? socket.LocalEndPoint : socket.RemoteEndPoint) is IPEndPoint address ? UpstreamDirectory.TextOf(address) : "?:0";
        }
        catch (SocketException)
        {
            return "?:0";
        }
    }

    /// <summary>Changes what Redis says of a client's own connection so that it is said of the client.</summary>
    public void Show(ClientLine line)
    {
        line["addr"] = PeerAddress;
        line["laddr"] = LocalAddress;
        line["age"] = Seconds(connectedAt);
        long idle = long.TryParse(line["idle"], NumberStyles.None, CultureInfo.InvariantCulture, out long itsIdle) ? itsIdle
            : long.MaxValue;
        line["idle"] = Math.Min(idle, (client.Loop.Now - client.LastActive) / 1_000_000).ToString(CultureInfo.InvariantCulture);
        if ((client.Pins & ~Pins.Auth) != 0) { return; }
        // The connection is lent to it for a while: what it had, it has still.
        line["db"] = client.Db.ToString(CultureInfo.InvariantCulture);
        line["resp"] = client.Protocol.ToString(CultureInfo.InvariantCulture);
        line["name"] = client.Name is null ? "" : Encoding.Latin1.GetString(client.Name);
    }

    private string Seconds(long since) => Math.Max(0, (client.Loop.Now - since) / 1_000_000).ToString(CultureInfo.InvariantCulture);

    /// <summary>The line of a client that Redis does not know; its replies' buffer is that of the connection it shares.</summary>
    public ClientLine MakeLine(ClientLine? shared)
    {
        string Shared(string field) => shared is null || shared[field].Length == 0 ? "0" : shared[field];
        string name = client.Name is null ? "" : Encoding.Latin1.GetString(client.Name);
        string flags = PeerAddress.StartsWith('/') ? "U" : "N";
        long total = client.InputCapacity + client.OutputCapacity + 1024;
        return new ClientLine(string.Create(CultureInfo.InvariantCulture,
            $"id={client.VirtualId} addr={PeerAddress} laddr={LocalAddress} fd={channel.Socket.Handle} name={name} "
            + $"age={Seconds(connectedAt)} idle={Seconds(client.LastActive)} flags={flags} db={client.Db} sub=0 psub=0 ssub=0 multi=-1 "
            + $"qbuf={client.InputBytes} qbuf-free={client.InputCapacity - client.InputBytes} argv-mem=0 multi-mem=0 "
            + $"rbs={Shared("rbs")} rbp={Shared("rbp")} obl=0 oll={(client.OutputBytes > 0 ? 1 : 0)} omem={client.OutputCapacity} "
            + $"tot-mem={total} events={(client.OutputBytes > 0 ? "rw" : "r")} "
            + $"cmd={client.LastCommand} user=default redir=-1 resp={client.Protocol}"));
    }
}
