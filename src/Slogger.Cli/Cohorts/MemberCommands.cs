// slogger cohort add, slogger cohort remove: one member comes, or goes. The leader is asked until it is done, whoever leads meanwhile.
using System.Diagnostics;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Grpc.Cohorts.V1;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Cohorts;

/// <summary>A change of members.</summary>
/// <param name="Node">Who has come, or gone.</param>
/// <param name="IsMember">Whether it is one now.</param>
/// <param name="Members">All of them.</param>
/// <param name="Leader">Who leads now.</param>
/// <param name="Reign">Its reign.</param>
internal sealed record MemberReport(string Node, bool IsMember, IReadOnlyList<string> Members, string Leader, long Reign) : Report
{
    protected override JsonTypeInfo Shape => CohortReportJson.Default.MemberReport;

    public override void Print(AppHost host)
    {
        host.Output.WriteLine($"{Node} is {(IsMember ? "a" : "no")} member: {string.Join(", ", Members)} vote, and {Leader} leads in reign "
            + $"{Reign}");
        if (!IsMember) { host.Output.WriteLine($"stop {Node}'s process, and delete its data directory"); }
    }
}

/// <summary>Adds and removes.</summary>
internal static class MemberCommands
{
    public const string Add = $"{CohortCommands.Name} add", Remove = $"{CohortCommands.Name} remove";
    private const string Member = "member", Look = "slogger cohort status shows the nodes";

    // For nobody to lead: far beyond what an election takes.
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(15), Pause = TimeSpan.FromMilliseconds(100);

    public static readonly IReadOnlyList<OptionDefinition> AddOptions =
    [
        new(Member, "What to do", "NAME=HOST:PORT", "The node that comes. Its process runs, with an empty --data, with this --node, and with "
            + "itself among its --cohort.", "none, it has to be given", ""),
        Report.Json("What to do"),
        .. CohortAccess.Options,
    ];

    public static readonly IReadOnlyList<OptionDefinition> RemoveOptions =
    [
        new(Member, "What to do", "NAME", "The node that goes, whether it runs or not.", "none, it has to be given", ""),
        Report.Json("What to do"),
        .. CohortAccess.Options,
    ];

    public static Task<CommandResult> AddAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        if (arguments.One(Member) is not { } text) { return Missing(arguments, "NAME=HOST:PORT"); }
        if (!CohortOptionsReader.Members(text, out var members, out string problem) || members is not [var member])
        {
            arguments.Fail($"--{Member} {(problem.Length > 0 ? problem : "names more than one")}", "give one node as NAME=HOST:PORT");
            return Task.FromResult(CommandResult.BadOptions(arguments.Errors));
        }
        return RunAsync(arguments, host, member.Node.Text, $"{member.Address}");
    }

    public static Task<CommandResult> RemoveAsync(OptionLayer texts, AppHost host)
    {
        var arguments = new SiteArguments(texts, host);
        return arguments.One(Member) is { } node ? RunAsync(arguments, host, node, null) : Missing(arguments, "NAME");
    }

    private static Task<CommandResult> Missing(SiteArguments arguments, string form)
    {
        if (arguments.Errors.Count == 0) { arguments.Fail("no node is named", $"give --{Member} {form}"); }
        return Task.FromResult(CommandResult.BadOptions(arguments.Errors));
    }

    private static async Task<CommandResult> RunAsync(SiteArguments arguments, AppHost host, string node, string? address)
    {
        using CohortAccess? cohort = CohortAccess.Of(arguments);
        if (cohort is null) { return CommandResult.BadOptions(arguments.Errors); }
        bool asJson = arguments.Flag(Report.Option);
        TextWriter progress = Report.Progress(host, asJson);
        string told = "", obstacle = "";
        long ledUntil = Stopwatch.GetTimestamp();
        while (Stopwatch.GetElapsedTime(ledUntil) < Limit)
        {
            IReadOnlyList<AskedNode> asked = await cohort.AskAsync(host.Stop).ConfigureAwait(false);
            if (LeadCommand.LeaderOf(asked, after: 0) is { Answer.Reply: { } leads } leader)
            {
                Answered<ChangeReply> answer = await cohort.ChangeAsync(leader.Member, node, address, host.Stop).ConfigureAwait(false);
                obstacle = answer.Problem ?? "";
                if (answer.Reply is { } reply)
                {
                    // One that has handed over since does not lead any more: the next one is asked.
                    bool hasEnded = reply.Problem == $"node {leads.Node} does not lead";
                    if (reply.Problem.Length > 0 && !hasEnded)
                    {
                        return CommandResult.Failed($"{leads.Node} goes on with {string.Join(", ", leads.Members.Select(m => m.Node))}: "
                            + reply.Problem, Look);
                    }
                    if (reply.Problem.Length == 0 && reply.WaitsFor.Length == 0 && await DoneAsync(cohort, node, address, host)
                        .ConfigureAwait(false) is { } report)
                    {
                        report.Write(host, asJson);
                        return CommandResult.Done;
                    }
                    if (!hasEnded) { ledUntil = Stopwatch.GetTimestamp(); }
                    if (reply.WaitsFor.Length > 0 && reply.WaitsFor != told) { progress.WriteLine($"waits for {told = reply.WaitsFor}"); }
                }
            }
            else
            {
                obstacle = CohortReport.Of(asked).Obstacle ?? "";
            }
            await Task.Delay(Pause, host.Stop).ConfigureAwait(false);
        }
        return CommandResult.Failed($"nobody leads: {obstacle}", Look);
    }

    // Null: it has changed again meanwhile.
    private static async Task<MemberReport?> DoneAsync(CohortAccess cohort, string node, string? address, AppHost host)
    {
        NodeStatusReply? leader = LeadCommand.LeaderOf(await cohort.AskAsync(host.Stop).ConfigureAwait(false), after: 0)?.Answer.Reply;
        string[] members = [.. leader?.Members.Select(m => m.Node) ?? []];
        return leader is not null && members.Contains(node) == (address is not null)
            ? new(node, address is not null, members, leader.Node, leader.Reign) : null;
    }
}
