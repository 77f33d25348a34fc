// The records of a stretch of the log for whoever asks of each whether it is still its key's newest: buckets and newest records of the next
// ones are fetched meanwhile, or each question would wait for memory twice.
using System.Runtime.CompilerServices;
using Slogger.Faster.Memory;

namespace Slogger.Faster.Records;

/// <summary>Goes from record to record.</summary>
/// <param name="records">The records.</param>
/// <param name="hints">Null: nothing is fetched.</param>
internal ref struct FetchedWalk(RecordWalk records, MemoryHints? hints)
{
    private const int BucketsAhead = 16, RecordsAhead = 8;
    private RecordWalk _ahead = records;
    private RecordWalk _records = records;
    private Hashes _hashes;
    private int _aheadCount;
    private int _count;

    /// <summary>The record.</summary>
    public readonly RecordWalk Current => _records;

    /// <summary>The hash of its key.</summary>
    public readonly long Hash => _hashes[(_count - 1) % BucketsAhead];

    /// <inheritdoc cref="RecordWalk.GoOn"/>
    public bool GoOn()
    {
        for (; _aheadCount < _count + BucketsAhead && _ahead.GoOn(); _aheadCount++)
        {
            long hash = _hashes[_aheadCount % BucketsAhead] = FasterWorker.HashOf(_ahead.Key);
            hints?.PrefetchBucket(hash);
            if (_aheadCount >= RecordsAhead) hints?.PrefetchRecord(_hashes[(_aheadCount - RecordsAhead) % BucketsAhead]);
        }

        _count++;
        return _records.GoOn();
    }

    [InlineArray(BucketsAhead)]
    private struct Hashes
    {
        private long _first;
    }
}
