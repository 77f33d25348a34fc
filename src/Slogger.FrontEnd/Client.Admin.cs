// CLIENT LIST, INFO and KILL: about clients, of which Redis knows only those with a connection of their own. What Redis
// lists is changed so that people see clients as they are: the proxy's own connections are left out, the others show
// where the client really comes from, and clients that only share a connection are added. Killing follows what is listed,
// so it cannot hit a connection of the proxy's own, and Redis is still asked first whether the request is right.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private const long FirstVirtualId = 1L << 48;
    private string? _peerAddress, _localAddress;
    private List<long>? _listIds;
    private ClientType? _listType;
    private bool _listsSelf;

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

    // ---- CLIENT LIST, CLIENT INFO ----

    private bool HandleList()
    {
        _listIds = null;
        _listType = null;
        _listsSelf = false;
        if (ArgumentCount == 4 && ArgumentIs(2, "TYPE"u8))
        {
            _listType = ClientLine.TypeOf(Encoding.Latin1.GetString(Argument(3)));
            if (_listType is null) { return Forward(needsDedicated: true, ReplyKind.Plain); }
        }
        else if (ArgumentCount > 3 && ArgumentIs(2, "ID"u8))
        {
            _listIds = [];
            for (int i = 3; i < ArgumentCount; i++)
            {
                if (!ArgumentNumber(i, out long id)) { return Forward(needsDedicated: true, ReplyKind.Plain); }
                _listIds.Add(id);
            }
            if (_listIds.Exists(id => id >= FirstVirtualId))
            {
                // Redis does not know these: the ones wanted are picked out of all.
                Upstream? upstream = Route(needsDedicated: true);
                if (upstream is null) { return false; }
                upstream.Write("*2\r\n$6\r\nCLIENT\r\n$4\r\nLIST\r\n"u8);
                ForwardWritten(upstream, ReplyKind.ClientList, barrier: true);
                return false;
            }
        }
        else if (ArgumentCount != 2)
        {
            return Forward(needsDedicated: true, ReplyKind.Plain);
        }
        return Forward(needsDedicated: true, ReplyKind.ClientList, barrier: true);
    }

    private bool HandleClientInfo()
    {
        if (ArgumentCount != 2) { return Forward(needsDedicated: true, ReplyKind.Plain); }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _listsSelf = true;
        return Forward(needsDedicated: true, ReplyKind.ClientList, barrier: true, pin: Pins.Identity);
    }

    // A list may hold connections of the proxy that it does not know yet by their ids: it is looked at a moment later.
    private bool IsPutOff(ReadOnlySpan<byte> reply, Action<byte[]> then)
    {
        if (reply[0] is not ((byte)'$' or (byte)'=') || _loop.Directory.AreIdsKnown || IsSkipping) { return false; }
        byte[] copy = reply.ToArray();
        _loop.Directory.WhenIdsKnown(() =>
        {
            if (!IsClosed && _waiting == Waiting.Reply) { then(copy); }
        });
        return true;
    }

    private ReadOnlySpan<byte> WithOwnClients(ReadOnlySpan<byte> reply)
    {
        List<ClientLine> lines = ClientLine.Parse(reply);
        if (_listsSelf)
        {
            foreach (ClientLine line in lines) { ShowAsClient(line); }
            return ClientLine.Format(lines, reply[0]);
        }
        var shown = new List<ClientLine>();
        var listed = new HashSet<Client>();
        ClientLine? shared = lines.Find(l => _loop.Shared?.Address == l.Address);
        foreach (ClientLine line in lines)
        {
            if (!_loop.Directory.IsOwn(line, out Client? client)) { shown.Add(line); }
            else if (client is { IsClosed: false } && listed.Add(client))
            {
                client.ShowAsClient(line);
                shown.Add(line);
            }
        }
        if (_listIds is { } ids)
        {
            var chosen = new List<ClientLine>();
            foreach (long id in ids)
            {
                if (shown.Find(l => l.Id == id) is { } line) { chosen.Add(line); }
                else if (id >= FirstVirtualId && _loop.Find(id) is { } client)
                {
                    ClientLine? own = shown.Find(l => _loop.Directory.IsOwn(l, out Client? its) && its == client);
                    own ??= client.MakeLine(shared);
                    chosen.Add(own);
                }
            }
            return ClientLine.Format(chosen, reply[0]);
        }
        if (_listType is null or ClientType.Normal)
        {
            foreach (Client client in _loop.Clients.OrderBy(c => c.Id))
            {
                if (!listed.Contains(client) && !client.IsUnrecognizable && !client.IsClosed && (_listType is null || client.Dedicated is null))
                {
                    shown.Add(client.MakeLine(shared));
                }
            }
        }
        return ClientLine.Format(shown, reply[0]);
    }

    // Its connection cannot be told from others' in what Redis lists, so it is in the list as it is.
    private bool IsUnrecognizable => Dedicated is { IsConnected: true, Address: null, RedisId: 0 };

    // What Redis says of a client's own connection, said of the client.
    private void ShowAsClient(ClientLine line)
    {
        line["addr"] = PeerAddress;
        line["laddr"] = LocalAddress;
        line["age"] = Seconds(_connectedAt);
        long idle = long.TryParse(line["idle"], NumberStyles.None, CultureInfo.InvariantCulture, out long itsIdle) ? itsIdle : long.MaxValue;
        line["idle"] = Math.Min(idle, (_loop.Now - _lastActive) / 1_000_000).ToString(CultureInfo.InvariantCulture);
        if ((_pins & ~Pins.Auth) != 0) { return; }
        // The connection is lent to it for a while: what it had, it has still.
        line["db"] = Db.ToString(CultureInfo.InvariantCulture);
        line["resp"] = Protocol.ToString(CultureInfo.InvariantCulture);
        line["name"] = Name is null ? "" : Encoding.Latin1.GetString(Name);
    }

    private string Seconds(long since) => Math.Max(0, (_loop.Now - since) / 1_000_000).ToString(CultureInfo.InvariantCulture);

    // The line of a client that Redis does not know; its replies' buffer is that of the connection it shares.
    private ClientLine MakeLine(ClientLine? shared)
    {
        string Shared(string field) => shared is null || shared[field].Length == 0 ? "0" : shared[field];
        string name = Name is null ? "" : Encoding.Latin1.GetString(Name);
        string flags = PeerAddress.StartsWith('/') ? "U" : "N";
        long total = _input.Capacity + _output.Capacity + 1024;
        return new ClientLine(string.Create(CultureInfo.InvariantCulture,
            $"id={VirtualId} addr={PeerAddress} laddr={LocalAddress} fd={_channel.Socket.Handle} name={name} age={Seconds(_connectedAt)} idle={Seconds(_lastActive)} flags={flags} db={Db} sub=0 psub=0 ssub=0 multi=-1 qbuf={_input.Count} qbuf-free={_input.Capacity - _input.Count} argv-mem=0 multi-mem=0 rbs={Shared("rbs")} rbp={Shared("rbp")} obl=0 oll={(_output.Count > 0 ? 1 : 0)} omem={_output.Capacity} tot-mem={total} events={(_output.Count > 0 ? "rw" : "r")} cmd={LastCommand} user=default redir=-1 resp={Protocol}"));
    }

    // ---- CLIENT KILL ----

    /// <summary>A CLIENT KILL under way.</summary>
    private sealed class KillRequest
    {
        public bool IsOldForm;
        public bool SkipsSelf = true;
        public string? Address, LocalAddress, User;
        public ClientType? Type;
        public long Id;
        public byte[]? Error;
        public bool Listed, AskedShared;
        public int Pending, DirectPending;
        public long Count;
        public bool HitsSelf;
        public readonly List<Client> Clients = [];

        public bool Takes(long id, long otherId, string address, string localAddress, ClientType type, string user) =>
            (Id == 0 || Id == id || Id == otherId) && (Address is null || Address == address) && (LocalAddress is null || LocalAddress == localAddress)
            && (Type is null || Type == type) && (User is null || User == user);
    }

    private KillRequest? _kill;

    private bool HandleKill()
    {
        if (ArgumentCount < 3) { return Forward(needsDedicated: true, ReplyKind.Plain); }
        Upstream? upstream = Route(needsDedicated: true);
        if (upstream is null) { return false; }
        _kill = new KillRequest { IsOldForm = ArgumentCount == 3 };
        var bytes = new List<byte>();
        if (_kill.IsOldForm)
        {
            _kill.Address = Encoding.Latin1.GetString(Argument(2));
            _kill.SkipsSelf = false;
            AppendHeader(bytes, '*', 3);
            for (int i = 0; i < 2; i++) { AppendBulk(bytes, Argument(i)); }
            AppendBulk(bytes, "nobody"u8);
        }
        else
        {
            ReadKillOptions(_kill);
            // The same request with one more condition, which nobody meets.
            AppendHeader(bytes, '*', ArgumentCount + 2);
            for (int i = 0; i < ArgumentCount; i++) { AppendBulk(bytes, Argument(i)); }
            AppendBulk(bytes, "ID"u8);
            AppendBulk(bytes, "9223372036854775807"u8);
        }
        bytes.AddRange(InternalRequest.ClientList);
        upstream.Write(System.Runtime.InteropServices.CollectionsMarshal.AsSpan(bytes));
        upstream.Expect(this, 1, ReplyKind.ClientKill);
        upstream.Expect(this, 1, ReplyKind.KillStep);
        _loop.CountInternal("client|list");
        _input.Consume((nint)_requestBytes);
        Wait(Waiting.Reply);
        return false;
    }

    // What is wrong here Redis will say, and nothing is killed.
    private void ReadKillOptions(KillRequest kill)
    {
        for (int i = 2; i + 1 < ArgumentCount; i += 2)
        {
            string value = Encoding.Latin1.GetString(Argument(i + 1));
            if (ArgumentIs(i, "ID"u8)) { kill.Id = ArgumentNumber(i + 1, out long id) ? id : -1; }
            else if (ArgumentIs(i, "ADDR"u8)) { kill.Address = value; }
            else if (ArgumentIs(i, "LADDR"u8)) { kill.LocalAddress = value; }
            else if (ArgumentIs(i, "USER"u8)) { kill.User = value; }
            else if (ArgumentIs(i, "TYPE"u8)) { kill.Type = ClientLine.TypeOf(value); }
            else if (ArgumentIs(i, "SKIPME"u8)) { kill.SkipsSelf = !ArgumentIs(i + 1, "NO"u8); }
        }
    }

    // Redis has judged the request: ":0", "no such client", or what is wrong with it.
    private void OnKillChecked(ReadOnlySpan<byte> reply)
    {
        if (_kill is { } kill && reply[0] == (byte)'-' && !reply.StartsWith("-ERR No such client"u8)) { kill.Error = reply.ToArray(); }
    }

    private void OnKillStep(ReadOnlySpan<byte> reply)
    {
        if (_kill is not { } kill || Dedicated is null) { return; }
        if (kill.Listed)
        {
            // Of a connection made at Redis directly it counts whether it was still there; these were asked for first.
            if (kill.DirectPending-- > 0 && reply.SequenceEqual(":1\r\n"u8)) { kill.Count++; }
            if (--kill.Pending == 0) { FinishKill(kill); }
            return;
        }
        if (kill.Error is not null)
        {
            _kill = null;
            Answer(kill.Error);
            return;
        }
        if (reply[0] == (byte)'-' && !kill.AskedShared && _loop.Shared is { IsClosed: false } shared)
        {
            // The user may kill but not list: the proxy looks for itself.
            kill.AskedShared = true;
            shared.Write(InternalRequest.ClientList);
            shared.Expect(this, 1, ReplyKind.KillStep);
            return;
        }
        kill.Listed = true;
        Kill(kill, reply[0] == (byte)'-' ? [] : ClientLine.Parse(reply));
        if (kill.Pending == 0) { FinishKill(kill); }
    }

    private void Kill(KillRequest kill, List<ClientLine> lines)
    {
        var own = new Dictionary<Client, ClientLine>();
        var victims = new List<long>();
        foreach (ClientLine line in lines)
        {
            if (_loop.Directory.IsOwn(line, out Client? client))
            {
                if (client is not null) { own[client] = line; }
            }
            else if (kill.Takes(line.Id, line.Id, line.Address, line["laddr"], line.Type, line["user"])) { victims.Add(line.Id); }
        }
        int direct = victims.Count;
        foreach (Client client in _loop.Clients)
        {
            if (client.IsClosed || (client == this && kill.SkipsSelf)) { continue; }
            own.TryGetValue(client, out ClientLine? line);
            if (!kill.Takes(client.VirtualId, line?.Id ?? 0, client.PeerAddress, client.LocalAddress, line?.Type ?? ClientType.Normal, line?["user"] ?? "default"))
            {
                continue;
            }
            if (client == this)
            {
                kill.HitsSelf = true;
                continue;
            }
            kill.Clients.Add(client);
            // Redis kills at once; the end of a connection it may notice only after the next command of somebody else.
            if (line is not null) { victims.Add(line.Id); }
        }
        kill.Pending = victims.Count;
        kill.DirectPending = direct;
        for (int i = 0; i < victims.Count; i++)
        {
            Dedicated!.Write(InternalRequest.Kill(victims[i]));
            Dedicated.Expect(this, 1, ReplyKind.KillStep);
            _loop.CountInternal("client|kill");
        }
    }

    private void FinishKill(KillRequest kill)
    {
        _kill = null;
        foreach (Client client in kill.Clients) { client.Close(); }
        long count = kill.Count + kill.Clients.Count + (kill.HitsSelf ? 1 : 0);
        if (!kill.IsOldForm) { Answer(Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $":{count}\r\n"))); }
        else { Answer(count > 0 ? "+OK\r\n"u8 : "-ERR No such client\r\n"u8); }
        if (kill.HitsSelf && !IsClosed) { CloseWhenSent(); }
    }
}
