// What a record is to become: it is written into the log from where the caller has it.
using FASTER.core;

namespace Slogger.Faster.Records;

/// <summary>A value and its header. The memory is the caller's, for the time of the operation.</summary>
/// <param name="Header">The value's header, see <see cref="RecordHeader"/>.</param>
/// <param name="Value">Where the value is.</param>
/// <param name="Length">Its length in bytes.</param>
internal readonly unsafe record struct RecordInput(long Header, nint Value, int Length)
{
    public int Bytes => RecordHeader.Bytes + Length;

    public void CopyTo(byte* target)
    {
        *(long*)target = Header;
        new ReadOnlySpan<byte>((void*)Value, Length).CopyTo(new(target + RecordHeader.Bytes, Length));
    }
}

/// <summary>How much room a record takes, as FASTER asks.</summary>
internal sealed class RecordLengths : IVariableLengthStruct<SpanByte, RecordInput>
{
    public int GetInitialLength(ref RecordInput input) => sizeof(int) + input.Bytes;

    public int GetLength(ref SpanByte present, ref RecordInput input) => sizeof(int) + input.Bytes;
}
