// The step of the schema with which hash slots can move: the unfinished moves.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    /// <summary>The longest list of slot ranges of one move, and the longest note on how far it is. Unit: characters.</summary>
    public const int MoveSlotsLength = 2000, MoveNoteLength = 400;

    private static readonly string[] MovesShape =
    [
        "SELECT cluster, move_id, slots, from_shard, to_shard, state, boundary_version, landed_version, revision, note FROM "
            + "slogger_moves WHERE 1 = 0",
    ];

    private static IReadOnlyList<string> Moves(SqlDialect dialect) =>
    [
        $"""
        CREATE TABLE slogger_moves (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            move_id BIGINT NOT NULL,
            slots {dialect.TextType(MoveSlotsLength)} NOT NULL,
            from_shard BIGINT NOT NULL,
            to_shard BIGINT NOT NULL,
            state BIGINT NOT NULL,
            boundary_version BIGINT NOT NULL,
            landed_version BIGINT NOT NULL,
            revision BIGINT NOT NULL,
            note {dialect.TextType(MoveNoteLength)} NOT NULL,
            PRIMARY KEY (cluster, move_id))
        """,
    ];
}
