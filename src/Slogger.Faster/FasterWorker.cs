// One thread's way to the records.
using System.Buffers.Binary;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using FASTER.core;
using Slogger.Faster.Records;

namespace Slogger.Faster;

/// <summary>Reads and changes records. For one thread at a time. A change is made between <see cref="Enter"/> and <see cref="Exit"/> of its
/// key; what is read there does not change meanwhile.</summary>
public sealed unsafe class FasterWorker : IDisposable
{
    private readonly FasterStore _store;
    private readonly ClientSession<SpanByte, SpanByte, SpanByte, ReadOutput, Empty, RecordFunctions> _session;
    private nint _scratch;
    private int _scratchBytes;

    internal FasterWorker(FasterStore store)
    {
        _store = store;
        _session = store.Kv.For(new RecordFunctions()).NewSession<RecordFunctions>(
            sessionVariableLengthStructSettings: new() { valueLength = new SpanByteVarLenStructForSpanByteInput(), inputLength = new SpanByteVarLenStruct() });
    }

    /// <summary>Takes the lock of a key.</summary>
    /// <returns>What to give back with <see cref="Exit"/>.</returns>
    public int Enter(ReadOnlySpan<byte> key)
    {
        int stripe = StripeOf(key);
        _store.Stripes.Enter(stripe);
        return stripe;
    }

    /// <summary>Gives a lock back.</summary>
    public void Exit(int stripe) => _store.Stripes.Exit(stripe);

    /// <summary>Which lock a key has: several keys may have the same.</summary>
    public int StripeOf(ReadOnlySpan<byte> key)
    {
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length);
            return _store.Stripes.Of(_store.Kv.GetKeyHash(ref name));
        }
    }

    /// <summary>Reads a record, with or without its lock.</summary>
    /// <param name="key">Its key.</param>
    /// <param name="into">Where its value goes; null: it is not wanted.</param>
    /// <param name="expiryMs">When it expires, in milliseconds since the Unix epoch; 0: never. It may be past.</param>
    /// <param name="length">The value's length in bytes.</param>
    /// <returns>Whether there is one.</returns>
    public bool TryRead(ReadOnlySpan<byte> key, ValueBuffer? into, out long expiryMs, out int length)
    {
        ReadOutput output = new() { Into = into };
        bool found = Read(key, ref output);
        if (_store.BeingUndone is { } undo && (!found || undo.Holds(output.Address)))
        {
            int stripe = Enter(key);
            try
            {
                Restore(key, undo);
                output = new() { Into = into };
                found = Read(key, ref output);
            }
            finally
            {
                Exit(stripe);
            }
        }

        (expiryMs, length) = (output.ExpiryMs, output.Length);
        return found && expiryMs != RecordFunctions.Removed;
    }

    /// <summary>Makes or replaces a record. Its lock is held.</summary>
    /// <param name="key">Its key.</param>
    /// <param name="value">Its value.</param>
    /// <param name="expiryMs">When it expires, in milliseconds since the Unix epoch; 0: never.</param>
    public void Write(ReadOnlySpan<byte> key, ReadOnlySpan<byte> value, long expiryMs)
    {
        int bytes = RecordFunctions.HeaderBytes + value.Length;
        if (bytes > _scratchBytes)
        {
            _scratchBytes = (int)Math.Min(Array.MaxLength, Math.Max(bytes, _scratchBytes * 2L));
            _scratch = (nint)NativeMemory.Realloc((void*)_scratch, (nuint)_scratchBytes);
        }

        byte* scratch = (byte*)_scratch;
        Unsafe.WriteUnaligned(scratch, expiryMs);
        value.CopyTo(new(scratch + RecordFunctions.HeaderBytes, value.Length));
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length), record = SpanByte.FromPointer(scratch, bytes);
            // Its present record may be one that was taken back, and must not be brought up to date in its place: it is read-only, so a new one is made.
            _session.Upsert(ref name, ref record);
        }
    }

    /// <summary>Removes a record, if there is one: one that says so takes its place. Its lock is held.</summary>
    public void Remove(ReadOnlySpan<byte> key)
    {
        if (TryRead(key, null, out _, out _)) Write(key, [], RecordFunctions.Removed);
    }

    /// <inheritdoc />
    public void Dispose()
    {
        _session.Dispose();
        NativeMemory.Free((void*)_scratch);
        (_scratch, _scratchBytes) = (0, 0);
    }

    /// <summary>Brings a key back to what it was where an undone stretch begins, if its newest record is in it. Its lock is held.</summary>
    internal void Restore(ReadOnlySpan<byte> key, FasterStore.Undo undo)
    {
        var found = new Before(undo);
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length);
            _store.Kv.Log.IterateKeyVersions(ref found, ref name);
        }

        if (!found.IsUndone) return;
        if (found.Value is { } value) Write(key, value.AsSpan(RecordFunctions.HeaderBytes), BinaryPrimitives.ReadInt64LittleEndian(value));
        else Write(key, [], RecordFunctions.Removed);
    }

    private bool Read(ReadOnlySpan<byte> key, ref ReadOutput output)
    {
        fixed (byte* at = key)
        {
            SpanByte name = Name(at, key.Length), none = default;
            Status status = _session.Read(ref name, ref none, ref output);
            // The whole log is in memory.
            if (status.IsPending) throw new InvalidOperationException("FASTER looks for a record on disk.");
            return status.Found;
        }
    }

    private static SpanByte Name(byte* at, int length) => SpanByte.FromPointer(at, length);

    // The newest record of a key, and if that was taken back, the newest that was not.
    private struct Before(FasterStore.Undo undo) : IScanIteratorFunctions<SpanByte, SpanByte>
    {
        public bool IsUndone { get; private set; }

        public byte[]? Value { get; private set; }

        public bool OnStart(long beginAddress, long endAddress) => true;

        public bool SingleReader(ref SpanByte key, ref SpanByte value, RecordMetadata recordMetadata, long numberOfRecords) => Look(ref value, recordMetadata);

        public bool ConcurrentReader(ref SpanByte key, ref SpanByte value, RecordMetadata recordMetadata, long numberOfRecords) => Look(ref value, recordMetadata);

        public void OnException(Exception exception, long numberOfRecords)
        {
        }

        public void OnStop(bool completed, long numberOfRecords)
        {
        }

        private bool Look(ref SpanByte value, RecordMetadata record)
        {
            if (record.Address >= undo.To) return false;
            if (record.Address >= undo.From)
            {
                IsUndone = true;
                return true;
            }

            if (IsUndone) Value = value.ToByteArray();
            return false;
        }
    }
}
