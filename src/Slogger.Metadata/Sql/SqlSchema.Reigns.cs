// The step of the schema with which a shard's row knows the reign of its cohort; 0 without a cohort.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] ReignsShape = ["SELECT reign FROM slogger_shards WHERE 1 = 0"];

    private static IReadOnlyList<string> Reigns(SqlDialect dialect) =>
        ["ALTER TABLE slogger_shards ADD reign BIGINT DEFAULT 0 NOT NULL"];
}
