// One segment of the log as the process knows it: its header, its file or files, how far it is durable, and a sparse index of its blocks.
// The index of an old segment is built when it is first searched. Written by the thread that holds the log's I/O lock, read by
// any.
using System.Globalization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Segments;

/// <summary>A block at which a search may begin, and the last boundary before it.</summary>
/// <param name="FilePosition">Where it is in the segment.</param>
/// <param name="StreamOffset">Its first byte's offset.</param>
/// <param name="LastBefore">The last boundary before it.</param>
/// <param name="Number">Its number in the segment.</param>
/// <param name="Places">Where each of the segment's files has its next block there; null: there is one file.</param>
internal readonly record struct IndexPoint(
    long FilePosition, long StreamOffset, Boundary? LastBefore, long Number, long[]? Places);

internal sealed class Segment
{
    private const int IndexStrideBytes = 128 << 10;

    private readonly Lock _indexLock = new();
    private readonly List<IndexPoint> _index = [];
    private readonly IFileLayer _files;
    private bool _isIndexed;
    private long _durableEnd;
    private volatile IReadOnlyList<long> _partEnds = [];

    public Segment(IFileLayer files, IReadOnlyList<string> paths, SegmentHeader header, int headerBlockBytes, bool isIndexed)
    {
        _files = files;
        Paths = paths;
        Header = header;
        FirstBlock = headerBlockBytes;
        _durableEnd = headerBlockBytes;
        _isIndexed = isIndexed;
        long[]? places = IsOneFile ? null : [headerBlockBytes, .. new long[paths.Count - 1]];
        _index.Add(new IndexPoint(headerBlockBytes, header.StartOffset, header.LastBoundary, 1, places));
    }

    /// <summary>Its files: first that with the header.</summary>
    public IReadOnlyList<string> Paths { get; }

    public string Path => Paths[0];

    public bool IsOneFile => Paths.Count == 1;

    /// <summary>Where its blocks begin.</summary>
    public IndexPoint Start => _index[0];

    public SegmentHeader Header { get; }

    /// <summary>Position of the first data block.</summary>
    public long FirstBlock { get; }

    /// <summary>Space its files take, in bytes.</summary>
    public long FileBytes { get; set; }

    /// <summary>Position below which everything is durable and may be read.</summary>
    public long DurableEnd
    {
        get => Volatile.Read(ref _durableEnd);
        set => Volatile.Write(ref _durableEnd, value);
    }

    /// <summary>Of several files: up to where each may be read, at least as far as <see cref="DurableEnd"/> says. Set before that
    /// is.</summary>
    public IReadOnlyList<long> PartEnds
    {
        get => _partEnds;
        set => _partEnds = value;
    }

    public BlockReader OpenReader()
    {
        var reader = new BlockReader(SegmentFile.Open(_files, Paths, writable: false), Header.Salt, () => PartEnds);
        reader.Seek(Start);
        return reader;
    }

    /// <summary>Where each file ends, with nothing behind <see cref="DurableEnd"/>.</summary>
    /// <exception cref="LogCorruptException">A block does not verify.</exception>
    public IReadOnlyList<long> ExactEnds()
    {
        long end = DurableEnd;
        if (IsOneFile) { return [end]; }
        if (PartEnds.Sum() == end) { return PartEnds; }
        using BlockReader reader = OpenReader();
        SegmentScan.OfSealed(this, reader);
        return reader.EndsAt(end);
    }

    /// <summary>What to throw for a block that is not what it was.</summary>
    /// <param name="position">Where it is in the segment.</param>
    /// <param name="problem">What is wrong.</param>
    /// <param name="reader">What has read there last; null: nothing was read.</param>
    public LogCorruptException Corrupt(long position, string problem, BlockReader? reader = null) =>
        IsOneFile ? new(Path, position, problem)
        : reader?.Found is { } found ? new(Paths[found.Part], found.Position, problem)
        : new(Paths, position, problem);

