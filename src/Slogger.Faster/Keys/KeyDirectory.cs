// Which keys there are. FASTER cannot tell: its index knows hashes, and its log holds many records of a key that are no more. Kept in the
// order of the keys' hashes, so that a place in it is a hash: a reader who goes on from where he was sees every key that was there all the
// time exactly once, however much the directory has grown meanwhile, and nobody has to remember him.
//
// It costs between 45 and 80 bytes for each key besides its own, and nothing when a key is written that exists.
// Any threads: each part has a lock of its own, held for the length of a bucket.
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using Slogger.Faster.Records;

namespace Slogger.Faster.Keys;

/// <summary>The keys of a store, expired ones among them as long as they are not removed.</summary>
internal sealed unsafe class KeyDirectory : IDisposable
{
    /// <summary>All places are below this one: an unsigned number that a signed one holds too.</summary>
    public const ulong End = 1UL << 48;

    private const int PartBits = 10;
    private readonly Part[] _parts = new Part[1 << PartBits];
    private long _count;
    private long _expiring;
    private long _bytes;
    private int _lengthMax;

    public KeyDirectory()
    {
        for (int i = 0; i < _parts.Length; i++) _parts[i] = new();
    }

    /// <summary>How many keys there are.</summary>
    public long Count => Volatile.Read(ref _count);

    /// <summary>How many of them have an expiry.</summary>
    public long Expiring => Volatile.Read(ref _expiring);

    /// <summary>Bytes of all keys.</summary>
    public long Bytes => Volatile.Read(ref _bytes);

    /// <summary>No key is longer, nor was one ever.</summary>
    public int LengthMax => Volatile.Read(ref _lengthMax);

    /// <summary>Whether a header says the same of its key as another: to the directory.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public static bool IsSame(long before, long after) => KindOf(before) == KindOf(after);

    /// <summary>A record of a key has been written. The key's lock is held.</summary>
    /// <param name="hash">FASTER's hash of it.</param>
    /// <param name="key">The key.</param>
    /// <param name="header">The record's: an expiry, none, or that the key is removed.</param>
    public void Note(long hash, ReadOnlySpan<byte> key, long header)
    {
        header = RecordHeader.Expiry(header);
        ulong place = Mix((ulong)hash);
        Part part = _parts[place >> (64 - PartBits)];
        lock (part)
        {
            int entry = part.Find(place, key);
            bool expires = header != 0;
            if (header == RecordHeader.Removed)
            {
                if (entry < 0) return;
                if (part.Remove(entry)) Interlocked.Decrement(ref _expiring);
                Interlocked.Decrement(ref _count);
                Interlocked.Add(ref _bytes, -key.Length);
                return;
            }

            bool expired = false;
            if (entry < 0)
            {
                part.Add(place, key, expires);
                Interlocked.Increment(ref _count);
                Interlocked.Add(ref _bytes, key.Length);
                for (int longest; key.Length > (longest = Volatile.Read(ref _lengthMax));)
                    Interlocked.CompareExchange(ref _lengthMax, key.Length, longest);
            }
            else
            {
                expired = part.Expire(entry, expires);
            }

            if (expires && !expired) Interlocked.Increment(ref _expiring);
            if (!expires && expired) Interlocked.Decrement(ref _expiring);
        }
    }

    /// <summary>Copies keys out, beginning at a place.</summary>
    /// <param name="place">0, or what was returned before.</param>
    /// <param name="wanted">How many keys are enough. A few more may come: those that share a bucket.</param>
    /// <param name="looksMax">How many buckets are looked into at most, besides those of parts without any key.</param>
    /// <param name="expiringOnly">Only keys that have an expiry.</param>
    /// <param name="into">Where they go, behind what is there.</param>
    /// <returns>The place to go on at; <see cref="End"/>: these were the last.</returns>
    public ulong Read(ulong place, int wanted, int looksMax, bool expiringOnly, KeyList into)
    {
        int enough = into.Count + wanted;
        while (place < End && into.Count < enough && looksMax > 0)
        {
            ulong from = place << 16;
            int number = (int)(from >> (64 - PartBits));
            Part part = _parts[number];
            if (part.Count == 0)
            {
                place = (ulong)(number + 1) << (48 - PartBits);
                continue;
            }

            looksMax--;
            lock (part) { place = part.Read(from, expiringOnly, into) >> 16; }
            if (place == 0) place = End;
        }

        return place;
    }

