// Into which windows the log between two checkpoints is reduced. They end where all shards have versions in common, if they can: at the last
// version before each multiple of a power of two, as strides nest. A version that has no bytes of its own ends no window, and is told with
// the one before.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Retention;

/// <summary>Cuts one stretch into windows: each end of a version is given to <see cref="Next"/>, in order. Not thread-safe.</summary>
public sealed class StretchWindows
{
    private readonly long _group, _bytesMax;
    private long _start;
    private bool _hasAny;

    /// <summary>Begins.</summary>
    /// <param name="start">Where the stretch begins in the log.</param>
    /// <param name="group">Of so many versions, in groups from one multiple to the next, one ends a window.</param>
    /// <param name="bytesMax">A window of more bytes ends with its next version.</param>
    public StretchWindows(long start, long group, long bytesMax) => (_start, _group, _bytesMax) = (start, group, bytesMax);

    /// <summary>Where the window under way ends, as far as is known.</summary>
    public Boundary End { get; private set; }

    /// <summary>The last version that has the state there; zero: no version has ended yet.</summary>
    public VersionNumber Through { get; private set; }

    /// <summary>A version ends.</summary>
    /// <param name="next">Where.</param>
    /// <param name="write">Is called if the window under way ends before it: <see cref="End"/> and <see cref="Through"/> are its.</param>
    public void Next(in Boundary next, Action write)
    {
        ArgumentNullException.ThrowIfNull(write);
        bool isFirst = !_hasAny;
        // In another world-line it is another version, though nothing was done.
        bool isEmpty = !isFirst && next.Offset <= End.Offset && next.WorldLine == End.WorldLine;
        bool isOther = (next.Version.Number - 1) / _group != (End.Version.Number - 1) / _group;
        if (!isEmpty && !isFirst && (isOther || next.Offset - _start > _bytesMax))
        {
            write();
            _start = End.Offset;
        }
        if (!isEmpty) { End = next; }
        (Through, _hasAny) = (next.Version, true);
    }

    /// <summary>Of so many versions one ends a window: a power of two, as strides are.</summary>
    /// <param name="stepUs">How far apart the ends may lie, in microseconds.</param>
    /// <param name="intervalUs">Microseconds of a version.</param>
    public static long GroupOf(long stepUs, long intervalUs) => 1L << (int)Math.Log2(Math.Max(1, stepUs / intervalUs));
}
