// Keys as commands see them: a key that has expired is not there, and is removed by whoever finds it so; who watches a key hears of every change.
using Slogger.Faster.Records;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const int ValueBytesKept = 1 << 20;

    // Finds a key that has not expired. The sink may be set to the value of one that has.
    private bool Find(ReadOnlySpan<byte> key, ValueSink? into, out long expiryMs, out int length)
    {
        if (_worker.TryRead(key, into, out expiryMs, out length))
        {
            if (!CommandEngine.IsPast(expiryMs, _now)) return true;
            if (_isLocked) _engine.Remove(_worker, key);
            else _engine.Expire(_worker, key, _now);
        }

        (expiryMs, length) = (0, 0);
        return false;
    }

    // As Redis counts: what a command answers from is a hit or a miss, what it looks at before it writes is neither.
    private bool Count(bool found)
    {
        if (found) _counts.Hits++;
        else _counts.Misses++;
        return found;
    }

    // The same without a trace: one that has expired stays to be swept.
    private bool IsThere(ReadOnlySpan<byte> key) => _worker.TryRead(key, null, out long expiryMs, out _) && !CommandEngine.IsPast(expiryMs, _now);

    // Whether it is still there, to be removed by whoever asks for it.
    private bool HasExpired(ReadOnlySpan<byte> key) => _worker.TryRead(key, null, out long expiryMs, out _) && CommandEngine.IsPast(expiryMs, _now);

    private bool Exists(ReadOnlySpan<byte> key) => Find(key, null, out _, out _);

    // The key's value, in a buffer that the next one overwrites.
    private bool Load(ReadOnlySpan<byte> key, out long expiryMs)
    {
        _value.Trim(ValueBytesKept);
        return Find(key, _value, out expiryMs, out _);
    }

    // The reply of GET.
    private bool ReplyWithValue(ReadOnlySpan<byte> key, out long expiryMs) => Count(ReplyWithValueAgain(key, out expiryMs));

    private bool ReplyWithValueAgain(ReadOnlySpan<byte> key, out long expiryMs)
    {
        nint mark = _bulk.Mark = _replies.Mark;
        if (Find(key, _bulk, out expiryMs, out _)) return true;
        _replies.Return(mark);
        Null();
        return false;
    }

    // Whether a key and a value are not too large; if they are, that is the reply.
    private bool Fits(ReadOnlySpan<byte> key, long valueBytes)
    {
        if (key.Length <= CommandEngine.KeyBytesMax && valueBytes <= CommandEngine.ValueBytesMax && key.Length + valueBytes <= _engine.Store.RecordBytesMax) return true;
        Error(key.Length > CommandEngine.KeyBytesMax ? $"ERR SLOGGER a key has at most {CommandEngine.KeyBytesMax} bytes, not {key.Length}"
            : valueBytes > CommandEngine.ValueBytesMax ? $"ERR SLOGGER a value has at most {CommandEngine.ValueBytesMax} bytes, not {valueBytes}"
            : $"ERR SLOGGER a key and its value have at most {_engine.Store.RecordBytesMax} bytes here, as a page of the log has to hold them, not {key.Length + valueBytes}");
        return false;
    }

    private void Put(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs)
    {
        if (!_worker.TryWrite(key, value, expiryMs)) throw new StoreFullException();
        if (_engine.Watched.Any) Touch(key);
    }

    // Of a key that is there.
    private void Drop(ReadOnlySpan<byte> key)
    {
        if (!_worker.TryWrite(key, [], RecordHeader.Removed)) throw new StoreFullException();
        if (_engine.Watched.Any) Touch(key);
    }

    private void Touch(ReadOnlySpan<byte> key) => _engine.Watched.Touch(_worker.StripeOf(key), key, hadExpired: false);

    // Ends a command in its middle, whatever holds locks for it.
    private sealed class StoreFullException : Exception;
}
