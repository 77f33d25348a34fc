// Reduces the log between two checkpoints: writes the reduced file beside the first one. Nothing is deleted here. Which windows it has is
// decided by StretchWindows (Core).
using System.Buffers;
using Slogger.Core.Retention;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Log.Reduced;
using Slogger.Proxy.Stores;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Reduction;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Reduces one stretch after the other. One caller at a time.</summary>
/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
internal sealed class StretchReduction(VersionLog log, CheckpointStore checkpoints)
{
    // So that little memory is taken beside the store.
    private const int WindowBytesMax = 8 << 20;

    // A version is one piece in memory.
    private const int VersionBytesMax = 1 << 30;

    private readonly EffectReducer _reducer = new();
    private readonly ArrayBufferWriter<byte> _output = new();
    private byte[] _bytes = [];

    /// <summary>Writes the file, and has the checkpoints take note of it.</summary>
    /// <param name="from">The first checkpoint.</param>
    /// <param name="to">The next one that is kept; at or below the recorded cut.</param>
    /// <param name="group">Of so many versions, in groups from one multiple to the next, one ends a window.</param>
    /// <param name="stop">Gives up.</param>
    /// <returns>What the file has; null: the checkpoints have changed meanwhile.</returns>
    /// <exception cref="PastException">It cannot be reduced.</exception>
    /// <exception cref="LogException">The log, or the disk, refused.</exception>
    /// <exception cref="IOException">The disk refused.</exception>
    /// <exception cref="Redis.Connections.RedisException">The log's bytes are no commands.</exception>
    public ReducedStretch? Make(Checkpoint from, Checkpoint to, long group, CancellationToken stop)
    {
        using LogReader reader = log.OpenReader(from.Offset, to.Offset);
        using var writer = new ReducedFileWriter(log.Files, checkpoints.ReducedPathOf(from));
        var lines = new List<WorldPoint>();
        int firstDatabase = RdbFile.Inspect(checkpoints.PathOf(from)).StreamDatabase ?? 0, database = firstDatabase;
        long before = 0, after = 0;
        var windows = new StretchWindows(from.Offset, group, WindowBytesMax);

        void EndWindow()
        {
            stop.ThrowIfCancellationRequested();
            ReducedWindow window = Reduce(reader, windows.End, database);
            writer.Append(_output.WrittenSpan);
            writer.EndWindow(windows.End, windows.Through);
            if (lines.Count == 0 || lines[^1].WorldLine != windows.End.WorldLine) { lines.Add(windows.End.Point); }
            (database, before, after) = (window.Database, before + window.CommandsBefore, after + window.CommandsAfter);
        }

        VersionNumber first = LogPlaces.EndAtOrBelow(log, from.Offset)?.End.Version ?? VersionNumber.Zero;
        foreach (Boundary next in log.BoundariesFrom(first).SkipWhile(b => b.Offset < from.Offset).TakeWhile(b => b.Offset < to.Offset))
        {
            if (log.HasGap(from.Offset, next.Offset)) { break; }
            windows.Next(next, EndWindow);
        }
        if (windows.Through == VersionNumber.Zero) { throw new PastException("no version ends there"); }
        EndWindow();
        if (lines.Count > ReducedStretch.LinesMax)
        {
            throw new PastException($"it goes through more than {ReducedStretch.LinesMax} world-lines");
        }
        FailPoint.Pass(FailPoint.ReducedWritten);
        var stretch = new ReducedStretch
        {
            FirstOffset = from.Offset, LastOffset = windows.End.Offset, FirstDatabase = firstDatabase, First = lines[0].Version,
            Last = windows.Through,
            EndsAtGap = log.HasGap(from.Offset, to.Offset), CommandsBefore = before, CommandsAfter = after, Next = to.FileName,
            Lines = lines,
        };
        writer.Finish(stretch);
        FailPoint.Pass(FailPoint.ReducedDurable);
        return checkpoints.AddReduced(log, from) ? stretch : null;
    }

    // What lies between the reader's place and the end.
    private ReducedWindow Reduce(LogReader reader, in Boundary end, int database)
    {
        long length = end.Offset - reader.Position;
        if (length > VersionBytesMax) { throw new PastException($"version {end.Version} has {length} bytes, which is too many"); }
        if (_bytes.Length < length) { _bytes = new byte[Math.Max(length, WindowBytesMax)]; }
        for (int at = 0, count; at < length; at += count)
        {
            count = reader.Read(_bytes.AsSpan(at, (int)length - at));
            if (count == 0) { throw new LogHistoryChangedException("The log ends before the version."); }
        }
        _output.ResetWrittenCount();
        _reducer.Begin(_bytes, 0, database);
        _reducer.TryTake((int)length);
        ReducedWindow window = _reducer.Write(_output);
        // A command names its database first; so what follows is not told for another one's.
        if (window.CommandsBefore > 0 && window.Database != end.Database)
        {
            throw new PastException($"at version {end.Version} database {window.Database} is selected, and not {end.Database}");
        }
        return window;
    }
}
