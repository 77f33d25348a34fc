// The transport where there is no epoll: .NET sockets and Socket.Select. Slower with many connections, the same behaviour.
using System.Net;
using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>Readiness by
/// <see cref="Socket.Select(System.Collections.IList, System.Collections.IList, System.Collections.IList, long)"/>.</summary>
internal sealed unsafe class SocketPoller : IPoller
{
    private readonly Dictionary<Socket, SocketChannel> _channels = [];
    private readonly List<Socket> _reading = [], _writing = [], _failing = [];
    private readonly List<(SocketChannel Channel, bool Readable, bool Writable)> _events = [];
    private readonly Socket _wakeRead, _wakeWrite;
    private int _wakePending;

    public SocketPoller()
    {
        _wakeRead = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp) { Blocking = false };
        _wakeRead.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _wakeWrite = new Socket(AddressFamily.InterNetwork, SocketType.Dgram, ProtocolType.Udp);
        _wakeWrite.Bind(new IPEndPoint(IPAddress.Loopback, 0));
        _wakeWrite.Connect(_wakeRead.LocalEndPoint!);
        _wakeRead.Connect(_wakeWrite.LocalEndPoint!);
    }

    public string Name => "sockets";

    public LocalEvents Local { get; } = new();

    public Channel Adopt(Socket socket)
    {
        socket.Blocking = false;
        return new SocketChannel(socket);
    }

    public void Watch(Channel channel, bool read, bool write)
    {
        if (channel is LocalChannel local)
        {
            local.Watch(read, write);
            return;
        }
        if (channel.IsClosed) { return; }
        channel.WantsRead = read;
        channel.WantsWrite = write;
        _channels[channel.Socket] = (SocketChannel)channel;
    }

    public void Close(Channel channel)
    {
        if (channel is LocalChannel local) { local.Close(); }
        else if (!channel.IsClosed) { Release(channel).Dispose(); }
    }

    public Socket Release(Channel channel)
    {
        channel.IsClosed = true;
        _channels.Remove(channel.Socket);
        return channel.Socket;
    }

    public int Wait(long timeoutMicroseconds, int yields)
    {
        _events.Clear();
        _reading.Clear();
        _writing.Clear();
        _failing.Clear();
        _reading.Add(_wakeRead);
        foreach ((Socket socket, SocketChannel channel) in _channels)
        {
            if (channel.WantsRead) { _reading.Add(socket); }
            if (channel.WantsWrite) { _writing.Add(socket); _failing.Add(socket); }
        }
        // -1 means "at once" to Select on some systems: a day is for ever enough, the loop asks again.
        long limit = timeoutMicroseconds < 0 ? 86_400_000_000 : timeoutMicroseconds;
        Socket.Select(_reading, _writing, _failing, TimeSpan.FromMicroseconds(limit));
        Span<byte> sink = stackalloc byte[8];
        foreach (Socket socket in _reading)
        {
            if (socket == _wakeRead)
            {
                while (_wakeRead.Available > 0) { _wakeRead.Receive(sink, SocketFlags.None, out _); }
                Volatile.Write(ref _wakePending, 0);
            }
            else
            {
                _events.Add((_channels[socket], true, false));
            }
        }
        foreach (Socket socket in _writing) { _events.Add((_channels[socket], false, true)); }
        foreach (Socket socket in _failing)
        {
            if (!_writing.Contains(socket)) { _events.Add((_channels[socket], false, true)); }
        }
        return _events.Count;
    }

    public Channel? Event(int index, out bool readable, out bool writable)
    {
        (SocketChannel channel, readable, writable) = _events[index];
        return channel.IsClosed ? null : channel;
    }

    public void Wake()
    {
        if (Interlocked.Exchange(ref _wakePending, 1) == 0)
        {
            try
            {
                _wakeWrite.Send([1]);
            }
            catch (Exception e) when (e is SocketException or ObjectDisposedException)
            {
                // The loop is ending: nobody waits.
            }
        }
    }

    public void Dispose()
    {
        _wakeRead.Dispose();
        _wakeWrite.Dispose();
    }

    private sealed class SocketChannel(Socket socket) : Channel(socket)
    {
        public override int Receive(byte* buffer, int capacityBytes)
        {
            int got = Socket.Receive(new Span<byte>(buffer, capacityBytes), SocketFlags.None, out SocketError error);
            return Result(got, error);
        }

        public override int Send(byte* buffer, int countBytes)
        {
            int sent = Socket.Send(new ReadOnlySpan<byte>(buffer, countBytes), SocketFlags.None, out SocketError error);
            return Result(sent, error);
        }

        private static int Result(int moved, SocketError error) => error switch
        {
            SocketError.Success => moved,
            SocketError.WouldBlock or SocketError.Interrupted or SocketError.NoBufferSpaceAvailable => WouldBlock,
            _ => Broken,
        };
    }
}
