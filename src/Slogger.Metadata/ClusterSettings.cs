// What all shards of a cluster have to agree on. Fixed when the cluster is created, but for the grid, which may be extended.
using Slogger.Core.Cuts;
using Slogger.Core.Ownership;
using Slogger.Core.Versions;

namespace Slogger.Metadata;

/// <summary>The settings of a cluster.</summary>
public sealed record ClusterSettings
{
    /// <summary>The most shards a cluster can have.</summary>
    public const int ShardCountMax = 1024;

    /// <summary>How many numbers of shards the cluster has given out: 0 to one less. Those that have left are among them. Default:
    /// 1.</summary>
    public int ShardCount { get; init; } = 1;

    /// <summary>How many of them it was made with; the others have joined since. Of no meaning in a proposal.</summary>
    public int MadeWith { get; init; }

    /// <summary>Who finds the cut. Default: approximate. Never changes: claims, rows and branches of one kind are not those of
    /// another.</summary>
    public FinderKind Finder { get; init; }

    /// <summary>How keys fall into partitions; at least as many as there are shards. Default: hash. Never changes: every key would be
    /// another shard's.</summary>
    public Partitioning Partitions { get; init; } = Partitioning.Hash;

    /// <summary>The clock grid, oldest stretch first; at least one. The last one may start in the future.</summary>
    public required IReadOnlyList<GridStretch> Grid { get; init; }

    internal void Validate()
    {
        if (ShardCount is < 1 or > ShardCountMax)
        {
            throw new ArgumentException($"A cluster has from 1 to {ShardCountMax} shards, not {ShardCount}.", nameof(ShardCount));
        }

        if (Partitions.Count < ShardCount)
        {
            throw new ArgumentException($"{Partitions.Count} partitions cannot be divided among {ShardCount} shards.", nameof(Partitions));
        }

        if (Grid.Count == 0)
        {
            throw new ArgumentException("A cluster needs a grid.", nameof(Grid));
        }

        for (int i = 0; i < Grid.Count; i++)
        {
            GridStretch stretch = Grid[i];
            if (stretch.IntervalUs < 1 || stretch.FirstVersion.Number < 0 || stretch.StartUs < 0)
            {
                throw new ArgumentException($"The grid stretch {stretch} is not valid.", nameof(Grid));
            }

            if (i > 0 && stretch != Grid[i - 1].Successor(stretch.IntervalUs, stretch.StartUs))
            {
                throw new ArgumentException($"The grid stretch {stretch} does not start on the grid of the one before.", nameof(Grid));
            }
        }
    }
}
