using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>What a stream holds, and will hold: its receiver accepts nothing any more, and goes to no watermark but the final one (the
/// paper's final message, section 5.6).</summary>
/// <param name="Number">The failover that it answers: the site epoch that this takes. 0: none.</param>
/// <param name="Stream">The primary's shard.</param>
/// <param name="Generation">Which life of the stream at the backup.</param>
/// <param name="Owner">The receiver's epoch: a process that was deposed does not know what the one after it has come to hold.</param>
/// <param name="Held">A recorded cut that it holds durably, with all that came before and can still be asked for.</param>
public readonly record struct FinalReport(SiteEpoch Number, ShardId Stream, long Generation, long Owner, WorldPoint Held)
{
    /// <summary>The cuts that it holds, too, above <see cref="Held"/>: from the first to the last. Between the two are windows
    /// (<see cref="LogWindows"/>). Null: there are none.</summary>
    public (WorldPoint From, WorldPoint To)? Behind { get; init; }

    /// <summary>The newest cut that it holds.</summary>
    public WorldPoint Newest => Behind?.To ?? Held;

    /// <summary>The newest that it holds of a cut and those before.</summary>
    public WorldPoint AtOrBelow(WorldPoint cut) => Behind is { } behind && cut >= behind.From ? cut <= behind.To ? cut : behind.To
        : cut <= Held ? cut : Held;
}
