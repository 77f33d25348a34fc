// A byte stream as the front end's loop sees it: never blocks, says "not now" by a number. The loop runs on whichever
// transport there is: epoll with direct system calls on Linux, .NET sockets elsewhere. TLS joins as an ordinary channel
// (see TlsBridge). A channel to a store in this process has no socket (see LocalChannel).
using System.Net.Sockets;

namespace Slogger.FrontEnd.Transports;

/// <summary>One end of a connection, used by the loop's thread only.</summary>
internal abstract unsafe class Channel(Socket? socket)
{
    /// <summary>Result of <see cref="Receive"/> and <see cref="Send"/>: nothing can be moved now.</summary>
    public const int WouldBlock = -1;

    /// <summary>Result of <see cref="Receive"/> and <see cref="Send"/>: the connection is broken.</summary>
    public const int Broken = -2;

    /// <summary>Who is told of this channel's events.</summary>
    public IChannelOwner? Owner { get; set; }

    /// <summary>Whether it is a socket: a <see cref="LocalChannel"/> is none.</summary>
    public bool HasSocket => socket is not null;

    /// <summary>The socket, for its addresses and options.</summary>
    public Socket Socket => socket ?? throw new InvalidOperationException("This channel has no socket.");

    internal bool WantsRead { get; set; }

    internal bool WantsWrite { get; set; }

    internal bool IsClosed { get; set; }

    /// <summary>Moves bytes in. Returns how many, 0 at the end of the stream, or one of the negative results.</summary>
    public abstract int Receive(byte* buffer, int capacityBytes);

    /// <summary>Moves bytes out. Returns how many, or one of the negative results.</summary>
    public abstract int Send(byte* buffer, int countBytes);
}

/// <summary>What the loop calls when something can be done with a channel.</summary>
internal interface IChannelOwner
{
    /// <summary>Bytes, the end of the stream, or an error can be received.</summary>
    void OnReadable(Channel channel);

    /// <summary>Bytes can be sent, or a connection attempt has ended.</summary>
    void OnWritable(Channel channel);
}

/// <summary>Waits for events on many channels. Level-triggered: an event repeats until it is dealt with. All members but
/// <see cref="Wake"/> belong to the loop's thread.</summary>
internal interface IPoller : IDisposable
{
    /// <summary>The name that people see.</summary>
    string Name { get; }

    /// <summary>The channels without a socket that something can be done with: <see cref="Wait"/> knows nothing of them.</summary>
    LocalEvents Local { get; }

    /// <summary>Makes a channel of a socket, which becomes non-blocking and belongs to the channel.</summary>
    Channel Adopt(Socket socket);

    /// <summary>Starts or changes what is waited for on a channel.</summary>
    void Watch(Channel channel, bool read, bool write);

    /// <summary>Stops waiting on a channel and closes it. Events of it that are already collected are dropped.</summary>
    void Close(Channel channel);

    /// <summary>Stops waiting on a channel and gives its socket away; the channel counts as closed.</summary>
    Socket Release(Channel channel);

    /// <summary>Collects events and waits for the first at most so long.</summary>
    /// <param name="timeoutMicroseconds">Negative means for ever.</param>
    /// <param name="yields">How often to look again at most, giving the core away in between, before the thread sleeps: an event
    /// that is a few microseconds away is had sooner, and cheaper, than by being woken. On a busy core giving it away may take
    /// milliseconds each time: after the first of them the thread sleeps.</param>
    /// <returns>How many events there are.</returns>
    int Wait(long timeoutMicroseconds, int yields);

    /// <summary>One of the events collected by the last <see cref="Wait"/>; no channel if it was closed meanwhile.</summary>
    Channel? Event(int index, out bool readable, out bool writable);

    /// <summary>Makes a <see cref="Wait"/> in progress, or else the next one, return at once. Any thread.</summary>
    void Wake();
}
