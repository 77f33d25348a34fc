// Memory outside the collected heap for bytes on the way: it never moves, so the kernel and the scanners work in place.
using System.Runtime.InteropServices;

namespace Slogger.FrontEnd.Transports;

/// <summary>A growing byte buffer with a read position: bytes enter at the tail and leave at the head.</summary>
internal unsafe struct NativeBuffer
{
    private byte* _start;
    private nint _capacity;
    private nint _head;
    private nint _tail;

    /// <summary>Bytes between head and tail.</summary>
    public readonly nint Count => _tail - _head;

    /// <summary>Bytes of memory held.</summary>
    public readonly nint Capacity => _capacity;

    /// <summary>The first byte that has not left.</summary>
    public readonly byte* Head => _start + _head;

    /// <summary>Where the next byte enters.</summary>
    public readonly byte* Tail => _start + _tail;

    /// <summary>How many bytes can enter without another call of <see cref="Reserve"/>.</summary>
    public readonly nint Room => _capacity - _tail;

    /// <summary>Makes room for so many bytes at the tail; may move the content.</summary>
    public void Reserve(nint count)
    {
        if (_capacity - _tail >= count) { return; }
        // Moving the rest to the front costs its length: done only when at least as much has left, so that it is paid for.
        if (_head > 0 && _head >= _tail - _head)
        {
            Buffer.MemoryCopy(_start + _head, _start, _capacity, _tail - _head);
            _tail -= _head;
            _head = 0;
            if (_capacity - _tail >= count) { return; }
        }
        nint wanted = Math.Max(_tail + count, Math.Min(_capacity * 2, _capacity + (64 << 20)));
        _start = (byte*)NativeMemory.Realloc(_start, (nuint)wanted);
        _capacity = wanted;
    }

    /// <summary>Bytes were written at <see cref="Tail"/>.</summary>
    public void Commit(nint count) => _tail += count;

    /// <summary>Bytes left from <see cref="Head"/>.</summary>
    public void Consume(nint count)
    {
        _head += count;
        if (_head == _tail) { _head = _tail = 0; }
    }

    /// <summary>Adds a copy of bytes at the tail.</summary>
    public void Append(byte* bytes, nint count)
    {
        Reserve(count);
        Buffer.MemoryCopy(bytes, _start + _tail, _capacity - _tail, count);
        _tail += count;
    }

    /// <summary>Adds a copy of bytes at the tail.</summary>
    public void Append(ReadOnlySpan<byte> bytes)
    {
        Reserve(bytes.Length);
        bytes.CopyTo(new Span<byte>(_start + _tail, bytes.Length));
        _tail += bytes.Length;
    }

    /// <summary>Drops the content, and the memory beyond so many bytes.</summary>
    public void Clear(nint keepCapacity)
    {
        _head = _tail = 0;
        if (_capacity > keepCapacity) { Free(); }
    }

    /// <summary>Gives the memory back.</summary>
    public void Free()
    {
        NativeMemory.Free(_start);
        _start = null;
        _capacity = _head = _tail = 0;
    }
}
