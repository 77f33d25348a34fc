// The step of the schema with which finished moves are remembered: OwnershipTable.Past. Of moves that were over before it is not known who
// had their slots.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] PastMovesShape =
    [
        "SELECT cluster, move_id, slots, from_shard, to_shard, landed_version, number FROM slogger_past_moves WHERE 1 = 0",
        "SELECT owners_known_from FROM slogger_clusters WHERE 1 = 0",
    ];

    private static IReadOnlyList<string> PastMoves(SqlDialect dialect) =>
    [
        $"""
        CREATE TABLE slogger_past_moves (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            move_id BIGINT NOT NULL,
            slots {dialect.TextType(MoveSlotsLength)} NOT NULL,
            from_shard BIGINT NOT NULL,
            to_shard BIGINT NOT NULL,
            landed_version BIGINT NOT NULL,
            number BIGINT NOT NULL,
            PRIMARY KEY (cluster, move_id))
        """,
        "ALTER TABLE slogger_clusters ADD owners_known_from BIGINT DEFAULT 0 NOT NULL",
        "UPDATE slogger_clusters SET owners_known_from = settled_version",
    ];
}
