// The two lists of a client session, in the order of the operations: what is not answered, and what is answered and not
// committed. Little is ever in them, additions come at the end and removals mostly at the start: an array with a moving
// head, which allocates nothing once it is as large as it has to be.

using Slogger.Core.Versions;
namespace Slogger.Core.Sessions;

/// <summary>Consecutive operations with one fate: those of an unanswered batch, or answered ones that were executed no
/// earlier than in <see cref="Lower"/> and no later than in <see cref="Upper"/>.</summary>
internal struct Run
{
    /// <summary>The shard of a run that was merged from runs of several.</summary>
    public const int SeveralShards = -1;

    public SequenceNumber First;
    public SequenceNumber Last;
    public VersionNumber Lower;
    public VersionNumber Upper;
    public int Shard;

    public readonly SequenceRange Range => new(First, Last);
}

internal sealed class RunList
{
    private Run[] _items = new Run[8];
    private int _head;

    public int Count { get; private set; }

    public ref Run this[int i] => ref _items[_head + i];

    /// <summary>How many runs start before an operation: the place of a run that starts there.</summary>
    public int PlaceOf(SequenceNumber first)
    {
        int low = 0, high = Count;
        if (high > 0 && this[high - 1].First < first) return high;
        while (low < high)
        {
            int middle = (low + high) / 2;
            if (this[middle].First < first) low = middle + 1;
            else high = middle;
        }

        return low;
    }

    public void Insert(int at, in Run run)
    {
        if (_head + Count == _items.Length) MakeRoom();
        Array.Copy(_items, _head + at, _items, _head + at + 1, Count - at);
        Count++;
        this[at] = run;
    }

    public void RemoveRange(int at, int count)
    {
        if (at == 0) _head += count;
        else Array.Copy(_items, _head + at + count, _items, _head + at, Count - at - count);
        Count -= count;
        if (Count == 0) _head = 0;
    }

    public void Clear() => _head = Count = 0;

    private void MakeRoom()
    {
        // Sliding down costs as much as doubling: only when at least half of the array was freed since.
        Run[] to = _head >= _items.Length / 2 ? _items : new Run[_items.Length * 2];
        Array.Copy(_items, _head, to, 0, Count);
        _items = to;
        _head = 0;
    }
}
