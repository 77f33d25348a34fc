// The checksum at the end of an RDB file: CRC-64 "Jones" (polynomial ad93d23594c935a9, reflected, start 0, no final xor),
// eight bytes per step.
namespace Slogger.Redis.Rdb;

/// <summary>Redis's CRC-64.</summary>
public static class Crc64
{
    // The polynomial with its bits in reverse order.
    private const ulong PolynomialReflected = 0x95AC9329AC4BC9B5;

    private static readonly ulong[][] Tables = BuildTables();

    /// <summary>Continues a checksum over more bytes; start with 0.</summary>
    public static ulong Append(ulong crc, ReadOnlySpan<byte> bytes)
    {
        ulong[] t0 = Tables[0], t1 = Tables[1], t2 = Tables[2], t3 = Tables[3], t4 = Tables[4], t5 = Tables[5], t6 = Tables[6], t7 =
            Tables[7];
        while (bytes.Length >= 8)
        {
            crc ^= System.Buffers.Binary.BinaryPrimitives.ReadUInt64LittleEndian(bytes);
            crc = t7[(byte)crc] ^ t6[(byte)(crc >> 8)] ^ t5[(byte)(crc >> 16)] ^ t4[(byte)(crc >> 24)]
                ^ t3[(byte)(crc >> 32)] ^ t2[(byte)(crc >> 40)] ^ t1[(byte)(crc >> 48)] ^ t0[(byte)(crc >> 56)];
            bytes = bytes[8..];
        }
        foreach (byte b in bytes)
            crc = t0[(byte)(crc ^ b)] ^ (crc >> 8);
        return crc;
    }

    private static ulong[][] BuildTables()
    {
        var tables = new ulong[8][];
        for (int k = 0; k < 8; k++)
            tables[k] = new ulong[256];
        for (uint n = 0; n < 256; n++)
        {
            ulong crc = n;
            for (int bit = 0; bit < 8; bit++)
                crc = (crc & 1) != 0 ? (crc >> 1) ^ PolynomialReflected : crc >> 1;
            tables[0][n] = crc;
        }
        for (uint n = 0; n < 256; n++)
        {
            for (int k = 1; k < 8; k++)
                tables[k][n] = tables[0][(byte)tables[k - 1][n]] ^ (tables[k - 1][n] >> 8);
        }
        return tables;
    }
}
