// Bounds. The whole log is kept in memory, so that its length is what is used of memory, and about what is used of the disk. Records that
// are dead are given back by compaction, when no commit that is kept needs them any more.
using Slogger.Core.WorldLines;
using Slogger.Faster.Commits;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    // What a record takes besides its key and value, and the first page before its records, at most.
    private const int RecordOverheadBytes = 256;
    private static readonly TimeSpan s_throttleMax = TimeSpan.FromMilliseconds(50);
    private readonly LogBudget _budget;
    private readonly List<FasterWorker> _workers = [];   // guarded by itself, as the next two
    private long _keys, _liveBytes;                       // of workers that are gone, and at the start
    private long _alarm = long.MaxValue;                  // the address from which on writers are slowed down
    private volatile bool _isPressed, _isOutOfMemory, _isFull;
    private WorldPoint? _floor, _rollingBackTo;           // guarded by _commits

    /// <summary>How many keys there are, expired ones that nobody has removed among them. Exact while nobody writes.</summary>
    public long KeyCount => Count().Keys;

    /// <summary>Whether records in use take more memory than they may, or the log does since commits that are kept need it. Who would write then does not.
    /// Cheap.</summary>
    public bool IsOutOfMemory => _isOutOfMemory;

    /// <summary>Whether writers should wait a little: the log grows faster than compaction gives it back. Cheap.</summary>
    public bool IsPressed => _isPressed;

    /// <summary>Waits a little if writers should, 50 ms at most. Whoever writes much calls it before a write, holding no lock.</summary>
    public void Throttle()
    {
        if (_isPressed) WaitWhilePressed();
    }

    /// <summary>Says which commits are needed no more: all before the newest one that is not after a point. What only they needed of the log
    /// is given back soon; their changes cannot be read any more.</summary>
    /// <param name="oldestNeeded">The oldest point that the store may have to go back to, or whose changes are still to be read.</param>
    public void Keep(WorldPoint oldestNeeded)
    {
        lock (_commits) _floor = oldestNeeded;
        _compactor.Wake();
    }

    /// <summary>The state of the store.</summary>
    public FasterStatistics Statistics()
    {
        (long keys, long live) = Count();
        return new()
        {
            Keys = keys, LiveBytes = live, LogBytes = UsedBytes, LogBytesMax = _budget.Wall, DiskBytes = _device.Bytes, Commits = Commits.Count,
            LastCommit = new(Volatile.Read(ref _lastCommitTicks)), UndoneBytes = _undo is { } undo ? undo.To - undo.From : 0, CompactedBytes = _compactor.Bytes,
        };
    }

    internal LogBudget Budget => _budget;

    /// <summary>The records of a stretch that is durable, in memory.</summary>
    internal RecordWalk Walk(long from, long until) => new(_device, _options.PageBits, from, until);

    /// <summary>The same without those that have been replaced, as far as that is noted.</summary>
    internal RecordWalk WalkUnreplaced(long from, long until) => new(_device, _options.PageBits, from, until, marked: _opened);

    /// <summary>From the page in which the log begins to its end.</summary>
    internal long UsedBytes => _kv.Log.TailAddress - FirstPage;

    internal long LiveBytes => Count().Bytes;

    private long FirstPage => _kv.Log.BeginAddress & -_budget.PageBytes;

    /// <summary>Before an application's write.</summary>
    internal void Admit(int bytes)
    {
        if (bytes > _budget.PageBytes - RecordOverheadBytes) throw new ArgumentException($"A key and its value together have at most {_budget.PageBytes - RecordOverheadBytes} bytes, not {bytes}.");
        if (_isFull) throw Full();
    }

    internal InvalidOperationException Full() => new($"The memory for records ({_options.MemoryBytes} bytes) is full: ask {nameof(IsOutOfMemory)} before a write.");

    /// <summary>Held by who writes a large record.</summary>
    internal Lock LargeGate { get; } = new();

    /// <summary>Behind each write that has made the log longer: how far it has come.</summary>
    internal void Reached(long address)
    {
        if (address >= Volatile.Read(ref _alarm)) Warn(address - FirstPage);
    }

    /// <summary>Sees where the log stands.</summary>
    internal void Judge()
    {
        long first = FirstPage, used = _kv.Log.TailAddress - first;
        Volatile.Write(ref _alarm, first + _budget.Pressed);
        _isPressed = used >= _budget.Pressed;
        _isFull = used >= _budget.Wall;
        _isOutOfMemory = used >= _budget.Full || LiveBytes >= _budget.LiveMax;
    }

    /// <summary>A worker that is gone: what it has counted stays.</summary>
    internal void Retire(FasterWorker worker)
    {
        lock (_workers)
        {
            if (!_workers.Remove(worker)) return;
            _keys += worker.Functions.Keys;
            _liveBytes += worker.Functions.Bytes;
        }
    }

    /// <summary>Deletes the commits that are needed no more. Before the log that they are recovered from: see <see cref="Truncate"/>.</summary>
    internal void Prune()
    {
        CommitRecord[] before;
        lock (_commits)
        {
            if (_floor is not { } floor) return;
            if (_rollingBackTo is { } to && to < floor) floor = to;
            int needed = _commits.FindLastIndex(c => c.Point <= floor);
            if (needed <= 0) return;
            before = [.. _commits.Take(needed)];
        }

        // Until their files are gone they count: the log that they rest on is not deleted before them.
        _files.Purge(before);
        lock (_commits) _commits.RemoveAll(before.Contains);
    }

    /// <summary>Gives back the log below an address, in memory. On disk it stays while a commit is recovered from it.</summary>
    internal void Truncate(long address)
    {
        if (address > _kv.Log.BeginAddress) _kv.Log.ShiftBeginAddress(address, snapToPageStart: false, truncateLog: false);
        // A later commit never begins before an earlier one.
        if (Oldest is { } oldest) _device.DeleteBelow(oldest.Begin);
        Judge();
    }

    // At once, and for each write: only what has changed is noted. That it is over is for the compactor to see.
    private void Warn(long used)
    {
        if (used >= _budget.Wall && !_isFull) _isFull = true;
        if (used >= _budget.Full && !_isOutOfMemory) _isOutOfMemory = true;
        if (_isPressed) return;
        _isPressed = true;
        _compactor.Wake();
    }

    internal CommitRecord? Oldest
    {
        get { lock (_commits) return _commits.FirstOrDefault(); }
    }

    internal CommitRecord? Newest
    {
        get { lock (_commits) return _commits.LastOrDefault(); }
    }

    private (long Keys, long Bytes) Count()
    {
        lock (_workers)
        {
            (long keys, long bytes) = (_keys, _liveBytes);
            foreach (FasterWorker worker in _workers) (keys, bytes) = (keys + worker.Functions.Keys, bytes + worker.Functions.Bytes);
            return (keys, bytes);
        }
    }

    // While nobody changes a record.
    private void CountAnew(CommitRecord? commit)
    {
        lock (_workers)
        {
            (long keys, long bytes) = Count();
            _keys += (commit?.Keys ?? 0) - keys;
            _liveBytes += (commit?.LiveBytes ?? 0) - bytes;
        }
    }

    private void WaitWhilePressed()
    {
        long start = Environment.TickCount64;
        while (_isPressed && Environment.TickCount64 - start < s_throttleMax.TotalMilliseconds) Thread.Sleep(1);
    }
}