    /// <summary>Tells the index of a block; called in the segment's order.</summary>
    public void Observe(long filePosition, long streamOffset, Boundary? lastBefore, long number, ReadOnlySpan<long> places)
    {
        lock (_indexLock)
        {
            if (filePosition - _index[^1].FilePosition >= IndexStrideBytes)
            {
                long[]? kept = places.IsEmpty ? null : places.ToArray();
                _index.Add(new IndexPoint(filePosition, streamOffset, lastBefore, number, kept));
            }
        }
    }

    public void MarkIndexed()
    {
        lock (_indexLock)
        {
            _isIndexed = true;
        }
    }

    /// <summary>The last point at or below a position.</summary>
    public IndexPoint FindPosition(long position) => Find(p => p.FilePosition <= position);

    /// <summary>The last point at or below a stream offset.</summary>
    public IndexPoint FindOffset(long offset) => Find(p => p.StreamOffset <= offset);

    /// <summary>The last point all versions before which are at or below a version.</summary>
    public IndexPoint FindVersion(VersionNumber version) => Find(p => p.LastBefore is not { } last || last.Version <= version);

    private IndexPoint Find(Func<IndexPoint, bool> isBefore)
    {
        EnsureIndexed();
        long durableEnd = DurableEnd;
        lock (_indexLock)
        {
            int low = 0;
            int high = _index.Count - 1;
            while (low < high)
            {
                int middle = (low + high + 1) / 2;
                if (_index[middle].FilePosition <= durableEnd && isBefore(_index[middle]))
                {
                    low = middle;
                }
                else
                {
                    high = middle - 1;
                }
            }
            return _index[low];
        }
    }

    private void EnsureIndexed()
    {
        lock (_indexLock)
        {
            if (_isIndexed)
            {
                return;
            }
            using BlockReader reader = OpenReader();
            SegmentScan.OfSealed(this, reader);
            _isIndexed = true;
        }
    }
}

/// <summary>Names of segment files: fencing epoch and sequence, so that a directory listing tells who wrote what.</summary>
internal static class SegmentName
{
    /// <summary>Of the index that somebody may keep beside a segment.</summary>
    public const string IndexExtension = ".kix";

    /// <summary>Of all files of segments.</summary>
    public const string Extension = ".slog";

    private const int PartDigits = 8;

    /// <summary>Where the index of a segment is.</summary>
    public static string IndexOf(string segmentPath) => Path.ChangeExtension(segmentPath, IndexExtension);

    public static string Format(long epoch, long sequence) =>
        string.Create(CultureInfo.InvariantCulture, $"{epoch:D10}-{sequence:D12}{Extension}");

    /// <summary>The name of a segment's file in a further directory.</summary>
    public static string FormatPart(long epoch, long sequence, uint directory) =>
        string.Create(CultureInfo.InvariantCulture, $"{epoch:D10}-{sequence:D12}-{directory:x8}{Extension}");

    /// <summary>Reads such a name.</summary>
    public static bool TryParsePart(string name, out long sequence)
    {
        int digits = name.LastIndexOf('-') + 1;
        sequence = 0;
        return digits > 0 && name.Length == digits + PartDigits + Extension.Length
            && uint.TryParse(name.AsSpan(digits, PartDigits), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out _)
            && TryParse(name.Remove(digits - 1, 1 + PartDigits), out _, out sequence);
    }

    public static bool TryParse(string name, out long epoch, out long sequence)
    {
        epoch = sequence = 0;
        if (!name.EndsWith(Extension, StringComparison.Ordinal))
        {
            return false;
        }
        string[] parts = name[..^Extension.Length].Split('-');
        return parts.Length == 2
            && long.TryParse(parts[0], NumberStyles.None, CultureInfo.InvariantCulture, out epoch)
            && long.TryParse(parts[1], NumberStyles.None, CultureInfo.InvariantCulture, out sequence);
    }
}
