// Operations of one session to one shard that travel together: first as they gather, then numbered and on the wire, until
// the trailer. Their requests are kept until then, since a reply may send an operation elsewhere.
using System.Diagnostics;
using Slogger.Core.Sessions;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Resp;

namespace Slogger.Client;

internal sealed class Batch(SloggerSession session)
{
    private readonly RequestWriter _requests = new();
    private Operation[] _operations = new Operation[16];
    private int[] _ends = new int[16];
    private int _answered;
    private int _repliesToSkip;

    public SloggerSession Session { get; } = session;

    public Lane Lane { get; private set; } = null!;

    /// <summary>How many operations.</summary>
    public int Count { get; private set; }

    /// <summary>How many requests: what the header counts.</summary>
    public int Requests { get; private set; }

    public ReadOnlySpan<byte> Bytes => _requests.Written;

    public ReadOnlySpan<Operation> Operations => _operations.AsSpan(0, Count);

    /// <summary>When its first operation began to wait, or it was sent. A timestamp of Stopwatch.</summary>
    public long Since { get; private set; }

    // From here on: once it has begun.

    public SequenceNumber First { get; private set; }

    /// <summary>The number of its last request.</summary>
    public SequenceNumber Last => new(First.Number + Requests - 1);

    public WorldLine WorldLine { get; private set; }

    public Activity? Activity { get; private set; }

    /// <summary>Its session has told its callers what became of it: what still comes for it concerns nobody. Guarded by the
    /// session.</summary>
    public bool IsSettled { get; set; }

    /// <summary>The proxy let it through.</summary>
    public bool IsAccepted { get; set; }

    /// <summary>Whether all replies are there, and the trailer comes next.</summary>
    public bool IsAnswered => _answered == Count;

    public Batch For(Lane lane)
    {
        Lane = lane;
        Since = Stopwatch.GetTimestamp();
        return this;
    }

    public void Add(Operation operation, ReadOnlySpan<byte> requests)
    {
        if (Count == _operations.Length)
        {
            Array.Resize(ref _operations, Count * 2);
            Array.Resize(ref _ends, Count * 2);
        }

        _requests.AddRaw(requests);
        _operations[Count] = operation;
        _ends[Count++] = _requests.Length;
        Requests += operation.RequestsOnWire;
    }

    /// <summary>Takes an operation out, so that it can be started again; its place and number stay.</summary>
    /// <param name="index">Which.</param>
    /// <param name="requests">Its requests as they were started: without an ASKING.</param>
    public Operation Detach(int index, out byte[] requests)
    {
        Operation operation = _operations[index];
        _operations[index] = new DetachedOperation { Requests = operation.RequestsOnWire };
        requests = _requests.Written[(index == 0 ? 0 : _ends[index - 1]).._ends[index]].ToArray();
        if (operation.IsAsking)
        {
            requests = requests[SloggerSession.Asking.Length..];
            operation.IsAsking = false;
        }

        return operation;
    }

    public void Begin(in BatchHeader header)
    {
        (First, WorldLine, Since) = (header.First, header.WorldLine, Stopwatch.GetTimestamp());
        _repliesToSkip = _operations[0].RequestsOnWire - 1;
        Activity = Telemetry.StartBatch(Lane.Link.Name, Count);
    }

    /// <summary>The next reply of Redis.</summary>
    public void Accept(in WireReply reply)
    {
        if (_repliesToSkip > 0)
        {
            _repliesToSkip--;
            return;
        }

        _operations[_answered++].Accept(reply);
        if (_answered < Count) { _repliesToSkip = _operations[_answered].RequestsOnWire - 1; }
    }

    /// <summary>Everything is told. Empty again, for other operations.</summary>
    public void Clear()
    {
        Array.Clear(_operations, 0, Count);
        _requests.Clear();
        (Count, Requests, _answered, _repliesToSkip, IsAccepted, IsSettled, Activity) = (0, 0, 0, 0, false, false, null);
    }
}

/// <summary>What a session has for one shard: batches under way, full ones that wait for room, and one that gathers. Guarded by the
/// session.</summary>
internal sealed class Lane(Link link)
{
    public Link Link { get; } = link;

    /// <summary>Begun and unanswered, in order.</summary>
    public Queue<Batch> Sent { get; } = new();

    /// <summary>Full, and not begun: for lack of room in the window, or of a connection.</summary>
    public Queue<Batch> Full { get; } = new();

    /// <summary>Not full. Never empty.</summary>
    public Batch? Gathering { get; set; }

    /// <summary>What may begin next: a full batch at any time, one that is not full only when nothing is under way.</summary>
    public Batch? Next => Full.TryPeek(out Batch? full) ? full : Sent.Count == 0 ? Gathering : null;

    /// <summary>All that has neither an answer nor an exception, in order.</summary>
    public IEnumerable<Batch> Open => Gathering is { } gathering ? Sent.Concat(Full).Append(gathering) : Sent.Concat(Full);

    /// <summary>Takes what <see cref="Next"/> gave.</summary>
    public void TakeNext()
    {
        if (!Full.TryDequeue(out _)) { Gathering = null; }
    }

    /// <summary>Takes all that has not begun, in order.</summary>
    public List<Batch> TakeUnsent()
    {
        List<Batch> unsent = [.. Full];
        if (Gathering is { } gathering) { unsent.Add(gathering); }
        Full.Clear();
        Gathering = null;
        return unsent;
    }

    /// <summary>Puts batches behind all that has not begun.</summary>
    public void Append(List<Batch> batches)
    {
        if (batches.Count == 0) { return; }
        if (Gathering is { } gathering) { Full.Enqueue(gathering); }
        Gathering = null;
        foreach (Batch batch in batches) { Full.Enqueue(batch); }
    }
}
