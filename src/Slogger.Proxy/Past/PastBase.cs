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
    private readonly string _file;
    private readonly bool _isReduced;
    private readonly long _offset, _rewinds;
    private readonly WorldLine _line;
    private readonly CheckpointIndex _index;
    private readonly TailIndex _tail;
    private readonly IHistorySource _history;

    private PastBase(VersionLog log, PastPoint point, CheckpointIndex index, TailIndex tail, IHistorySource history)
    {
        (_file, _isReduced, _offset) = (point.Base.FileName, point.ReducedBytes is not null, point.Base.Offset);
        (_line, _rewinds) = (log.WorldLine, log.Rewinds);
        (_index, _tail, _history) = (index, tail, history);
    }

    /// <summary>Reads the checkpoint, and indexes it: 16 bytes a key.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="point">What is wanted: its checkpoint is begun with.</param>
    /// <param name="indexFile">Where its index goes.</param>
    /// <param name="commandsMax">How many commands on top of it are indexed: 8 bytes each.</param>
    /// <param name="stop">Gives up.</param>
    public static PastBase Make(VersionLog log, CheckpointStore checkpoints, PastPoint point, string indexFile, int commandsMax,
        CancellationToken stop)
    {
        Checkpoint checkpoint = point.Base;
        string rdb = checkpoints.PathOf(checkpoint);
        CheckpointIndex? index = CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum);
        if (index is null)
        {
            CheckpointIndex.Build(rdb, indexFile, checkpoint.Checksum, stop);
            index = CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum) ?? throw new IOException($"{indexFile} cannot be read back");
        }
        var tail = new TailIndex(commandsMax);
        tail.Restart(checkpoint.Offset, RdbFile.Inspect(rdb).StreamDatabase ?? 0);
        try
        {
            return new(log, point, index, tail, point.OpenHistory(log, checkpoints));
        }
        catch
        {
            index.Dispose();
            throw;
        }
    }

    /// <summary>Whether it is of this point's checkpoint and history, and the log has voided nothing since.</summary>
    public bool IsOf(VersionLog log, PastPoint point) => point.Base.FileName == _file && (point.ReducedBytes is not null) == _isReduced
        && log.WorldLine == _line && log.Rewinds == _rewinds;

    /// <summary>The state where a version ends.</summary>
    /// <param name="offset">Where the history that leads to it ends: <see cref="PastPoint.Target"/>.</param>
    /// <param name="timeMs">When it ended, in milliseconds since the Unix epoch.</param>
    public PastState At(long offset, long timeMs)
    {
        _tail.ReadTo(_history, offset);
        long? emptied = _tail.EmptiedAt(_offset, offset);
        return new(new RollbackSources(emptied is null ? _index : null, emptied + 1 ?? _offset, _tail, _history, offset), timeMs);
    }

    public void Dispose()
    {
        _index.Dispose();
        (_history as IDisposable)?.Dispose();
    }
}
