// slogger cohort lead: has the leader of a cohort hand over by plan, and waits for the next.
using System.Diagnostics;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Grpc.Cohorts.V1;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Cohorts;

/// <summary>A hand-over.</summary>
/// <param name="From">Who led.</param>
/// <param name="To">Who leads now.</param>
/// <param name="Reign">Its reign.</param>
/// <param name="Took">From when the leader was asked to when all that it had committed was known at the next; null: nothing was to be
/// done.</param>
internal sealed record LeadReport(string From, string To, long Reign, [property: JsonPropertyName("took_ms")] TimeSpan? Took) : Report
{
    protected override JsonTypeInfo Shape => CohortReportJson.Default.LeadReport;

    public override void Print(AppHost host) => host.Output.WriteLine(Took is { } took
        ? $"{To} leads in reign {Reign}, {SiteText.Ms(took)} after {From} was asked to hand over"
        : $"{To} leads already, in reign {Reign}");
}

/// <summary>Hands over.</summary>
internal static class LeadCommand
{
    public const string Name = $"{CohortCommands.Name} lead";

    // Far beyond what an election takes: by then people look.
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(15), Pause = TimeSpan.FromMilliseconds(5);

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("to", "What to do", "NODE", "Who is to lead.", "the node whose log is nearest to the leader's", ""),
        Report.Json("What to do"),
        .. CohortAccess.Options,
    ];

    public static async Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        const string look = "slogger cohort status shows the nodes";
        var arguments = new SiteArguments(texts, host);
        using CohortAccess? cohort = CohortAccess.Of(arguments);
        if (cohort is null) { return CommandResult.BadOptions(arguments.Errors); }
        string? to = texts.Values.ContainsKey("to") ? arguments.One("to") : null;
        IReadOnlyList<AskedNode> asked = await cohort.AskAsync(host.Stop).ConfigureAwait(false);
        if (to is not null && !asked.Any(a => a.Member.Node.Text == to))
        {
            return CommandResult.BadOptions(new OptionError($"--to \"{to}\" is no node of --cohort", "the command line",
                $"give one of {string.Join(", ", asked.Select(a => a.Member.Node))}"));
        }
        if (LeaderOf(asked, after: 0) is not { Answer.Reply: { } before } leader)
        {
            return CommandResult.Failed($"nobody leads: {CohortReport.Of(asked).Obstacle}", look);
        }
        bool asJson = arguments.Flag(Report.Option);
        if (before.Node == to)
        {
            new LeadReport(to, to, before.Reign, null).Write(host, asJson);
            return CommandResult.Done;
        }
        long began = Stopwatch.GetTimestamp();
        Answered<HandOverReply> answer = await cohort.HandOverAsync(leader.Member, to, host.Stop).ConfigureAwait(false);
        if (answer.Reply is not { } reply) { return CommandResult.Failed($"{before.Node}: {answer.Problem}", answer.Remedy); }
        if (reply.Problem.Length > 0) { return CommandResult.Failed($"{before.Node} goes on to lead: {reply.Problem}", look); }
        while (Stopwatch.GetElapsedTime(began) < Limit)
        {
            asked = await cohort.AskAsync(host.Stop).ConfigureAwait(false);
            if (asked.Select(a => a.Answer.Reply).FirstOrDefault(r => r?.Node == before.Node) is { CalledOff: { Length: > 0 } why })
            {
                return CommandResult.Failed($"{before.Node} goes on to lead: {why}", look);
            }
            if (LeaderOf(asked, before.Reign)?.Answer.Reply is { } next)
            {
                TimeSpan took = Stopwatch.GetElapsedTime(began);
                new LeadReport(before.Node, next.Node, next.Reign, took).Write(host, asJson);
                return to is null || next.Node == to ? CommandResult.Done
                    : CommandResult.Failed($"{next.Node} was elected, and not {to}", "give the command again, if it matters who leads");
            }
            await Task.Delay(Pause, host.Stop).ConfigureAwait(false);
        }
        return CommandResult.Failed($"nobody else leads {Limit.TotalSeconds:0} s after {before.Node} was asked to hand over", look);
    }

    // Of a later reign than that, with its record at a majority.
    public static AskedNode? LeaderOf(IReadOnlyList<AskedNode> asked, long after) =>
        asked.Where(a => a.Answer.Reply is { Role: "leads" } r && r.Reign > after && (after == 0 || r.Commit.Reign == r.Reign))
            .Cast<AskedNode?>().MaxBy(a => a!.Value.Answer.Reply!.Reign);
}
