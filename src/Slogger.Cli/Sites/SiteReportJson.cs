using System.Text.Json.Serialization;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Sites;

/// <summary>How the reports of two sites' commands are written as JSON.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower,
    Converters = [typeof(WorldPointJson), typeof(MillisecondsJson)])]
[JsonSerializable(typeof(SiteReport))]
[JsonSerializable(typeof(DrillReport))]
[JsonSerializable(typeof(FailoverReport))]
[JsonSerializable(typeof(SwitchOverReport))]
[JsonSerializable(typeof(SeedReport))]
internal sealed partial class SiteReportJson : JsonSerializerContext;
