// The records of a stretch of the log for whoever asks of each whether it is still its key's newest: buckets and newest records of the next
// ones are fetched meanwhile, or each question would wait for memory twice. On request those before them as well, which a rollback puts
// back.
using System.Runtime.CompilerServices;
using Slogger.Faster.Memory;

namespace Slogger.Faster.Records;

/// <summary>Goes from record to record.</summary>
/// <param name="records">The records.</param>
/// <param name="hints">Null: nothing is fetched.</param>
/// <param name="withPrevious">Whether the records before them are fetched, too.</param>
internal ref struct FetchedWalk(RecordWalk records, MemoryHints? hints, bool withPrevious = false)
{
    private const int BucketsAhead = 16, RecordsAhead = 8;
    private RecordWalk _ahead = records;
    private RecordWalk _records = records;
    private Found _found;
    private int _aheadCount;
    private int _count;

    /// <summary>The record.</summary>
    public readonly RecordWalk Current => _records;

    /// <summary>The hash of its key.</summary>
    public readonly long Hash => _found[(_count - 1) % BucketsAhead].Hash;

    /// <summary>Behind the last record, when there is none any more.</summary>
    public readonly long End => _ahead.Next;

    /// <inheritdoc cref="RecordWalk.GoOn"/>
    public bool GoOn()
    {
        for (; _aheadCount < _count + BucketsAhead && _ahead.GoOn(); _aheadCount++)
        {
            long hash = KeyComparer.Hash(_ahead.Key);
            _found[_aheadCount % BucketsAhead] = (_ahead.Address, hash);
            hints?.PrefetchBucket(hash);
            if (withPrevious) hints?.PrefetchAt(_ahead.Previous);
            if (_aheadCount >= RecordsAhead) hints?.PrefetchRecord(_found[(_aheadCount - RecordsAhead) % BucketsAhead].Hash);
        }

        if (_count == _aheadCount) return false;
        _records.GoTo(_found[_count++ % BucketsAhead].Address);
        return true;
    }

    [InlineArray(BucketsAhead)]
    private struct Found
    {
        private (long Address, long Hash) _first;
    }
}
