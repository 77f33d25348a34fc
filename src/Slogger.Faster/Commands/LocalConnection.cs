// The commands on one key for callers in this process: no request, no reply, nothing allocated. What a connection's commands keep to holds
// here too: a key that has expired is not there, who watches a key hears of every change, limits are the same.
//
// A change is made under its key's lock, where neither the store's world-line nor its open version can change; a read is made without one,
// so the version that it belongs to is asked for behind it (FasterStore.Open).
using System.Diagnostics;
using System.Runtime.CompilerServices;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;
using Slogger.Faster.Records;

namespace Slogger.Faster.Commands;

/// <summary>Under which an operation may be done at all.</summary>
/// <param name="Line">The world-line of whoever wants it: the store has to be in it (DPR, section 4.2).</param>
/// <param name="AtLeast">The latest version that he has seen anywhere: no earlier one may be open (DPR, section 3.2).</param>
public readonly record struct LocalTerms(WorldLine Line, VersionNumber AtLeast);

/// <summary>Why an operation had no effect, though it was done.</summary>
public enum LocalError
{
    /// <summary>It had, or had nothing to do.</summary>
    None,

    /// <summary>The memory for records is used up.</summary>
    OutOfMemory,

    /// <summary>The value is no whole number of 64 bits.</summary>
    NotANumber,

    /// <summary>The sum has no room in 64 bits.</summary>
    Overflow,
}

/// <summary>What came of an operation.</summary>
public struct LocalResult
{
    /// <summary>The version that it belongs to.</summary>
    public VersionNumber Version;

    /// <summary>Whether the key was there.</summary>
    public bool Found;

    /// <summary>A read: how long the value is, in bytes.</summary>
    public int Length;

    /// <summary>A read: when the key expires, in milliseconds since the Unix epoch, 0 for never. An increment: the sum.</summary>
    public long Number;

    /// <summary>Why it had no effect.</summary>
    public LocalError Error;
}

/// <summary>Commands on one key. Each returns false, and nothing has been done, if the terms do not hold at its moment. For one thread at a
/// time.</summary>
public sealed unsafe class LocalConnection : IDisposable
{
    private const int ValueBytesKept = 1 << 20;
    private readonly CommandEngine _engine;
    private readonly FasterStore _store;
    private readonly FasterWorker _worker;
    private readonly SpanSink _sink = new();
    private readonly ValueBuffer _value = new();

    internal LocalConnection(CommandEngine engine)
    {
        (_engine, _store) = (engine, engine.Store);
        _worker = _store.NewWorker();
    }

    /// <summary>Whether an operation may be done at this moment.</summary>
    public bool Admits(in LocalTerms terms)
    {
        LocalResult none = default;
        return MayBegin(terms, ref none);
    }

    /// <summary>Before a change, with nothing held: waits a little while the log grows faster than it is compacted.</summary>
    public void Throttle() => _store.Throttle();

    /// <summary>Reads a value.</summary>
    /// <param name="terms">The terms.</param>
    /// <param name="key">Its key.</param>
    /// <param name="into">Where it goes; of a longer one the beginning.</param>
    /// <param name="result">What came of it.</param>
    public bool Get(in LocalTerms terms, ReadOnlySpan<byte> key, Span<byte> into, out LocalResult result)
    {
        result = default;
        if (!MayBegin(terms, ref result)) return false;
        fixed (byte* at = into)
        {
            _sink.Begin(at, into.Length);
            result.Found = _worker.TryRead(key, _sink, out result.Number, out result.Length);
        }

        if (!result.Found || IsPast(result.Number)) (result.Found, result.Number, result.Length) = (false, 0, 0);
        return Hold(terms, ref result);
    }

    /// <summary>Whether there is a key, and when it expires.</summary>
    /// <inheritdoc cref="Get"/>
    public bool Look(in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result)
    {
        result = default;
        if (!MayBegin(terms, ref result)) return false;
        result.Found = _worker.TryRead(key, null, out result.Number, out result.Length);
        if (!result.Found || IsPast(result.Number)) (result.Found, result.Number, result.Length) = (false, 0, 0);
        return Hold(terms, ref result);
    }

