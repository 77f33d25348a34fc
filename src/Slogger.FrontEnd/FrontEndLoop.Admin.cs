// Which of the connections that Redis sees are whose: the proxy's own, a client's, or made by others at Redis directly.
// Redis names a connection by the address it comes from; where that tells nothing (a Unix socket, TLS, a translated
// address) by its id, which is asked for on each connection when it is made.
using System.Net;
using System.Text;
using Slogger.Resp;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class FrontEndLoop
{
    // Redis may show a connection for a moment after the proxy has closed it.
    private const long GoneMicroseconds = 2_000_000;

    private readonly Dictionary<string, Upstream> _upstreamByAddress = [];
    private readonly Dictionary<long, Upstream> _upstreamById = [];
    private readonly Queue<(long Until, string? Address, long Id)> _gone = [];
    private readonly HashSet<string> _goneAddresses = [];
    private readonly HashSet<long> _goneIds = [];
    private readonly HashSet<Upstream> _connecting = [];
    private readonly List<Action> _whenIdsKnown = [];
    private int _idsAwaited;
    private bool _needsIds;

    public void CountInternal(string command) => Shard.OwnCommands.Add(command);

    // ---- Upstreams ----

    /// <summary>A connection attempt has begun.</summary>
    public void Register(Upstream upstream)
    {
        _connecting.Add(upstream);
        if (_needsIds && !NeedsPassword) { AskId(upstream); }
    }

    // Redis may list a connection of which the loop has not heard yet that it is made.
    private void KeepNewAddresses()
    {
        foreach (Upstream upstream in _connecting.ToArray())
        {
            if (!upstream.Channel.HasSocket || upstream.Channel.Socket.Poll(0, System.Net.Sockets.SelectMode.SelectWrite)) { KeepAddress(upstream); }
        }
    }

    private void KeepAddress(Upstream upstream)
    {
        _connecting.Remove(upstream);
        EndPoint? local = null;
        try
        {
            local = upstream.Channel.HasSocket ? upstream.Channel.Socket.LocalEndPoint : null;
        }
        catch (System.Net.Sockets.SocketException)
        {
            // It will be seen that the connection is broken.
        }
        if (local is IPEndPoint address)
        {
            upstream.Address = TextOf(address);
            _upstreamByAddress[upstream.Address] = upstream;
        }
        else
        {
            _needsIds = true;
        }
    }

    /// <summary>Asks Redis for the connection's id, where that is needed to know it again.</summary>
    public void LearnId(Upstream upstream)
    {
        if (_needsIds && upstream.RedisId == 0) { AskId(upstream); }
    }

    private void AskId(Upstream upstream)
    {
        if (upstream.IsIdAwaited) { return; }
        upstream.IsIdAwaited = true;
        _idsAwaited++;
        CountInternal("client|id");
        upstream.Write(InternalRequest.ClientId);
        upstream.Expect(null, 1, ReplyKind.OwnId);
    }

    /// <summary>A connection's id is known.</summary>
    public void OnId(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        EndAwaitingId(upstream);
        if (reply[0] != (byte)':' || !System.Buffers.Text.Utf8Parser.TryParse(reply[1..], out long id, out _)) { return; }
        upstream.RedisId = id;
        _upstreamById[id] = upstream;
    }

    private void EndAwaitingId(Upstream upstream)
    {
        if (!upstream.IsIdAwaited) { return; }
        upstream.IsIdAwaited = false;
        if (--_idsAwaited > 0) { return; }
        foreach (Action action in _whenIdsKnown) { Post(action); }
        _whenIdsKnown.Clear();
    }

    /// <summary>Whether a list from Redis can be read: it may hold connections whose ids are still on their way.</summary>
    public bool AreIdsKnown => _idsAwaited == 0;

    /// <summary>Has an action run when the ids of all connections that exist now are known.</summary>
    public void WhenIdsKnown(Action action) => _whenIdsKnown.Add(action);

    // Redis was too busy to tell who they are.
    private readonly List<Upstream> _unidentified = [];

    // The first thing asked on a connection that is to carry markers: who it is to Redis, to end it there should it be lost; and does Redis
    // see it come from where the proxy thinks it does?
    private void Identify(Upstream upstream)
    {
        CountInternal("client|info");
        upstream.Write(InternalRequest.ClientInfo);
        upstream.Expect(null, 1, ReplyKind.OwnInfo);
    }

    private void IdentifyAgain()
    {
        foreach (Upstream upstream in _unidentified)
        {
            if (!upstream.IsClosed) { Identify(upstream); }
        }
        _unidentified.Clear();
    }

    /// <summary>What Redis knows of a connection that is to carry markers.</summary>
    public void OnOwnInfo(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        if (reply.StartsWith("-BUSY"u8) || reply.StartsWith("-LOADING"u8))
        {
            _unidentified.Add(upstream);
            return;
        }
        upstream.IsIdentified = true;
        if (reply[0] == (byte)'-' || ClientLine.Parse(reply) is not [ClientLine line]) { return; }
        upstream.Line = line;
        upstream.RedisId = line.Id;
        _upstreamById[line.Id] = upstream;
        if (line.Address == upstream.Address) { return; }
        _needsIds = true;
        foreach (Upstream spare in _spares) { LearnId(spare); }
    }

    private void Unregister(Upstream upstream)
    {
        _connecting.Remove(upstream);
        EndAwaitingId(upstream);
        if (upstream.Address is { } address && _upstreamByAddress.TryGetValue(address, out Upstream? known) && known == upstream)
        {
            _upstreamByAddress.Remove(address);
            _goneAddresses.Add(address);
        }
        if (upstream.RedisId != 0)
        {
            _upstreamById.Remove(upstream.RedisId);
            _goneIds.Add(upstream.RedisId);
        }
        if (upstream.Address is not null || upstream.RedisId != 0) { _gone.Enqueue((Now + GoneMicroseconds, upstream.Address, upstream.RedisId)); }
    }

    private void ForgetGone()
    {
        while (_gone.TryPeek(out (long Until, string? Address, long Id) oldest) && oldest.Until < Now)
        {
            _gone.Dequeue();
            if (oldest.Address is not null) { _goneAddresses.Remove(oldest.Address); }
            _goneIds.Remove(oldest.Id);
        }
    }

    /// <summary>How many connections the front end has to Redis.</summary>
    public int UpstreamCount => (Shared is null ? 0 : 1) + _spares.Count + (_probe is null ? 0 : 1) + DedicatedCount;

    /// <summary>Whether a connection that Redis lists is the proxy's own.</summary>
    /// <param name="line">What Redis says of it.</param>
    /// <param name="client">The client that it serves alone, if it does.</param>
    public bool IsOwn(ClientLine line, out Client? client)
    {
        long id = line.Id;
        string address = line.Address;
        client = null;
        if (_connecting.Count > 0) { KeepNewAddresses(); }
        if (_upstreamById.TryGetValue(id, out Upstream? upstream) || _upstreamByAddress.TryGetValue(address, out upstream))
        {
            client = upstream.Exclusive;
            return true;
        }
        // No replica reaches Redis over a Unix socket, but the proxy's own link may.
        return _goneAddresses.Contains(address) || _goneIds.Contains(id) || Shard.IsOwnConnection(address)
            || (line.Type == ClientType.Replica && address.StartsWith('/'));
    }

    /// <summary>The client whose own connection comes from an address, as Redis sees it.</summary>
    public Client? ClientAt(string address) => _upstreamByAddress.TryGetValue(address, out Upstream? upstream) ? upstream.Exclusive : null;

    // ---- MONITOR ----

    /// <summary>Passes a line of MONITOR on: not those of the proxy's own doing, and with the address of the client whose
    /// request it was, where it came on a connection of that client's own.</summary>
    public void DeliverMonitorLine(Client monitor, ReadOnlySpan<byte> line)
    {
        if (IsInternalMonitorLine(line)) { return; }
        int open = line.IndexOf((byte)'[');
        int close = open < 0 ? -1 : line.IndexOf("] \""u8);
        int space = open < 0 ? -1 : line[open..].IndexOf((byte)' ') + open;
        if (space > open && close > space && close - space < 80)
        {
            Span<char> address = stackalloc char[80];
            int length = Encoding.Latin1.GetChars(line[(space + 1)..close], address);
            if (_upstreamByAddress.GetAlternateLookup<ReadOnlySpan<char>>().TryGetValue(address[..length], out Upstream? upstream)
                && upstream.Exclusive is { } client)
            {
                monitor.DeliverPush([.. line[..(space + 1)], .. Encoding.Latin1.GetBytes(client.MonitorAddress), .. line[close..]]);
                return;
            }
            if (Shard.IsOwnConnection(new string(address[..length]))) { return; }
        }
        monitor.DeliverPush(line);
    }

    /// <summary>Whether a line of MONITOR tells of the proxy's own doing.</summary>
    public bool IsInternalMonitorLine(ReadOnlySpan<byte> line)
    {
        int command = line.IndexOf("] \""u8);
        if (command < 0) { return false; }
        ReadOnlySpan<byte> rest = line[(command + 3)..];
        int end = rest.IndexOf((byte)'"');
        if (end > 0 && OwnSpelling.Is(rest[..end]) && !line[..command].EndsWith(" lua"u8)) { return true; }
        return ContainsMarker(rest);
    }

    /// <summary>Whether bytes name the channel of the markers.</summary>
    public bool ContainsMarker(ReadOnlySpan<byte> bytes)
    {
        string channel = Shard.MarkerChannel;
        if (channel.Length == 0) { return false; }
        Span<byte> name = stackalloc byte[64];
        int length = Encoding.ASCII.GetBytes(channel, name);
        return bytes.IndexOf(name[..length]) >= 0;
    }

    /// <summary>An address as Redis writes it.</summary>
    public static string TextOf(IPEndPoint address)
    {
        IPAddress ip = address.Address.IsIPv4MappedToIPv6 ? address.Address.MapToIPv4() : address.Address;
        if (ip.AddressFamily == System.Net.Sockets.AddressFamily.InterNetworkV6 && ip.ScopeId != 0) { ip = new IPAddress(ip.GetAddressBytes()); }
        return new IPEndPoint(ip, address.Port).ToString();
    }
}
