// What all shards of a cluster have to agree on. Fixed when the cluster is created, but for the grid, which may be extended.
namespace Slogger.Metadata;

/// <summary>The settings of a cluster.</summary>
public sealed record ClusterSettings
{
    /// <summary>The most shards a cluster can have.</summary>
    public const int ShardCountMax = 1024;

    /// <summary>How many shards the cluster has: 0 to one less. Default: 1.</summary>
    public int ShardCount { get; init; } = 1;

    /// <summary>The clock grid, oldest epoch first; at least one. The last one may start in the future.</summary>
    public required IReadOnlyList<GridEpoch> GridEpochs { get; init; }

    internal void Validate()
    {
        if (ShardCount is < 1 or > ShardCountMax)
        {
            throw new ArgumentException($"A cluster has from 1 to {ShardCountMax} shards, not {ShardCount}.", nameof(ShardCount));
        }

        if (GridEpochs.Count == 0)
        {
            throw new ArgumentException("A cluster needs a grid epoch.", nameof(GridEpochs));
        }

        for (int i = 0; i < GridEpochs.Count; i++)
        {
            GridEpoch epoch = GridEpochs[i];
            if (epoch.IntervalMicroseconds < 1 || epoch.FirstVersion.Number < 0 || epoch.StartMicroseconds < 0)
            {
                throw new ArgumentException($"The grid epoch {epoch} is not valid.", nameof(GridEpochs));
            }

            if (i > 0 && epoch != GridEpochs[i - 1].Successor(epoch.IntervalMicroseconds, epoch.StartMicroseconds))
            {
                throw new ArgumentException($"The grid epoch {epoch} does not start on the grid of the one before.", nameof(GridEpochs));
            }
        }
    }
}
