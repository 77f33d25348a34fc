// What follows a checkpoint, from its reduced file: as a history of its own. Its bytes are fewer than those of the log: offsets in it are
// not those of the log.
using Slogger.Log.Reduced;
using Slogger.Redis.Feeding;

namespace Slogger.Replication.Following;

/// <summary>The bytes of a reduced file as a history. One reader at a time.</summary>
/// <param name="file">The file; it is disposed with this.</param>
/// <param name="start">Where its first byte lies in the history.</param>
internal sealed class ReducedHistory(ReducedFile file, long start) : IHistorySource, IDisposable
{
    public int Read(long offset, Span<byte> destination) => file.Read(offset - start, destination);

    public void Dispose() => file.Dispose();
}
