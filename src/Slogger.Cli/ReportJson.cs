using System.Text.Json.Serialization;
using Slogger.Cli.Terminal;

namespace Slogger.Cli;

/// <summary>How the reports of one site's commands are written as JSON.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower, Converters = [typeof(MillisecondsJson)])]
[JsonSerializable(typeof(StartingReport))]
[JsonSerializable(typeof(VersionsReport))]
[JsonSerializable(typeof(OwnersReport))]
[JsonSerializable(typeof(MoveReport))]
[JsonSerializable(typeof(CancelledReport))]
[JsonSerializable(typeof(IntervalReport))]
internal sealed partial class ReportJson : JsonSerializerContext;
