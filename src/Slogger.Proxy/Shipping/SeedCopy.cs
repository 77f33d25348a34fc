// A copy of a shard's store for its backup: a checkpoint, kept with the log from its offset on until the backup has both.
using Slogger.Core.Shipping;
using Slogger.Core.WorldLines;
using Slogger.Log;
using Slogger.Log.Checkpoints;

namespace Slogger.Proxy.Shipping;

/// <summary>A copy of the store, on disk.</summary>
/// <param name="Seed">What it is.</param>
/// <param name="File">Where it lies.</param>
internal sealed record SeedCopy(Seed Seed, string File)
{
    /// <summary>A checkpoint of the log's present history and world-line, as a copy for a life of the stream. Null: the first version that ends behind it is not durable yet, or a world-line
    /// has begun since; later, or with another checkpoint.</summary>
    /// <exception cref="LogCorruptException">A block of the log does not verify.</exception>
    public static SeedCopy? Of(VersionLog log, CheckpointStore checkpoints, Checkpoint checkpoint, long generation)
    {
        WorldLine line = log.WorldLine;
        if (checkpoint.WorldLine != line.Number || log.FirstEndFrom(checkpoint.Offset) is not ({ } before, { } end) || end.WorldLine != line) { return null; }
        string id = $"{checkpoint.FileName} for {generation}, {Guid.NewGuid():N}";
        var seed = new Seed(id, generation, checkpoint.Bytes, ShardShipper.HistoryOf(log), new(line, checkpoint.Offset, before), end.Point) { Checksum = checkpoint.Checksum };
        var copy = new SeedCopy(seed, checkpoints.PathOf(checkpoint));
        // A world-line may have begun just now.
        return log.WorldLine == line && copy.IsPartOf(log) ? copy : null;
    }

    /// <summary>Whether a log goes on from it: it holds all that follows, and no later world-line keeps less than the copy holds.</summary>
    public bool IsPartOf(VersionLog log) =>
        Seed.History == ShardShipper.HistoryOf(log) && Seed.Base.Offset >= log.StartOffset && !log.Branches.Any(b => b.WorldLine > Seed.Base.WorldLine && b.Offset < Seed.Base.Offset);
}
