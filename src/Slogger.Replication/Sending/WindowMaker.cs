// Makes windows of a log that is shipped to a backup far behind: reads whole versions from the files, and reduces them. What is left is
// kept in memory until it has arrived.
using System.Buffers;
using Slogger.Core.Replication;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Format;
using Slogger.Redis.Connections;
using Slogger.Redis.Feeding;
using Slogger.Redis.Reduction;

namespace Slogger.Replication.Sending;

/// <summary>A window, with what is left of it.</summary>
/// <param name="Window">Which.</param>
/// <param name="Bytes">What is left.</param>
/// <param name="End">The version that it ends with.</param>
internal sealed record MadeWindow(ShipWindow Window, byte[] Bytes, Boundary End);

/// <summary>Makes one window after the other. One caller at a time.</summary>
/// <param name="log">The log.</param>
/// <param name="leftBytesMax">So many bytes may be left of a window; <see cref="ShipWindow.BytesMax"/> or less.</param>
/// <param name="failed">Is told, once, that one could not be made, for a reason that is not known here.</param>
internal sealed class WindowMaker(VersionLog log, long leftBytesMax, Action<Exception> failed)
{
    // Of less, next to nothing would be spared.
    private const int BytesMin = 64 << 10;

    // What is not worth the work at either end: seven eighths.
    private const int LeftMin = 7, LeftOf = 8;

    // What does not reduce is mostly followed by more of the kind: each time twice as much is passed by, up to so much.
    private const long PassedMax = 64 << 20;

    private EffectReducer _reducer = new();
    private readonly ArrayBufferWriter<byte> _output = new();
    private byte[] _bytes = [];
    private long _passed;
    private bool _hasFailed;

    // Skewed loads leave less than half.
    private int BytesMax => (int)Math.Min(2 * leftBytesMax, ShipWindow.LogBytesMax);

    /// <summary>Makes the next one.</summary>
    /// <param name="start">Where it begins.</param>
    /// <param name="below">The last version that it may end with.</param>
    /// <param name="stop">Gives it up: there is none.</param>
    /// <returns>The window; or null, and up to which offset the log has to be sent as it is.</returns>
    public (MadeWindow? Made, long Until) Make(LogIndex start, VersionNumber below, CancellationToken stop)
    {
        try
        {
            return TryMake(start, below, stop);
        }
        catch (Exception e) when (e is LogHistoryChangedException or FileNotFoundException or RedisException or ArgumentOutOfRangeException
            or OperationCanceledException)
        {
            // A world-line has begun, or it was trimmed; or there is what no one can reduce. Whoever reads it as it is sees.
            return (null, start.Offset + BytesMax);
        }
        catch (Exception e)
        {
            // The log as it is can be sent: nothing ends for want of a window. What the reducer had begun is of no use.
            _reducer = new();
            if (!_hasFailed) { failed(e); }
            _hasFailed = true;
            return (null, start.Offset + BytesMax);
        }
    }

    // Windows of all shards end, if they can, with the last version before a multiple of a large power of two: so there are versions that all
    // of them end with.
    private (MadeWindow? Made, long Until) TryMake(LogIndex start, VersionNumber below, CancellationToken stop)
    {
        Boundary? begin = log.BoundaryAtOrBelow(start.Closed);
        Boundary? end = null;
        (Boundary End, long Power)? chosen = null;
        foreach (Boundary next in log.BoundariesFrom(start.Closed.Next))
        {
            if (next.Version > below || next.WorldLine != start.WorldLine) { break; }
            // Empty versions are sent as what they are.
            if (next.Offset <= (end?.Offset ?? start.Offset)) { continue; }
            if (begin?.Offset != start.Offset) { return (null, next.Offset); }
            if (end is { } before && before.Offset - start.Offset >= BytesMax / 2)
            {
                long power = long.Log2(before.Version.Number ^ next.Version.Number);
                if (chosen is null || power >= chosen.Value.Power) { chosen = (before, power); }
            }
            if (next.Offset - start.Offset > BytesMax)
            {
                return (chosen?.End ?? end) is { } last ? Reduce(start, begin.Value, last, stop) : (null, next.Offset);
            }
            end = next;
        }
        return end is { } newest ? Reduce(start, begin!.Value, newest, stop) : (null, start.Offset + BytesMin);
    }

    private (MadeWindow? Made, long Until) Reduce(LogIndex start, in Boundary begin, in Boundary end, CancellationToken stop)
    {
        int length = (int)(end.Offset - start.Offset);
        if (length < BytesMin) { return (null, end.Offset); }
        if (_bytes.Length < length) { _bytes = GC.AllocateUninitializedArray<byte>(BytesMax); }
        using (LogReader reader = log.OpenReader(start.Offset, end.Offset))
        {
            for (int at = 0, count; at < length; at += count)
            {
                stop.ThrowIfCancellationRequested();
                count = reader.Read(_bytes.AsSpan(at, length - at));
                if (count == 0) { throw new LogHistoryChangedException($"Offset {start.Offset + at} is not in the log any more."); }
            }
        }
        _output.ResetWrittenCount();
        _reducer.Begin(_bytes, 0, begin.Database);
        _reducer.TryTake(length);
        ReducedWindow reduced = _reducer.Write(_output);
        int left = _output.WrittenCount;
        bool isWorth = left <= leftBytesMax && left + Filler.StretchBytesMin <= length && (long)left * LeftOf <= (long)length * LeftMin;
        if (!isWorth || reduced.Database != end.Database)
        {
            _passed = Math.Clamp(2 * _passed, BytesMax, PassedMax);
            return (null, end.Offset + _passed);
        }
        _passed = 0;
        var window = new ShipWindow(start, start with { Offset = end.Offset, Closed = end.Version }, left);
        return (new(window, _output.WrittenSpan.ToArray(), end), end.Offset);
    }
}
