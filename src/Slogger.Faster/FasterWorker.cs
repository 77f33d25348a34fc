// One thread's way to the records.
using System.Runtime.CompilerServices;
using FASTER.core;
using Slogger.Faster.Keys;
using Slogger.Faster.Memory;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>Reads and changes records. For one thread at a time. A change is made between <see cref="Enter(ReadOnlySpan{byte})"/> and
/// <see cref="Exit"/> of its key; what is read there does not change meanwhile.</summary>
/// <remarks>Whoever does several things with a key computes its hash once, and gives it along.</remarks>
public sealed unsafe class FasterWorker : IDisposable
{
    private const int ValueBytesKept = 64 << 10;
    private readonly FasterStore _store;
    private readonly LogSpace _space;
    private readonly Rollback _rollback;
    private readonly MemoryHints? _hints;
    private readonly ValueBuffer _before = new();
    private readonly ClientSession<SpanByte, SpanByte, RecordInput, RecordOutput, Empty, RecordFunctions> _session;

    internal FasterWorker(FasterStore store)
    {
        (_store, _space, _rollback, _hints) = (store, store.Space, store.Rollback, store.Hints);
        _session = store.Kv.For(Functions).NewSession<RecordFunctions>(
            sessionVariableLengthStructSettings: new() { valueLength = new RecordLengths() });
    }

    /// <summary>What this worker has made and removed.</summary>
    internal RecordFunctions Functions { get; } = new();

    /// <summary>The hash of a key.</summary>
    public static long HashOf(ReadOnlySpan<byte> key) => KeyComparer.Hash(key);

    /// <summary>Takes the lock of a key. One that the thread holds may be taken again.</summary>
    /// <returns>What to give back with <see cref="Exit"/>.</returns>
    public int Enter(ReadOnlySpan<byte> key) => Enter(HashOf(key));

    /// <inheritdoc cref="Enter(ReadOnlySpan{byte})" />
    /// <param name="hash">The key's hash.</param>
    public int Enter(long hash) => _store.Stripes.Enter(_store.Stripes.Of(hash));

    /// <summary>Gives a lock back.</summary>
    /// <param name="entered">What taking it returned.</param>
    public void Exit(int entered) => _store.Stripes.Exit(entered);

    /// <summary>Which lock a key has: several keys may have the same.</summary>
    public int StripeOf(ReadOnlySpan<byte> key) => _store.Stripes.Of(HashOf(key));

    /// <summary>Reads a record, with or without its lock: whoever holds the lock of another key holds this one's, too, else two threads may
    /// wait for each other.</summary>
    /// <param name="key">Its key.</param>
    /// <param name="into">Where its value goes; null: it is not wanted.</param>
    /// <param name="expiryMs">When it expires, in milliseconds since the Unix epoch; 0: never. It may be past.</param>
    /// <param name="length">The value's length in bytes.</param>
    /// <returns>Whether there is one.</returns>
    public bool TryRead(ReadOnlySpan<byte> key, ValueSink? into, out long expiryMs, out int length) =>
        TryRead(key, HashOf(key), into, out expiryMs, out length);

    /// <inheritdoc cref="TryRead(ReadOnlySpan{byte}, ValueSink?, out long, out int)" />
    public bool TryRead(ReadOnlySpan<byte> key, long hash, ValueSink? into, out long expiryMs, out int length)
    {
        RecordOutput output = new() { Into = into };
        bool found = ReadNewest(key, hash, ref output);
        (expiryMs, length) = (RecordHeader.Expiry(output.Header), output.Length);
        return found && expiryMs != RecordHeader.Removed;
    }