    /// <summary>Makes or replaces a value.</summary>
    /// <param name="terms">The terms.</param>
    /// <param name="key">Its key.</param>
    /// <param name="value">The value.</param>
    /// <param name="expiryMs">When it expires, in milliseconds since the Unix epoch; 0: never. In the past: it is not there from the
    /// beginning.</param>
    /// <param name="result">What came of it.</param>
    /// <exception cref="ArgumentException">The key or the value is too large.</exception>
    /// <exception cref="ArgumentOutOfRangeException">The expiry is no time.</exception>
    public bool Set(in LocalTerms terms, ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs, out LocalResult result)
    {
        result = default;
        CheckExpiry(expiryMs);
        CheckSize(key, value.Length);
        long hash = FasterWorker.HashOf(key);
        int entered = _worker.Enter(hash);
        try
        {
            if (!MayBegin(terms, ref result)) return false;
            if (LacksMemory(ref result)) return true;
            Write(key, hash, value, expiryMs, ref result);
            return true;
        }
        finally
        {
            _worker.Exit(entered);
        }
    }

    /// <summary>Removes a key.</summary>
    /// <inheritdoc cref="Get"/>
    public bool Delete(in LocalTerms terms, ReadOnlySpan<byte> key, out LocalResult result)
    {
        result = default;
        long hash = FasterWorker.HashOf(key);
        int entered = _worker.Enter(hash);
        try
        {
            if (!MayBegin(terms, ref result)) return false;
            if (Find(key, hash, null, ref result)) Write(key, hash, [], RecordHeader.Removed, ref result);
            return true;
        }
        finally
        {
            _worker.Exit(entered);
        }
    }

    /// <summary>Adds to a whole number, which is 0 if there is none. An expiry stays.</summary>
    /// <param name="terms">The terms.</param>
    /// <param name="key">Its key.</param>
    /// <param name="by">What to add.</param>
    /// <param name="result">What came of it.</param>
    public bool Increment(in LocalTerms terms, ReadOnlySpan<byte> key, long by, out LocalResult result)
    {
        result = default;
        CheckSize(key, Numbers.BytesMax);
        long hash = FasterWorker.HashOf(key);
        int entered = _worker.Enter(hash);
        try
        {
            if (!MayBegin(terms, ref result)) return false;
            byte* text = stackalloc byte[Numbers.BytesMax];
            _sink.Begin(text, Numbers.BytesMax);
            long value = 0, expiryMs = 0;
            if (Find(key, hash, _sink, ref result))
            {
                expiryMs = result.Number;
                result.Number = 0;
                if (result.Length > Numbers.BytesMax || !Numbers.TryParse(new(text, result.Length), out value))
                    result.Error = LocalError.NotANumber;
            }

            long sum = unchecked(value + by);
            if (result.Error == LocalError.None && ((value ^ sum) & (by ^ sum)) < 0) result.Error = LocalError.Overflow;
            if (result.Error != LocalError.None || LacksMemory(ref result)) return true;
            if (Write(key, hash, new(text, Numbers.Format(sum, new(text, Numbers.BytesMax))), expiryMs, ref result)) result.Number = sum;
            return true;
        }
        finally
        {
            _worker.Exit(entered);
        }
    }

    /// <summary>Has a key expire.</summary>
    /// <param name="terms">The terms.</param>
    /// <param name="key">The key.</param>
    /// <param name="expiryMs">When, in milliseconds since the Unix epoch; 0: never. In the past: it is removed.</param>
    /// <param name="result">What came of it.</param>
    /// <exception cref="ArgumentOutOfRangeException">The expiry is no time.</exception>
    public bool Expire(in LocalTerms terms, ReadOnlySpan<byte> key, long expiryMs, out LocalResult result)
    {
        result = default;
        CheckExpiry(expiryMs);
        long hash = FasterWorker.HashOf(key);
        int entered = _worker.Enter(hash);
        try
        {
            if (!MayBegin(terms, ref result)) return false;
            _value.Trim(ValueBytesKept);
            if (!Find(key, hash, _value, ref result)) return true;
            if (IsPast(expiryMs)) Write(key, hash, [], RecordHeader.Removed, ref result);
            else Write(key, hash, _value.Bytes, expiryMs, ref result);
            return true;
        }
        finally
        {
            _worker.Exit(entered);
        }
    }

