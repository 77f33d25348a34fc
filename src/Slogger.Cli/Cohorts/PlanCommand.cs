// slogger cohort plan: who has which shard, by chained declustering: shard i is at machines i to i + replicas - 1, in a circle.
using System.Globalization;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;
using Slogger.Resp;

namespace Slogger.Cli.Cohorts;

/// <summary>A placement.</summary>
/// <param name="Nodes">What there is to start, by machine.</param>
/// <param name="Shards">For who asks how a shard is.</param>
internal sealed record PlanReport(IReadOnlyList<PlannedNode> Nodes, IReadOnlyList<PlannedCohort> Shards) : Report
{
    protected override JsonTypeInfo Shape => CohortReportJson.Default.PlanReport;

    public override void Print(AppHost host)
    {
        foreach (IGrouping<string, PlannedNode> machine in Nodes.GroupBy(n => n.Node))
        {
            host.Output.WriteLine($"On {machine.Key}, shards {string.Join(", ", machine.Select(n => n.Shard))}:");
            foreach (PlannedNode node in machine) { host.Output.WriteLine("  " + node.Command); }
            host.Output.WriteLine();
        }
        host.Output.WriteLine("To see how a shard is:");
        foreach (PlannedCohort shard in Shards) { host.Output.WriteLine("  " + shard.Command); }
    }
}

/// <summary>A process.</summary>
/// <param name="Node">The machine, which is the node's name, too.</param>
/// <param name="Shard">Whose.</param>
/// <param name="Clients">Where clients reach it.</param>
/// <param name="Address">Where the other nodes do.</param>
/// <param name="Command">What starts it.</param>
internal sealed record PlannedNode(string Node, int Shard, string Clients, string Address, string Command);

/// <summary>A shard.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Cohort">Its nodes, as --cohort takes them.</param>
/// <param name="Command">What shows them.</param>
internal sealed record PlannedCohort(int Shard, string Cohort, string Command);

/// <summary>Plans.</summary>
internal static class PlanCommand
{
    public const string Name = $"{CohortCommands.Name} plan";

    private const string What = "What there is to be";
    private const int ClientPort = 6380, NodePort = 7400, ShardsMax = 1024, ReplicasMax = 7;

    public static readonly IReadOnlyList<OptionDefinition> Options =
    [
        new("nodes", What, "HOST[,...]", "The machines, as the others and the clients reach them.", "none", ""),
        new("shards", What, "N", "How many shards there are.", "1", ""),
        new("replicas", What, "N", "How many machines have each shard: 3 or 5.", "3", ""),
        new("cluster", What, "NAME", "The cluster's name.", "default", ""),
        new("metadata", What, "SPEC", "The database that all share, for the command lines: postgres:CONNECTION or sqlserver:CONNECTION; "
            + "sqlite:PATH serves one machine.", "none: they read it from SLOGGER_METADATA", "") { IsSecret = true },
        new("site-secret-file", What, "FILE", "The file of the secret, for the command lines.", "/etc/slogger/site-secret", ""),
        new("data", What, "DIR", "Where the data of all shards is, each in a directory of its own.", "/var/lib/slogger", ""),
        Report.Json(What),
    ];

    public static Task<CommandResult> RunAsync(OptionLayer texts, AppHost host)
    {
        List<OptionError> errors = [];
        string? One(string name) => texts.One(name, errors);
        void Fail(string what, string remedy) => errors.Add(new OptionError(what, "the command line", remedy));
        int Number(string name, int fallback, int max)
        {
            if (One(name) is not { } text) { return fallback; }
            if (int.TryParse(text, NumberStyles.None, CultureInfo.InvariantCulture, out int number) && number >= 1 && number <= max)
            {
                return number;
            }
            Fail($"--{name} \"{text}\" is no number from 1 to {max}", "correct it");
            return fallback;
        }
        string[] machines = One("nodes")?.Split(',', StringSplitOptions.TrimEntries) ?? [];
        int replicas = Number("replicas", 3, ReplicasMax), shards = Number("shards", 1, ShardsMax);
        foreach (string machine in machines)
        {
            if (!OptionText.Name(machine, out _, out string wrong)) { Fail($"--nodes has \"{machine}\", which {wrong}", "name hosts"); }
        }
        if (machines.Length == 0) { Fail("no machines are named", "give --nodes HOST,HOST,HOST"); }
        else if (machines.Distinct(StringComparer.OrdinalIgnoreCase).Count() < machines.Length)
        {
            Fail("--nodes names a machine twice, and a machine has one copy of a shard", "name each once");
        }
        else if (replicas > machines.Length)
        {
            Fail($"{replicas} copies of a shard need as many machines, and --nodes names {machines.Length}",
                "name more, or give fewer --replicas");
        }
        if (replicas % 2 == 0)
        {
            Fail($"--replicas {replicas} bears no more losses than {replicas - 1}: a majority has to be left", "give an odd number");
        }
        string cluster = One("cluster") ?? "default", data = One("data") ?? "/var/lib/slogger";
        string secret = One("site-secret-file") ?? "/etc/slogger/site-secret";
        if (!OptionText.Name(cluster, out _, out string problem)) { Fail($"--cluster \"{cluster}\" {problem}", "give another name"); }
        string? metadata = One("metadata");
        if (metadata is not null && !MetadataSpec.TryParse(metadata, out _, out string? bad))
        {
            Fail($"--metadata {bad}", "write postgres:CONNECTION, sqlserver:CONNECTION or sqlite:PATH");
        }
        if (errors.Count > 0) { return Task.FromResult(CommandResult.BadOptions(errors)); }
        Planned(new(machines, shards, replicas, cluster, metadata, secret, data)).Write(host, texts.Values.ContainsKey(Report.Option));
        return Task.FromResult(CommandResult.Done);
    }

    private sealed record Wanted(string[] Machines, int Shards, int Replicas, string Cluster, string? Metadata, string Secret, string Data);

    private static PlanReport Planned(Wanted wanted)
    {
        int[] onMachine = new int[wanted.Machines.Length];
        List<(int Machine, PlannedNode Node)> nodes = [];
        List<PlannedCohort> cohorts = [];
        for (int shard = 0; shard < wanted.Shards; shard++)
        {
            (int Machine, int Place)[] places = [.. Enumerable.Range(0, wanted.Replicas).Select(i => (shard + i) % wanted.Machines.Length)
                .Select(m => (m, onMachine[m]++))];
            string Between((int Machine, int Place) at) => $"{wanted.Machines[at.Machine]}:{NodePort + at.Place}";
            string cohort = string.Join(',', places.Select(p => $"{wanted.Machines[p.Machine]}={Between(p)}"));
            foreach ((int Machine, int Place) place in places)
            {
                string machine = wanted.Machines[place.Machine], clients = $"{machine}:{ClientPort + place.Place}";
                string metadata = wanted.Metadata is { } spec ? $" --metadata \"{spec}\"" : "";
                nodes.Add((place.Machine, new(machine, shard, clients, Between(place),
                    $"slogger serve --cluster {wanted.Cluster} --shards {wanted.Shards} --shard {shard} --node {machine} --cohort {cohort} "
                    + $"--listen {clients} --redis-server redis-server --data {wanted.Data}/{shard}{metadata} "
                    + $"--site-secret-file {wanted.Secret}")));
            }
            cohorts.Add(new(shard, cohort, $"slogger cohort status --cohort {cohort} --site-secret-file {wanted.Secret}"));
        }
        return new([.. nodes.OrderBy(n => n.Machine).ThenBy(n => n.Node.Shard).Select(n => n.Node)], cohorts);
    }
}
