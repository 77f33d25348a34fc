// How many keys a store has and how many bytes its records in use take. Each worker counts for itself, so a change costs no shared counter.
namespace Slogger.Faster;

/// <summary>The sum over all workers. Any thread; exact while nobody writes.</summary>
internal sealed class RecordCounts
{
    private readonly List<FasterWorker> _workers = [];   // guarded by itself, as the next
    private long _keys, _liveBytes;                      // of workers that are gone, and at the start

    public void Add(FasterWorker worker)
    {
        lock (_workers) _workers.Add(worker);
    }

    /// <summary>A worker is gone: what it has counted stays.</summary>
    public void Retire(FasterWorker worker)
    {
        lock (_workers)
        {
            if (!_workers.Remove(worker)) return;
            _keys += worker.Functions.Keys;
            _liveBytes += worker.Functions.Bytes;
        }
    }

    public (long Keys, long Bytes) Sum()
    {
        lock (_workers)
        {
            (long keys, long bytes) = (_keys, _liveBytes);
            foreach (FasterWorker worker in _workers) (keys, bytes) = (keys + worker.Functions.Keys, bytes + worker.Functions.Bytes);
            return (keys, bytes);
        }
    }

    /// <summary>The sum is this one now. While nobody changes a record.</summary>
    public void Reset(long keys, long bytes)
    {
        lock (_workers)
        {
            (long keysBefore, long bytesBefore) = Sum();
            _keys += keys - keysBefore;
            _liveBytes += bytes - bytesBefore;
        }
    }
}
