// What slogger restore --list shows.
using System.Globalization;
using System.Text.Json.Serialization.Metadata;
using Slogger.Cli.Terminal;
using Slogger.Proxy;

namespace Slogger.Cli;

/// <summary>Versions that can be restored.</summary>
/// <param name="Versions">Oldest first.</param>
internal sealed record VersionsReport(IReadOnlyList<RestorableVersions> Versions) : Report
{
    protected override JsonTypeInfo Shape => ReportJson.Default.VersionsReport;

    public override void Print(AppHost host)
    {
        foreach (RestorableVersions found in Versions)
        {
            string versions = found.First == found.Last ? $"{found.Last}" : $"{found.First} to {found.Last}";
            string closed = found.Closed is not { } at ? "" : string.Create(CultureInfo.InvariantCulture,
                $", closed {at.UtcDateTime:yyyy-MM-dd HH:mm:ss.fff} UTC");
            host.Output.WriteLine($"{versions}{closed}{(found.IsCommitted ? "" : ", not committed")}");
        }
    }
}
