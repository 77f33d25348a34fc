// Keys as commands see them. A key that has expired is not there, and is removed by whoever finds it so. Who watches a key hears of every
// change.
using Slogger.Faster.Records;

namespace Slogger.Faster.Commands;

/// <summary>Ends a command in its middle, whatever holds locks for it: the memory for records is full.</summary>
internal sealed class StoreFullException : Exception;

/// <summary>The records of the store for the commands of one connection.</summary>
internal sealed class Keyspace(CommandEngine engine, FasterWorker worker, Request request, Replies replies)
{
    private const int ValueBytesKept = 1 << 20;
    private readonly BulkReply _bulk = new(replies);

    /// <summary>The value that was loaded last, and room for one that is made.</summary>
    public ValueBuffer Value { get; } = new();

    /// <summary>Whether the locks of the present command's keys are held.</summary>
    public bool IsLocked { get; set; }

    /// <summary>How often a command has answered from a key that was there.</summary>
    public long Hits { get; private set; }

    /// <summary>How often from one that was not.</summary>
    public long Misses { get; private set; }

    /// <summary>Finds a key that has not expired. The sink may be set to the value of one that has.</summary>
    public bool Find(ReadOnlySpan<byte> key, ValueSink? into, out long expiryMs, out int length)
    {
        if (worker.TryRead(key, into, out expiryMs, out length))
        {
            if (!IsPast(expiryMs)) return true;
            if (IsLocked) engine.Remove(worker, key);
            else engine.Expire(worker, key, request.NowMs);
        }

        (expiryMs, length) = (0, 0);
        return false;
    }

    /// <summary>As Redis counts: what a command answers from is a hit or a miss, what it looks at before it writes is neither.</summary>
    /// <returns>The same.</returns>
    public bool Count(bool found)
    {
        if (found) Hits++;
        else Misses++;
        return found;
    }

    public bool Exists(ReadOnlySpan<byte> key) => Find(key, null, out _, out _);

    /// <summary>The same without a trace: a key that has expired stays to be swept.</summary>
    public bool IsThere(ReadOnlySpan<byte> key) => HasRecord(key, out long expiryMs, out _) && !IsPast(expiryMs);

    /// <summary>Whether it has expired and is still there, to be removed by whoever asks for it.</summary>
    public bool HasExpired(ReadOnlySpan<byte> key) => HasRecord(key, out long expiryMs, out _) && IsPast(expiryMs);

    /// <summary>Whether there is a record, also one that has expired.</summary>
    public bool HasRecord(ReadOnlySpan<byte> key, out long expiryMs, out int length) => worker.TryRead(key, null, out expiryMs, out length);

    /// <summary>Finds a key, and loads its value into <see cref="Value"/>.</summary>
    public bool Load(ReadOnlySpan<byte> key, out long expiryMs)
    {
        Value.Trim(ValueBytesKept);
        return Find(key, Value, out expiryMs, out _);
    }

    /// <summary>The reply of GET.</summary>
    public bool ReplyWithValue(ReadOnlySpan<byte> key, out long expiryMs) => Count(ReplyWithValueAgain(key, out expiryMs));

    /// <summary>The same for a key that this command has counted already.</summary>
    public bool ReplyWithValueAgain(ReadOnlySpan<byte> key, out long expiryMs)
    {
        nint mark = _bulk.Mark = replies.Mark;
        if (Find(key, _bulk, out expiryMs, out _)) return true;
        replies.Return(mark);
        replies.Null();
        return false;
    }

    /// <summary>Whether a key and a value are not too large. If they are, that is the reply.</summary>
    public bool Fits(ReadOnlySpan<byte> key, long valueBytes)
    {
        const int KeyMax = CommandEngine.KeyBytesMax, ValueMax = CommandEngine.ValueBytesMax;
        long recordMax = engine.Store.RecordBytesMax, record = key.Length + valueBytes;
        if (key.Length <= KeyMax && valueBytes <= ValueMax && record <= recordMax) return true;
        replies.Error(key.Length > KeyMax ? $"ERR SLOGGER a key has at most {KeyMax} bytes, not {key.Length}"
            : valueBytes > ValueMax ? $"ERR SLOGGER a value has at most {ValueMax} bytes, not {valueBytes}"
            : $"ERR SLOGGER a key and its value have at most {recordMax} bytes here, as a page of the log has to hold them, not {record}");
        return false;
    }

    /// <summary>Makes or replaces a key. Its lock is held.</summary>
    public void Put(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs)
    {
        if (!worker.TryWrite(key, value, expiryMs)) throw new StoreFullException();
        if (engine.Watched.Any) Touch(key);
    }

    /// <summary>Removes a key that is there. Its lock is held.</summary>
    public void Drop(ReadOnlySpan<byte> key)
    {
        if (!worker.TryWrite(key, [], RecordHeader.Removed)) throw new StoreFullException();
        if (engine.Watched.Any) Touch(key);
    }

    private bool IsPast(long expiryMs) => CommandEngine.IsPast(expiryMs, request.NowMs);

    private void Touch(ReadOnlySpan<byte> key) => engine.Watched.Touch(worker.StripeOf(key), key, hadExpired: false);

    // What is read becomes a reply where it is.
    private sealed class BulkReply(Replies replies) : ValueSink
    {
        public nint Mark { get; set; }

        internal override void Set(ReadOnlySpan<byte> bytes)
        {
            ReplyBuffer buffer = replies.Buffer;
            buffer.Return(Mark);
            buffer.Bulk(bytes);
        }
    }
}
