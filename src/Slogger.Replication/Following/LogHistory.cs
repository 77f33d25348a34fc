// What a feed sends behind its base: the log's tail, or nothing.
using Slogger.Log;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Following;

/// <summary>The version log as the bytes of history that a feed sends. One reader at a time.</summary>
/// <param name="open">Opens a reader at an offset.</param>
internal sealed class LogHistory(Func<long, LogReader> open) : IHistorySource, IDisposable
{
    private LogReader? _reader;
    private long _next = -1;

    public LogHistory(VersionLog log)
        : this(offset => log.OpenReader(offset))
    {
    }

    public int Read(long offset, Span<byte> destination)
    {
        if (_reader is not null && offset >= _next) { _reader.SkipTo(offset); }
        else
        {
            _reader?.Dispose();
            _reader = open(offset);
        }
        int count = _reader.Read(destination);
        _next = offset + count;
        return count;
    }

    public void Dispose() => _reader?.Dispose();
}

/// <summary>A base without a tail.</summary>
internal sealed class NoHistory : IHistorySource
{
    public static readonly NoHistory Instance = new();

    public int Read(long offset, Span<byte> destination) => 0;
}
