// Keeps ready what a rollback in place looks its values up in: the index of the newest checkpoint at or below the cut, and that of the
// log's commands on top of it. A thread of its own follows both, some way behind: neither the log nor a checkpoint waits for it.
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Format;
using Slogger.Redis.Connections;
using Slogger.Redis.Past;
using Slogger.Redis.Rdb;
using Slogger.Redis.Rollback;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Shards;

/// <summary>The indexes of one shard. <see cref="Borrow"/>, <see cref="Return"/> and <see cref="ChangeHistory"/> are the recovery's; it
/// is one task.</summary>
internal sealed class RollbackIndexes : IDisposable
{
    private static readonly TimeSpan Period = TimeSpan.FromMilliseconds(200);
    private readonly VersionLog _log;
    private readonly CheckpointStore _checkpoints;
    private readonly Func<VersionNumber> _committed;
    private readonly ILogger _report;
    private readonly string _shard;
    private readonly bool _keepsOlder;
    private readonly TailIndex _tail = new();
    private readonly HashSet<string> _refused = [];
    private readonly CancellationTokenSource _ending = new();

    // Held while the tail is read: the log's history does not change meanwhile.
    private readonly Lock _reading = new();
    private readonly Lock _lock = new();
    private LogHistory? _history;
    private bool _isBorrowed;
    private bool _isRehearsed;
    private int _database; // selected in the stream at the checkpoint
    private (Checkpoint Checkpoint, CheckpointIndex Index)? _ready;
    private volatile Asked? _asked;
    private Thread? _thread;

    /// <summary>Makes nothing before <see cref="Start"/>.</summary>
    /// <param name="log">The log.</param>
    /// <param name="checkpoints">Its checkpoints.</param>
    /// <param name="committed">The recorded cut's version.</param>
    /// <param name="report">Hears what cannot be indexed.</param>
    /// <param name="shard">Whose log it is, for messages.</param>
    /// <param name="keepsOlder">Whether the indexes of older checkpoints stay as long as these, for readers of the past.</param>
    public RollbackIndexes(VersionLog log, CheckpointStore checkpoints, Func<VersionNumber> committed, ILogger report, string shard,
        bool keepsOlder)
    {
        _keepsOlder = keepsOlder;
        _log = log;
        _checkpoints = checkpoints;
        _committed = committed;
        _report = report;
        _shard = shard;
    }

    /// <summary>The commands on top of the checkpoint.</summary>
    public TailIndex Tail => _tail;

    /// <summary>Whether there are indexes to go back with.</summary>
    public bool IsReady
    {
        get
        {
            lock (_lock)
            {
                return _ready is { } ready && _tail.Flaw is null && _tail.Start <= ready.Checkpoint.Offset
                    && _tail.Position >= ready.Checkpoint.Offset;
            }
        }
    }

    /// <summary>The checkpoint with an index that a rollback to an offset can begin with; null if there is none. Both indexes stay as
    /// they are until <see cref="Return"/>.</summary>
    public (Checkpoint Checkpoint, CheckpointIndex Index)? Borrow(long branchOffset)
    {
        lock (_lock)
        {
            _isBorrowed = true;
            return _ready is { } ready && ready.Checkpoint.Offset <= branchOffset
                && _checkpoints.All.Any(c => c.FileName == ready.Checkpoint.FileName)
                && _log.IsInHistory(ready.Checkpoint.Origin, new(ready.Checkpoint.Reign), new WorldLine(ready.Checkpoint.WorldLine),
                    ready.Checkpoint.Offset) ? ready
                : null;
        }
    }

    /// <summary>They are not needed any more.</summary>
    public void Return()
    {
        lock (_lock) { _isBorrowed = false; }
    }

    /// <summary>Reads the tail up to an offset, whatever that takes.</summary>
    public void ReadTo(long offset)
    {
        lock (_reading) { _tail.ReadTo(_history ??= new LogHistory(_log), offset); }
    }

    /// <summary>Gives what is known of a segment's commands, some time after it is asked for it first: the thread here takes them, since
    /// whoever asks may go behind all others, and a recovery waits for who has the locks.</summary>
    /// <param name="segment">The segment.</param>
    /// <param name="taken">What has them; null: not all of them are known.</param>
    /// <returns>False: not yet.</returns>
    public bool TryGive(in SealedSegment segment, out KeyIndexMaker? taken)
    {
        lock (_lock)
        {
            taken = null;
            if (!IsReady) { return true; }
            if (_asked is not { } asked || asked.Segment != segment)
            {
                _asked = new(segment, IsDone: false, null);
                return false;
            }
            if (!asked.IsDone) { return false; }
            taken = asked.Taken;
            _asked = null;
            return true;
        }
    }

    private void TakeAsked()
    {
        if (_asked is not { IsDone: false, Segment: var segment }) { return; }
        var maker = new KeyIndexMaker();
        bool isTaken;
        lock (_reading)
        {
            // It has not changed since.
            bool isThere = _log.SealedSegments.Contains(segment) && _tail.Start <= segment.Start;
            if (isThere && _tail.Flaw is null && _tail.Position < segment.End) { return; }
            isTaken = isThere && maker.Take(_tail, _history ??= new LogHistory(_log), segment.Start, segment.End, _ending.Token);
        }
        lock (_lock)
        {
            if (_asked?.Segment == segment) { _asked = new(segment, IsDone: true, isTaken ? maker : null); }
        }
    }

