// slogger cohort status: asks all nodes of a cohort, and shows them together.
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Cohorts;

/// <summary>Shows a cohort.</summary>
internal static class CohortStatusCommand
{
    public const string Name = $"{CohortCommands.Name} status";

    public static readonly IReadOnlyList<OptionDefinition> Options = [Report.Json("What to show"), .. CohortAccess.Options];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        using CohortAccess? cohort = CohortAccess.Of(arguments);
        if (cohort is null) { return CommandResult.BadOptions(arguments.Errors); }
        IReadOnlyList<AskedNode> asked = await cohort.AskAsync(host.Stop).ConfigureAwait(false);
        CohortReport report = CohortReport.Of(asked);
        report.Write(host, arguments.Flag(Report.Option));
        return report.Obstacle is not { } obstacle ? CommandResult.Done : CommandResult.Failed(obstacle, RemedyOf(asked, report));
    }

    private static string RemedyOf(IReadOnlyList<AskedNode> asked, CohortReport report) =>
        asked.Where(a => a.Answer.Reply is null).Select(a => $"{a.Member.Node}: {a.Answer.Remedy}").FirstOrDefault()
            ?? (report.Nodes.Any(n => n.Role == "learns") && report.Leader is null
                ? "a node that learns needs a leader: start the nodes that have the data; if their directories are gone the shard's data is"
                : "give the command again in a second; if it lasts look at the nodes' logs");
}
