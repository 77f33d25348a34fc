// THE FORMAT OF A BLOCK, the unit that is written and verified. All numbers are little-endian. docs/reference/log-format.md tells the
// whole story; this file is the authority.
//
//   A block starts at a multiple of 512 bytes in its file and is a multiple of 512 bytes long, so that no two blocks share a
//   sector, and a disk can take it directly:
//     header   64 bytes
//     data     dataBytes          raw bytes of the replication stream (kind 2), or the segment's header (kind 1), or that of a
//                                 reduced file (kind 3, see Reduced/ReducedStretch)
//     zeros    to a multiple of 8
//     entries  entryCount * 32    versions closed (kind 2 only), see LogEntry
//     fill     bytes of 0xA5
//     trailer  8 bytes, constant: never zero, so that a write that was cut short shows
//
//   Header:
//      0 u32 magic "SLB1"         24 i64 syncedUpTo: position in the segment known to be durable when this block was made
//      4 u8  kind: 1, 2, 3        32 u32 dataBytes         44 u32 payload checksum: CRC-32C of [64, end of block)
//      5 u8[3] zero               36 u32 entryCount        48 u64 number of the block in its segment, from 0
//      8 i64 offset in the stream 40 u32 zeroSectors       56 u32 zero
//     16 i64 position in the file                          60 u32 header checksum: CRC-32C of [0, 60), begun with the salt
//
//   The salt is a random number of the segment (0 for its header block), so that bytes of another file, or of a value stored in
//   Redis, never pass for a block. zeroSectors counts the 512-byte sectors of the file (parts of them, at the ends) in
//   [64, end of block) that are all zero by rights.
//
// WHY IT CAN TELL A TORN WRITE FROM CORRUPTION. Files are zero before use and never written twice. A header lies within
// one sector, so after a crash it is there, or zero. A payload that is torn has a sector that is still zero and should not
// be: it has more zero sectors than its header says (or a zero trailer, if the process was killed in the middle of a write). A block
// that fails its checksum in any other way was written completely and changed later: corrupt. Besides, whatever lies
// below a later block's syncedUpTo, or below the end that the next segment's header states, was durable: if it
// does not verify, it is corrupt too.
using System.Buffers.Binary;
using System.Runtime.InteropServices;

namespace Slogger.Log.Format;

internal enum BlockKind : byte
{
    SegmentHeader = 1,
    Data = 2,
    ReducedHeader = 3,
}

/// <summary>The decoded header of a block.</summary>
internal readonly record struct BlockHeader(
    BlockKind Kind, long StreamOffset, long FilePosition, long SyncedUpTo, int DataBytes, int EntryCount, int ZeroSectors,
    uint PayloadChecksum, long Number)
{
    public int TotalBytes => BlockFormat.TotalBytes(DataBytes, EntryCount);
}

internal static class BlockFormat
{
    public const int HeaderBytes = 64;
    public const int SectorBytes = 512;
    public const int Alignment = SectorBytes;
    public const int TrailerBytes = 8;
    public const int DataBytesMax = 8 << 20;
    public const int EntryCountMax = 1 << 16;

    private const uint Magic = 0x31424C53;
    private const ulong Trailer = 0xE1C5_7D93_A5B6_D8F1;
    private const byte Fill = 0xA5;

    public static int EntriesStart(int dataBytes) => HeaderBytes + ((dataBytes + 7) & ~7);

    public static int TotalBytes(int dataBytes, int entryCount) =>
        (EntriesStart(dataBytes) + (entryCount * LogEntry.Bytes) + TrailerBytes + Alignment - 1) & ~(Alignment - 1);