    // A segment of which somebody wants the commands, and what was found.
    private sealed record Asked(SealedSegment Segment, bool IsDone, KeyIndexMaker? Taken);

    /// <summary>Changes the log's history, and forgets with it what is void.</summary>
    /// <param name="change">Does it.</param>
    /// <param name="offset">Where the history goes on.</param>
    /// <param name="database">The database selected there.</param>
    public void ChangeHistory(Action change, long offset, int database)
    {
        lock (_reading)
        {
            change();
            _history?.Dispose();
            _history = null;
            _tail.CutAt(offset, database);
        }
    }

    /// <summary>Begins to follow.</summary>
    public void Start()
    {
        if (_thread is not null) { return; }
        _thread = new Thread(Follow) { Name = "rollback indexes", IsBackground = true, Priority = ThreadPriority.BelowNormal };
        _thread.Start();
    }

    public void Dispose()
    {
        _ending.Cancel();
        _thread?.Join();
        lock (_lock)
        {
            // A recovery that is given up may still look into it.
            if (!_isBorrowed) { _ready?.Index.Dispose(); }
        }
        _history?.Dispose();
        _ending.Dispose();
    }

    private void Follow()
    {
        while (!_ending.Token.WaitHandle.WaitOne(Period))
        {
            try
            {
                FollowCheckpoint();
                FollowTail();
                TakeAsked();
                Rehearse();
            }
            catch (OperationCanceledException)
            {
                return;
            }
            catch (Exception e) when (e is LogException or RedisException or IOException or ArgumentOutOfRangeException
                or ObjectDisposedException)
            {
                // The history changed, or was trimmed, or ends. Looked at again: without an index a rollback restores fully.
                lock (_reading)
                {
                    _history?.Dispose();
                    _history = null;
                }
            }
        }
    }

    private void FollowCheckpoint()
    {
        if (_log.IsEmpty || _log.BoundaryAtOrBelow(_committed()) is not { } cut || _checkpoints.Latest(_log, cut.Offset) is not { } newest)
        {
            return;
        }
        if (_ready?.Checkpoint.FileName != newest.FileName && !_refused.Contains(newest.FileName)) { Index(newest); }
        lock (_lock)
        {
            if (_isBorrowed || _ready is not { } ready) { return; }
            if (_tail.Start > ready.Checkpoint.Offset || _tail.Position < ready.Checkpoint.Offset)
            {
                _tail.Restart(ready.Checkpoint.Offset, _database);
            }
            else { _tail.ForgetBelow(ready.Checkpoint.Offset, _database); }
        }
    }

    private void FollowTail()
    {
        if (_ready is null) { return; }
        const long Piece = 1 << 20;
        long end = _log.DurableOffset;
        while (_tail.Position < end && _tail.Flaw is null && !_ending.IsCancellationRequested)
        {
            long before = _tail.Position;
            ReadTo(Math.Min(end, before + Piece));
            // The end may lie inside a command.
            if (_tail.Position == before) { return; }
        }
    }

    private void Rehearse()
    {
        const long Enough = 16 << 10;
        lock (_lock)
        {
            if (_isRehearsed || _isBorrowed || _ready is not { } ready || _tail.Position - ready.Checkpoint.Offset < Enough) { return; }
            _isRehearsed = true;
            using var history = new LogHistory(_log);
            RollbackPlanner.Rehearse(new RollbackSources(ready.Index, ready.Checkpoint.Offset, _tail, history, _tail.Position), _database);
        }
    }

    private void Index(Checkpoint checkpoint)
    {
        string rdb = _checkpoints.PathOf(checkpoint);
        string path = _checkpoints.IndexPathOf(checkpoint);
        try
        {
            CheckpointIndex? index = CheckpointIndex.Open(rdb, path, checkpoint.Checksum);
            if (index is null)
            {
                CheckpointIndex.Build(rdb, path, checkpoint.Checksum, _ending.Token);
                index = CheckpointIndex.Open(rdb, path, checkpoint.Checksum);
            }
            if (index is null) { return; }
            lock (_lock)
            {
                if (_isBorrowed)
                {
                    // Opened again when that is over.
                    index.Dispose();
                    return;
                }
                _ready?.Index.Dispose();
                _ready = (checkpoint, index);
                _database = RdbFile.Inspect(rdb).StreamDatabase ?? 0;
            }
            DeleteOthers(path);
        }
        catch (RedisException e)
        {
            // Not again for this one.
            _refused.Add(checkpoint.FileName);
            _report.Warn($"shard {_shard}: rollbacks restore the whole store, since its checkpoint cannot be indexed: {e.Message}");
        }
    }

    private void DeleteOthers(string path)
    {
        HashSet<string> kept = [Path.GetFileName(path)];
        if (_keepsOlder) { kept.UnionWith(_checkpoints.All.Select(c => Path.GetFileName(_checkpoints.IndexPathOf(c)))); }
        foreach (string other in Directory.EnumerateFiles(Path.GetDirectoryName(path)!, "*" + CheckpointStore.IndexExtension))
        {
            if (!kept.Contains(Path.GetFileName(other))) { File.Delete(other); }
        }
    }
}
