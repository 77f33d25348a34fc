// Which of the connections that Redis sees are whose: the proxy's own, a client's, or made by others at Redis directly.
// Redis names a connection by the address it comes from. Where that tells nothing (a Unix socket, TLS, a translated
// address) a connection is known by its id, which is asked for on each connection when it is made.
using System.Buffers.Text;
using System.Net;
using System.Net.Sockets;

namespace Slogger.FrontEnd;

/// <summary>The front end's connections to Redis, by what Redis knows of them. The loop's thread.</summary>
internal sealed class UpstreamDirectory(FrontEndLoop loop)
{
    // Redis may show a connection for a moment after the proxy has closed it.
    private const long GoneMicroseconds = 2_000_000;

    private readonly Dictionary<string, Upstream> _byAddress = [];
    private readonly Dictionary<long, Upstream> _byId = [];
    private readonly Queue<(long Until, string? Address, long Id)> _gone = [];
    private readonly HashSet<string> _goneAddresses = [];
    private readonly HashSet<long> _goneIds = [];
    private readonly HashSet<Upstream> _connecting = [];
    private readonly List<Action> _whenIdsKnown = [];

    // Redis was too busy to tell who they are.
    private readonly List<Upstream> _unidentified = [];
    private int _idsAwaited;
    private bool _needsIds;
    private string _storeRun = "";

    /// <summary>The store can be used. Another run of its program gives out the ids of its last run once more.</summary>
    /// <param name="run">Which run it is; empty: not known.</param>
    public void OnStoreOpens(string run)
    {
        if (run.Length == 0 || run != _storeRun) { _goneIds.Clear(); }
        _storeRun = run;
    }

    /// <summary>A connection attempt has begun.</summary>
    public void Add(Upstream upstream)
    {
        _connecting.Add(upstream);
        if (_needsIds && !loop.Probe.NeedsPassword) { AskId(upstream); }
    }

    /// <summary>The attempt has succeeded: the connection's address is known.</summary>
    public void OnConnected(Upstream upstream)
    {
        _connecting.Remove(upstream);
        EndPoint? local = null;
        try
        {
            local = upstream.Channel.HasSocket ? upstream.Channel.Socket.LocalEndPoint : null;
        }
        catch (SocketException)
        {
            // It will be seen that the connection is broken.
        }
        if (local is IPEndPoint address)
        {
            upstream.Address = TextOf(address);
            _byAddress[upstream.Address] = upstream;
        }
        else
        {
            _needsIds = true;
        }
    }

    // Redis may list a connection of which the loop has not heard yet that it is made.
    private void TakeNewAddresses()
    {
        foreach (Upstream upstream in _connecting.ToArray())
        {
            if (!upstream.Channel.HasSocket || upstream.Channel.Socket.Poll(0, SelectMode.SelectWrite)) { OnConnected(upstream); }
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
        loop.CountInternal("client|id");
        upstream.Write(InternalRequest.ClientId);
        upstream.Expect(null, 1, ReplyKind.OwnId);
    }

    /// <summary>A connection's id is known.</summary>
    public void OnId(Upstream upstream, ReadOnlySpan<byte> reply)
    {
        EndAwaitingId(upstream);
        if (reply[0] != (byte)':' || !Utf8Parser.TryParse(reply[1..], out long id, out _)) { return; }
        upstream.RedisId = id;
        _byId[id] = upstream;
    }

    private void EndAwaitingId(Upstream upstream)
    {
        if (!upstream.IsIdAwaited) { return; }
        upstream.IsIdAwaited = false;
        if (--_idsAwaited > 0) { return; }
        foreach (Action action in _whenIdsKnown) { loop.Post(action); }
        _whenIdsKnown.Clear();
    }

    /// <summary>Whether a list from Redis can be read: it may hold connections whose ids are still on their way.</summary>
    public bool AreIdsKnown => _idsAwaited == 0;

    /// <summary>Has an action run when the ids of all connections that exist now are known.</summary>
    public void WhenIdsKnown(Action action) => _whenIdsKnown.Add(action);

    /// <summary>The first question on a connection that is to carry markers. Who is it to Redis, to end it there should it be lost? And
    /// does Redis
    /// see it come from where the proxy thinks it does?</summary>
    public void Identify(Upstream upstream)
    {
        loop.CountInternal("client|info");
        upstream.Write(InternalRequest.ClientInfo);
        upstream.Expect(null, 1, ReplyKind.OwnInfo);
    }

    /// <summary>Asks once more on the connections on which Redis was too busy to tell.</summary>
    public void IdentifyAgain()
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
        _byId[line.Id] = upstream;
        if (line.Address == upstream.Address) { return; }
        _needsIds = true;
        loop.Spares.LearnIds();
    }

    /// <summary>A connection has ended.</summary>
    public void Remove(Upstream upstream)
    {
        _connecting.Remove(upstream);
        EndAwaitingId(upstream);
        if (upstream.Address is { } address && _byAddress.TryGetValue(address, out Upstream? known) && known == upstream)
        {
            _byAddress.Remove(address);
            _goneAddresses.Add(address);
        }
        if (upstream.RedisId != 0)
        {
            _byId.Remove(upstream.RedisId);
            _goneIds.Add(upstream.RedisId);
        }
        if (upstream.Address is not null || upstream.RedisId != 0)
        {
            _gone.Enqueue((loop.Now + GoneMicroseconds, upstream.Address, upstream.RedisId));
        }
    }

    /// <summary>Forgets connections that ended so long ago that Redis shows them no more.</summary>
    public void ForgetGone()
    {
        while (_gone.TryPeek(out (long Until, string? Address, long Id) oldest) && oldest.Until < loop.Now)
        {
            _gone.Dequeue();
            if (oldest.Address is not null) { _goneAddresses.Remove(oldest.Address); }
            _goneIds.Remove(oldest.Id);
        }
    }

    /// <summary>Whether a connection that Redis lists is the proxy's own.</summary>
    /// <param name="line">What Redis says of it.</param>
    /// <param name="client">The client that it serves alone, if it does.</param>
    public bool IsOwn(ClientLine line, out Client? client)
    {
        long id = line.Id;
        string address = line.Address;
        client = null;
        if (_connecting.Count > 0) { TakeNewAddresses(); }
        if (_byId.TryGetValue(id, out Upstream? upstream) || _byAddress.TryGetValue(address, out upstream))
        {
            client = upstream.Exclusive;
            return true;
        }
        // No replica reaches Redis over a Unix socket, but the proxy's own link may.
        return _goneAddresses.Contains(address) || _goneIds.Contains(id) || loop.Shard.IsOwnConnection(address)
            || (line.Type == ClientType.Replica && address.StartsWith('/'));
    }

    /// <summary>The client whose own connection comes from an address, as Redis sees it.</summary>
    public Client? ClientAt(ReadOnlySpan<char> address) =>
        _byAddress.GetAlternateLookup<ReadOnlySpan<char>>().TryGetValue(address, out Upstream? upstream) ? upstream.Exclusive : null;

    /// <summary>An address as Redis writes it.</summary>
    public static string TextOf(IPEndPoint address)
    {
        IPAddress ip = address.Address.IsIPv4MappedToIPv6 ? address.Address.MapToIPv4() : address.Address;
        if (ip.AddressFamily == AddressFamily.InterNetworkV6 && ip.ScopeId != 0) { ip = new IPAddress(ip.GetAddressBytes()); }
        return new IPEndPoint(ip, address.Port).ToString();
    }
}
