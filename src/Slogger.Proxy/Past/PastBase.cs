// From what the values of a stretch of the past are made: a checkpoint, and the commands on top of it.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Feeding;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;

namespace Slogger.Proxy.Past;

/// <summary>A checkpoint with its index, and the index of what follows it. One caller at a time.</summary>
internal sealed class PastBase : IDisposable
{
    // What an index may have by now is not read for long.
    private const long ReadOnMax = 64 << 20;

    private readonly string _file;
    private readonly bool _isReduced, _hasIndexes;
    private readonly long _offset, _rewinds;
    private readonly WorldLine _line;
    private readonly CheckpointIndex _index;
    private readonly StretchIndex _tail;
    private readonly IHistorySource _history;

    private PastBase(VersionLog log, PastPoint point, bool hasIndexes, CheckpointIndex index, StretchIndex tail, IHistorySource history)
    {
        _hasIndexes = hasIndexes;
        (_file, _isReduced, _offset) = (point.Base.FileName, point.ReducedBytes is not null, point.Base.Offset);
        (_line, _rewinds) = (log.WorldLine, log.Rewinds);
        (_index, _tail, _history) = (index, tail, history);
    }

    /// <summary>Reads the checkpoint, and indexes it: 16 bytes a key.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="keys">The indexes of its segments; null: there are none.</param>
    /// <param name="point">What is wanted: its checkpoint is begun with.</param>
    /// <param name="indexFile">Where the checkpoint's index goes, if there is none beside it.</param>
    /// <param name="commandsMax">How many commands on top of it are indexed that no index has: 8 bytes each.</param>
    /// <param name="stop">Gives up.</param>
    public static PastBase Make(VersionLog log, CheckpointStore checkpoints, KeyIndexes? keys, PastPoint point, string indexFile,
        int commandsMax, CancellationToken stop)
    {
        Checkpoint checkpoint = point.Base;
        string rdb = checkpoints.PathOf(checkpoint);
        CheckpointIndex? index = CheckpointIndex.Open(rdb, checkpoints.IndexPathOf(checkpoint), checkpoint.Checksum)
            ?? CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum);
        if (index is null)
        {
            CheckpointIndex.Build(rdb, indexFile, checkpoint.Checksum, stop);
            index = CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum) ?? throw new IOException($"{indexFile} cannot be read back");
        }
        IHistorySource? history = null;
        try
        {
            int database = RdbFile.Inspect(rdb).StreamDatabase ?? 0;
            history = point.OpenHistory(log, checkpoints);
            // What is reduced has no segments.
            bool hasIndexes = point.ReducedBytes is null && keys is not null;
            IEnumerable<EffectStretch> stretches = hasIndexes ? keys!.Stretches(checkpoint.Offset, database, point.Target)
                : [new(checkpoint.Offset, long.MaxValue, database, null)];
            return new(log, point, hasIndexes, index, new StretchIndex(history, stretches, commandsMax), history);
        }
        catch
        {
            index.Dispose();
            (history as IDisposable)?.Dispose();
            throw;
        }
    }

    /// <summary>Whether it is of this point's checkpoint and history, and the log has voided nothing since.</summary>
    public bool IsOf(VersionLog log, PastPoint point) => point.Base.FileName == _file && (point.ReducedBytes is not null) == _isReduced
        && log.WorldLine == _line && log.Rewinds == _rewinds && !(_hasIndexes && point.Target - _tail.Position > ReadOnMax);

    /// <summary>The state where a version ends.</summary>
    /// <param name="offset">Where the history that leads to it ends: <see cref="PastPoint.Target"/>.</param>
    /// <param name="timeMs">When it ended, in milliseconds since the Unix epoch.</param>
    public PastState At(long offset, long timeMs)
    {
        _tail.ReadTo(offset);
        long? emptied = _tail.EmptiedAt(_offset, offset);
        return new(new RollbackSources(emptied is null ? _index : null, emptied + 1 ?? _offset, _tail, _history, offset), timeMs);
    }

    public void Dispose()
    {
        _index.Dispose();
        _tail.Dispose();
        (_history as IDisposable)?.Dispose();
    }
}
