// The batches of one client that were let through and whose replies have not all come: which reply belongs to which of them,
// and in which versions their operations were executed. Replies come in the order of requests, and so do batches. Nothing
// is allocated once as many batches have been on their way as ever are.
using Slogger.Core.Sessions;
using Slogger.Core.Shards;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.FrontEnd;

/// <summary>A batch that was let through.</summary>
internal sealed class BatchInFlight
{
    private VersionRun[] _runs = new VersionRun[4];
    private int _runCount;
    private BatchHeader _header;
    private int _answered;

    /// <summary>How many operations it has.</summary>
    public int Count => _header.Count;

    /// <summary>How many of them are not answered.</summary>
    public int Unanswered => _header.Count - _answered;

    /// <summary>Some of its operations may have been executed in an earlier version than the reply says.</summary>
    public bool IsInexact { get; private set; }

    /// <summary>The client was told that it is let through.</summary>
    public bool IsAnnounced { get; set; }

    /// <summary>The version of the last reply; 0 before the first.</summary>
    public VersionNumber Latest => _runCount == 0 ? VersionNumber.Zero : _runs[_runCount - 1].Version;

    /// <summary>Begins anew with another batch.</summary>
    public void Reset(in BatchHeader header)
    {
        _header = header;
        _runCount = _answered = 0;
        IsAnnounced = IsInexact = false;
    }

    /// <summary>The next operations were answered, which were executed in this version, or at the latest in it.</summary>
    /// <exception cref="InvalidOperationException">More answers than operations: the pairing is broken.</exception>
    public void OnAnswered(int count, VersionNumber version, bool inexact)
    {
        if (count > Unanswered)
            throw new InvalidOperationException(
                $"{count} operations were answered in a batch of {Count}, of which {Unanswered} were unanswered.");
        _answered += count;
        IsInexact |= inexact;
        if (_runCount > 0 && _runs[_runCount - 1].Version == version)
        {
            _runs[_runCount - 1] = new(_runs[_runCount - 1].Count + count, version);
            return;
        }

        if (_runCount == _runs.Length) Array.Resize(ref _runs, _runCount * 2);
        _runs[_runCount++] = new(count, version);
    }

    /// <summary>The reply to the whole of it; valid until it begins anew.</summary>
    /// <param name="cut">What is committed. Of another world-line it says nothing of this batch.</param>
    public BatchReply Reply(WorldPoint cut) => BatchGate.ReplyFor(
        _header, _runs.AsMemory(0, _runCount), cut.WorldLine == _header.WorldLine ? cut : new(_header.WorldLine, VersionNumber.Zero));
}

/// <summary>Batches of one client, the oldest first. Used by the loop's thread.</summary>
internal sealed class BatchQueue
{
    /// <summary>How many batches may be on their way before the client's input is held.</summary>
    public const int BatchesMax = 64;

    private readonly BatchInFlight?[] _ring = new BatchInFlight?[BatchesMax];
    private int _head;

    /// <summary>How many there are.</summary>
    public int Count { get; private set; }

    /// <summary>Whether there is none.</summary>
    public bool IsEmpty => Count == 0;

    /// <summary>Whether another must wait.</summary>
    public bool IsFull => Count == BatchesMax;

    /// <summary>The oldest.</summary>
    public BatchInFlight Head => _ring[_head]!;

    /// <summary>Unanswered operations of all.</summary>
    public long Unanswered { get; private set; }

    /// <summary>A batch was let through.</summary>
    public void Begin(in BatchHeader header)
    {
        ref BatchInFlight? next = ref _ring[(_head + Count) % BatchesMax];
        (next ??= new()).Reset(header);
        Count++;
        Unanswered += header.Count;
    }

    /// <summary>The next operations of the oldest were answered.</summary>
    public void OnAnswered(int count, VersionNumber version, bool inexact)
    {
        Head.OnAnswered(count, version, inexact);
        Unanswered -= count;
    }

    /// <summary>The oldest leaves: it has been answered in full.</summary>
    public BatchInFlight Take()
    {
        BatchInFlight oldest = Head;
        _head = (_head + 1) % BatchesMax;
        Count--;
        return oldest;
    }
}