    /// <inheritdoc />
    public void Dispose()
    {
        foreach (Part part in _parts)
        {
            lock (part) { part.Clear(); }
        }
    }

    // Removed, lasting, expiring.
    private static int KindOf(long header) => RecordHeader.Expiry(header) switch { RecordHeader.Removed => 0, 0 => 1, _ => 2 };

    // The hash's best bits are not all above.
    private static ulong Mix(ulong hash)
    {
        hash ^= hash >> 33;
        hash *= 0xFF51AFD7ED558CCDUL;
        hash ^= hash >> 33;
        hash *= 0xC4CEB9FE1A85EC53UL;
        return hash ^ (hash >> 33);
    }

    private struct Entry
    {
        public ulong Place;
        public byte* Key;
        public int Length;
        public int Next;        // in its bucket, or among the free ones; the number of an entry and one, 0: none
        public bool Expires;
    }

    // A hash table whose buckets are in the order of the hashes: each holds those that have its number behind their first ten bits.
    private sealed class Part
    {
        private int[] _buckets = new int[2];
        private Entry[] _entries = new Entry[2];
        private int _used;
        private int _free;
        private volatile int _count;

        public int Count => _count;

        private int Bits => BitOperations.Log2((uint)_buckets.Length);

        private int BucketOf(ulong place) => (int)((place << PartBits) >> (64 - Bits));

        public int Find(ulong place, ReadOnlySpan<byte> key)
        {
            for (int at = _buckets[BucketOf(place)]; at != 0; at = _entries[at - 1].Next)
            {
                ref Entry entry = ref _entries[at - 1];
                if (entry.Place == place && key.SequenceEqual(new ReadOnlySpan<byte>(entry.Key, entry.Length))) return at - 1;
            }

            return -1;
        }

        public void Add(ulong place, ReadOnlySpan<byte> key, bool expires)
        {
            int number = Free();
            ref int bucket = ref _buckets[BucketOf(place)];
            byte* copy = (byte*)NativeMemory.Alloc((nuint)Math.Max(1, key.Length));
            key.CopyTo(new(copy, key.Length));
            _entries[number] = new() { Place = place, Key = copy, Length = key.Length, Next = bucket, Expires = expires };
            bucket = number + 1;
            _count++;
        }

        /// <summary>Says what it was before.</summary>
        public bool Expire(int number, bool expires)
        {
            bool before = _entries[number].Expires;
            _entries[number].Expires = expires;
            return before;
        }

        /// <summary>Says whether it had an expiry.</summary>
        public bool Remove(int number)
        {
            ref Entry entry = ref _entries[number];
            ref int link = ref _buckets[BucketOf(entry.Place)];
            while (link != number + 1) link = ref _entries[link - 1].Next;
            link = entry.Next;
            NativeMemory.Free(entry.Key);
            entry.Key = null;
            entry.Next = _free;
            _free = number + 1;
            _count--;
            return entry.Expires;
        }

        /// <summary>Copies a bucket's keys from a place on; says where the next bucket begins, 0 behind the last of all.</summary>
        public ulong Read(ulong from, bool expiringOnly, KeyList into)
        {
            int bucket = BucketOf(from);
            for (int at = _buckets[bucket]; at != 0; at = _entries[at - 1].Next)
            {
                ref Entry entry = ref _entries[at - 1];
                if (entry.Place >= from && (entry.Expires || !expiringOnly)) into.Add(new(entry.Key, entry.Length));
            }

            int low = 64 - PartBits - Bits;
            return ((from >> low) + 1) << low;
        }

        public void Clear()
        {
            for (int i = 0; i < _used; i++) NativeMemory.Free(_entries[i].Key);
            (_used, _free, _count) = (0, 0, 0);
            Array.Clear(_buckets);
        }

        private int Free()
        {
            if (_free != 0)
            {
                int number = _free - 1;
                _free = _entries[number].Next;
                return number;
            }

            if (_used == _entries.Length) Grow();
            return _used++;
        }

        private void Grow()
        {
            Array.Resize(ref _entries, _entries.Length * 2);
            _buckets = new int[_buckets.Length * 2];
            for (int i = 0; i < _used; i++)
            {
                ref int bucket = ref _buckets[BucketOf(_entries[i].Place)];
                _entries[i].Next = bucket;
                bucket = i + 1;
            }
        }
    }
}
