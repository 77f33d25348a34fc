// A file that lies elsewhere, as a stream: it is fetched in blocks, the next one while the last one is used.
namespace Slogger.Cli.Past;

/// <summary>Reads and seeks. One caller at a time. Bytes that lie not far before are not fetched again.</summary>
/// <param name="length">How many bytes it has.</param>
/// <param name="fetch">Fetches bytes: from where on, how many.</param>
internal sealed class StoredStream(long length, Func<long, int, Task<byte[]>> fetch) : Stream
{
    private const int BlockBytes = 8 << 20;

    // The one that is read, the one before, and the next ones: it may have been read from the next one already.
    private readonly Dictionary<long, Task<byte[]>> _blocks = [];

    public override bool CanRead => true;
    public override bool CanSeek => true;
    public override bool CanWrite => false;
    public override long Length => length;
    public override long Position { get; set; }

    public override int Read(Span<byte> buffer)
    {
        if (Position >= length || buffer.IsEmpty) { return 0; }
        long number = Position / BlockBytes;
        foreach (long old in _blocks.Keys.Where(n => n < number - 1 || n > number + 2).ToArray()) { _blocks.Remove(old); }
        Task<byte[]> wanted = Block(number);
        if ((number + 1) * BlockBytes < length) { Block(number + 1); }
        // What walks a file waits for it.
        ReadOnlySpan<byte> there = wanted.GetAwaiter().GetResult().AsSpan((int)(Position % BlockBytes));
        int count = Math.Min(there.Length, buffer.Length);
        there[..count].CopyTo(buffer);
        Position += count;
        return count;
    }

    public override int Read(byte[] buffer, int offset, int count) => Read(buffer.AsSpan(offset, count));

    public override long Seek(long offset, SeekOrigin origin) =>
        Position = offset + (origin switch { SeekOrigin.Begin => 0, SeekOrigin.Current => Position, _ => length });

    public override void Flush() { }

    public override void SetLength(long value) => throw new NotSupportedException();

    public override void Write(byte[] buffer, int offset, int count) => throw new NotSupportedException();

    private Task<byte[]> Block(long number)
    {
        if (_blocks.TryGetValue(number, out Task<byte[]>? block)) { return block; }
        long from = number * BlockBytes;
        return _blocks[number] = fetch(from, (int)Math.Min(BlockBytes, length - from));
    }
}
