// DPR.PEER: another proxy of the cluster. Its connection comes in where clients do, since that is the address that everybody knows; when it
// has shown who it is, it is none of the front end's any more.
using System.Net.Sockets;

namespace Slogger.FrontEnd;

internal sealed unsafe partial class Client
{
    private bool HandlePeer()
    {
        if (!IsDrained)
        {
            Wait(Waiting.Drain);
            return false;
        }
        var words = new List<byte[]>();
        for (int i = 1; i < ArgumentCount; i++) { words.Add(Argument(i).ToArray()); }
        string refusal = "ERR SLOGGER DPR.PEER is the first request of a connection, and nothing follows before its answer";
        bool isFresh = (_pins & ~Pins.Auth) == 0 && _output.Count == 0 && _input.Count == (nint)_requestBytes;
        Action<Socket>? takeOver = isFresh ? _loop.Shard.ReadPeer(words, out refusal) : null;
        if (takeOver is null) { return RefuseCommand(refusal); }
        // Nothing waits for it here: the connection leaves.
        _output.StopGathering();
        Deliver("+OK\r\n"u8);
        if (IsClosed) { return false; }
        if (_output.Count > 0) { Close(); }
        else { takeOver(LeaveLoop()); }
        return false;
    }

    // The connection is not a client's any more.
    private Socket LeaveLoop()
    {
        IsClosed = true;
        _output.Free();
        _input.Free();
        Socket socket = _loop.Poller.Release(_channel);
        if (Shared is not null) { Shared.ClientCount--; }
        Dedicated?.Close("the client has gone");
        _loop.Forget(this);
        return socket;
    }
}
