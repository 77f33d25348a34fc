// The step of the schema with which a shard's row knows in which world-line its owner has begun to write a reset; 0: in none.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] ResetsShape = ["SELECT reset_line FROM slogger_shards WHERE 1 = 0"];

    private static IReadOnlyList<string> Resets(SqlDialect dialect) =>
        ["ALTER TABLE slogger_shards ADD reset_line BIGINT DEFAULT 0 NOT NULL"];
}
