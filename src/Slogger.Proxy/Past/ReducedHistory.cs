// What follows a checkpoint, from its reduced file: as a history whose bytes begin at the checkpoint. Their offsets are not those of the
// log, whose bytes are more.
using Slogger.Log.Reduced;
using Slogger.Redis.Feeding;

namespace Slogger.Proxy.Past;

/// <summary>The bytes of a reduced file as a history. One reader at a time.</summary>
/// <param name="file">The file; it is disposed with this.</param>
/// <param name="start">The checkpoint's offset.</param>
internal sealed class ReducedHistory(ReducedFile file, long start) : IHistorySource, IDisposable
{
    public int Read(long offset, Span<byte> destination) => file.Read(offset - start, destination);

    public void Dispose() => file.Dispose();
}
