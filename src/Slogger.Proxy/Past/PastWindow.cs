// How far back the past of a shard can be read: to the first version that ends at or above a checkpoint that is kept.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;

namespace Slogger.Proxy.Past;

/// <summary>The versions that can be read. Any thread.</summary>
/// <param name="log">The log.</param>
/// <param name="checkpoints">Its checkpoints.</param>
internal sealed class PastWindow(VersionLog log, CheckpointStore checkpoints)
{
    private sealed record Known(string Checkpoint, long Start, long Rewinds, Boundary From);

    private volatile Known? _known;

    /// <summary>The end of the first version that can be read; null: none is kept yet.</summary>
    /// <exception cref="LogCorruptException">A block of the log does not verify.</exception>
    public Boundary? From
    {
        get
        {
            if (log.IsEmpty || checkpoints.Oldest(log) is not { } oldest) { return null; }
            (long start, long rewinds) = (log.StartOffset, log.Rewinds);
            if (_known is { } known && known.Checkpoint == oldest.FileName && (known.Start, known.Rewinds) == (start, rewinds))
            {
                return known.From;
            }
            foreach (Boundary end in log.Boundaries)
            {
                if (end.Offset < oldest.Offset) { continue; }
                _known = new(oldest.FileName, start, rewinds, end);
                return end;
            }
            return null;
        }
    }
}
