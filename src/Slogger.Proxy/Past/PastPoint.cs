// A version of the past, and what it is made from.
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;
using Slogger.Log.Reduced;
using Slogger.Redis.Feeding;
using Slogger.Replication.Following;

namespace Slogger.Proxy.Past;

/// <summary>Where a version ends, and from what it is made.</summary>
/// <param name="End">The version's end.</param>
/// <param name="Base">The checkpoint below it.</param>
/// <param name="ReducedBytes">How many bytes of the reduced file follow the checkpoint up to it; null: the log's bytes do.</param>
/// <param name="IsEarlier">The version that was asked for lies inside of a window that was shipped: this is the last one before.</param>
internal sealed record PastPoint(Boundary End, Checkpoint Base, long? ReducedBytes, bool IsEarlier = false)
{
    /// <summary>Where the history ends that leads from the checkpoint to it: see <see cref="OpenHistory"/>.</summary>
    public long Target => Base.Offset + ReducedBytes ?? End.Offset;

    /// <summary>What follows the checkpoint. To be disposed.</summary>
    /// <exception cref="IOException">It cannot be read.</exception>
    public IHistorySource OpenHistory(VersionLog log, CheckpointStore checkpoints) => ReducedBytes is null ? new LogHistory(log)
        : new ReducedHistory(ReducedFile.Open(log.Files, checkpoints.ReducedPathOf(Base)), Base.Offset);
}
