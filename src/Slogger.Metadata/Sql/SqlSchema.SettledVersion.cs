// The step of the schema with which a cluster knows from which version on each slot's data is where the map says: OwnershipTable.Settled.
// Of moves that were over before it is not known in which version; they are in the recorded cut.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] SettledVersionShape = ["SELECT settled_version FROM slogger_clusters WHERE 1 = 0"];

    private static IReadOnlyList<string> SettledVersion(SqlDialect dialect) =>
    [
        "ALTER TABLE slogger_clusters ADD settled_version BIGINT DEFAULT 0 NOT NULL",
        "UPDATE slogger_clusters SET settled_version = cut_version WHERE cluster IN (SELECT cluster FROM slogger_slots WHERE revision > 1)",
    ];
}
