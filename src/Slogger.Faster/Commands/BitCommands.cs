// Commands on values that are bits.
using System.Numerics;
using System.Runtime.InteropServices;

namespace Slogger.Faster.Commands;

/// <summary>Commands on bits.</summary>
internal sealed class BitCommands(Request request, Replies replies, Keyspace keys)
{
    private const string BadOffset = "ERR bit offset is not an integer or out of range";
    private const string BadBit = "ERR bit is not an integer or out of range";

    public void SetBit()
    {
        if (!TryBitOffset(out long offset) || !request.TryInteger(3, replies, out long bit, BadBit)) return;
        if (bit is not (0 or 1))
        {
            replies.Error(BadBit);
            return;
        }

        bool exists = keys.Load(request[1], out long expiryMs);
        int before = exists ? keys.Value.Bytes.Length : 0, at = (int)(offset >> 3), mask = 1 << (int)(7 - (offset & 7));
        int length = Math.Max(before, at + 1);
        if (!keys.Fits(request[1], length)) return;
        if (!exists) keys.Value.Resize(0);
        Span<byte> value = keys.Value.Resize(length);
        bool was = (value[at] & mask) != 0;
        // What changes nothing is no write.
        if (length > before || was != (bit == 1))
        {
            value[at] = (byte)(bit == 1 ? value[at] | mask : value[at] & ~mask);
            keys.Put(request[1], value, expiryMs);
        }

        replies.Integer(was ? 1 : 0);
    }

    public void GetBit()
    {
        if (!TryBitOffset(out long offset)) return;
        bool exists = keys.Count(keys.Load(request[1], out _)) && offset >> 3 < keys.Value.Bytes.Length;
        bool isSet = exists && (keys.Value.Bytes[(int)(offset >> 3)] & (1 << (int)(7 - (offset & 7)))) != 0;
        replies.Integer(isSet ? 1 : 0);
    }

    public void CountBits()
    {
        if (!keys.Count(keys.Load(request[1], out _)))
        {
            replies.Integer(0);
            return;
        }

        ReadOnlySpan<byte> value = keys.Value.Bytes;
        long start = 0, end = value.Length - 1;
        int before = 0, behind = 0;     // bits of the first and last byte that do not count
        if (request.Count is 4 or 5)
        {
            if (!request.TryInteger(2, replies, out start) || !request.TryInteger(3, replies, out end)) return;
            bool isEmpty = start < 0 && end < 0 && start > end, isBits = request.Count == 5 && request.Is(4, "bit"u8);
            if (!isEmpty && request.Count == 5 && !isBits && !request.Is(4, "byte"u8))
            {
                replies.Error(ErrorText.Syntax);
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
        else if (request.Count != 2)
        {
            replies.Error(ErrorText.Syntax);
            return;
        }

        replies.Integer(start > end ? 0 : Count(value[(int)start..((int)end + 1)], before, behind));
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
        if (!request.TryInteger(2, replies, out offset, BadOffset)) return false;
        if (offset >= 0 && offset >> 3 < RequestReader.BulkBytesMax) return true;
        replies.Error(BadOffset);
        return false;
    }
}
