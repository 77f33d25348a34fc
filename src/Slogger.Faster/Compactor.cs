// Gives back the beginning of the log. What is in use there is copied to the end, by ordinary writes that say of themselves that they
// change nothing; then nobody needs the beginning, except for going back to commits that do not hold the copies. So the log is cut when the
// oldest commit that is kept holds them all. A record that says that its key is removed is not copied: all that it hides is cut off with
// it.
using Slogger.Faster.Commits;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>One thread of a store.</summary>
internal sealed class Compactor : IDisposable
{
    private static readonly TimeSpan s_interval = TimeSpan.FromMilliseconds(100);   // who needs it sooner wakes it
    private readonly FasterStore _store;
    private readonly Queue<(long Until, long Version)> _copied = [];   // guarded by itself, as the next one
    private readonly AutoResetEvent _wake = new(false);
    private readonly Thread _thread;
    private long _until;   // up to where all that is in use has been copied
    private long _bytes;
    private volatile bool _stop;
    private volatile Exception? _failure;

    public Compactor(FasterStore store)
    {
        _store = store;
        _thread = new Thread(Run) { IsBackground = true, Name = "slogger-faster-compaction" };
    }

    /// <summary>How much of the log it has gone through.</summary>
    public long Bytes => Volatile.Read(ref _bytes);

    /// <summary>Why it does not run any more.</summary>
    public Exception? Failure => _failure;

    public void Start()
    {
        _until = _store.Kv.Log.BeginAddress;
        _thread.Start();
    }

    public void Wake() => _wake.Set();

    /// <summary>At the beginning of a rollback: what was copied may be taken back.</summary>
    public void BeginAnew()
    {
        lock (_copied)
        {
            _copied.Clear();
            _until = _store.Kv.Log.BeginAddress;
        }
    }

    public void Dispose()
    {
        _stop = true;
        _wake.Set();
        if (_thread.IsAlive) _thread.Join();
        _wake.Dispose();
    }

    private void Run()
    {
        try
        {
            using FasterWorker worker = _store.NewWorker();
            while (!_stop)
            {
                try
                {
                    _store.Prune();
                    Cut();
                }
                catch (Exception e) when (e is IOException or UnauthorizedAccessException)
                {
                    // Files that cannot be deleted now can be later.
                    _wake.WaitOne(s_interval);
                }

                _store.Hints?.AdvisePages();
                if (!Compact(worker)) _wake.WaitOne(s_interval);
            }
        }
        catch (Exception e)
        {
            // The store goes on until it is full; whoever commits is told.
            _failure = e;
        }
    }

    private void Cut()
    {
        long until = 0;
        CommitRecord? oldest = _store.Oldest;
        lock (_copied)
        {
            while (oldest is not null && _copied.TryPeek(out (long Until, long Version) next)
                && next.Version <= oldest.Point.Version.Number)
                until = _copied.Dequeue().Until;
        }

        _store.Truncate(until);
    }

    // Whether there was something to do.
    private bool Compact(FasterWorker worker)
    {
        int rollbacks = _store.Rollback.Number;
        if (_store.Rollback.IsGoingBack || _store.Newest is not { } durable) return false;
        long from, until;
        lock (_copied) from = _until;
        until = Math.Min(durable.To, from + _store.Budget.Step);
        if (until <= from || !_store.Budget.IsWorthwhile(_store.Kv.Log.TailAddress - from, _store.Space.LiveBytes)) return false;
        // Near the wall in smaller steps: it is what makes room.
        long room = _store.Budget.CompactionEnd - _store.UsedBytes;
        if (room <= 0) return false;
        until = Math.Min(until, from + room);
        if (Copy(worker, from, ref until)) Finished(until, rollbacks);
        Interlocked.Add(ref _bytes, until - from);
        return true;
    }

    private bool Copy(FasterWorker worker, long from, ref long until)
    {
        var records = new FetchedWalk(_store.WalkUnreplaced(from, until), _store.Hints);
        while (records.GoOn())
        {
            RecordWalk record = records.Current;
            if (_stop || _store.IsFull || _store.Rollback.IsGoingBack
                || !worker.CopyUp(record.Key, records.Hash, record.Value, record.Address))
            {
                // What has been copied need not be copied again.
                until = record.Address;
                return until > from;
            }
        }

        // The step's end need not be one of a record.
        until = Math.Max(until, records.End);
        return true;
    }

    private void Finished(long until, int rollbacks)
    {
        // All copies are in versions up to the one that is open now.
        long version = _store.Open.Number;
        lock (_copied)
        {
            if (_store.Rollback.Number != rollbacks) return;
            _copied.Enqueue((until, version));
            _until = until;
        }
    }
}
