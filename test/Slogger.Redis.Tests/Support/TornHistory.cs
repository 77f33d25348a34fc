// A history that ends before it does, as a log that has lost its tail or has not got it yet.
using Slogger.Redis.Feeding;

namespace Slogger.Redis.Tests.Support;

internal sealed class TornHistory(IHistorySource inner) : IHistorySource
{
    private long _end = long.MaxValue;

    public long End
    {
        get => Volatile.Read(ref _end);
        set => Volatile.Write(ref _end, value);
    }

    /// <summary>What reading fails with.</summary>
    public Exception? Failure { get; set; }

    public int Reads { get; private set; }

    public int Read(long offset, Span<byte> destination)
    {
        Reads++;
        if (Failure is { } failure) throw failure;
        return inner.Read(offset, destination[..(int)Math.Clamp(End - offset, 0, destination.Length)]);
    }
}
