// Pieces that a shipper has sent: which are still on their way, and which the receiver cannot take in yet, since their ends are not durable
// here.
using Slogger.Core.Versions;

namespace Slogger.Core.Replication;

/// <summary>The pieces, in order. Not thread-safe.</summary>
internal sealed class SentPieces
{
    private readonly Queue<(LogIndex To, long Bytes)> _underWay = new();
    private readonly Queue<LogIndex> _unconfirmed = new();   // ends
    private VersionNumber _confirmed;

    /// <summary>How many are on their way.</summary>
    public int Count => _underWay.Count;

    /// <summary>Their bytes.</summary>
    public long Bytes { get; private set; }

    /// <summary>One was sent.</summary>
    public void Add(LogIndex to, long bytes)
    {
        _underWay.Enqueue((to, bytes));
        _unconfirmed.Enqueue(to);
        Bytes += bytes;
    }

    /// <summary>The receiver has all up to a place.</summary>
    public void Arrived(LogIndex received)
    {
        while (_underWay.TryPeek(out (LogIndex To, long Bytes) first) && first.To <= received)
        {
            Bytes -= first.Bytes;
            _underWay.Dequeue();
        }
    }

    /// <summary>The last version that the receiver can take in: with the piece that ends it, or a later one, durable here.</summary>
    public VersionNumber Confirm(LogIndex durable)
    {
        while (_unconfirmed.TryPeek(out LogIndex to) && to <= durable)
        {
            _confirmed = to.Closed;
            _unconfirmed.Dequeue();
        }

        return _confirmed;
    }

    /// <summary>What lies behind a place is sent again. What the receiver has remains to be confirmed.</summary>
    public void GoBack(LogIndex to)
    {
        LogIndex[] has = [.. _unconfirmed.Where(end => end <= to)];
        _unconfirmed.Clear();
        foreach (LogIndex end in has) _unconfirmed.Enqueue(end);
        if (has.Length == 0) _confirmed = to.Closed;
        _underWay.Clear();
        Bytes = 0;
    }
}
