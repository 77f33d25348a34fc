// The commands of two sites: one list for parsing, dispatch and --help.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Sites;

/// <summary>The list.</summary>
internal static class SiteCommands
{
    private const string Secret = "--site-secret-file /etc/slogger/site-secret", Backup =
        $"--metadata \"postgres:Host=db2;Database=slogger\" {Secret}";

    public static readonly IReadOnlyList<ListedCommand> All =
    [
        new(FailoverCommand.Name, "make the backup site the primary, when the primary is gone", FailoverCommand.Options,
            [$"failover --i-attest-the-primary-is-down {Backup}", $"failover --lose-shard 2 --i-attest-the-primary-is-down {Backup}"],
            "From the first step on the site receives nothing from the primary. All streams say what they hold. The site goes on from the "
            + "newest version that all of them hold (slogger status shows it as the watermark): each shard goes to exactly that version, "
            + "and serves clients. If a site lease is configured the command waits for it. Otherwise you attest that the primary is down. "
            + "If the command is interrupted nobody serves until it is given again. A primary that lives, or comes back, ends when it "
            + "hears of the failover; slogger seed then makes it the backup. If the primary is well use slogger switchover, which loses "
            + "nothing.",
            FailoverCommand.RunAsync),
        new(SwitchOverCommand.Name, "hand over to the backup site by plan, so that nothing is lost", SwitchOverCommand.Options,
            ["switchover --metadata \"postgres:Host=db1;Database=slogger\" --backup-metadata \"postgres:Host=db2;Database=slogger\" "
                + $"{Secret}", "switchover --call-off --metadata ... --backup-metadata ..."],
            "The primary makes its clients wait. When everything that it has answered is committed, and the backup holds it, the backup "
            + "takes over, and the primary's processes end. Clients then connect to the backup. If that takes longer than --within the "
            + "switch-over is called off, and clients go on at the primary. If the command is interrupted clients wait: give it again, "
            + "and it goes on. It changes nothing while a process of either site does not answer, or a stream is being seeded. A process "
            + "that is busy or starts is asked again (--timeout).",
            SwitchOverCommand.RunAsync),
        new(DrillCommand.Name, "show how much a failover would lose, and how long it would take", DrillCommand.Options,
            [$"drill {Backup}", $"drill --restore {Backup}"],
            "Says how much a failover at this moment would lose, how long it would take (corrected by the site's last failover), and "
            + "whether anything is in its way. Every process reads its log from the newest checkpoint up to that version, and checks all "
            + "checksums. Nothing is changed, and clients go on. The drill fails if a failover would fail; the error says so if only the "
            + "drill itself could not be done. With --restore each log is also restored into a redis-server that is started for it, and "
            + "the result is compared with the store that follows.",
            DrillCommand.RunAsync),
        new(SeedCommand.Name, "make a deposed site the backup, or seed a stream anew", SeedCommand.Options,
            [$"seed --metadata \"postgres:Host=db1;Database=slogger\" --primary-metadata \"postgres:Host=db2;Database=slogger\" {Secret}",
                $"seed --shard 2 {Backup}"],
            "A site that was deposed by a failover or a switch-over may hold writes that were never committed. So its data is void: every "
            + "shard gets a copy of the primary's store, and the log from there on. At a backup the command shows how far the seeding is. "
            + "With --shard it seeds one shard anew: after its disk was lost, or the primary had given it up (--on-backup-lag detach). "
            + "The processes do the work while clients go on, so this command may be ended and given again. Meanwhile the site cannot "
            + "take over.",
            SeedCommand.RunAsync),
        new(WatermarkCommand.Name, "run a backup site's watermark service by itself", WatermarkCommand.Options,
            [$"watermark --site-listen 10.2.0.9:7400 {Backup}"],
            "Each slogger backup serves the watermark of its site, and without --watermark all of them follow the one of shard 0. So most "
            + "sites do not need this command. It has no data of its own: stop and start it at any time, or run two. While no process "
            + "serves the watermark the stores of the backup do not advance, and nothing is lost.",
            WatermarkCommand.RunAsync),
    ];
}
