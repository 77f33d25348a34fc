// Where a feed takes the bytes of history from: the version log, a file, or memory.
namespace Slogger.Redis.Feeding;

/// <summary>Random access to the bytes of one history. Called by one thread at a time; may block.</summary>
public interface IHistorySource
{
    /// <summary>Reads bytes from <paramref name="offset"/> on. Returns how many; 0: there are none at that offset (any more, or
    /// yet).</summary>
    int Read(long offset, Span<byte> destination);
}
