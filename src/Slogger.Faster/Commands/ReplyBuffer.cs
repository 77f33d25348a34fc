// Replies on their way out: written behind, read in front, in memory of its own that grows as needed and is given back when it was much.
using System.Buffers.Text;
using System.Runtime.CompilerServices;
using System.Runtime.InteropServices;
using System.Text;

namespace Slogger.Faster.Commands;

/// <summary>A queue of bytes in native memory. Not thread-safe.</summary>
public sealed unsafe class ReplyBuffer : IDisposable
{
    private const nint FirstBytes = 64 << 10;
    private const nint KeptBytes = 4 << 20;
    private byte* _memory;
    private nint _capacity;
    private nint _head;
    private nint _tail;

    /// <summary>Makes an empty buffer.</summary>
    /// <param name="fullBytes">From how many bytes on no further request is executed. A single reply may be longer.</param>
    public ReplyBuffer(nint fullBytes = 1 << 20)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(fullBytes, 1);
        FullBytes = fullBytes;
        _memory = (byte*)NativeMemory.Alloc((nuint)FirstBytes);
        _capacity = FirstBytes;
    }

    /// <summary>From how many bytes on no further request is executed.</summary>
    public nint FullBytes { get; }

    /// <summary>Whether as much is waiting as may be.</summary>
    public bool IsFull => Count >= FullBytes;

    /// <summary>How many bytes are waiting.</summary>
    public nint Count => _tail - _head;

    /// <summary>The first of them; valid until anything is written or consumed.</summary>
    public byte* Start => _memory + _head;

    /// <summary>Takes bytes off the front.</summary>
    public void Consume(nint bytes)
    {
        ArgumentOutOfRangeException.ThrowIfGreaterThan(bytes, Count);
        ArgumentOutOfRangeException.ThrowIfNegative(bytes);
        _head += bytes;
        if (_head != _tail) return;
        (_head, _tail) = (0, 0);
        if (_capacity > KeptBytes) Resize(FirstBytes);
    }

    /// <inheritdoc />
    public void Dispose()
    {
        NativeMemory.Free(_memory);
        _memory = null;
        (_capacity, _head, _tail) = (0, 0, 0);
    }

    /// <summary>How many bytes are there: a place to go back to.</summary>
    internal nint Mark => Count;

    /// <summary>Takes back what was written since.</summary>
    internal void Return(nint mark) => _tail = _head + mark;

    internal void Raw(ReadOnlySpan<byte> bytes)
    {
        bytes.CopyTo(new(Reserve(bytes.Length), bytes.Length));
        _tail += bytes.Length;
    }

    /// <summary>A kind, a number, the end of the line: an integer, or the beginning of something of that length.</summary>
    internal void Number(byte kind, long value)
    {
        byte* to = Reserve(24);
        *to++ = kind;
        if ((ulong)value < 10)
        {
            *to++ = (byte)('0' + value);
        }
        else if ((ulong)value < 100)
        {
            (uint tens, uint ones) = Math.DivRem((uint)value, 10);
            *to++ = (byte)('0' + tens);
            *to++ = (byte)('0' + ones);
        }
        else
        {
            _ = Utf8Formatter.TryFormat(value, new Span<byte>(to, 21), out int digits);
            to += digits;
        }

        Unsafe.WriteUnaligned(to, LineEnd);
        _tail = (nint)(to + 2 - _memory);
    }

    internal void Bulk(ReadOnlySpan<byte> bytes)
    {
        Reserve(bytes.Length + 32);
        Number((byte)'$', bytes.Length);
        byte* to = _memory + _tail;
        bytes.CopyTo(new(to, bytes.Length));
        Unsafe.WriteUnaligned(to + bytes.Length, LineEnd);
        _tail += bytes.Length + 2;
    }

    /// <summary>A line that is no data, in text.</summary>
    internal void Line(byte kind, string text)
    {
        int bytes = Encoding.Latin1.GetByteCount(text);
        byte* to = Reserve(bytes + 3);
        *to++ = kind;
        Encoding.Latin1.GetBytes(text, new Span<byte>(to, bytes));
        Unsafe.WriteUnaligned(to + bytes, LineEnd);
        _tail += bytes + 3;
    }

    private static ushort LineEnd => BitConverter.IsLittleEndian ? (ushort)0x0A0D : (ushort)0x0D0A;

    [MethodImpl(MethodImplOptions.AggressiveInlining)]
    private byte* Reserve(nint bytes)
    {
        if (_capacity - _tail < bytes) MakeRoom(bytes);
        return _memory + _tail;
    }

    [MethodImpl(MethodImplOptions.NoInlining)]
    private void MakeRoom(nint bytes)
    {
        nint count = Count;
        if (_head > 0)
        {
            Buffer.MemoryCopy(_memory + _head, _memory, _capacity, count);
            (_head, _tail) = (0, count);
        }

        if (_capacity - _tail < bytes) Resize(checked(Math.Max(_capacity * 2, count + bytes)));
    }

    private void Resize(nint capacity)
    {
        _memory = (byte*)NativeMemory.Realloc(_memory, (nuint)capacity);
        _capacity = capacity;
    }
}
