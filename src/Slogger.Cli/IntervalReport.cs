// What slogger interval shows when all shards have agreed.
using System.Globalization;
using System.Text.Json.Serialization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>A length of versions that was agreed upon.</summary>
/// <param name="Interval">The length.</param>
/// <param name="FirstVersion">From which version on.</param>
/// <param name="BeginsIn">When that begins; zero or less: it has begun.</param>
internal sealed record IntervalReport([property: JsonPropertyName("version_interval_ms")] TimeSpan Interval, long FirstVersion,
    [property: JsonPropertyName("begins_in_ms")] TimeSpan BeginsIn) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.IntervalReport;

    public override void Print(AppHost host) => host.Output.WriteLine(string.Create(CultureInfo.InvariantCulture,
        $"versions are of {OptionText.FormatDuration(Interval)} from version {FirstVersion} on, "
        + $"{(BeginsIn > TimeSpan.Zero ? $"in {BeginsIn.TotalSeconds:0.0} s" : "which has begun")}"));
}
