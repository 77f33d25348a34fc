// The commands of cohorts: one list for parsing, dispatch and --help.
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Cohorts;

/// <summary>The list. A name is two words.</summary>
internal static class CohortCommands
{
    /// <summary>The first word of all of them.</summary>
    public const string Name = "cohort";

    private const string Members = "--cohort a=cache0:7400,b=cache1:7400,c=cache2:7400", Secret =
        "--site-secret-file /etc/slogger/site-secret";

    public static readonly IReadOnlyList<ListedCommand> All =
    [
        new(CohortStatusCommand.Name, "show who leads a shard's cohort, and what it could lose", CohortStatusCommand.Options,
            [$"cohort status {Members} {Secret}", "cohort status --config /etc/slogger/site.json --json"],
            "Every node is asked. What the leader knows of the others is shown with what they say themselves. A node that learns has lost "
            + "what it had, or is new: it neither votes nor counts. The last line says how many nodes may be lost now without anybody "
            + "having to wait. Exit code 0: a node leads, and a majority follows. 1: nobody leads, or no majority follows.",
            CohortStatusCommand.RunAsync),
        new(LeadCommand.Name, "have another node lead, by plan", LeadCommand.Options,
            [$"cohort lead {Members} {Secret}", $"cohort lead --to b {Members} {Secret}"],
            "Before the start of planned work on the leader's machine. What was answered is committed first, so nothing is lost. Then the "
            + "leader asks the other node to lead, closes its clients' connections, and follows. Clients connect to the new leader. The "
            + "command ends when another node leads, and says how long that took.",
            LeadCommand.RunAsync),
        new(MemberCommands.Add, "add a node to a shard's cohort, while it serves", MemberCommands.AddOptions,
            [$"cohort add --member d=cache3:7400 {Members} {Secret}"],
            "The leader gives the node a copy of its store, and its log, while it serves. When the node has all that is committed the lead is "
            + "handed over, as by slogger cohort lead, and the next leader has one member more. The command ends when a majority of the new "
            + "members knows. It may be given again, whatever has happened meanwhile. Members come and go one at a time.",
            MemberCommands.AddAsync),
        new(MemberCommands.Remove, "remove a node from a shard's cohort, while it serves", MemberCommands.RemoveOptions,
            [$"cohort remove --member c {Members} {Secret}"],
            "The lead is handed over, as by slogger cohort lead, and the next leader has one member less. The node need not run; if it does "
            + "stop it afterwards. It is refused if no majority of those that stay is there.",
            MemberCommands.RemoveAsync),
        new(PlanCommand.Name, "print who has which shard, and the command lines that start the nodes", PlanCommand.Options,
            ["cohort plan --nodes cache0,cache1,cache2 --metadata \"postgres:Host=db1;Database=slogger\"",
                "cohort plan --nodes cache0,cache1,cache2,cache3,cache4 --shards 5 --replicas 3 --json"],
            "Shard i is at machines i, i+1 and i+2, so machine i has shards i, i-1 and i-2 (chained declustering). When a machine is lost "
            + "its work goes to more than one other. With more than one shard it is a plan only: slogger serve refuses such a cluster yet. "
            + "Nothing is started, and nothing is written. Ports are 6380 for clients and 7400 between nodes, and count up on a machine "
            + "that has more than one shard.",
            PlanCommand.RunAsync),
    ];
}
