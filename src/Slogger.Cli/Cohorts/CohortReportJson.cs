using System.Text.Json.Serialization;
using Slogger.Cli.Terminal;

namespace Slogger.Cli.Cohorts;

/// <summary>How the reports of cohorts' commands are written as JSON.</summary>
[JsonSourceGenerationOptions(PropertyNamingPolicy = JsonKnownNamingPolicy.SnakeCaseLower, Converters = [typeof(MillisecondsJson)])]
[JsonSerializable(typeof(CohortReport))]
[JsonSerializable(typeof(LeadReport))]
[JsonSerializable(typeof(MemberReport))]
[JsonSerializable(typeof(PlanReport))]
internal sealed partial class CohortReportJson : JsonSerializerContext;
