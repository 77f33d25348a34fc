// From what the values of a stretch of the past are made: a checkpoint, and the commands on top of it.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>A checkpoint with its index, and the index of what follows it. One caller at a time.</summary>
internal sealed class PastBase : IDisposable
{
    private readonly string _file;
    private readonly long _offset, _rewinds;
    private readonly WorldLine _line;
    private readonly CheckpointIndex _index;
    private readonly TailIndex _tail;
    private readonly LogHistory _history;

    private PastBase(VersionLog log, Checkpoint checkpoint, CheckpointIndex index, TailIndex tail)
    {
        (_file, _offset, _line, _rewinds) = (checkpoint.FileName, checkpoint.Offset, log.WorldLine, log.Rewinds);
        (_index, _tail, _history) = (index, tail, new LogHistory(log));
    }

    /// <summary>Reads the checkpoint, and indexes it: 16 bytes a key.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="checkpoint">The one that is begun with.</param>
    /// <param name="indexFile">Where its index goes.</param>
    /// <param name="commandsMax">How many commands on top of it are indexed: 8 bytes each.</param>
    /// <param name="stop">Gives up.</param>
    public static PastBase Make(VersionLog log, CheckpointStore checkpoints, Checkpoint checkpoint, string indexFile, int commandsMax,
        CancellationToken stop)
    {
        string rdb = checkpoints.PathOf(checkpoint);
        CheckpointIndex? index = CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum);
        if (index is null)
        {
            CheckpointIndex.Build(rdb, indexFile, checkpoint.Checksum, stop);
            index = CheckpointIndex.Open(rdb, indexFile, checkpoint.Checksum) ?? throw new IOException($"{indexFile} cannot be read back");
        }
        var tail = new TailIndex(commandsMax);
        tail.Restart(checkpoint.Offset, RdbFile.Inspect(rdb).StreamDatabase ?? 0);
        return new(log, checkpoint, index, tail);
    }

    /// <summary>Whether it is of this checkpoint, and the log has voided nothing since.</summary>
    public bool IsOf(VersionLog log, Checkpoint checkpoint) =>
        checkpoint.FileName == _file && log.WorldLine == _line && log.Rewinds == _rewinds;

    /// <summary>The state at a boundary.</summary>
    /// <param name="offset">Its offset.</param>
    /// <param name="timeMs">Its time, in milliseconds since the Unix epoch.</param>
    public PastState At(long offset, long timeMs)
    {
        _tail.ReadTo(_history, offset);
        long? emptied = _tail.EmptiedAt(_offset, offset);
        return new(new RollbackSources(emptied is null ? _index : null, emptied + 1 ?? _offset, _tail, _history, offset), timeMs);
    }

    public void Dispose()
    {
        _index.Dispose();
        _history.Dispose();
    }
}
