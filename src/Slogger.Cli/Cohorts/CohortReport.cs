// What slogger cohort status shows: the nodes of one shard as they say themselves, and as their leader sees them.
using System.Globalization;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Spectre.Console;
using V1 = Slogger.Grpc.Cohorts.V1;

namespace Slogger.Cli.Cohorts;

/// <summary>A cohort.</summary>
/// <param name="Leader">Who leads; null: nobody.</param>
/// <param name="Reign">The newest reign that anybody knows.</param>
/// <param name="Since">How long it has led.</param>
/// <param name="MayBeLost">How many nodes may be lost while all goes on; negative: that many are missing.</param>
/// <param name="Loss">The same for a person, with the reason.</param>
/// <param name="Obstacle">Why nobody leads, or nothing is committed; null: nothing stands in the way.</param>
/// <param name="Nodes">All of them, as --cohort names them.</param>
internal sealed record CohortReport(string? Leader, long Reign, [property: JsonPropertyName("since_ms")] TimeSpan? Since, int MayBeLost,
    string Loss, string? Obstacle, IReadOnlyList<CohortNodeFacts> Nodes) : Report
{
    // What a node may lack and still count. More takes longer to send than a takeover takes.
    private const long NearBytes = 16L << 20;
    // The leader is answered every few milliseconds.
    private static readonly TimeSpan SilentAfter = TimeSpan.FromSeconds(1);

    protected override JsonTypeInfo Shape => CohortReportJson.Default.CohortReport;

    /// <summary>Makes one of what the nodes have answered.</summary>
    public static CohortReport Of(IReadOnlyList<AskedNode> asked)
    {
        V1.NodeStatusReply? leader = asked.Select(a => a.Answer.Reply).Where(r => r is { Role: "leads" }).MaxBy(r => r!.Reign);
        V1.NodeStatusReply? newest = leader ?? asked.Select(a => a.Answer.Reply).OfType<V1.NodeStatusReply>().MaxBy(r => r.Reign);
        CohortNodeFacts[] all = [.. asked.Select(a => CohortNodeFacts.Of(a, leader, newest))];
        CohortNodeFacts[] nodes = [.. all.Where(n => n.IsMember)];
        int majority = (nodes.Length / 2) + 1;
        long reign = asked.Max(a => a.Answer.Reply?.Reign ?? 0);
        if (leader is null)
        {
            CohortNodeFacts[] mute = [.. nodes.Where(n => n.Role is null)];
            CohortNodeFacts[] learning = [.. nodes.Where(n => n.Role == "learns")];
            int votes = nodes.Length - mute.Length - learning.Length;
            bool isNew = asked.All(a => a.Answer.Reply is null or { Reign: 0, Durable.Closed: 0 });
            string obstacle = isNew && mute.Length > 0
                ? $"the cohort has never had a leader, and all {nodes.Length} nodes elect the first: {Names(mute)} not answered"
                : votes >= majority || (isNew && mute.Length == 0) ? "the nodes are electing a leader at this moment"
                : $"{Count(majority, "vote")} are needed to elect a leader, and there {(votes == 1 ? "is" : "are")} {votes}: "
                    + string.Join(", ", nodes.Where(n => n.Role is null or "learns").Select(n => n.Lack));
            return new(null, reign, null, votes - majority, "nobody is served until a node leads", obstacle, all);
        }
        CohortNodeFacts[] missing = [.. nodes.Where(n => n.Lack is not null)];
        int spare = nodes.Length - missing.Length - majority;
        string why = missing.Length == 0 ? "" : $": {string.Join(", ", missing.Select(n => n.Lack))}";
        string loss = spare switch
        {
            < 0 => $"nothing is committed: {Count(-spare, "more node")} must follow{why}",
            0 => $"no node may be lost{why}",
            1 => $"one more node may be lost{why}",
            _ => $"{spare} more nodes may be lost{why}",
        };
        return new(leader.Node, reign, TimeSpan.FromMicroseconds(leader.SinceUs), spare, loss, spare < 0 ? loss : null, all);

        string Names(CohortNodeFacts[] which) => string.Join(" and ", which.Select(n => n.Node)) + (which.Length == 1 ? " has" : " have");
    }

    /// <summary>Whether a node lacks more of the log than one that counts may.</summary>
    public static bool IsFar(long behindBytes) => behindBytes > NearBytes;

    /// <summary>Whether a leader has heard nothing for too long.</summary>
    public static bool IsSilent(TimeSpan silent) => silent > SilentAfter;

    public override void Print(AppHost host)
    {
        string title = Leader is { } leader && Since is { } since ? $"{leader} leads in reign {Reign}, for {SiteText.Age(since)}"
            : $"nobody leads, after reign {Reign}";
        Table table = new Table { Border = TableBorder.Rounded, Title = new TableTitle(Markup.Escape(title)) };
        foreach (string column in (string[])["node", "address", "clients at", "role", "behind", "versions behind", "counts", "heard"])
        {
            table.AddColumn(column);
        }
        foreach (CohortNodeFacts node in Nodes) { table.AddRow([.. node.Row.Select(cell => new Text(cell))]); }
        ConsoleText.ConsoleOf(host).Write(table);
        // Long texts do not go into a cell.
        foreach (CohortNodeFacts node in Nodes.Where(n => n.Problem is not null)) { host.Output.WriteLine($"{node.Node}: {node.Problem}"); }
        host.Output.WriteLine(Leader is null && Obstacle is { } obstacle ? obstacle : Loss);
    }

    private static string Count(int number, string noun) => $"{number} {noun}{(number == 1 ? "" : "s")}";
}

