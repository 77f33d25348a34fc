// Who a client is, as Redis would show it: its addresses, and its line in CLIENT LIST.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Runtime.CompilerServices;
using System.Runtime.Intrinsics;
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    /// <summary>The lowest <see cref="VirtualId"/>: above all that Redis gives out.</summary>
    public const long FirstVirtualId = 1L << 48;

    private readonly long _connectedAt;
    private long _lastActive;
    private Vector256<byte> _lastRequest;
    private string? _peerAddress, _localAddress;

    /// <summary>The id of a client that has no connection of its own at Redis: above all that Redis gives out.</summary>
    public long VirtualId => FirstVirtualId + Id;

    /// <summary>Where the client comes from, as Redis would write it.</summary>
    public string PeerAddress => _peerAddress ??= AddressOf(_channel.Socket, local: false);

    /// <summary>Where the client has connected to, as Redis would write it.</summary>
    public string LocalAddress => _localAddress ??= AddressOf(_channel.Socket, local: true);

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

    // Its connection cannot be told from others' in what Redis lists, so it is in the list as it is.
    public bool IsUnrecognizable => Dedicated is { IsConnected: true, Address: null, RedisId: 0 };

    // What Redis says of a client's own connection, said of the client.
    public void ShowAsClient(ClientLine line)
    {
        line["addr"] = PeerAddress;
        line["laddr"] = LocalAddress;
        line["age"] = Seconds(_connectedAt);
        long idle = long.TryParse(line["idle"], NumberStyles.None, CultureInfo.InvariantCulture, out long itsIdle) ? itsIdle
            : long.MaxValue;
        line["idle"] = Math.Min(idle, (_loop.Now - _lastActive) / 1_000_000).ToString(CultureInfo.InvariantCulture);
        if ((_pins & ~Pins.Auth) != 0) { return; }
        // The connection is lent to it for a while: what it had, it has still.
        line["db"] = Db.ToString(CultureInfo.InvariantCulture);
        line["resp"] = Protocol.ToString(CultureInfo.InvariantCulture);
        line["name"] = Name is null ? "" : Encoding.Latin1.GetString(Name);
    }

    private string Seconds(long since) => Math.Max(0, (_loop.Now - since) / 1_000_000).ToString(CultureInfo.InvariantCulture);

    // The line of a client that Redis does not know; its replies' buffer is that of the connection it shares.
    public ClientLine MakeLine(ClientLine? shared)
    {
        string Shared(string field) => shared is null || shared[field].Length == 0 ? "0" : shared[field];
        string name = Name is null ? "" : Encoding.Latin1.GetString(Name);
        string flags = PeerAddress.StartsWith('/') ? "U" : "N";
        long total = _input.Capacity + _output.Capacity + 1024;
        return new ClientLine(string.Create(CultureInfo.InvariantCulture,
            $"id={VirtualId} addr={PeerAddress} laddr={LocalAddress} fd={_channel.Socket.Handle} name={name} age={Seconds(_connectedAt)} idle={Seconds(_lastActive)} flags={flags} db={Db} sub=0 psub=0 ssub=0 multi=-1 qbuf={_input.Count} qbuf-free={_input.Capacity - _input.Count} argv-mem=0 multi-mem=0 rbs={Shared("rbs")} rbp={Shared("rbp")} obl=0 oll={(_output.Count > 0 ? 1 : 0)} omem={_output.Capacity} tot-mem={total} events={(_output.Count > 0 ? "rw" : "r")} cmd={LastCommand} user=default redir=-1 resp={Protocol}"));
    }

    // ---- The last command, for CLIENT LIST ----

    // Keeps the beginning of a request; the buffer must hold 32 bytes from there, whatever they are.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private void KeepLast(byte* request) => _lastRequest = Unsafe.ReadUnaligned<Vector256<byte>>(request);

    private void KeepLast(byte* request, long bytes)
    {
        byte* copy = stackalloc byte[Vector256<byte>.Count];
        Unsafe.InitBlock(copy, 0, (uint)Vector256<byte>.Count);
        Unsafe.CopyBlock(copy, request, (uint)Math.Min(bytes, Vector256<byte>.Count));
        KeepLast(copy);
    }

    // Its name as Redis would write it.
    private string LastCommand
    {
        get
        {
            Span<byte> bytes = stackalloc byte[Vector256<byte>.Count];
            _lastRequest.CopyTo(bytes);
            string[] parts = Encoding.Latin1.GetString(bytes).ToLowerInvariant().Split(RespText.NewLine);
            if (parts.Length < 3 || !parts[0].StartsWith('*') || !parts[1].StartsWith('$')) { return "NULL"; }
            if (!int.TryParse(parts[1].AsSpan(1), NumberStyles.None, CultureInfo.InvariantCulture, out int length)
                || length != parts[2].Length)
            {
                return "NULL";
            }
            bool isContainer = parts[2] is "client" or "object" or "xgroup" or "xinfo" or "pubsub" or "command" or "memory" or "slowlog";
            bool hasSub = isContainer && parts.Length > 4 && parts[3] == $"${parts[4].Length}";
            return hasSub ? $"{parts[2]}|{parts[4]}" : parts[2];
        }
    }
}
