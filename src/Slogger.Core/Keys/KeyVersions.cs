// Which keys were written lately, and where in the stream: a table of bounded size. Of a key that is not in it, only a bound is known, the
// horizon: it was not written since. What falls out of the table raises the horizon.
//
// Contract (invariant R11 rests on it): what Find answers is never below the place of the key's last write, so a key that was written
// since a place is never taken for one that was not. The other way round it may err: keys whose hashes are the same share an entry, and of
// keys that were forgotten only the horizon is known.
//
// Two generations: notes go to the younger; when that is full the older is forgotten, and what was the younger is the older. So at least
// the last half of a table's keys is known, and the horizon is a place that was noted. An entry counts if it is above what its generation
// began with: so a generation is emptied without being touched.
namespace Slogger.Core.Keys;

/// <summary>The places of keys' last writes. Not thread-safe.</summary>
public sealed class KeyVersions
{
    // Above that linear probing gets slow.
    private const double FillMax = 0.75;
    private readonly int _countMax;
    private readonly int _mask;
    private readonly long _begin;
    private Generation _young, _old;
    private KeyVersions? _before;

    private struct Generation
    {
        public ulong[] Hashes;
        public long[] Places;
        public long Since;
        public long Last;
        public int Count;
    }

    /// <summary>Makes an empty one.</summary>
    /// <param name="keysMin">How many keys are known at least before one is forgotten.</param>
    /// <param name="horizon">Nothing is known of writes at or below this place.</param>
    public KeyVersions(int keysMin, long horizon)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(keysMin, 1);
        ArgumentOutOfRangeException.ThrowIfNegative(horizon);
        int slots = (int)System.Numerics.BitOperations.RoundUpToPowerOf2((uint)Math.Ceiling((keysMin + 1) / FillMax));
        _countMax = keysMin;
        _mask = slots - 1;
        _young = Made(slots, horizon);
        _old = Made(slots, horizon);
        Horizon = Last = _begin = horizon;
    }

    /// <summary>Keys that are not in the table were not written above this place.</summary>
    public long Horizon { get; private set; }

    /// <summary>Every key may have been written there: by a command of which the keys are not known.</summary>
    public long Floor { get; private set; }

    /// <summary>The last place noted.</summary>
    public long Last { get; private set; }

    /// <summary>Takes what is known of the time before this table began, if it has not forgotten a key since.</summary>
    public void Prepend(KeyVersions before) => _before = Horizon == _begin ? before : null;

    /// <summary>A key was written.</summary>
    /// <param name="hash">The key's.</param>
    /// <param name="place">Where; not below what was noted before, and above the horizon.</param>
    public void Note(ulong hash, long place)
    {
        Advance(place);
        int slot = SlotOf(_young, hash);
        if (_young.Places[slot] <= _young.Since)
        {
            if (_young.Count == _countMax)
            {
                Turn(place);
                slot = SlotOf(_young, hash);
            }
            _young.Hashes[slot] = hash;
            _young.Count++;
        }
        _young.Places[slot] = _young.Last = place;
    }

    /// <summary>Any key may have been written.</summary>
    /// <param name="place">Where; not below what was noted before.</param>
    public void NoteAll(long place)
    {
        Advance(place);
        Floor = place;
    }

    /// <summary>A place above which the key was not written.</summary>
    public long Find(ulong hash)
    {
        long known = In(_young, hash) ?? In(_old, hash) ?? _before?.Find(hash) ?? Horizon;
        return Math.Max(known, Floor);
    }

    private void Advance(long place)
    {
        if (place < Last) { throw new ArgumentOutOfRangeException(nameof(place), place, $"It is below {Last}, which was noted before."); }
        Last = place;
    }

    // The older generation is forgotten.
    private void Turn(long place)
    {
        _before = null;
        Horizon = Math.Max(Horizon, _old.Last);
        (_old, _young) = (_young, _old);
        // An effect that writes more keys than a generation holds is in both, so its entries are not told by their place.
        if (_young.Last == place) { Array.Clear(_young.Places); }
        (_young.Since, _young.Count) = (place - 1, 0);
    }

    private static long? In(in Generation generation, ulong hash)
    {
        int mask = generation.Hashes.Length - 1;
        for (int slot = (int)hash & mask; generation.Places[slot] > generation.Since; slot = (slot + 1) & mask)
        {
            if (generation.Hashes[slot] == hash) { return generation.Places[slot]; }
        }
        return null;
    }

    // Where the key is, or would be.
    private int SlotOf(in Generation generation, ulong hash)
    {
        int slot = (int)hash & _mask;
        while (generation.Places[slot] > generation.Since && generation.Hashes[slot] != hash) { slot = (slot + 1) & _mask; }
        return slot;
    }

    private static Generation Made(int slots, long since) => new() { Hashes = new ulong[slots], Places = new long[slots], Since = since };
}
