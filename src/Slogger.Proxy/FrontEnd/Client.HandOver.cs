// DPR.COORDINATE: another proxy of the cluster wants to speak with the coordinator of cuts, which is here. Its connection came in
// where clients do, since that is the address that everybody knows; from here on it is none of the front end's.
using System.Net.Sockets;
using System.Text;
using Slogger.Core.Shards;

namespace Slogger.Proxy.FrontEnd;

/// <summary>Who speaks with other proxies. Called by the loop's thread.</summary>
internal interface ICoordinatorPort
{
    /// <summary>Why a connection is not taken; null if it is.</summary>
    string? RefusalOf(ReadOnlySpan<byte> secret);

    /// <summary>Takes a connection of which nothing was read beyond the request, and nothing answered.</summary>
    /// <param name="socket">Blocking; the callee's from here on.</param>
    /// <param name="from">The shard at the other end.</param>
    /// <param name="epoch">The epoch of its owner.</param>
    void Take(Socket socket, ShardId from, long epoch);
}

internal sealed unsafe partial class Client
{
    // DPR.COORDINATE <secret> <shard> <epoch>
    private bool HandOver()
    {
        if (_loop.Shard.Coordinator is not { } port) { return RefuseCommand("ERR SLOGGER nothing is coordinated here"); }
        if (ArgumentCount != 4) { return RefuseCommand("ERR wrong number of arguments for 'dpr.coordinate' command"); }
        if (port.RefusalOf(Argument(1)) is { } why) { return RefuseCommand(why); }
        bool isFresh = IsDrained && _pins == 0 && _output.Count == 0 && _input.Count == (nint)_requestBytes;
        if (!isFresh || !ArgumentNumber(2, out long shard) || shard is < 0 or > int.MaxValue || !ArgumentNumber(3, out long epoch))
        {
            return RefuseCommand("ERR SLOGGER DPR.COORDINATE is the first and only request of a connection");
        }
        Socket socket = _loop.Poller.Release(_channel);
        Close();
        socket.Blocking = true;
        port.Take(socket, new ShardId((int)shard), epoch);
        return false;
    }
}
