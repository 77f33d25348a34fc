// A channel to a store in this process: what is sent is done at once, and its replies can be read in the same turn of the loop, in
// place. There is nothing that a poller could wait for, so the loop is told by a list.
namespace Slogger.FrontEnd.Transports;

/// <summary>A channel without a socket. Used by the loop's thread only.</summary>
/// <param name="events">Where it says that something can be done with it.</param>
internal abstract unsafe class LocalChannel(LocalEvents events) : Channel(null)
{
    private bool _isListed;

    /// <summary>Whether its owner wants to read, and there are replies, or their end.</summary>
    public bool CanRead => WantsRead && !IsClosed && IsReadable;

    /// <summary>Whether its owner wants to write, and something would be taken.</summary>
    public bool CanWrite => WantsWrite && !IsClosed && IsWritable;

    /// <summary>There are replies, or their end.</summary>
    protected abstract bool IsReadable { get; }

    /// <summary>It takes more.</summary>
    protected abstract bool IsWritable { get; }

    /// <summary>The store has ended the connection, and all replies were taken.</summary>
    public abstract bool HasEnded { get; }

    /// <summary>Starts or changes what its owner waits for.</summary>
    public void Watch(bool read, bool write)
    {
        (WantsRead, WantsWrite) = (read, write);
        Announce();
    }

    /// <summary>Lists the channel, if there is something to do with it.</summary>
    public void Announce()
    {
        if (_isListed || !(CanRead || CanWrite)) { return; }
        _isListed = true;
        events.Add(this);
    }

    /// <summary>It is looked at now.</summary>
    public void Unlist() => _isListed = false;

    /// <summary>The replies that there are, in place: they stay there until they are given back, whatever is sent meanwhile.</summary>
    /// <returns>False if there are none.</returns>
    public abstract bool TryTake(out byte* start, out byte* end);

    /// <summary>Replies up to here were read; the rest comes again.</summary>
    public abstract void GiveBack(byte* read);

    /// <summary>Nothing more is sent: when all is answered, the stream of replies ends.</summary>
    public abstract void EndInput();

    /// <summary>Closes it. Replies that are taken stay where they are until they are given back.</summary>
    public abstract void Close();

    public override int Receive(byte* buffer, int capacityBytes)
    {
        if (!TryTake(out byte* start, out byte* end)) { return HasEnded ? 0 : WouldBlock; }
        int count = (int)Math.Min(end - start, capacityBytes);
        Buffer.MemoryCopy(start, buffer, capacityBytes, count);
        GiveBack(start + count);
        return count;
    }
}

/// <summary>The local channels that something can be done with. Used by the loop's thread only.</summary>
internal sealed class LocalEvents
{
    private List<LocalChannel> _listed = [];
    private List<LocalChannel> _taken = [];

    /// <summary>Whether there are any.</summary>
    public bool Any => _listed.Count > 0;

    public void Add(LocalChannel channel) => _listed.Add(channel);

    /// <summary>Those that there are; whatever happens from now on is listed anew. Valid until the next call.</summary>
    public List<LocalChannel> Take()
    {
        (_taken, _listed) = (_listed, _taken);
        _listed.Clear();
        foreach (LocalChannel channel in _taken) { channel.Unlist(); }
        return _taken;
    }
}
