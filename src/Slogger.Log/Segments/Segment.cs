// One file of the log as the process knows it: its header, how far it is durable, and a sparse index of its blocks. The
// index of an old segment is built when it is first searched. Written by the thread that holds the log's I/O lock, read by
// any.
using System.Globalization;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log.Files;
using Slogger.Log.Format;

namespace Slogger.Log.Segments;

/// <summary>A block at which a search may begin, and the last boundary before it.</summary>
internal readonly record struct IndexPoint(long FilePosition, long StreamOffset, Boundary? LastBefore);

internal sealed class Segment
{
    private const int IndexStrideBytes = 512 << 10;

    private readonly Lock _indexLock = new();
    private readonly List<IndexPoint> _index = [];
    private readonly IFileLayer _files;
    private bool _isIndexed;
    private long _durableEnd;

    public Segment(IFileLayer files, string path, SegmentHeader header, int headerBlockBytes, bool isIndexed)
    {
        _files = files;
        Path = path;
        Header = header;
        FirstBlock = headerBlockBytes;
        _durableEnd = headerBlockBytes;
        _isIndexed = isIndexed;
        _index.Add(new IndexPoint(headerBlockBytes, header.StartOffset, header.LastBoundary));
    }

    public string Path { get; }

    public SegmentHeader Header { get; }

    /// <summary>Position of the first data block.</summary>
    public long FirstBlock { get; }

    /// <summary>Space the file takes, in bytes.</summary>
    public long FileBytes { get; set; }

    /// <summary>File position below which everything is durable and may be read.</summary>
    public long DurableEnd
    {
        get => Volatile.Read(ref _durableEnd);
        set => Volatile.Write(ref _durableEnd, value);
    }

    public BlockReader OpenReader() => new(_files.Open(Path, writable: false), Header.Salt);

    /// <summary>Tells the index of a block; called in file order.</summary>
    public void Observe(long filePosition, long streamOffset, Boundary? lastBefore)
    {
        lock (_indexLock)
        {
            if (filePosition - _index[^1].FilePosition >= IndexStrideBytes)
            {
                _index.Add(new IndexPoint(filePosition, streamOffset, lastBefore));
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

    private const string Extension = ".slog";

    /// <summary>Where the index of a segment is.</summary>
    public static string IndexOf(string segmentPath) => Path.ChangeExtension(segmentPath, IndexExtension);

    public static string Format(long epoch, long sequence) =>
        string.Create(CultureInfo.InvariantCulture, $"{epoch:D10}-{sequence:D12}{Extension}");

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
