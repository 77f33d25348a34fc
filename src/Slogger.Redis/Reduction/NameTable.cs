// Finds what is known of a name: of a key in a database, of a field in a run. Names stay where they are, in the bytes of the window. All
// names of a window are in two arrays, so nothing is allocated once these have grown. A hash never decides: names are compared.
using Slogger.Redis.Rollback;

namespace Slogger.Redis.Reduction;

/// <summary>Names, each in a scope, with what is known of them. Not thread-safe.</summary>
internal sealed class NameTable<T> where T : struct
{
    private const int SlotsMin = 1 << 8;
    private int[] _slots = new int[SlotsMin]; // the place of a name, and one; 0: free
    private Name[] _names = new Name[SlotsMin / 2];
    private int _count;

    private struct Name
    {
        public ulong Hash;
        public int Scope, Offset, Length, Slot;
        public T Value;
    }

    /// <summary>What is known of a name that has been found.</summary>
    public ref T this[int place] => ref _names[place].Value;

    /// <summary>Forgets all names.</summary>
    public void Clear()
    {
        // A window of few names behind one of many does not pay for those.
        if (_count >= _slots.Length / 8) { Array.Clear(_slots); }
        else
        {
            for (int i = 0; i < _count; i++) { _slots[_names[i].Slot] = 0; }
        }
        _count = 0;
    }

    /// <summary>Finds a name, or adds it.</summary>
    /// <param name="bytes">What holds all names until they are forgotten.</param>
    /// <param name="scope">Where the name is one.</param>
    /// <param name="place">Where it stands in the bytes.</param>
    /// <param name="isNew">Whether it was added.</param>
    /// <returns>Its place here, which stays.</returns>
    public int FindOrAdd(byte[] bytes, int scope, (int Offset, int Length) place, out bool isNew)
    {
        ReadOnlySpan<byte> name = bytes.AsSpan(place.Offset, place.Length);
        ulong hash = StoreKey.HashOf(scope, name);
        int mask = _slots.Length - 1, slot = (int)hash & mask;
        for (int at; (at = _slots[slot] - 1) >= 0; slot = (slot + 1) & mask)
        {
            ref Name found = ref _names[at];
            if (found.Hash == hash && found.Scope == scope && name.SequenceEqual(bytes.AsSpan(found.Offset, found.Length)))
            {
                isNew = false;
                return at;
            }
        }
        isNew = true;
        if (_count == _names.Length) { Grow(); }
        _names[_count] = new() { Hash = hash, Scope = scope, Offset = place.Offset, Length = place.Length };
        Place(_count);
        return _count++;
    }

    private void Grow()
    {
        Array.Resize(ref _names, 2 * _names.Length);
        _slots = new int[2 * _slots.Length];
        for (int i = 0; i < _count; i++) { Place(i); }
    }

    private void Place(int at)
    {
        ref Name name = ref _names[at];
        int mask = _slots.Length - 1, slot = (int)name.Hash & mask;
        while (_slots[slot] != 0) { slot = (slot + 1) & mask; }
        _slots[slot] = at + 1;
        name.Slot = slot;
    }
}
