// What slogger status --site shows: a site of two, and all of its streams, as SQL and its processes say.
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Core.WorldLines;
using Spectre.Console;

namespace Slogger.Cli.Sites;

/// <summary>A site.</summary>
/// <param name="Cluster">Its cluster.</param>
/// <param name="SiteEpoch">Its site epoch.</param>
/// <param name="Role">Primary, Backup, FailingOver, HandingOver or Deposed.</param>
/// <param name="RoleText">The same for a person, with how far it is.</param>
/// <param name="Obstacle">Why it is not ready to do what it is for; null: nothing stands in the way.</param>
/// <param name="Final">What it went on from when it took over.</param>
/// <param name="Streams">What it receives.</param>
/// <param name="Shipped">Of a site that is no backup: its shards.</param>
/// <param name="IsBackup">Whether it is a backup, or becomes a primary.</param>
internal sealed record SiteReport(string Cluster, long SiteEpoch, string Role, [property: JsonIgnore] string RoleText, string? Obstacle,
    WorldPoint? Final, IReadOnlyList<StreamFacts> Streams, IReadOnlyList<ShippedFacts> Shipped,
    [property: JsonIgnore] bool IsBackup) : Report
{
    protected override JsonTypeInfo Shape => SiteReportJson.Default.SiteReport;

    public override void Print(AppHost host)
    {
        Table table = new Table { Border = TableBorder.Rounded,
            Title = new TableTitle(Markup.Escape($"cluster {Cluster}, site epoch {SiteEpoch}: {RoleText}")) };
        foreach (string column in IsBackup ? ["shard", "process", "stream", "held", "watermark", "age", "applied", "heard"]
            : (string[])["shard", "process", "ships", "recorded cut", "at the backup"])
        {
            table.AddColumn(column);
        }
        foreach (string[] row in IsBackup ? Streams.Select(s => s.Row) : Shipped.Select(s => s.Row))
        {
            table.AddRow([.. row.Select(cell => new Text(cell))]);
        }
        ConsoleText.ConsoleOf(host).Write(table);
        // Long texts do not go into a cell.
        foreach ((string shard, string? problem) in IsBackup ? Streams.Select(s => (s.Name, s.Problem))
            : Shipped.Select(s => ($"{s.Shard}", s.Problem)))
        {
            if (problem is not null) { host.Output.WriteLine($"shard {shard}: {problem}"); }
        }
    }
}

/// <summary>One stream of a backup. What its process says is null where that does not answer.</summary>
/// <param name="Shard">The backup's shard.</param>
/// <param name="PrimaryShard">The primary's.</param>
/// <param name="Name">Both, for a person.</param>
/// <param name="Process">Where its process listens; null: none has ever had it.</param>
/// <param name="Phase">Empty, Follows or Counts, as SQL says; Unknown, where nobody answers.</param>
/// <param name="PhaseText">The same for a person.</param>
/// <param name="Generation">How often it was seeded.</param>
internal sealed record StreamFacts(int Shard, int PrimaryShard, [property: JsonIgnore] string Name, string? Process, string Phase,
    [property: JsonIgnore] string PhaseText, long Generation)
{
    /// <summary>The newest version that is durable here.</summary>
    public WorldPoint? Held { get; init; }

    /// <summary>The newest version that all streams hold.</summary>
    public WorldPoint? Watermark { get; init; }

    /// <summary>How long ago that ended at the primary.</summary>
    [JsonPropertyName("watermark_age_ms")]
    public TimeSpan? WatermarkAge { get; init; }

    /// <summary>What the store is at.</summary>
    public WorldPoint? Applied { get; init; }

    /// <summary>How long the store took for its last version.</summary>
    public long? ApplyUs { get; init; }

    /// <summary>How long ago the primary was heard; negative: never.</summary>
    public long? SilentUs { get; init; }

    /// <summary>How much of the copy is here.</summary>
    public long? SeedHasBytes { get; init; }

    /// <summary>How large the copy is; 0: there is none.</summary>
    public long? SeedBytes { get; init; }

    /// <summary>What is wrong.</summary>
    public string? Problem { get; init; }

    /// <summary>Cells of a table.</summary>
    [JsonIgnore]
    public string[] Row
    {
        get
        {
            // What SQL says of it was so when somebody was there.
            if (SilentUs is not { } silent) { return [Name, Process ?? "none", PhaseText, "", "", "", "", ""]; }
            string seed = SeedBytes is > 0 and var whole ? $", {ConsoleText.Bytes(SeedHasBytes ?? 0)} of {ConsoleText.Bytes(whole)}" : "";
            return
            [
                Name, Process ?? "none", $"{PhaseText}, generation {Generation}{seed}", SiteText.Version(Held), SiteText.Version(Watermark),
                WatermarkAge is { } age ? SiteText.Age(age) : "", SiteText.Version(Applied),
                silent < 0 ? "never" : SiteText.Age(TimeSpan.FromMicroseconds(silent)) + " ago",
            ];
        }
    }
}

/// <summary>One shard of a primary.</summary>
/// <param name="Shard">Which.</param>
/// <param name="Process">Where its process listens; null: none has ever had it.</param>
/// <param name="State">How it ships, as its process says; unknown, where that does not answer.</param>
/// <param name="Cut">The recorded cut; null: not known.</param>
/// <param name="Watermark">What the backup has; null: not known.</param>
/// <param name="Problem">What is wrong.</param>
internal sealed record ShippedFacts(int Shard, string? Process, string State, WorldPoint? Cut, WorldPoint? Watermark, string? Problem)
{
    /// <summary>Cells of a table.</summary>
    [JsonIgnore]
    public string[] Row =>
        [$"{Shard}", Process ?? "none", State, Cut is { } cut ? $"{cut}" : "", Watermark is { } mark ? SiteText.Version(mark) : ""];
}
