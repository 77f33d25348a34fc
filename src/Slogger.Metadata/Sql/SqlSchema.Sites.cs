// The steps of the schema with which a cluster has a second site, and it is known where its processes are.
namespace Slogger.Metadata.Sql;

internal static partial class SqlSchema
{
    private static readonly string[] SitesShape =
    [
        "SELECT cluster, epoch, role, final_world_line, final_version, hand_over, hand_over_world_line, hand_over_version, called_off "
            + "FROM slogger_sites WHERE 1 = 0",
        "SELECT cluster, stream, generation, phase, sender_site, sender_epoch, sender_incarnation, owner_epoch, is_lost, is_open FROM "
            + "slogger_streams WHERE 1 = 0",
    ];

    // slogger_sites: one row for a cluster of which a second site is known; none: it is alone. role: SiteRole. final_world_line: 0 before a
    // failover is decided. hand_over: the number of the last switch-over; hand_over_world_line: 0 before it is offered; called_off:
    // SiteState.CalledOff. slogger_streams: while a site is a backup, one row for each of its primary's shards (StreamState).
    private static IReadOnlyList<string> Sites(SqlDialect dialect) =>
    [
        $"""
        CREATE TABLE slogger_sites (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            epoch BIGINT NOT NULL,
            role BIGINT NOT NULL,
            final_world_line BIGINT NOT NULL,
            final_version BIGINT NOT NULL,
            hand_over BIGINT NOT NULL,
            hand_over_world_line BIGINT NOT NULL,
            hand_over_version BIGINT NOT NULL,
            called_off BIGINT NOT NULL,
            PRIMARY KEY (cluster))
        """,
        $"""
        CREATE TABLE slogger_streams (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            stream BIGINT NOT NULL,
            generation BIGINT NOT NULL,
            phase BIGINT NOT NULL,
            sender_site BIGINT NOT NULL,
            sender_epoch BIGINT NOT NULL,
            sender_incarnation BIGINT NOT NULL,
            owner_epoch BIGINT NOT NULL,
            is_lost BIGINT NOT NULL,
            is_open BIGINT NOT NULL,
            PRIMARY KEY (cluster, stream))
        """,
    ];

    private static readonly string[] SiteAddressesShape = ["SELECT cluster, shard, address FROM slogger_site_addresses WHERE 1 = 0"];

    // slogger_site_addresses: where the process of each shard, or of each stream of a backup, listens for the other site and for commands;
    // what a site is does not matter.
    private static IReadOnlyList<string> SiteAddresses(SqlDialect dialect) =>
    [
        $"""
        CREATE TABLE slogger_site_addresses (
            cluster {dialect.TextType(ClusterLength)} NOT NULL,
            shard BIGINT NOT NULL,
            address {dialect.TextType(AddressLength)} NOT NULL,
            PRIMARY KEY (cluster, shard))
        """,
    ];

    private static readonly string[] StreamLayoutsShape = ["SELECT sources, shards FROM slogger_sites WHERE 1 = 0"];

    // sources, shards: StreamLayout, of a backup with another number of shards than its primary; else 0.
    private static IReadOnlyList<string> StreamLayouts(SqlDialect dialect) =>
    [
        "ALTER TABLE slogger_sites ADD sources BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_sites ADD shards BIGINT DEFAULT 0 NOT NULL",
    ];

    private static readonly string[] TakeoverTimesShape =
        ["SELECT drill_us, failover_us, failover_drill_us FROM slogger_sites WHERE 1 = 0"];

    // drill_us, failover_us, failover_drill_us: TakeoverTimes; 0: there was none.
    private static IReadOnlyList<string> TakeoverTimes(SqlDialect dialect) =>
    [
        "ALTER TABLE slogger_sites ADD drill_us BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_sites ADD failover_us BIGINT DEFAULT 0 NOT NULL",
        "ALTER TABLE slogger_sites ADD failover_drill_us BIGINT DEFAULT 0 NOT NULL",
    ];
}
