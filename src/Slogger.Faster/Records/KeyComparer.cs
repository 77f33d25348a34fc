// Which keys are equal, and how they are spread over the index. FASTER has them hashed for each operation, so it is cheap: a word at a
// time, multiplied and turned, and mixed at the end. The index is built anew at each start: nothing on disk depends on it.
using System.Numerics;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using FASTER.core;

namespace Slogger.Faster.Records;

internal sealed class KeyComparer : IFasterEqualityComparer<SpanByte>
{
    private const ulong Odd1 = 0x9E3779B97F4A7C15, Odd2 = 0xD6E8FEB86659FD93;

    public static long Hash(ReadOnlySpan<byte> key)
    {
        ref byte at = ref MemoryMarshal.GetReference(key);
        ulong hash = (ulong)key.Length * Odd2;
        int i = 0;
        for (; i + sizeof(ulong) <= key.Length; i += sizeof(ulong))
            hash = Mix(hash, Unsafe.ReadUnaligned<ulong>(ref Unsafe.Add(ref at, i)));
        ulong rest = 0;
        for (int shift = 0; i < key.Length; i++, shift += 8) rest |= (ulong)Unsafe.Add(ref at, i) << shift;
        hash = Mix(hash, rest);
        hash ^= hash >> 32;
        hash *= Odd2;
        return (long)(hash ^ (hash >> 29));
    }

    public long GetHashCode64(ref SpanByte key) => Hash(key.AsReadOnlySpan());

    public bool Equals(ref SpanByte one, ref SpanByte other) => one.AsReadOnlySpan().SequenceEqual(other.AsReadOnlySpan());

    private static ulong Mix(ulong hash, ulong word) => BitOperations.RotateLeft((hash ^ word) * Odd1, 29) * Odd2;
}
