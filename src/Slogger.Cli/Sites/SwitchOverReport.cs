// What slogger switchover has come to.
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Core.WorldLines;

namespace Slogger.Cli.Sites;

/// <summary>A switch-over that is over.</summary>
/// <param name="IsCalledOff">Whether the primary goes on; what follows is known only of one that was not called off.</param>
/// <param name="SiteEpoch">The site epoch of the backup, which is the primary now.</param>
/// <param name="WorldLine">Its first world-line.</param>
internal sealed record SwitchOverReport(bool IsCalledOff, long? SiteEpoch = null, long? WorldLine = null) : Report
{
    protected override JsonTypeInfo Shape => SiteReportJson.Default.SwitchOverReport;

    /// <summary>The cut at which the primary ended; null: another run knew it.</summary>
    public WorldPoint? Cut { get; init; }

    /// <summary>What the backup goes on from: nothing is lost if it is not below the cut.</summary>
    public WorldPoint? From { get; init; }

    /// <summary>How long clients were held, at most; null: another run held them.</summary>
    [JsonPropertyName("held_ms")]
    public TimeSpan? Held { get; init; }

    public override void Print(AppHost host)
    {
        TextWriter output = host.Output;
        if (IsCalledOff)
        {
            output.WriteLine("no switch-over is under way any more: the primary serves its clients");
            return;
        }
        output.WriteLine($"the backup is the primary now: site epoch {SiteEpoch}, world-line {WorldLine}");
        if (Cut is { } cut && From is { } from && from >= cut)
        {
            output.WriteLine($"nothing is lost: the primary ended at cut {cut}, and the backup goes on from {from}");
        }
        if (Held is { } held)
        {
            output.WriteLine($"clients were held for {SiteText.Ms(held)} at most");
            output.WriteLine("the old primary becomes the backup when you give slogger seed there");
        }
    }
}
