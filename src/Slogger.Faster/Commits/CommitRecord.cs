// What is known of a commit, besides what FASTER notes for itself: which stretch of the log its version is, and of which timeline.
using System.Buffers.Binary;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Format;

namespace Slogger.Faster.Commits;

/// <summary>A commit.</summary>
/// <param name="Token">Its name in FASTER.</param>
/// <param name="Number">Its version in FASTER, which counts commits.</param>
/// <param name="Point">The last version that it holds, and its world-line.</param>
/// <param name="From">The log address at which its first version begins.</param>
/// <param name="To">The address at which the next version begins.</param>
public sealed record CommitRecord(Guid Token, long Number, WorldPoint Point, long From, long To)
{
    private const uint Magic = 0x33434653, MagicBefore = 0x32434653;   // "SFC3", "SFC2"
    private const int Fields = 11, HeaderBytes = 4 + (Fields * 8) + 4;

    /// <summary>How many keys there are.</summary>
    public long Keys { get; init; }

    /// <summary>How many bytes of the log their records take.</summary>
    public long LiveBytes { get; init; }

    /// <summary>Where the log begins that the commit is recovered from.</summary>
    internal long Begin { get; init; }

    /// <summary>Up to where the log was covered by checksums before.</summary>
    internal long Since { get; init; }

    /// <summary>Of the log from there to the commit's end.</summary>
    internal uint Checksum { get; init; }

    /// <summary>How the log is laid out: a page, as a power of two.</summary>
    internal int PageBits { get; init; }

    /// <summary>A file of the log, as a power of two.</summary>
    internal int SegmentBits { get; init; }

    /// <summary>The file of a commit: its fields, what FASTER notes, and a checksum of both.</summary>
    internal byte[] Write(ReadOnlySpan<byte> noted)
    {
        byte[] file = new byte[HeaderBytes + noted.Length + 4];
        BinaryPrimitives.WriteUInt32LittleEndian(file, Magic);
        ReadOnlySpan<long> fields = [Point.WorldLine.Number, Point.Version.Number, Number, From, To, Keys, LiveBytes, Begin, Since,
            PageBits, SegmentBits];
        for (int i = 0; i < Fields; i++) BinaryPrimitives.WriteInt64LittleEndian(file.AsSpan(4 + (i * 8)), fields[i]);
        BinaryPrimitives.WriteUInt32LittleEndian(file.AsSpan(HeaderBytes - 4), Checksum);
        noted.CopyTo(file.AsSpan(HeaderBytes));
        BinaryPrimitives.WriteUInt32LittleEndian(file.AsSpan(file.Length - 4), Crc32C.Compute(file.AsSpan(0, file.Length - 4)));
        return file;
    }

    /// <summary>Reads the file of a commit; null if it is not whole.</summary>
    /// <exception cref="InvalidDataException">It is of an earlier format.</exception>
    internal static CommitRecord? Read(Guid token, ReadOnlySpan<byte> file, out byte[] noted)
    {
        noted = [];
        if (file.Length >= 4 && BinaryPrimitives.ReadUInt32LittleEndian(file) == MagicBefore)
            throw new InvalidDataException("The store was made by an earlier build of Slogger, which noted otherwise which keys are "
                + "removed: copy its data with that build, or begin with an empty directory.");
        if (file.Length < HeaderBytes + 4 || BinaryPrimitives.ReadUInt32LittleEndian(file) != Magic) return null;
        if (BinaryPrimitives.ReadUInt32LittleEndian(file[^4..]) != Crc32C.Compute(file[..^4])) return null;
        Span<long> fields = stackalloc long[Fields];
        for (int i = 0; i < Fields; i++) fields[i] = BinaryPrimitives.ReadInt64LittleEndian(file[(4 + (i * 8))..]);
        noted = file[HeaderBytes..^4].ToArray();
        return new(token, fields[2], new(new(fields[0]), new VersionNumber(fields[1])), fields[3], fields[4])
        {
            Keys = fields[5], LiveBytes = fields[6], Begin = fields[7], Since = fields[8], PageBits = (int)fields[9],
                SegmentBits = (int)fields[10],
            Checksum = BinaryPrimitives.ReadUInt32LittleEndian(file[(HeaderBytes - 4)..]),
        };
    }
}
