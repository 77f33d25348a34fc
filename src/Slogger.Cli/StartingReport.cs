// What slogger status says of a proxy that has its data directory and does not listen yet: it recovers, or waits for its Redis or the
// metadata.
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;

namespace Slogger.Cli;

/// <summary>A proxy that starts.</summary>
/// <param name="Cluster">Its cluster; null: not known yet.</param>
/// <param name="Shard">Its shard.</param>
/// <param name="State">Always "starting": a proxy that listens has the fields of DPR.INFO instead.</param>
/// <param name="Pid">Its process.</param>
/// <param name="StartingS">Seconds since it took the data directory.</param>
internal sealed record StartingReport(string? Cluster, int? Shard, string State, int Pid, long StartingS) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.StartingReport;

    public const string Starting = "starting";

    public override void Print(AppHost host)
    {
        string who = Cluster is null ? "the proxy" : $"shard {Shard} of cluster {Cluster}";
        host.Output.WriteLine($"{who}: {State} for {ConsoleText.Age(StartingS)} (process {Pid})");
    }
}