    /// <summary>Makes or replaces a record. Its lock is held.</summary>
    /// <param name="key">Its key.</param>
    /// <param name="value">Its value.</param>
    /// <param name="expiryMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
    /// <exception cref="ArgumentException">It is larger than a page of the log.</exception>
    /// <exception cref="InvalidOperationException">The memory for records is full: <see cref="FasterStore.IsOutOfMemory"/> was not
    /// asked.</exception>
    public void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs)
    {
        if (expiryMs is < 0 or >= RecordHeader.Removed)
            throw new ArgumentOutOfRangeException(nameof(expiryMs), "An expiry is a time since 1970.");
        Change(key, value, expiryMs);
    }

    /// <summary>Removes a record, if there is one: one that says so takes its place. Its lock is held.</summary>
    public void Remove(ReadOnlySpan<byte> key) => Remove(key, HashOf(key));

    /// <inheritdoc cref="Remove(ReadOnlySpan{byte})" />
    public void Remove(ReadOnlySpan<byte> key, long hash)
    {
        if (TryRead(key, hash, null, out _, out _)) Change(key, [], RecordHeader.Removed);
    }

    /// <summary>Makes or replaces a record, of a size that is known to be allowed. Its lock is held.</summary>
    /// <returns>No: there is no room for any.</returns>
    internal bool TryWrite(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header)
    {
        return !_store.IsFull && Apply(key, value, header);
    }

    /// <summary>A key's record will be needed: its bucket is fetched meanwhile.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void PrefetchBucket(long hash) => _hints?.PrefetchBucket(hash);

    /// <summary>The record itself, if the bucket has been fetched.</summary>
    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    internal void PrefetchRecord(long hash) => _hints?.PrefetchRecord(hash);

    /// <inheritdoc />
    public void Dispose()
    {
        _store.Retire(this);
        _session.Dispose();
    }

    /// <summary>Brings a key back to what it was where an undone stretch begins, if its newest record is in it. Does nothing if that is not
    /// the stretch that is being undone any more: another rollback may go back further.</summary>
    internal void PutBack(ReadOnlySpan<byte> key, long hash, Undo undo)
    {
        int entered = Enter(hash);
        try
        {
            // No other rollback begins while a lock is held.
            if (_rollback.BeingUndone == undo) Restore(key, undo);
        }
        finally
        {
            Exit(entered);
        }
    }

    /// <summary>How many bytes of the log it takes to put back a key whose record was taken back, if that is its first one.</summary>
    /// <param name="key">The key.</param>
    /// <param name="previous">The address that the record names as the one before.</param>
    /// <param name="from">Where the stretch begins that is taken back.</param>
    internal long BytesToPutBack(ReadOnlySpan<byte> key, long previous, long from)
    {
        RecordOutput output = default;
        bool found;
        RecordMetadata record = default;
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length);
            ReadOptions options = default;
            SetStartAddress(ref options, previous);
            found = previous >= _store.Kv.Log.BeginAddress && Read(ref name, ref options, ref output, out record);
        }

        if (found && record.Address >= from) return 0;
        int bytes = RecordFunctions.Size(key.Length, RecordHeader.Bytes + (found ? output.Length : 0));
        // A large one may leave as much of a page empty.
        return bytes > _space.Budget.LargeBytes ? bytes * 2L : bytes + (bytes / 16);
    }

    // Its lock is held. Nothing is allocated: while a rollback is under way each key comes here once, and each of the purge's records.
    private void Restore(ReadOnlySpan<byte> key, Undo undo)
    {
        bool found;
        RecordOutput output = default;
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length);
            ReadOptions options = default;
            if (!Read(ref name, ref options, ref output, out RecordMetadata record) || !undo.Holds(record.Address)) return;
            long begin = _store.Kv.Log.BeginAddress;
            do
            {
                long previous = record.RecordInfo.PreviousAddress;
                SetStartAddress(ref options, previous);
                // What lies there, or below, was not taken back.
                if (previous < undo.From) output.Into = _before;
                found = previous >= begin && Read(ref name, ref options, ref output, out record);
            }
            while (found && record.Address >= undo.From);
        }

        bool isPut = found ? Put(key, _before.Bytes, RecordHeader.OfCopy(output.Header))
            : Put(key, [], RecordHeader.Removed | RecordHeader.Copied);
        _before.Trim(ValueBytesKept);
        if (!isPut) throw _rollback.TooSmallToGoBack();
    }

    /// <summary>Makes a copy of a record at the log's end, if it is still its key's newest and has a value: then what is below is needed
    /// no more.</summary>
    /// <returns>Whether it did so. No, and everything is as it was, while a rollback is under way, or if there is no room.</returns>
    internal bool CopyUp(ReadOnlySpan<byte> key, long hash, ReadOnlySpan<byte> record, long address)
    {
        if (!IsNewest(key, hash, address)) return true;
        int entered = Enter(hash);
        try
        {
            if (_rollback.BeingUndone is not null) return false;
            long header = Unsafe.ReadUnaligned<long>(in record[0]);
            return RecordHeader.IsRemoved(header) || !IsNewest(key, hash, address)
                || Put(key, record[RecordHeader.Bytes..], RecordHeader.OfCopy(header));
        }
        finally
        {
            Exit(entered);
        }
    }

    private bool IsNewest(ReadOnlySpan<byte> key, long hash, long address)
    {
        RecordOutput output = default;
        return ReadNewest(key, hash, ref output) && output.Address == address;
    }

    // The newest record that was not taken back, as it was at one moment.
    private bool ReadNewest(ReadOnlySpan<byte> key, long hash, ref RecordOutput output)
    {
        int stripe = _store.Stripes.Of(hash);
        while (true)
        {
            long seen = _store.Stripes.Look(stripe);
            bool found = Read(key, ref output);
            if (_rollback.BeingUndone is { } undo && found && undo.Holds(output.Address)) PutBack(key, hash, undo);
            else if (_store.Stripes.IsUnchanged(stripe, seen)) return found;
        }
    }

    private void Change(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header)
    {
        _space.Admit(key.Length + value.Length);
        if (!Apply(key, value, header)) throw _space.Full();
    }

    // What it replaces is counted: that must be what was not taken back.
    private bool Apply(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header) => Put(key, value, header, _rollback.BeingUndone);

    // No: it is large, and there is no room.
    private bool Put(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header, Undo? undo = null)
    {
        if (key.Length + value.Length > _space.Budget.LargeBytes) return PutLarge(key, value, header, undo);
        Append(key, value, header, undo);
        return true;
    }

    // One at a time, so that the pages behind the wall are enough for those who have just been admitted.
    private bool PutLarge(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header, Undo? undo)
    {
        lock (_space.LargeGate)
        {
            if (_store.IsFull) return false;
            Append(key, value, header, undo);
            return true;
        }
    }

    private void Append(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long header, Undo? undo)
    {
        RecordOutput output = new() { Undone = undo };
        Status status;
        fixed (byte* at = key, bytes = value)
        {
            SpanByte name = Name(at, key.Length);
            var input = new RecordInput(header, (nint)bytes, value.Length);
            status = _session.RMW(ref name, ref input, ref output);
            if (status.IsPending) throw OnDisk();
        }

        if (status.IsCanceled)
        {
            Restore(key, undo!);
            Append(key, value, header, null);
            return;
        }

        if (output.IsAppended) _space.Reached(_store.Kv.Log.TailAddress);
        if (_store.Keys is { } keys && !KeyDirectory.IsSame(output.Before, header)) keys.Note(HashOf(key), key, header);
    }

    private bool Read(ReadOnlySpan<byte> key, ref RecordOutput output)
    {
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length);
            RecordInput none = default;
            Status status = _session.Read(ref name, ref none, ref output);
            if (status.IsPending) throw OnDisk();
            return status.Found;
        }
    }

    // From an address on downwards, if one is given.
    private bool Read(ref SpanByte name, ref ReadOptions options, ref RecordOutput output, out RecordMetadata record)
    {
        RecordInput none = default;
        Status status = _session.Read(ref name, ref none, ref output, ref options, out record);
        if (status.IsPending) throw OnDisk();
        return status.Found;
    }

    // FASTER means it to be set: the address of a record that another names as the one before. But it has made only the getter public.
    [UnsafeAccessor(UnsafeAccessorKind.Method, Name = "set_StartAddress")]
    private static extern void SetStartAddress(ref ReadOptions options, long address);

    private static InvalidOperationException OnDisk() => new("FASTER looks for a record on disk, but the whole log is kept in memory.");

    private static SpanByte Name(byte* at, int length) => SpanByte.FromPointer(at, length);
}
