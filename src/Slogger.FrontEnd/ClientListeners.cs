// The sockets on which clients come in.
using System.Net.Sockets;
using Slogger.FrontEnd.Transports;

namespace Slogger.FrontEnd;

/// <summary>Accepts clients. The loop's thread.</summary>
internal sealed class ClientListeners(FrontEndLoop loop) : IChannelOwner
{
    private const int AcceptsPerTurn = 64;
    private readonly List<Channel> _listeners = [];
    private readonly List<Channel> _paused = [];

    /// <summary>Listens on a socket that is bound and listening.</summary>
    public void Add(Socket socket)
    {
        Channel channel = loop.Poller.Adopt(socket);
        channel.Owner = this;
        loop.Poller.Watch(channel, read: true, write: false);
        _listeners.Add(channel);
    }

    public void OnReadable(Channel channel)
    {
        for (int i = 0; i < AcceptsPerTurn; i++)
        {
            try
            {
                loop.Clients.Admit(channel.Socket.Accept());
            }
            catch (SocketException e) when (e.SocketErrorCode is SocketError.WouldBlock or SocketError.ConnectionReset
                or SocketError.ConnectionAborted)
            {
                return;
            }
            catch (SocketException e)
            {
                // Out of descriptors or memory: try again when somebody has left.
                loop.Shard.Warn($"cannot accept a client: {e.Message}");
                loop.Poller.Watch(channel, read: false, write: false);
                _paused.Add(channel);
                return;
            }
        }
    }

    public void OnWritable(Channel channel)
    {
    }

    /// <summary>Tries again where accepting has failed.</summary>
    public void Retry()
    {
        foreach (Channel channel in _paused) { loop.Poller.Watch(channel, read: true, write: false); }
        _paused.Clear();
    }

    /// <summary>Nobody is accepted any more.</summary>
    public bool AreClosed { get; private set; }

    /// <summary>Ends all.</summary>
    public void Close()
    {
        AreClosed = true;
        foreach (Channel listener in _listeners)
        {
            listener.Socket.EndListening();
            loop.Poller.Close(listener);
        }
        _listeners.Clear();
        _paused.Clear();
    }
}
