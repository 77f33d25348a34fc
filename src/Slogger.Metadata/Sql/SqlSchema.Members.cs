// The step of the schema with which shards join and leave, and the interval changes while they run.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] MembersShape =
    [
        "SELECT made_with, change_us, change_interval_us FROM slogger_clusters WHERE 1 = 0",
        "SELECT state, agreed_us FROM slogger_shards WHERE 1 = 0",
    ];

    // made_with: how many shards a cluster was made with; those that have joined since come on top. change_us and change_interval_us: the
    // change of the interval that is proposed, or 0. state: MemberState. agreed_us: the change that the shard's owner has agreed to last.
    private static IReadOnlyList<string> Members(SqlDialect dialect) =>
    [
        "ALTER TABLE slogger_clusters ADD made_with BIGINT DEFAULT 0 NOT NULL",
        "UPDATE slogger_clusters SET made_with = shard_count",
        "ALTER TABLE slogger_shards ADD state BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_shards ADD agreed_us BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_clusters ADD change_us BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_clusters ADD change_interval_us BIGINT DEFAULT 0 NOT NULL",
    ];
}
