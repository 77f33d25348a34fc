// The one implementation of the metadata store. Rules that keep it right on all databases:
// - whoever changes more than one row of a cluster first updates the cluster's row, which locks it (LockClusterAsync);
// - recording a cut touches one row, and all it has to compare is in that row;
// - rows are locked cluster first, then shards, so there are no cycles.
using System.Data.Common;
using Slogger.Core.Identities;
using Slogger.Core.WorldLines;

namespace Slogger.Metadata.Sql;

internal sealed partial class SqlMetadataStore(
    SqlDialect dialect, MetadataStoreOptions options, IReadOnlyList<SchemaStep> steps, TimeProvider clock) : IMetadataStore
{
    private readonly ConnectionKeeper connection = new(dialect, options);

    /// <inheritdoc />
    public string Description => dialect.Description;

    /// <inheritdoc />
    public Task InitializeAsync(CancellationToken cancellation = default) =>
        connection.RunAsync(
            async session =>
            {
                await SqlSchema.UpgradeAsync(session, dialect, steps, cancellation);
                return true;
            },
            cancellation);

    /// <inheritdoc />
    public Task<IReadOnlyList<string>> DoubtsAsync(CancellationToken cancellation = default) =>
        connection.RunAsync(session => dialect.DoubtsAsync(session, cancellation), cancellation);

    /// <inheritdoc />
    public ValueTask DisposeAsync() => connection.DisposeAsync();

    private long NowMicroseconds => (clock.GetUtcNow() - DateTimeOffset.UnixEpoch).Ticks / TimeSpan.TicksPerMicrosecond;

    private static async Task LockClusterAsync(SqlSession session, string cluster, CancellationToken cancellation)
    {
        int rows = await session.ExecuteAsync(
            "UPDATE slogger_clusters SET revision = revision + 1 WHERE cluster = @cluster", cancellation, ("@cluster", cluster));
        if (rows == 0)
        {
            throw UnknownCluster(cluster);
        }
    }

    private static MetadataException UnknownCluster(string cluster) =>
        new($"The metadata knows no cluster \"{cluster}\". Check the name and the database, or create it.");

    private static MetadataException UnknownShard(string cluster, ShardId shard) =>
        new($"Cluster \"{cluster}\" has no shard {shard} in the metadata. Check cluster, shard number and database.");

    private static string Checked(string text, int lengthMax, string parameter)
    {
        if (string.IsNullOrEmpty(text) || text.Length > lengthMax)
        {
            throw new ArgumentException($"The {parameter} must have from 1 to {lengthMax} characters.", parameter);
        }

        // Padding is ignored by some databases' comparisons and not by others'; NUL and lone surrogates cannot be stored by all.
        if (char.IsWhiteSpace(text[0]) || char.IsWhiteSpace(text[^1]) || text.Any(char.IsControl) || !IsWellFormed(text))
        {
            throw new ArgumentException(
                $"The {parameter} must not begin or end with white space, nor hold control characters or broken surrogate pairs.",
                parameter);
        }

        return text;
    }

    private static bool IsWellFormed(string text)
    {
        for (int i = 0; i < text.Length; i++)
        {
            if (char.IsSurrogate(text[i]))
            {
                if (!char.IsSurrogatePair(text, i))
                {
                    return false;
                }

                i++;
            }
        }

        return true;
    }

    private static string CheckedCluster(string cluster) => Checked(cluster, SqlSchema.ClusterLength, nameof(cluster));

    private static void CheckShard(ShardId shard) => ArgumentOutOfRangeException.ThrowIfNegative(shard.Number, nameof(shard));

    private static void CheckPoint(WorldPoint point)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(point.WorldLine.Number, 1, nameof(point));
        ArgumentOutOfRangeException.ThrowIfNegative(point.Version.Number, nameof(point));
    }

    private static WorldPoint PointOf(DbDataReader row, int first) => new(new(row.GetInt64(first)), new(row.GetInt64(first + 1)));
}
