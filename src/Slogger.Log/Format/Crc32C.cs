// CRC-32C (Castagnoli), by the processor's instruction where there is one: some 8 GB/s.
using System.Numerics;
using System.Runtime.InteropServices;

namespace Slogger.Log.Format;

/// <summary>The checksum of everything this project writes to disk.</summary>
public static class Crc32C
{
    /// <summary>The checksum of <paramref name="bytes"/>; pass the checksum of what precedes them to continue it.</summary>
    public static uint Compute(ReadOnlySpan<byte> bytes, uint previous = 0)
    {
        uint crc = ~previous;
        ReadOnlySpan<ulong> words = MemoryMarshal.Cast<byte, ulong>(bytes);
        foreach (ulong word in words)
        {
            crc = BitOperations.Crc32C(crc, BitConverter.IsLittleEndian
                ? word : System.Buffers.Binary.BinaryPrimitives.ReverseEndianness(word));
        }
        foreach (byte b in bytes[(words.Length * sizeof(ulong))..])
        {
            crc = BitOperations.Crc32C(crc, b);
        }
        return ~crc;
    }
}