/// <summary>A node. What nobody says of it is null.</summary>
/// <param name="Node">Its name.</param>
/// <param name="Address">Where the others reach it.</param>
/// <param name="Clients">Where clients do.</param>
/// <param name="Role">leads, follows, asks, stands or learns, as it says itself.</param>
/// <param name="Reign">The reign that it is in.</param>
/// <param name="BehindBytes">How much of the leader's log it lacks.</param>
/// <param name="BehindVersions">The same in versions that are closed.</param>
/// <param name="Counts">Whether its log counts for what is durable, and it votes.</param>
/// <param name="Silent">How long the leader has heard nothing of it.</param>
/// <param name="Problem">What is wrong.</param>
internal sealed record CohortNodeFacts(string Node, string Address, string? Clients, string? Role, long? Reign, long? BehindBytes,
    long? BehindVersions, bool Counts, [property: JsonPropertyName("silent_ms")] TimeSpan? Silent, string? Problem)
{
    /// <summary>Why a majority is without it, for a person; null: it counts.</summary>
    [JsonIgnore]
    public string? Lack { get; private init; }

    /// <summary>Whether it is a member, as far as anybody says.</summary>
    [JsonPropertyName("member")]
    public bool IsMember { get; private init; }

    /// <summary>What one has answered, and what the leader says of it.</summary>
    /// <param name="asked">The node.</param>
    /// <param name="leader">What the leader has answered; null: there is none.</param>
    /// <param name="newest">What who knows the newest reign has answered.</param>
    public static CohortNodeFacts Of(in AskedNode asked, V1.NodeStatusReply? leader, V1.NodeStatusReply? newest)
    {
        CohortMember member = asked.Member;
        V1.NodeStatusReply? own = asked.Answer.Reply;
        string name = member.Node.Text;
        bool leads = leader is not null && leader.Node == name;
        V1.FollowerStatus? seen = leader?.Followers.FirstOrDefault(f => f.Node == name);
        TimeSpan? silent = seen is { SilentUs: >= 0 } ? TimeSpan.FromMicroseconds(seen.SilentUs) : null;
        bool learns = own is { Role: "learns" } || seen is { Learns: true };
        bool isMember = newest is null || newest.Members.Count == 0 || newest.Members.Any(m => m.Node == name);
        string? lack = leads ? null
            : !isMember ? $"{name} is no member"
            : own is null ? $"{name} does not answer"
            : own.Node != name ? $"{own.Node} answers at {name}'s address"
            : learns ? $"{name} learns"
            : leader is null ? null
            : seen is null ? $"{leader.Node} does not know {name}"
            : silent is not { } time || CohortReport.IsSilent(time) ? $"{name} is not heard by {leader.Node}"
            : CohortReport.IsFar(seen.LagBytes) ? $"{name} lacks {ConsoleText.Bytes(seen.LagBytes)}"
            : null;
        string? problem = own is null ? asked.Answer.Problem : Given(own.Problem) ?? Given(seen?.Problem);
        return new(name, $"{member.Address}", Given(own?.Clients), own?.Role, own?.Reign,
            leads ? 0 : seen is { Durable.Closed: > 0 } ? seen.LagBytes : null,
            leads ? 0 : seen is { Durable.Closed: > 0 } ? Math.Max(0, leader!.Durable.Closed - seen.Durable.Closed) : null,
            lack is null, silent, problem) { Lack = lack, IsMember = isMember };
    }

    /// <summary>Cells of a table.</summary>
    [JsonIgnore]
    public string[] Row =>
    [
        Node, Address, Clients ?? "", IsMember ? Role ?? "does not answer" : "no member", BehindBytes is { } bytes ? ConsoleText.Bytes(bytes) : "",
        BehindVersions is { } versions ? versions.ToString(CultureInfo.InvariantCulture) : "", Counts ? "yes" : "no",
        Silent is { } silent ? SiteText.Age(silent) + " ago" : "",
    ];

    private static string? Given(string? text) => text is { Length: > 0 } ? text : null;
}
