// The list of keys that there are: kept for whoever asks for it, by all who write from then on.
using System.Buffers.Binary;
using FASTER.core;
using Slogger.Faster.Keys;
using Slogger.Faster.Records;

namespace Slogger.Faster;

public sealed partial class FasterStore
{
    // Whoever asks may hold up others who ask for nothing of the kind.
    private static readonly TimeSpan s_purgeMax = TimeSpan.FromSeconds(1);

    /// <summary>The keys that there are; null: nobody has asked for them.</summary>
    internal KeyDirectory? Keys { get; private set; }

    /// <summary>The most bytes of a key and its value: a page has to hold their record.</summary>
    public long RecordBytesMax => _budget.PageBytes - RecordOverheadBytes;

    /// <summary>Whether a record for each of some keys can be written that says that it is removed.</summary>
    /// <param name="keyBytes">Of all keys.</param>
    /// <param name="keys">How many.</param>
    /// <param name="keyLengthMax">Of the longest.</param>
    internal bool HasRoomForRemovals(long keyBytes, long keys, int keyLengthMax)
    {
        // A key's length is filled up, and a record that would not fit into the rest of a page is in the next one.
        long records = keyBytes + (keys * RecordFunctions.Size(sizeof(long) - 1, RecordHeader.Bytes));
        long record = RecordFunctions.Size(keyLengthMax, RecordHeader.Bytes);
        return records + (((records / (_budget.PageBytes - record)) + 1) * record) <= _budget.Wall - UsedBytes;
    }

    /// <summary>Whether nothing at all may be written.</summary>
    internal bool IsFull => _limits.IsFull;

    /// <summary>While a rollback's purge is under way: has the list of keys show all that the rollback has brought back. What it has taken
    /// back may still be listed: who reads such a key finds none. Once for each rollback it reads what was taken back, and puts back what
    /// was removed there; nothing else is waited for.</summary>
    /// <param name="worker">The caller's.</param>
    internal void ListAgain(FasterWorker worker)
    {
        if (_undo is not { IsListed: false } undo) return;
        using (IFasterScanIterator<SpanByte, SpanByte> records = _kv.Log.Scan(undo.From, undo.To))
        {
            while (records.GetNext(out _))
            {
                if (!RecordHeader.IsRemoved(BinaryPrimitives.ReadInt64LittleEndian(records.GetValue().AsReadOnlySpan()))) continue;
                ReadOnlySpan<byte> key = records.GetKey().AsReadOnlySpan();
                worker.PutBack(key, FasterWorker.HashOf(key), undo);
            }
        }

        undo.IsListed = true;
    }

    /// <summary>Waits, a second at most, until the list of keys shows nothing that a rollback has taken back, and all that it has brought
    /// back.</summary>
    /// <returns>Whether it does.</returns>
    internal bool WaitUntilPurged()
    {
        long start = Environment.TickCount64;
        while (_undo is not null)
        {
            if (Environment.TickCount64 - start > s_purgeMax.TotalMilliseconds) return false;
            Thread.Sleep(1);
        }

        return true;
    }

    /// <summary>Lists the keys from now on. Reads the whole log once, during which nobody writes: to be called before there is a load. A
    /// rollback brings the list up to date as its purge comes along.</summary>
    internal KeyDirectory ListKeys()
    {
        Stripes.Alone(() =>
        {
            if (Keys is not null) return;
            var keys = new KeyDirectory();
            using IFasterScanIterator<SpanByte, SpanByte> records = _kv.Log.Scan(_kv.Log.BeginAddress, _kv.Log.TailAddress);
            // In the order of the log: the last record of a key says whether there is one.
            while (records.GetNext(out _))
            {
                ref SpanByte key = ref records.GetKey();
                long header = BinaryPrimitives.ReadInt64LittleEndian(records.GetValue().AsReadOnlySpan());
                keys.Note(FasterWorker.HashOf(key.AsReadOnlySpan()), key.AsReadOnlySpan(), header);
            }

            Keys = keys;
        });
        return Keys!;
    }
}
