// Orders the entries of an index, which came in the order of their places, by hash. By digits, so that the places of one hash stay in
// order, at some nanoseconds an entry.
namespace Slogger.Redis.Rollback;

/// <summary>Sorts entries by hash.</summary>
internal static class HashOrder
{
    private const int DigitBits = 8, Digits = 1 << DigitBits, HashBits = 32;

    /// <summary>Sorts; what has the same hash stays in order.</summary>
    /// <param name="hashes">The hashes.</param>
    /// <param name="places">What goes with each of them; as many.</param>
    /// <param name="otherHashes">Room for as many.</param>
    /// <param name="otherPlaces">The same.</param>
    public static void Sort(Span<uint> hashes, Span<uint> places, Span<uint> otherHashes, Span<uint> otherPlaces)
    {
        Span<int> next = stackalloc int[Digits];
        for (int shift = 0; shift < HashBits; shift += DigitBits)
        {
            next.Clear();
            foreach (uint hash in hashes) { next[(int)(hash >> shift) & (Digits - 1)]++; }
            int at = 0;
            foreach (ref int digit in next) { (digit, at) = (at, at + digit); }
            for (int i = 0; i < hashes.Length; i++)
            {
                int to = next[(int)(hashes[i] >> shift) & (Digits - 1)]++;
                (otherHashes[to], otherPlaces[to]) = (hashes[i], places[i]);
            }
            // After an even number of turns all is where it was.
            Span<uint> swapped = hashes;
            hashes = otherHashes;
            otherHashes = swapped;
            swapped = places;
            places = otherPlaces;
            otherPlaces = swapped;
        }
    }

    /// <summary>The first entry at or above a hash.</summary>
    public static int LowerBound(ReadOnlySpan<uint> hashes, uint hash)
    {
        int low = 0, high = hashes.Length;
        while (low < high)
        {
            int middle = (int)((uint)(low + high) / 2);
            if (hashes[middle] < hash) { low = middle + 1; } else { high = middle; }
        }
        return low;
    }
}
