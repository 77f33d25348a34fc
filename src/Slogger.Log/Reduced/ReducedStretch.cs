// THE HEADER OF A REDUCED FILE: the data of its first block (kind 3 of BlockFormat). A reduced file stands for the log between two
// checkpoints: of its commands it has as few as leave a store the same, window by window. Its bytes have no offsets in the stream.
//
//   u32 format (1)   u32 salt
//   i64 first offset   i64 last offset   i32 first database
//   i64 version at the end of the first window   i64 last version with the state of the last one
//   u32 1: bytes are missing in the stream behind it
//   i64 commands before   i64 commands after
//   i64 bytes of all windows   i64 windows   i64 blocks
//   u32 length, then the name of the checkpoint that it leads up to, in ASCII
//   u32 count, then lines: i64 world-line, i64 version of its first window
//   fill: zeros, up to a length that is always the same
//
// Windows follow it, in blocks of kind 2. A window begins with a block. Its last block has two entries: of kind 4, the boundary that it
// ends at, as it was; of kind 2, the last of the empty versions that follow it, or the same version. The header is written last, and the
// file has its name when all of it is durable: so a file that has its name is whole.
using System.Buffers.Binary;
using System.Text;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Reduced;

/// <summary>What a reduced file stands for.</summary>
public sealed record ReducedStretch
{
    /// <summary>Most lines that a stretch goes through.</summary>
    public const int LinesMax = 256;

    /// <summary>Where it begins in the stream.</summary>
    public required long FirstOffset { get; init; }

    /// <summary>Where its last window ends in the stream.</summary>
    public required long LastOffset { get; init; }

    /// <summary>The database selected where it begins.</summary>
    public required int FirstDatabase { get; init; }

    /// <summary>The version that its first window ends with.</summary>
    public required VersionNumber First { get; init; }

    /// <summary>The last version that has the state behind its last window.</summary>
    public required VersionNumber Last { get; init; }

    /// <summary>Whether bytes are missing in the stream behind it: of versions that follow nothing is known.</summary>
    public required bool EndsAtGap { get; init; }

    /// <summary>Commands of the log that change data.</summary>
    public required long CommandsBefore { get; init; }

    /// <summary>How many are left.</summary>
    public required long CommandsAfter { get; init; }

    /// <summary>The file of the checkpoint that it leads up to: no version ends between its last window and that.</summary>
    public required string Next { get; init; }

    /// <summary>The world-lines of its windows, in order, each with the version of its first one; at most <see cref="LinesMax"/>.</summary>
    public required IReadOnlyList<WorldPoint> Lines { get; init; }

    /// <summary>Reads it from the beginning of a file. The rest is verified by who opens the file.</summary>
    /// <param name="file">The file.</param>
    /// <param name="path">Its name.</param>
    /// <exception cref="LogCorruptException">It is not what was written.</exception>
    /// <exception cref="IOException">It cannot be read.</exception>
    internal static ReducedStretch Read(ILogFile file, string path)
    {
        byte[] block = new byte[BlockFormat.TotalBytes(ReducedHeader.Bytes, 0)];
        bool isWhole = file.Read(block, 0) == block.Length && BlockFormat.TryDecodeHeader(block, 0, 0, out BlockHeader header)
            && header is { Kind: BlockKind.ReducedHeader, DataBytes: ReducedHeader.Bytes } && BlockFormat.IsPayloadIntact(block, header);
        return isWhole ? ReducedHeader.Decode(block.AsSpan(BlockFormat.HeaderBytes, ReducedHeader.Bytes), path).Stretch
            : throw new LogCorruptException(path, 0, "its header is damaged or missing");
    }

    /// <summary>The world-line of a window.</summary>
    internal WorldLine LineOf(VersionNumber version) => Lines.Last(l => l.Version <= version).WorldLine;
}

/// <summary>The header with what the file itself knows.</summary>
internal readonly record struct ReducedHeader(ReducedStretch Stretch, uint Salt, long DataBytes, long Windows, long Blocks)
{
    /// <summary>Bytes of its data.</summary>
    public const int Bytes = 8000;

    /// <summary>Longest name of a checkpoint's file.</summary>
    public const int NameBytesMax = 255;

    private const uint FormatVersion = 1;

    public void Encode(Span<byte> destination)
    {
        destination[..Bytes].Clear();
        Span<byte> rest = destination;
        Put(ref rest, FormatVersion);
        Put(ref rest, Salt);
        Put(ref rest, Stretch.FirstOffset);
        Put(ref rest, Stretch.LastOffset);
        Put(ref rest, (uint)Stretch.FirstDatabase);
        Put(ref rest, Stretch.First.Number);
        Put(ref rest, Stretch.Last.Number);
        Put(ref rest, Stretch.EndsAtGap ? 1u : 0);
        Put(ref rest, Stretch.CommandsBefore);
        Put(ref rest, Stretch.CommandsAfter);
        Put(ref rest, DataBytes);
        Put(ref rest, Windows);
        Put(ref rest, Blocks);
        Put(ref rest, (uint)Stretch.Next.Length);
        rest = rest[Encoding.ASCII.GetBytes(Stretch.Next, rest)..];
        Put(ref rest, (uint)Stretch.Lines.Count);
        foreach (WorldPoint line in Stretch.Lines)
        {
            Put(ref rest, line.WorldLine.Number);
            Put(ref rest, line.Version.Number);
        }
    }

    public static ReducedHeader Decode(ReadOnlySpan<byte> source, string file)
    {
        uint format = TakeU32(ref source);
        if (format != FormatVersion)
        {
            throw new LogCorruptException(file, BlockFormat.HeaderBytes,
                $"format {format} is not the format {FormatVersion} that this program reads; use the program that wrote it");
        }
        uint salt = TakeU32(ref source);
        var stretch = new ReducedStretch
        {
            FirstOffset = TakeI64(ref source), LastOffset = TakeI64(ref source), FirstDatabase = (int)TakeU32(ref source),
            First = new VersionNumber(TakeI64(ref source)), Last = new VersionNumber(TakeI64(ref source)),
            EndsAtGap = TakeU32(ref source) != 0,
            CommandsBefore = TakeI64(ref source), CommandsAfter = TakeI64(ref source), Next = "", Lines = [],
        };
        long bytes = TakeI64(ref source), windows = TakeI64(ref source), blocks = TakeI64(ref source);
        uint length = TakeU32(ref source);
        if (length > NameBytesMax) { throw new LogCorruptException(file, BlockFormat.HeaderBytes, "its header makes no sense"); }
        string next = Encoding.ASCII.GetString(source[..(int)length]);
        source = source[(int)length..];
        uint count = TakeU32(ref source);
        if (count is 0 or > ReducedStretch.LinesMax)
        {
            throw new LogCorruptException(file, BlockFormat.HeaderBytes, "its header makes no sense");
        }
        var lines = new WorldPoint[count];
        for (int i = 0; i < count; i++) { lines[i] = new(new WorldLine(TakeI64(ref source)), new VersionNumber(TakeI64(ref source))); }
        return new(stretch with { Next = next, Lines = lines }, salt, bytes, windows, blocks);
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
