// Commands on values that are numbers or bits.
using System.Numerics;
using System.Runtime.InteropServices;

namespace Slogger.Faster.Commands;

public sealed unsafe partial class CommandConnection
{
    private const string BadOffset = "ERR bit offset is not an integer or out of range";
    private const string BadBit = "ERR bit is not an integer or out of range";

    internal void Increment() => Add(1);

    internal void Decrement() => Add(-1);

    internal void IncrementBy()
    {
        if (TryInteger(2, out long by)) Add(by);
    }

    internal void DecrementBy()
    {
        if (!TryInteger(2, out long by)) return;
        if (by == long.MinValue) Error("ERR decrement would overflow");
        else Add(-by);
    }

    internal void IncrementByFloat()
    {
        bool exists = Load(ArgumentAt(1), out long expiryMs);
        Extended value = Extended.Zero;
        if ((exists && !Extended.TryParse(_value.Bytes, out value)) || !Extended.TryParse(ArgumentAt(2), out Extended by))
        {
            Error("ERR value is not a valid float");
            return;
        }

        Extended sum = value + by;
        if (!sum.IsFinite)
        {
            Error("ERR increment would produce NaN or Infinity");
            return;
        }

        byte[] text = System.Text.Encoding.ASCII.GetBytes(sum.ToString());
        if (!Fits(ArgumentAt(1), text.Length)) return;
        Put(ArgumentAt(1), text, expiryMs);
        Bulk(text);
    }

    internal void SetBit()
    {
        if (!TryBitOffset(out long offset) || !TryInteger(3, out long bit, BadBit)) return;
        if (bit is not (0 or 1))
        {
            Error(BadBit);
            return;
        }

        bool exists = Load(ArgumentAt(1), out long expiryMs);
        int before = exists ? _value.Bytes.Length : 0, at = (int)(offset >> 3), mask = 1 << (int)(7 - (offset & 7));
        int length = Math.Max(before, at + 1);
        if (!Fits(ArgumentAt(1), length)) return;
        if (!exists) _value.Resize(0);
        Span<byte> value = _value.Resize(length);
        bool was = (value[at] & mask) != 0;
        // What changes nothing is no write.
        if (length > before || was != (bit == 1))
        {
            value[at] = (byte)(bit == 1 ? value[at] | mask : value[at] & ~mask);
            Put(ArgumentAt(1), value, expiryMs);
        }

        Integer(was ? 1 : 0);
    }

    internal void GetBit()
    {
        if (!TryBitOffset(out long offset)) return;
        bool isSet = Count(Load(ArgumentAt(1), out _)) && offset >> 3 < _value.Bytes.Length && (_value.Bytes[(int)(offset >> 3)] & (1 << (int)(7 - (offset & 7)))) != 0;
        Integer(isSet ? 1 : 0);
    }

    internal void CountBits()
    {
        if (!Count(Load(ArgumentAt(1), out _)))
        {
            Integer(0);
            return;
        }

        ReadOnlySpan<byte> value = _value.Bytes;
        long start = 0, end = value.Length - 1;
        int before = 0, behind = 0;     // bits of the first and last byte that do not count
        if (_count is 4 or 5)
        {
            if (!TryInteger(2, out start) || !TryInteger(3, out end)) return;
            bool isEmpty = start < 0 && end < 0 && start > end, isBits = _count == 5 && IsArgument(4, "bit"u8);
            if (!isEmpty && _count == 5 && !isBits && !IsArgument(4, "byte"u8))
            {
                Error(SyntaxError);
                return;
            }

            long total = isBits ? value.Length * 8L : value.Length;
            if (start < 0) start = Math.Max(0, total + start);
            if (end < 0) end = Math.Max(0, total + end);
            end = Math.Min(end, total - 1);
            if (isEmpty) (start, end) = (1, 0);
            if (isBits && start <= end)
            {
                (before, behind) = ((int)(start & 7), (int)(7 - (end & 7)));
                (start, end) = (start >> 3, end >> 3);
            }
        }
        else if (_count != 2)
        {
            Error(SyntaxError);
            return;
        }

        Integer(start > end ? 0 : Count(value[(int)start..((int)end + 1)], before, behind));
    }

    private static long Count(ReadOnlySpan<byte> bytes, int before, int behind)
    {
        long count = 0;
        ReadOnlySpan<ulong> words = MemoryMarshal.Cast<byte, ulong>(bytes);
        foreach (ulong word in words) count += BitOperations.PopCount(word);
        foreach (byte b in bytes[(words.Length * sizeof(ulong))..]) count += BitOperations.PopCount(b);
        return count - BitOperations.PopCount((uint)bytes[0] >> (8 - before)) - BitOperations.PopCount(bytes[^1] & ((1u << behind) - 1));
    }

    private bool TryBitOffset(out long offset)
    {
        if (!TryInteger(2, out offset, BadOffset)) return false;
        if (offset >= 0 && offset >> 3 < BulkBytesMax) return true;
        Error(BadOffset);
        return false;
    }

    private void Add(long by)
    {
        long value = 0;
        if (Load(ArgumentAt(1), out long expiryMs) && !Numbers.TryParse(_value.Bytes, out value))
        {
            Error(NotAnInteger);
            return;
        }

        if ((by < 0 && value < 0 && by < long.MinValue - value) || (by > 0 && value > 0 && by > long.MaxValue - value))
        {
            Error("ERR increment or decrement would overflow");
            return;
        }

        value += by;
        if (!Fits(ArgumentAt(1), Numbers.BytesMax)) return;
        Span<byte> text = stackalloc byte[Numbers.BytesMax];
        Put(ArgumentAt(1), text[..Numbers.Format(value, text)], expiryMs);
        Integer(value);
    }
}