    /// <summary>Completes a block whose data and entries are in place: fill, trailer and header. Returns its length.</summary>
    public static int Seal(
        Span<byte> buffer, BlockKind kind, uint salt, long streamOffset, long filePosition, long syncedUpTo, int dataBytes,
        int entryCount, long number)
    {
        int total = TotalBytes(dataBytes, entryCount);
        Span<byte> block = buffer[..total];
        block[(HeaderBytes + dataBytes)..EntriesStart(dataBytes)].Clear();
        block[(EntriesStart(dataBytes) + (entryCount * LogEntry.Bytes))..(total - TrailerBytes)].Fill(Fill);
        BinaryPrimitives.WriteUInt64LittleEndian(block[(total - TrailerBytes)..], Trailer);

        Span<byte> header = block[..HeaderBytes];
        header.Clear();
        BinaryPrimitives.WriteUInt32LittleEndian(header, Magic);
        header[4] = (byte)kind;
        BinaryPrimitives.WriteInt64LittleEndian(header[8..], streamOffset);
        BinaryPrimitives.WriteInt64LittleEndian(header[16..], filePosition);
        BinaryPrimitives.WriteInt64LittleEndian(header[24..], syncedUpTo);
        BinaryPrimitives.WriteInt32LittleEndian(header[32..], dataBytes);
        BinaryPrimitives.WriteInt32LittleEndian(header[36..], entryCount);
        BinaryPrimitives.WriteInt32LittleEndian(header[40..], CountZeroSectors(block, filePosition));
        BinaryPrimitives.WriteUInt32LittleEndian(header[44..], Crc32C.Compute(block[HeaderBytes..]));
        BinaryPrimitives.WriteInt64LittleEndian(header[48..], number);
        BinaryPrimitives.WriteUInt32LittleEndian(header[60..], Crc32C.Compute(header[..60], salt));
        return total;
    }

    /// <summary>Decodes a header that was written at <paramref name="filePosition"/>; false if it is none.</summary>
    public static bool TryDecodeHeader(ReadOnlySpan<byte> bytes, uint salt, long filePosition, out BlockHeader header)
    {
        header = default;
        if (BinaryPrimitives.ReadUInt32LittleEndian(bytes) != Magic
            || BinaryPrimitives.ReadUInt32LittleEndian(bytes[60..]) != Crc32C.Compute(bytes[..60], salt)
            || BinaryPrimitives.ReadInt64LittleEndian(bytes[16..]) != filePosition)
        {
            return false;
        }
        header = new BlockHeader(
            (BlockKind)bytes[4],
            BinaryPrimitives.ReadInt64LittleEndian(bytes[8..]),
            filePosition,
            BinaryPrimitives.ReadInt64LittleEndian(bytes[24..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[32..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[36..]),
            BinaryPrimitives.ReadInt32LittleEndian(bytes[40..]),
            BinaryPrimitives.ReadUInt32LittleEndian(bytes[44..]),
            BinaryPrimitives.ReadInt64LittleEndian(bytes[48..]));
        return header.DataBytes is >= 0 and <= DataBytesMax && header.EntryCount is >= 0 and <= EntryCountMax;
    }

    public static bool IsPayloadIntact(ReadOnlySpan<byte> block, in BlockHeader header) =>
        Crc32C.Compute(block[HeaderBytes..]) == header.PayloadChecksum;

    /// <summary>Whether a block that fails its checksum looks like a write that was never completed.</summary>
    public static bool IsTorn(ReadOnlySpan<byte> block, in BlockHeader header) =>
        CountZeroSectors(block, header.FilePosition) > header.ZeroSectors
        || BinaryPrimitives.ReadUInt64LittleEndian(block[^TrailerBytes..]) == 0;

    public static bool IsZero(ReadOnlySpan<byte> bytes) => !bytes.ContainsAnyExcept((byte)0);

    private static int CountZeroSectors(ReadOnlySpan<byte> block, long filePosition)
    {
        int count = 0;
        int at = HeaderBytes;
        while (at < block.Length)
        {
            int end = (int)Math.Min(block.Length, at + SectorBytes - ((filePosition + at) % SectorBytes));
            if (IsZero(block[at..end]))
            {
                count++;
            }
            at = end;
        }
        return count;
    }

    /// <summary>Reads entry <paramref name="index"/> of a verified block.</summary>
    public static LogEntry Entry(ReadOnlySpan<byte> block, int dataBytes, int index) =>
        MemoryMarshal.Read<LogEntry>(block[(EntriesStart(dataBytes) + (index * LogEntry.Bytes))..]);
}
