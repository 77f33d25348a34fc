// A log in memory: the replication stream as a link hands it over, with changes of history.
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Integration.Tests.Recovery;

internal sealed class StreamRecorder(long start) : IStreamSink, IHistorySource
{
    private readonly Lock _lock = new();
    private readonly MemoryStream _bytes = new();

    public long Start { get; } = start;

    public long End
    {
        get
        {
            lock (_lock) { return Start + _bytes.Length; }
        }
    }

    public byte[] Bytes
    {
        get
        {
            lock (_lock) { return _bytes.ToArray(); }
        }
    }

    public void OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        lock (_lock)
        {
            // What comes after a change of history is not of this one.
            if (startOffset == End) { _bytes.Write(bytes); }
        }
    }

    public void OnMarker(in StreamMarker marker)
    {
    }

    public void OnClosed(LinkClosed reason)
    {
    }

    /// <summary>The history up to an offset, and from there on something that does nothing up to another.</summary>
    public StreamRecorder CutAndFill(long offset, long filledTo, int database)
    {
        var cut = new StreamRecorder(Start);
        cut._bytes.Write(Bytes.AsSpan(0, (int)(offset - Start)));
        foreach (ReadOnlyMemory<byte> piece in Filler.Stretch(filledTo - offset, database)) { cut._bytes.Write(piece.Span); }
        return cut;
    }

    public async Task WaitForAsync(long offset)
    {
        for (int i = 0; End < offset; i++)
        {
            Assert.True(i < 6000, $"the stream did not reach {offset}; it stands at {End}");
            await Task.Delay(5);
        }
    }

    public int Read(long offset, Span<byte> destination)
    {
        lock (_lock)
        {
            int at = (int)(offset - Start);
            int count = (int)Math.Min(destination.Length, _bytes.Length - at);
            if (count <= 0) { return 0; }
            _bytes.GetBuffer().AsSpan(at, count).CopyTo(destination);
            return count;
        }
    }
}
