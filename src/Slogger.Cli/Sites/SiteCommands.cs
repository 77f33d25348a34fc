// The commands of two sites: one list for parsing, dispatch and --help.
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Sites;

/// <summary>One of them.</summary>
/// <param name="Name">Its name.</param>
/// <param name="Description">What it does, in a line.</param>
/// <param name="Options">Its options.</param>
/// <param name="Examples">For --help, without "slogger".</param>
/// <param name="Text">For --help: what happens, and what does not.</param>
/// <param name="RunAsync">Does it.</param>
internal sealed record SiteCommand(
    string Name, string Description, IReadOnlyList<OptionDefinition> Options, IReadOnlyList<string> Examples, string Text,
        Func<OptionLayer, AppHost, Task<CommandResult>> RunAsync);

/// <summary>The list.</summary>
internal static class SiteCommands
{
    private const string Secret = "--site-secret-file /etc/slogger/site-secret", Backup =
        $"--metadata \"postgres:Host=db2;Database=slogger\" {Secret}";

    public static readonly IReadOnlyList<SiteCommand> All =
    [
        new(FailoverCommand.Name, "make the backup site the primary, when the primary is gone", FailoverCommand.Options,
            [$"failover --i-attest-the-primary-is-down {Backup}", $"failover --lose-shard 2 --i-attest-the-primary-is-down {Backup}"],
            "From its first step on nothing of the primary is received any more. All streams say what they hold, the newest version that "
            + "all of them have is what the site goes on from, each shard goes to exactly that, and then clients are served: everything "
            + "that slogger status shows as the watermark is kept. Where a site lease is configured the command waits for it; else you "
            + "attest that the primary is down. If it is interrupted nobody serves until it is given again. A primary that lives, or "
            + "comes back, ends when it hears of this: slogger seed makes it the backup. If the primary is well use slogger switchover, "
            + "which loses nothing.",
            FailoverCommand.RunAsync),
        new(SwitchOverCommand.Name, "hand over to the backup site by plan, so that nothing is lost", SwitchOverCommand.Options,
            ["switchover --metadata \"postgres:Host=db1;Database=slogger\" --backup-metadata \"postgres:Host=db2;Database=slogger\" "
                + $"{Secret}", "switchover --call-off --metadata ... --backup-metadata ..."],
            "The primary holds all operations of its clients; when everything that was done is in a recorded cut that the backup holds, "
            + "the backup takes over, and the primary's processes end. Clients connect to the backup then. If that is not so in time it "
            + "is called off, and clients of the primary go on with a delay behind them. If the command is interrupted, or killed, the "
            + "clients wait: given again it goes on. Nothing is changed while a process of either site does not answer, or a stream is "
            + "being seeded; one that is busy or starts is asked again (--timeout).",
            SwitchOverCommand.RunAsync),
        new(DrillCommand.Name, "show what a failover would come to, without one", DrillCommand.Options,
            [$"drill {Backup}", $"drill --restore {Backup}"],
            "Says what a failover at this moment would keep and lose, how long it would take (corrected by what the site's last failover "
            + "took), and whether anything stands in its way; every process reads its log from the newest checkpoint up to that version "
            + "and checks all checksums. Nothing is changed, clients and the primary notice nothing but the reading. It fails if a "
            + "failover would, and says so when only the drill itself could not be done. With --restore each log is also restored into a "
            + "redis-server that is started for it, and what comes of it compared with the store that follows.",
            DrillCommand.RunAsync),
        new(SeedCommand.Name, "make a deposed site the backup, or seed a stream anew", SeedCommand.Options,
            [$"seed --metadata \"postgres:Host=db1;Database=slogger\" --primary-metadata \"postgres:Host=db2;Database=slogger\" {Secret}",
                $"seed --shard 2 {Backup}"],
            "A site that was deposed by a failover or a switch-over holds what may never have been committed: what it has is void, and "
            + "every shard comes anew, as a copy of the primary's store and the log from there. At a backup it shows how far the streams "
            + "are that are being seeded, and with --shard has one seeded anew: after its disk was lost, or the primary had given it up "
            + "(--on-backup-lag detach). The processes do it while clients go on; this command may be ended and given again. Meanwhile "
            + "the site cannot take over.",
            SeedCommand.RunAsync),
        new(WatermarkCommand.Name, "run a backup site's watermark service by itself", WatermarkCommand.Options,
            [$"watermark --site-listen 10.2.0.9:7400 {Backup}"],
            "Each slogger backup serves the watermark of its site, and without --watermark all follow the one of shard 0: a process of "
            + "its own is needed only where that is not wanted. It keeps nothing, may be ended and started at any time, and two do no "
            + "harm; while there is none the stores of the backup stay where they are, and nothing is lost.",
            WatermarkCommand.RunAsync),
    ];

    public static SiteCommand? Find(string? name) => All.FirstOrDefault(c => c.Name == name);
}
