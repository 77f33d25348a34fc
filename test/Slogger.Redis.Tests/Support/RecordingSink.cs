// A sink that keeps all bytes and markers, and lets a test wait for an offset. Also a history source over what it kept.
using Slogger.Redis.Feeding;
using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Support;

internal sealed class RecordingSink(long startOffset) : IStreamSink, IHistorySource
{
    private readonly Lock _gate = new();
    private readonly MemoryStream _bytes = new();
    private readonly List<StreamMarker> _markers = [];
    private readonly TaskCompletionSource<LinkClosed> _closed = new(TaskCreationOptions.RunContinuationsAsynchronously);

    public long StartOffset { get; } = startOffset;
    public int Calls { get; private set; }
    public int Keepalives { get; private set; }
    public Task<LinkClosed> Closed => _closed.Task;

    public long EndOffset
    {
        get
        {
            lock (_gate)
                return StartOffset + _bytes.Length;
        }
    }

    public StreamMarker[] Markers
    {
        get
        {
            lock (_gate)
                return [.. _markers];
        }
    }

    public byte[] Bytes
    {
        get
        {
            lock (_gate)
                return _bytes.ToArray();
        }
    }

    public void OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        lock (_gate)
        {
            Assert.Equal(StartOffset + _bytes.Length, startOffset);
            _bytes.Write(bytes);
            Calls++;
        }
    }

    public void OnMarker(in StreamMarker marker)
    {
        lock (_gate)
        {
            Assert.Equal(StartOffset + _bytes.Length, marker.OffsetAfter);
            _markers.Add(marker);
        }
    }

    /// <summary>Of an earlier sink whose bytes were copied into this one.</summary>
    public void TakeMarkers(StreamMarker[] markers) => _markers.AddRange(markers);

    public void OnKeepalive(long offset) => Keepalives++;

    public void OnClosed(LinkClosed reason) => _closed.SetResult(reason);

    /// <summary>A marker is told after the bytes that end with it: who counts markers must wait for them too.</summary>
    public async Task WaitForAsync(long offset, int markers = 0)
    {
        for (int i = 0; EndOffset < offset || Markers.Length < markers; i++)
        {
            Assert.True(i < 24_000, $"The stream did not reach offset {offset} with {markers} markers; it stands at {EndOffset} with "
                + $"{Markers.Length}.");
            await Task.Delay(5);
        }
    }

    public int Read(long offset, Span<byte> destination)
    {
        lock (_gate)
        {
            long at = offset - StartOffset;
            Assert.True(at >= 0, "read below the start");
            int count = (int)Math.Min(destination.Length, _bytes.Length - at);
            if (count <= 0)
                return 0;
            _bytes.GetBuffer().AsSpan((int)at, count).CopyTo(destination);
            return count;
        }
    }
}
