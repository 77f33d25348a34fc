// The step of the schema with which a cluster's keys can be cut into ranges. How many partitions there are stands by itself, so that
// who looks at the owners need not read all split keys. Clusters made before have the hash slots.
using Slogger.Core.Ownership;

namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] PartitionsShape = ["SELECT partitions, partition_count FROM slogger_clusters WHERE 1 = 0"];

    private static IReadOnlyList<string> Partitions(SqlDialect dialect) =>
    [
        $"ALTER TABLE slogger_clusters ADD partitions {dialect.LongTextType} DEFAULT '{Partitioning.Hash}' NOT NULL",
        $"ALTER TABLE slogger_clusters ADD partition_count BIGINT DEFAULT {Partitioning.Hash.Count} NOT NULL",
    ];
}
