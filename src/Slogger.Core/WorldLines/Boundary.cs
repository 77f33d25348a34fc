using Slogger.Core.Time;
using Slogger.Core.Versions;

namespace Slogger.Core.WorldLines;

/// <summary>Where a version ends in a shard's history: every byte of the replication stream below <paramref name="Offset"/>
/// belongs to <paramref name="Version"/> or an earlier one, every later byte to a later one.</summary>
/// <param name="WorldLine">The timeline.</param>
/// <param name="Version">The version that ends here.</param>
/// <param name="Offset">Bytes of history before the boundary (Redis's master_repl_offset there). 0 in mode bgsave.</param>
/// <param name="Database">The database that the stream has selected there.</param>
/// <param name="Time">When it was closed.</param>
public readonly record struct Boundary(
    WorldLine WorldLine, VersionNumber Version, long Offset, int Database, HybridTimestamp Time)
{
    /// <summary>The point of history it closes.</summary>
    public WorldPoint Point => new(WorldLine, Version);
}
