// THE HEADER OF A REDUCED FILE: the data of its first block (kind 3 of BlockFormat). A reduced file stands for a run of whole segments: of
// their commands it has as few as leave a store the same, window by window. Its bytes have no offsets in the stream.
//
//   u32 format (1)   u32 salt   u32 rules   u32 checksum of the segments
//   i64 first sequence   i64 last sequence   i64 first offset   i64 last offset   i32 first database   i64 version closed before it
//   i64 commands before  i64 commands after
//   i64 bytes of all windows   i64 windows   i64 blocks
//   u32 length, then the header of the last segment
//   fill: zeros, up to a length that is always the same
//
// Windows follow it, in blocks of kind 2. A window begins with a block. Its last block has one entry, of kind 4: the boundary that it ends
// at, as it was. The header is written last, and the file has its name when all of it is durable: so a file that has its name is whole.
using System.Buffers.Binary;
using Slogger.Core.Versions;
using Slogger.Log.Format;

namespace Slogger.Log.Reduced;

/// <summary>What a reduced file stands for.</summary>
public sealed record ReducedStretch
{
    /// <summary>The first segment.</summary>
    public required long FirstSequence { get; init; }

    /// <summary>The last one.</summary>
    public required long LastSequence { get; init; }

    /// <summary>Where it begins in the stream.</summary>
    public required long FirstOffset { get; init; }

    /// <summary>Where its last window ends in the stream.</summary>
    public required long LastOffset { get; init; }

    /// <summary>The database selected where it begins.</summary>
    public required int FirstDatabase { get; init; }

    /// <summary>The last version closed before it.</summary>
    public required VersionNumber Before { get; init; }

    /// <summary>Commands of the segments that change data.</summary>
    public required long CommandsBefore { get; init; }

    /// <summary>How many are left.</summary>
    public required long CommandsAfter { get; init; }

    /// <summary>Which rules it was reduced by: for people, since what is left is plain commands.</summary>
    public required uint Rules { get; init; }

    /// <summary>A checksum of the segments' own, so that it can be told whether it stands for these.</summary>
    public required uint RawChecksum { get; init; }

    /// <summary>The last segment's header, as it was written.</summary>
    public ReadOnlyMemory<byte> LastHeader { get; init; }
}

/// <summary>The header with what the file itself knows.</summary>
internal readonly record struct ReducedHeader(ReducedStretch Stretch, uint Salt, long DataBytes, long Windows, long Blocks)
{
    /// <summary>Bytes of its data.</summary>
    public const int Bytes = 8000;

    private const uint FormatVersion = 1;
    private const int FieldBytes = (4 * sizeof(uint)) + (9 * sizeof(long)) + (2 * sizeof(int)) + sizeof(long);

    /// <summary>The longest header of a segment that has room.</summary>
    public const int LastHeaderBytesMax = Bytes - FieldBytes;

    public void Encode(Span<byte> destination)
    {
        destination[..Bytes].Clear();
        Span<byte> rest = destination;
        Put(ref rest, FormatVersion);
        Put(ref rest, Salt);
        Put(ref rest, Stretch.Rules);
        Put(ref rest, Stretch.RawChecksum);
        Put(ref rest, Stretch.FirstSequence);
        Put(ref rest, Stretch.LastSequence);
        Put(ref rest, Stretch.FirstOffset);
        Put(ref rest, Stretch.LastOffset);
        Put(ref rest, (uint)Stretch.FirstDatabase);
        Put(ref rest, Stretch.Before.Number);
        Put(ref rest, Stretch.CommandsBefore);
        Put(ref rest, Stretch.CommandsAfter);
        Put(ref rest, DataBytes);
        Put(ref rest, Windows);
        Put(ref rest, Blocks);
        Put(ref rest, (uint)Stretch.LastHeader.Length);
        Stretch.LastHeader.Span.CopyTo(rest);
    }

    /// <summary>Decodes a verified header.</summary>
    /// <exception cref="LogCorruptException">It is of a newer format, or makes no sense.</exception>
    public static ReducedHeader Decode(ReadOnlySpan<byte> source, string file)
    {
        uint format = TakeU32(ref source);
        if (format != FormatVersion)
        {
            throw new LogCorruptException(file, BlockFormat.HeaderBytes,
                $"format {format} is not the format {FormatVersion} that this program reads; use the program that wrote it");
        }
        uint salt = TakeU32(ref source), rules = TakeU32(ref source), checksum = TakeU32(ref source);
        var stretch = new ReducedStretch
        {
            Rules = rules, RawChecksum = checksum, FirstSequence = TakeI64(ref source), LastSequence = TakeI64(ref source),
            FirstOffset = TakeI64(ref source), LastOffset = TakeI64(ref source), FirstDatabase = (int)TakeU32(ref source),
            Before = new VersionNumber(TakeI64(ref source)), CommandsBefore = TakeI64(ref source), CommandsAfter = TakeI64(ref source),
        };
        long bytes = TakeI64(ref source), windows = TakeI64(ref source), blocks = TakeI64(ref source);
        uint length = TakeU32(ref source);
        if (length > source.Length) { throw new LogCorruptException(file, BlockFormat.HeaderBytes, "its header makes no sense"); }
        return new(stretch with { LastHeader = source[..(int)length].ToArray() }, salt, bytes, windows, blocks);
    }

    private static void Put(ref Span<byte> rest, uint value)
    {
        BinaryPrimitives.WriteUInt32LittleEndian(rest, value);
        rest = rest[sizeof(uint)..];
    }

    private static void Put(ref Span<byte> rest, long value)
    {
        BinaryPrimitives.WriteInt64LittleEndian(rest, value);
        rest = rest[sizeof(long)..];
    }

    private static uint TakeU32(ref ReadOnlySpan<byte> rest)
    {
        uint value = BinaryPrimitives.ReadUInt32LittleEndian(rest);
        rest = rest[sizeof(uint)..];
        return value;
    }

    private static long TakeI64(ref ReadOnlySpan<byte> rest)
    {
        long value = BinaryPrimitives.ReadInt64LittleEndian(rest);
        rest = rest[sizeof(long)..];
        return value;
    }
}
