// How the values of reports are written as JSON.
using System.Text.Json;
using System.Text.Json.Serialization;
using Slogger.Core.WorldLines;

namespace Slogger.Cli.Terminal;

/// <summary>A version of a world-line; the default is none, and null.</summary>
internal sealed class WorldPointJson : JsonConverter<WorldPoint>
{
    private const string Line = "world_line", Version = "version";

    public const string Names = $"{Line}, {Version}";

    public override WorldPoint Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) =>
        throw new NotSupportedException("reports are only written");

    public override void Write(Utf8JsonWriter writer, WorldPoint value, JsonSerializerOptions options)
    {
        if (value == default)
        {
            writer.WriteNullValue();
            return;
        }
        writer.WriteStartObject();
        writer.WriteNumber(Line, value.WorldLine.Number);
        writer.WriteNumber(Version, value.Version.Number);
        writer.WriteEndObject();
    }
}

/// <summary>A duration, in milliseconds with three decimals at most.</summary>
internal sealed class MillisecondsJson : JsonConverter<TimeSpan>
{
    public override TimeSpan Read(ref Utf8JsonReader reader, Type typeToConvert, JsonSerializerOptions options) =>
        throw new NotSupportedException("reports are only written");

    public override void Write(Utf8JsonWriter writer, TimeSpan value, JsonSerializerOptions options) =>
        writer.WriteNumberValue(Math.Round(value.TotalMilliseconds, 3));
}
