// Locks that all keys share. FASTER's own protection is not enough for keys and values of any length: two threads that add records to one
// bucket of the index can spoil each other's, and so the log. Whoever changes a record holds the lock of its bucket; whoever holds all of
// them sees the store between two changes. That is how a version ends at one place of the log, and how a rollback begins at one moment.
//
// A lock is one word in a cache line of its own: who holds it, and how often it was given back. Who only reads takes none: he looks at
// the word before and behind, and reads again if it has changed. So readers write nothing that others have to fetch.
using System.Runtime.CompilerServices;

namespace Slogger.Faster;

internal sealed class StripeLocks
{
    private const int WordsPerLine = 8;
    private const long OwnerMask = (1L << 24) - 1, Once = OwnerMask + 1;
    private readonly long[] _words;
    private readonly int _mask;

    public StripeLocks(int count)
    {
        _words = new long[(count + 1) * WordsPerLine];
        _mask = count - 1;
    }

    /// <summary>How many there are.</summary>
    public int Count => _mask + 1;

    private static long Me => Environment.CurrentManagedThreadId & OwnerMask;

    /// <summary>Which lock a key has, by FASTER's hash of it: no bucket's keys have two.</summary>
    public int Of(long hash) => (int)hash & _mask;

    /// <summary>Takes a lock. A thread may take one again that it holds.</summary>
    /// <returns>What to give back.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public int Enter(int stripe)
    {
        ref long word = ref Word(stripe);
        long free = Volatile.Read(ref word) & ~OwnerMask;
        return Interlocked.CompareExchange(ref word, free | Me, free) == free ? stripe : EnterWhenFree(stripe);
    }

    /// <summary>Gives a lock back.</summary>
    /// <param name="entered">What <see cref="Enter"/> said.</param>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public void Exit(int entered)
    {
        // It was held before.
        if (entered < 0) return;
        ref long word = ref Word(entered);
        Volatile.Write(ref word, (word & ~OwnerMask) + Once);
    }

    /// <summary>Takes several in the order of their numbers, so that nobody waits for one who waits for him.</summary>
    /// <param name="stripes">Their numbers; then what to give back.</param>
    public void EnterAll(Span<int> stripes)
    {
        stripes.Sort();
        foreach (ref int stripe in stripes) stripe = Enter(stripe);
    }

    public void ExitAll(ReadOnlySpan<int> entered)
    {
        foreach (int stripe in entered) Exit(stripe);
    }

    /// <summary>Before a read without a lock: waits until nobody else holds it.</summary>
    /// <returns>What to ask <see cref="IsUnchanged"/> about when it has been read.</returns>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public long Look(int stripe)
    {
        long seen = Volatile.Read(ref Word(stripe));
        return (seen & OwnerMask) == 0 ? seen : LookWhenFree(stripe);
    }

    /// <summary>Whether nobody else has changed a record of the stripe since.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    public bool IsUnchanged(int stripe, long seen)
    {
        Volatile.ReadBarrier();
        return Word(stripe) == seen;
    }

    /// <summary>Does something while nobody changes a record. It must be short.</summary>
    public void Alone(Action action)
    {
        int taken = 0;
        try
        {
            for (; taken <= _mask; taken++)
            {
                if (Enter(taken) < 0) throw new InvalidOperationException("A thread that holds the lock of a key cannot end a version.");
            }

            action();
        }
        finally
        {
            while (taken > 0) Exit(--taken);
        }
    }

    private ref long Word(int stripe) =>
        ref Unsafe.Add(ref System.Runtime.InteropServices.MemoryMarshal.GetArrayDataReference(_words), (stripe + 1) * WordsPerLine);

    private int EnterWhenFree(int stripe)
    {
        ref long word = ref Word(stripe);
        long me = Me;
        if ((Volatile.Read(ref word) & OwnerMask) == me) return ~stripe;
        var wait = default(SpinWait);
        while (true)
        {
            long free = Volatile.Read(ref word) & ~OwnerMask;
            if (Interlocked.CompareExchange(ref word, free | me, free) == free) return stripe;
            wait.SpinOnce();
        }
    }

    private long LookWhenFree(int stripe)
    {
        ref long word = ref Word(stripe);
        long me = Me;
        var wait = default(SpinWait);
        while (true)
        {
            long seen = Volatile.Read(ref word);
            if ((seen & OwnerMask) is 0 || (seen & OwnerMask) == me) return seen;
            wait.SpinOnce();
        }
    }
}
