// The clients that are connected: they are taken in, found, looked after, and ended when they hold too much.
using System.Collections;
using System.Net;
using System.Net.Sockets;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>All clients. The loop's thread.</summary>
/// <param name="loop">The front end.</param>
internal sealed class ConnectedClients(FrontEndLoop loop) : IReadOnlyCollection<Client>
{
    private readonly HashSet<Client> _all = [];
    private long _nextId;

    public int Count => _all.Count;

    /// <summary>How many have a dedicated upstream, as last looked.</summary>
    public int DedicatedCount { get; private set; }

    /// <summary>Takes a connected socket as a client.</summary>
    /// <param name="socket">The connection, or the clear end of one over TLS.</param>
    /// <param name="told">Of one over TLS where commits may be told for a time only.</param>
    /// <param name="peer">The other end's address, where the socket does not know it.</param>
    /// <param name="local">Its own.</param>
    public void Admit(Socket socket, ToldCommits? told = null, EndPoint? peer = null, EndPoint? local = null)
    {
        // Over TLS it was accepted elsewhere.
        if (loop.TakesNobody)
        {
            socket.Dispose();
            return;
        }
        if (socket.ProtocolType == ProtocolType.Tcp)
        {
            socket.NoDelay = true;
            socket.SetSocketOption(SocketOptionLevel.Socket, SocketOptionName.KeepAlive, true);
        }
        Channel channel = loop.Poller.Adopt(socket);
        // What a new connection may do was found out a moment ago, or is found out before this one goes on.
        bool known = loop.Probe.IsFresh();
        var client = new Client(loop, channel, ++_nextId, known ? loop.Shared : null, known, told);
        channel.Owner = client;
        if (peer is not null) { client.Identity.SetAddresses(peer, local); }
        _all.Add(client);
        client.Start(refused: _all.Count > loop.Limits.MaxClients || Descriptors.AreScarce(socket));
    }

    /// <summary>It has gone.</summary>
    public void Forget(Client client) => _all.Remove(client);

    /// <summary>The client with a <see cref="Client.VirtualId"/>.</summary>
    public Client? Find(long virtualId) => _all.FirstOrDefault(c => c.VirtualId == virtualId);

    /// <summary>Now and then.</summary>
    public void Housekeeping(long nowUs)
    {
        DedicatedCount = 0;
        foreach (Client client in _all)
        {
            client.Housekeeping(nowUs);
            if (client.Dedicated is not null) { DedicatedCount++; }
        }
    }

    /// <summary>Replies wait for too many slow clients: the slowest goes.</summary>
    public void CloseSlowest() => _all.MaxBy(static c => c.OutputBytes)?.Close();

    /// <summary>Closes those with the most of requests that have not come whole, while they are too much together.</summary>
    public void LimitInputs()
    {
        while (_all.Sum(static c => c.InputBytes) > loop.Limits.TotalOutputBytes && _all.MaxBy(static c => c.InputBytes) is { } largest)
        {
            loop.Shard.Warn($"requests that have arrived only in part take more than {loop.Limits.TotalOutputBytes >> 20} MB: client "
                + $"{largest.Id}, with {largest.InputBytes >> 20} MB, is closed (see --output-memory-limit)");
            largest.Close();
        }
    }

    public HashSet<Client>.Enumerator GetEnumerator() => _all.GetEnumerator();

    IEnumerator<Client> IEnumerable<Client>.GetEnumerator() => _all.GetEnumerator();

    IEnumerator IEnumerable.GetEnumerator() => _all.GetEnumerator();
}
