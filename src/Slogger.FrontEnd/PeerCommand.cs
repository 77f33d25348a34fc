// DPR.PEER: another proxy of the cluster. Its connection comes in where clients do, since that is the address that everybody knows; when it
// has shown who it is, it is none of the front end's any more.
using System.Net.Sockets;

namespace Slogger.FrontEnd;

/// <summary>Handler of DPR.PEER.</summary>
internal static class PeerCommand
{
    public static bool Handle(Client client)
    {
        if (!client.MayAnswer()) { return false; }
        var words = new List<byte[]>();
        for (int i = 1; i < client.ArgumentCount; i++) { words.Add(client.Argument(i).ToArray()); }
        string refusal = "ERR SLOGGER DPR.PEER is the first request of a connection, and nothing follows before its answer";
        Action<Socket>? takeOver = client.IsFresh ? client.Loop.Shard.ReadPeer(words, out refusal) : null;
        if (takeOver is null) { return client.RefuseCommand(refusal); }
        client.HandOver(takeOver);
        return false;
    }
}