    /// <inheritdoc />
    public void Dispose() => _worker.Dispose();

    // The clock is only looked at where versions have to end on time.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool MayBegin(in LocalTerms terms, ref LocalResult result)
    {
        long until = _store.LocalUntil;
        return (until == long.MaxValue || Stopwatch.GetTimestamp() < until) && Hold(terms, ref result);
    }

    // Whether an operation may be done now, and in which version it is then.
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private bool Hold(in LocalTerms terms, ref LocalResult result)
    {
        result.Version = _store.Open;
        return _store.Admitted == terms.Line && result.Version >= terms.AtLeast;
    }

    // Its lock is held.
    private bool Find(ReadOnlySpan<byte> key, long hash, ValueSink? into, ref LocalResult result)
    {
        result.Found = _worker.TryRead(key, hash, into, out result.Number, out result.Length);
        if (!result.Found || IsPast(result.Number)) (result.Found, result.Number, result.Length) = (false, 0, 0);
        return result.Found;
    }

    // Its lock is held.
    private bool Write(ReadOnlySpan<byte> key, long hash, ReadOnlySpan<byte> value, long header, ref LocalResult result)
    {
        if (!_worker.TryWrite(key, value, header))
        {
            result.Error = LocalError.OutOfMemory;
            return false;
        }

        if (_engine.Watched.Any) _engine.Watched.Touch(_store.Stripes.Of(hash), key, hadExpired: false);
        return true;
    }

    private bool LacksMemory(ref LocalResult result)
    {
        if (!_engine.IsOutOfMemory) return false;
        result.Error = LocalError.OutOfMemory;
        return true;
    }

    // The clock is only looked at for a key that expires.
    private bool IsPast(long expiryMs) => expiryMs != 0 && CommandEngine.IsPast(expiryMs, _engine.Options.NowMs());

    // What is larger would be taken for a record's other marks.
    private static void CheckExpiry(long expiryMs)
    {
        if (expiryMs is < 0 or > CommandEngine.ExpiryMsMax)
            throw new ArgumentOutOfRangeException(nameof(expiryMs), expiryMs, $"An expiry is between 1 and {CommandEngine.ExpiryMsMax} "
                + "milliseconds after the beginning of 1970, or 0 for none.");
    }

    private void CheckSize(ReadOnlySpan<byte> key, int valueBytes)
    {
        if (key.Length > CommandEngine.KeyBytesMax)
            throw new ArgumentException($"A key has at most {CommandEngine.KeyBytesMax} bytes, not {key.Length}.", nameof(key));
        if (valueBytes > CommandEngine.ValueBytesMax)
            throw new ArgumentException($"A value has at most {CommandEngine.ValueBytesMax} bytes, not {valueBytes}.", nameof(valueBytes));
        if (key.Length + valueBytes > _store.RecordBytesMax)
            throw new ArgumentException($"A key and its value have at most {_store.RecordBytesMax} bytes here, as a page of the log has to "
                + $"hold them, not {key.Length + valueBytes}.", nameof(valueBytes));
    }

    // What is read goes where the caller wants it.
    private sealed class SpanSink : ValueSink
    {
        private byte* _at;
        private int _length;

        public void Begin(byte* at, int length)
        {
            _at = at;
            _length = length;
        }

        internal override void Set(ReadOnlySpan<byte> bytes) => bytes[..Math.Min(bytes.Length, _length)].CopyTo(new(_at, _length));
    }
}
