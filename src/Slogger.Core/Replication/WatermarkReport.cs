using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Replication;

/// <summary>What a stream's receiver says: the newest recorded cut that its log holds, both durable. Never less in one generation, and
/// known again from the log alone after any crash.</summary>
/// <param name="Stream">The primary's shard.</param>
/// <param name="Generation">Which life of the stream at the backup.</param>
/// <param name="Floor">It cannot be brought to any version before this one, since it was seeded; the default if it was not.</param>
/// <param name="Held">The cut.</param>
public readonly record struct WatermarkReport(ShardId Stream, long Generation, WorldPoint Floor, WorldPoint Held);
