// The step of the schema with which a cluster can be told from another of its name. It has no identity until somebody asks for it.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    /// <summary>Unit: characters.</summary>
    public const int IdentityLength = 32;

    private static readonly string[] IdentityShape = ["SELECT cluster_identity FROM slogger_clusters WHERE 1 = 0"];

    private static IReadOnlyList<string> Identity(SqlDialect dialect) =>
    [
        $"ALTER TABLE slogger_clusters ADD cluster_identity {dialect.TextType(IdentityLength)} DEFAULT '' NOT NULL",
    ];
}
