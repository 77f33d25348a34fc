// The commands of two sites: one list for parsing, dispatch and --help.
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
    string Name, string Description, IReadOnlyList<OptionDefinition> Options, IReadOnlyList<string> Examples, string Text, Func<OptionLayer, AppHost, Task<CommandResult>> RunAsync);

/// <summary>The list.</summary>
internal static class SiteCommands
{
    private const string Backup = "--metadata \"postgres:Host=db2;Database=slogger\" --site-secret-file /etc/slogger/secret";

    public static readonly IReadOnlyList<SiteCommand> All =
    [
        new(FailoverCommand.Name, "make the backup site the primary, when the primary is gone", FailoverCommand.Options,
            [$"failover --i-attest-the-primary-is-down {Backup}", $"failover --lose-shard 2 --i-attest-the-primary-is-down {Backup}"],
            "From its first step on nothing of the primary is received any more. All streams say what they hold, the newest version that all of them have is what the site goes on from, each "
            + "shard goes to exactly that, and then clients are served: everything that slogger status shows as the watermark is kept. Where a site lease is configured the command waits for it; else you attest that "
            + "the primary is down. If it is interrupted nobody serves until it is given again. A primary that lives, or comes back, ends when it hears of this: slogger seed makes it the backup. If the primary is "
            + "well use slogger switchover, which loses nothing.",
            FailoverCommand.RunAsync),
    ];

    public static SiteCommand? Find(string? name) => All.FirstOrDefault(c => c.Name == name);
}
