// How a session sends: operations gather into a batch for each shard, full batches wait for room in the window, and at most one that is not
// full is under way. What was begun is flushed when the session's lock has been given back.
using Slogger.Core.Sessions;

namespace Slogger.Client;

/// <summary>Links that have something to send. Flushed without the session's lock.</summary>
internal readonly struct PendingFlush(Link? one, List<Link>? all)
{
    public void Run()
    {
        if (all is null)
        {
            one?.Flush();
            return;
        }

        foreach (Link link in all) { link.Flush(); }
    }
}

/// <summary>The batches of one session. Guarded by the session.</summary>
internal sealed class Lanes(SloggerSession session, ClientSession machine, LocalOperations local, CommitWatch watch, int batchMax)
{
    private const int FreeBatchesMax = 16;
    private readonly Stack<Batch> _free = new();
    private Lane?[] _lanes = new Lane?[8];
    private List<Link> _toFlush = [];

    /// <summary>Whether a batch had no room in the window.</summary>
    public bool IsBlocked { get; private set; }

    /// <summary>Those of all shards that the session has used.</summary>
    public IEnumerable<Lane> All => _lanes.OfType<Lane>();

    /// <summary>How many operations have not been sent.</summary>
    public int Unsent => All.Sum(static l => l.Full.Sum(static b => b.Count) + (l.Gathering?.Count ?? 0));

    /// <summary>That of a shard; null: the session has not used it.</summary>
    public Lane? Find(Link link) => link.Index < _lanes.Length ? _lanes[link.Index] : null;

    /// <summary>Adds an operation's requests to what gathers for a shard, and begins what may begin.</summary>
    public void Append(Operation operation, Link link, ReadOnlySpan<byte> requests)
    {
        Lane lane = LaneOf(link);
        Batch batch = lane.Gathering ??= NewBatch(lane);
        if (batch.Count > 0 && batch.Requests + operation.RequestsOnWire > batchMax)
        {
            lane.Full.Enqueue(batch);
            batch = lane.Gathering = NewBatch(lane);
        }

        batch.Add(operation, requests);
        if (batch.Requests >= batchMax)
        {
            lane.Full.Enqueue(batch);
            lane.Gathering = null;
        }

        Pump(lane);
    }

    /// <summary>Begins what may begin at one shard.</summary>
    public void Pump(Lane lane)
    {
        bool any = false;
        local.Settle();
        while (lane.Next is { } batch)
        {
            if (!lane.Link.TrySend(batch, machine, out bool hasRoom))
            {
                IsBlocked |= !hasRoom;
                if (!hasRoom) { watch.Signal(); }
                break;
            }

            lane.TakeNext();
            lane.Sent.Enqueue(batch);
            foreach (Operation operation in batch.Operations) { operation.Generation.Last = machine.Begun; }
            any = true;
        }

        if (any && !_toFlush.Contains(lane.Link)) { _toFlush.Add(lane.Link); }
    }

    /// <summary>There may be room in the window again: begins what has waited for it.</summary>
    public void PumpBlocked()
    {
        if (!IsBlocked) { return; }
        IsBlocked = false;
        foreach (Lane? lane in _lanes)
        {
            if (lane is not null) { Pump(lane); }
        }
    }

    /// <summary>Takes what is to be flushed.</summary>
    public PendingFlush TakeFlush()
    {
        if (_toFlush.Count == 0) { return default; }
        Link first = _toFlush[0];
        if (_toFlush.Count == 1)
        {
            _toFlush.Clear();
            return new(first, null);
        }

        List<Link> all = _toFlush;
        _toFlush = [];
        return new(first, all);
    }

    /// <summary>A batch whose operations have ended may be used again.</summary>
    public void GiveBack(Batch batch)
    {
        batch.Clear();
        if (_free.Count < FreeBatchesMax) { _free.Push(batch); }
    }

    private Batch NewBatch(Lane lane) => (_free.TryPop(out Batch? free) ? free : new(session)).For(lane);

    private Lane LaneOf(Link link)
    {
        if (link.Index >= _lanes.Length) { Array.Resize(ref _lanes, Math.Max(link.Index + 1, _lanes.Length * 2)); }
        if (_lanes[link.Index] is { } lane) { return lane; }
        link.Start();
        return _lanes[link.Index] = new(link);
    }
}
