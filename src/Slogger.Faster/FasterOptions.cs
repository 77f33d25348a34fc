// What a FASTER store is made with.
using Slogger.Log.Files;

namespace Slogger.Faster;

/// <summary>Options of a <see cref="FasterStore"/>.</summary>
public sealed record FasterOptions
{
    /// <summary>Where the log and the commits are. One store at a time.</summary>
    public required string Directory { get; init; }

    /// <summary>Memory for records, in bytes: rounded down to a power of two. The whole log is kept there: some 60 % of it can be records
    /// in use, the rest is for those that are written anew. On disk the log takes about as much, and never more than twice as much.
    /// Default: 1 GiB.</summary>
    public long MemoryBytes { get; init; } = 1L << 30;

    /// <summary>Memory for the hash index, in bytes: rounded down to a power of two, at least 64 KiB. A bucket of 64 bytes takes some eight
    /// keys. Default: 64 MiB.</summary>
    public long IndexBytes { get; init; } = 64L << 20;

    /// <summary>A page of the log, as a power of two: no record is larger. Default: 25 (32 MiB), enough for values of 16 MB.</summary>
    public int PageBits { get; init; } = 25;

    /// <summary>A file of the log, as a power of two: disk space is given back by whole files. Default: 26 (64 MiB).</summary>
    public int SegmentBits { get; init; } = 26;

    /// <summary>How many locks all keys share: a power of two, at most as many as the index has buckets. All are taken for a moment at
    /// each commit. Default: 1024.</summary>
    public int Stripes { get; init; } = 1024;

    /// <summary>Whether the process is there for the store alone. Then the kernel is told to use huge pages for memory that the runtime has
    /// not given to it yet: writers wait less while the log grows for the first time. Default: false.</summary>
    public bool OwnsProcess { get; init; }

    /// <summary>The disk, for tests.</summary>
    internal IFileLayer Files { get; init; } = SystemFileLayer.Instance;

    /// <summary>What makes no sense.</summary>
    /// <exception cref="ArgumentException">Names the option.</exception>
    internal void Validate()
    {
        if (Directory.Length == 0) throw new ArgumentException("A FASTER store needs a directory.", nameof(Directory));
        if (PageBits is < 12 or > 30)
            throw new ArgumentException($"A page has between 2^12 and 2^30 bytes, not 2^{PageBits}.", nameof(PageBits));
        if (SegmentBits < PageBits)
            throw new ArgumentException($"A file of the log (2^{SegmentBits} bytes) holds at least a page (2^{PageBits}).",
                nameof(SegmentBits));
        if (MemoryBytes < 4L << PageBits)
            throw new ArgumentException($"The memory for records ({MemoryBytes} bytes) holds at least four pages of "
                + $"{1L << PageBits}.", nameof(MemoryBytes));
        if (IndexBytes < 64 << 10)
            throw new ArgumentException($"The index needs at least 64 KiB, not {IndexBytes} bytes.", nameof(IndexBytes));
        if (!int.IsPow2(Stripes) || Stripes > IndexBytes / 64)
            throw new ArgumentException($"The number of locks is a power of two, at most one for each bucket of the index, not "
                + $"{Stripes}.", nameof(Stripes));
    }
}
