using Slogger.Redis.Replication;

namespace Slogger.Redis.Tests.Reduction;

/// <summary>What has come of a stream and was not taken yet.</summary>
internal sealed class StreamTail(long start) : IStreamSink
{
    private readonly Lock _lock = new();
    private readonly MemoryStream _bytes = new();
    private readonly StreamScanner _scanner = new(start, 0);

    public void OnBytes(ReadOnlySpan<byte> bytes, long startOffset)
    {
        lock (_lock) { _bytes.Write(bytes); }
    }

    public void OnMarker(in StreamMarker marker)
    {
    }

    public void OnClosed(LinkClosed reason)
    {
    }

    /// <summary>Takes all up to an offset, between two commands. Returns the database selected there, too.</summary>
    public async Task<(byte[] Bytes, int Database)> TakeAsync(long offset)
    {
        for (int i = 0; ; i++, await Task.Delay(2))
        {
            Assert.True(i < 30_000, $"the stream does not reach {offset}");
            lock (_lock)
            {
                int length = (int)(offset - _scanner.Offset), at = 0;
                if (_bytes.Length < length) { continue; }
                byte[] all = _bytes.ToArray(), taken = all[..length];
                while (_scanner.Next(taken, ref at) != StreamEvent.None) { }
                Assert.True(_scanner.AtCommandBoundary && !_scanner.InTransaction);
                _bytes.SetLength(0);
                _bytes.Write(all.AsSpan(length));
                return (taken, _scanner.Database);
            }
        }
    }
}
