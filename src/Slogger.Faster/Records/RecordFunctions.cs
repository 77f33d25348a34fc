// How FASTER reads and writes our records: whole values only, so that what a record holds never depends on another. Each worker has
// functions of its own, which count the keys that it makes and removes.
using System.Runtime.CompilerServices;
using FASTER.core;

namespace Slogger.Faster.Records;

/// <summary>What a read found, or a write made.</summary>
internal struct RecordOutput
{
    /// <summary>Where the value is to go; null: it is not wanted.</summary>
    public ValueSink? Into;

    /// <summary>Its header.</summary>
    public long Header;

    /// <summary>How long the value is, in bytes, without its header.</summary>
    public int Length;

    /// <summary>Of a read: where the record is.</summary>
    public long Address;

    /// <summary>Of a write: the stretch of the log whose records it may not replace; null: there is none.</summary>
    public Undo? Undone;

    /// <summary>Of a write: whether it has made the log longer.</summary>
    public bool IsAppended;

    /// <summary>Of a write: the header of the key's newest record before it; if there was none, that the key is removed.</summary>
    public long Before;
}

internal sealed unsafe class RecordFunctions : FunctionsBase<SpanByte, SpanByte, RecordInput, RecordOutput, Empty>
{
    private const int InfoBytes = 8, LengthBytes = sizeof(int), Alignment = 8;

    /// <summary>Keys made, less those removed.</summary>
    public long Keys { get; private set; }

    /// <summary>Bytes of the log that their records take.</summary>
    public long Bytes { get; private set; }

    public override bool SingleReader(
        ref SpanByte key, ref RecordInput input, ref SpanByte value, ref RecordOutput output, ref ReadInfo info) => Read(ref value,
        ref output, info.Address);

    public override bool ConcurrentReader(
        ref SpanByte key, ref RecordInput input, ref SpanByte value, ref RecordOutput output, ref ReadInfo info) => Read(ref value,
        ref output, info.Address);

    public override bool InitialUpdater(
        ref SpanByte key, ref RecordInput input, ref SpanByte value, ref RecordOutput output, ref RMWInfo info)
    {
        Count(key.Length, output.Before = RecordHeader.Removed, 0, input);
        output.IsAppended = true;
        input.CopyTo(value.ToPointer());
        return true;
    }

    // A record that was taken back has to be put back first: see FasterWorker. None of them is brought up to date in its place.
    public override bool NeedCopyUpdate(
        ref SpanByte key, ref RecordInput input, ref SpanByte old, ref RecordOutput output, ref RMWInfo info)
    {
        if (output.Undone is not { } undone || !undone.Holds(info.Address)) return true;
        info.Action = RMWAction.CancelOperation;
        return false;
    }

    public override bool CopyUpdater(
        ref SpanByte key, ref RecordInput input, ref SpanByte old, ref SpanByte value, ref RecordOutput output, ref RMWInfo info)
    {
        Count(key.Length, output.Before = Header(ref old), old.Length, input);
        output.IsAppended = true;
        input.CopyTo(value.ToPointer());
        return true;
    }

    // The new one can be found by now.
    public override void PostCopyUpdater(
        ref SpanByte key, ref RecordInput input, ref SpanByte old, ref SpanByte value, ref RecordOutput output, ref RMWInfo info) =>
        RecordHeader.MarkReplaced(old.ToPointer());

    public override bool InPlaceUpdater(
        ref SpanByte key, ref RecordInput input, ref SpanByte value, ref RecordOutput output, ref RMWInfo info)
    {
        if (value.Length < input.Bytes) return false;
        Count(key.Length, output.Before = Header(ref value), value.Length, input);
        value.ShrinkSerializedLength(input.Bytes);
        input.CopyTo(value.ToPointer());
        return true;
    }

    private static long Header(ref SpanByte value) => Unsafe.ReadUnaligned<long>(value.ToPointer());

    private static bool Read(ref SpanByte value, ref RecordOutput output, long address)
    {
        output.Address = address;
        output.Header = Header(ref value);
        output.Length = value.Length - RecordHeader.Bytes;
        output.Into?.Set(value.AsReadOnlySpan()[RecordHeader.Bytes..]);
        return true;
    }

    // A copy changes nothing that counts.
    private void Count(int key, long oldHeader, int oldBytes, in RecordInput input)
    {
        if (RecordHeader.IsCopy(input.Header)) return;
        if (!RecordHeader.IsRemoved(oldHeader)) (Keys, Bytes) = (Keys - 1, Bytes - Size(key, oldBytes));
        if (!RecordHeader.IsRemoved(input.Header)) (Keys, Bytes) = (Keys + 1, Bytes + Size(key, input.Bytes));
    }

    /// <summary>Bytes of the log that a record takes.</summary>
    /// <param name="key">The key's length.</param>
    /// <param name="value">That of the header and the value.</param>
    public static int Size(int key, int value) => InfoBytes + Align(LengthBytes + key) + Align(LengthBytes + value);

    private static int Align(int bytes) => (bytes + Alignment - 1) & -Alignment;
}
