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

    /// <summary>How many keys there are, expired ones that nobody has removed among them. Exact while nobody writes.</summary>
    public long KeyCount => _counts.Sum().Keys;

    /// <summary>Whether records in use take more memory than they may, or the log does since commits that are kept need it. Who would write
    /// then does not. Cheap.</summary>
    public bool IsOutOfMemory => _limits.IsOutOfMemory;

    /// <summary>Whether writers should wait a little: the log grows faster than compaction gives it back. Cheap.</summary>
    public bool IsPressed => _limits.IsPressed;

    /// <summary>Waits a little if writers should, 50 ms at most. Whoever writes much calls it before a write, holding no lock.</summary>
    public void Throttle()
    {
        if (IsPressed) WaitWhilePressed();
    }

    /// <summary>Says which commits are needed no more: all before the newest one that is not after a point. What only they needed of the
    /// log is given back soon; their changes cannot be read any more.</summary>
    /// <param name="oldestNeeded">The oldest point that the store may have to go back to, or whose changes are still to be read.</param>
    public void Keep(WorldPoint oldestNeeded)
    {
        _commits.Keep(oldestNeeded);
        _compactor.Wake();
    }

    /// <summary>The state of the store.</summary>
    public FasterStatistics Statistics()
    {
        (long keys, long live) = _counts.Sum();
        return new()
        {
            Keys = keys, LiveBytes = live, LogBytes = UsedBytes, LogBytesMax = _budget.Wall,
            DiskBytes = _device.Bytes, Commits = CommitCount,
            LastCommit = new(Volatile.Read(ref _lastCommitTicks)), UndoneBytes = _undo is { } undo ? undo.To - undo.From : 0,
            CompactedBytes = _compactor.Bytes,
        };
    }

    internal LogBudget Budget => _budget;

    /// <summary>The records of a stretch that is durable, in memory.</summary>
    internal RecordWalk Walk(long from, long until) => new(_device, _options.PageBits, from, until);

    /// <summary>The same without those that have been replaced, as far as that is noted.</summary>
    internal RecordWalk WalkUnreplaced(long from, long until) => new(_device, _options.PageBits, from, until, marked: _opened);

    /// <summary>From the page in which the log begins to its end.</summary>
    internal long UsedBytes => _kv.Log.TailAddress - FirstPage;

    internal long LiveBytes => _counts.Sum().Bytes;

    private long FirstPage => _kv.Log.BeginAddress & -_budget.PageBytes;

    /// <summary>Before an application's write.</summary>
    internal void Admit(int bytes)
    {
        if (bytes > _budget.PageBytes - RecordOverheadBytes)
            throw new ArgumentException($"A key and its value together have at most {_budget.PageBytes - RecordOverheadBytes} bytes, not "
                + $"{bytes}.");
        if (IsFull) throw Full();
    }

    internal InvalidOperationException Full() =>
        new($"The memory for records ({_options.MemoryBytes} bytes) is full: ask {nameof(IsOutOfMemory)} before a write.");

    /// <summary>Held by who writes a large record.</summary>
    internal Lock LargeGate { get; } = new();

    /// <summary>Behind each write that has made the log longer: how far it has come.</summary>
    internal void Reached(long address)
    {
        if (_limits.IsAlarming(address) && _limits.Warn(address - FirstPage)) _compactor.Wake();
    }

    /// <summary>Sees where the log stands.</summary>
    internal void Judge() => _limits.Judge(LiveBytes, FirstPage, _kv.Log.TailAddress);

    /// <summary>A worker is gone.</summary>
    internal void Retire(FasterWorker worker) => _counts.Retire(worker);

    /// <summary>Deletes the commits that are needed no more, before <see cref="Truncate"/>.</summary>
    internal void Prune() => _commits.Prune();

    /// <summary>Gives back the log below an address, in memory. On disk it stays while a commit is recovered from it.</summary>
    internal void Truncate(long address)
    {
        if (address > _kv.Log.BeginAddress) _kv.Log.ShiftBeginAddress(address, snapToPageStart: false, truncateLog: false);
        // A later commit never begins before an earlier one.
        if (Oldest is { } oldest) _device.DeleteBelow(oldest.Begin);
        Judge();
    }

    internal CommitRecord? Oldest => _commits.Oldest;

    internal CommitRecord? Newest => _commits.Newest;

    private void WaitWhilePressed()
    {
        long start = Environment.TickCount64;
        while (IsPressed && Environment.TickCount64 - start < s_throttleMax.TotalMilliseconds) Thread.Sleep(1);
    }
}
