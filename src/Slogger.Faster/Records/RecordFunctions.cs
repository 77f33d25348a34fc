// How FASTER reads and writes our records: whole values only, so that what a record holds never depends on another. A value begins
// with a header of eight bytes: when it expires, in milliseconds since the Unix epoch, or 0, or that it is removed. FASTER's own removal is
// not used: it takes keys out of their chain of records, and so loses what they were in versions before.
using System.Runtime.CompilerServices;
using FASTER.core;

namespace Slogger.Faster.Records;

/// <summary>What a read found.</summary>
internal struct ReadOutput
{
    /// <summary>Where the value is to go, header included; null: it is not wanted.</summary>
    public ValueBuffer? Into;

    /// <summary>When it expires, milliseconds since the Unix epoch; 0: never.</summary>
    public long ExpiryMs;

    /// <summary>How long the value is, in bytes, without its header.</summary>
    public int Length;

    /// <summary>Where the record is.</summary>
    public long Address;
}

internal sealed unsafe class RecordFunctions : FunctionsBase<SpanByte, SpanByte, SpanByte, ReadOutput, Empty>
{
    public const int HeaderBytes = sizeof(long);

    /// <summary>In place of an expiry: the key has no value.</summary>
    public const long Removed = long.MinValue;

    public override bool SingleReader(ref SpanByte key, ref SpanByte input, ref SpanByte value, ref ReadOutput output, ref ReadInfo info) =>
        Read(ref value, ref output, ref info);

    public override bool ConcurrentReader(ref SpanByte key, ref SpanByte input, ref SpanByte value, ref ReadOutput output, ref ReadInfo info) =>
        Read(ref value, ref output, ref info);

    public override bool SingleWriter(ref SpanByte key, ref SpanByte input, ref SpanByte source, ref SpanByte target, ref ReadOutput output, ref UpsertInfo info, WriteReason reason)
    {
        output.Address = info.Address;
        source.CopyTo(ref target);
        return true;
    }

    public override bool ConcurrentWriter(ref SpanByte key, ref SpanByte input, ref SpanByte source, ref SpanByte target, ref ReadOutput output, ref UpsertInfo info)
    {
        if (target.Length < source.Length) return false;
        output.Address = info.Address;
        target.ShrinkSerializedLength(source.Length);
        source.CopyTo(ref target);
        return true;
    }

    private static bool Read(ref SpanByte value, ref ReadOutput output, ref ReadInfo info)
    {
        output.Address = info.Address;
        output.ExpiryMs = Unsafe.ReadUnaligned<long>(value.ToPointer());
        output.Length = value.Length - HeaderBytes;
        output.Into?.Set(value.AsReadOnlySpan()[HeaderBytes..]);
        return true;
    }
}
