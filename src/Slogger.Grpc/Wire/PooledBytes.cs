// Bytes in an array of the pool that grows as it is written: where messages are compressed and taken apart again.
using System.Buffers;

namespace Slogger.Grpc.Wire;

/// <summary>A stream to write into, whose bytes are then looked at. One thread at a time.</summary>
internal sealed class PooledBytes : Stream, IBufferWriter<byte>
{
    private const int KeptMax = 64 << 10;
    private byte[] _bytes = [];
    private int _length;

    public ReadOnlyMemory<byte> Written => _bytes.AsMemory(0, _length);

    public override bool CanRead => false;

    public override bool CanSeek => false;

    public override bool CanWrite => true;

    public override long Length => _length;

    public override long Position { get => _length; set => throw new NotSupportedException(); }

    /// <summary>Forgets what is there. What has grown large is given back.</summary>
    public void Clear()
    {
        _length = 0;
        if (_bytes.Length > KeptMax) { Return(); }
    }

    public Memory<byte> GetMemory(int sizeHint = 0)
    {
        int needed = checked(_length + Math.Max(sizeHint, 1));
        if (needed > _bytes.Length)
        {
            byte[] larger = ArrayPool<byte>.Shared.Rent((int)Math.Min(Math.Max(needed, Math.Max(4096, _bytes.Length * 2L)), Array.MaxLength));
            Written.CopyTo(larger);
            Return();
            _bytes = larger;
        }
        return _bytes.AsMemory(_length);
    }

    public Span<byte> GetSpan(int sizeHint = 0) => GetMemory(sizeHint).Span;

    public void Advance(int count) => _length += count;

    public override void Write(ReadOnlySpan<byte> buffer)
    {
        buffer.CopyTo(GetSpan(buffer.Length));
        _length += buffer.Length;
    }

    public override void Write(byte[] buffer, int offset, int count) => Write(buffer.AsSpan(offset, count));

    public override void Flush() { }

    public override int Read(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    public override long Seek(long offset, SeekOrigin origin) => throw new NotSupportedException();

    public override void SetLength(long value) => throw new NotSupportedException();

    protected override void Dispose(bool disposing)
    {
        if (disposing) { Clear(); Return(); }
        base.Dispose(disposing);
    }

    private void Return()
    {
        byte[] old = _bytes;
        _bytes = [];
        if (old.Length > 0) { ArrayPool<byte>.Shared.Return(old); }
    }
}
