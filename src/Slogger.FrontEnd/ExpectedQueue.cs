// What an upstream owes, oldest first: a ring that grows, and begins at its beginning again whenever it is empty. On the hot path: entries
// are filled and read where they lie.
using System.Runtime.CompilerServices;

namespace Slogger.FrontEnd;

/// <summary>A queue of <see cref="Expected"/>. A reference to an entry holds until the next one is added.</summary>
internal struct ExpectedQueue()
{
    private Expected[] _ring = new Expected[8];     // its length is a power of two
    private int _head, _tail;

    public readonly int Count => _tail - _head;

    public readonly bool IsEmpty => _head == _tail;

    /// <summary>The oldest; there is one.</summary>
    public readonly ref Expected First => ref _ring[_head & (_ring.Length - 1)];

    /// <summary>The newest; there is one.</summary>
    public readonly ref Expected Last => ref _ring[(_tail - 1) & (_ring.Length - 1)];

    /// <summary>The oldest is number 0.</summary>
    public readonly ref Expected this[int index] => ref _ring[(_head + index) & (_ring.Length - 1)];

    /// <summary>Adds one. It has what an earlier one has left in it: all is to be set, but for the handler, which is null.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public ref Expected Add()
    {
        if (_tail - _head == _ring.Length) { Grow(); }
        return ref _ring[_tail++ & (_ring.Length - 1)];
    }

    /// <summary>Takes the oldest away. It lies where it was until another is added.</summary>
    public void RemoveFirst()
    {
        _head++;
        if (_head == _tail) { _head = _tail = 0; }
    }

    /// <summary>Takes all away.</summary>
    public void Clear() => _head = _tail = 0;

    private void Grow()
    {
        var larger = new Expected[_ring.Length * 2];
        for (int i = _head; i < _tail; i++) { larger[i & (larger.Length - 1)] = _ring[i & (_ring.Length - 1)]; }
        _ring = larger;
    }
}
