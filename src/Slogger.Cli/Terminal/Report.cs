// What a command has found out or done: one model, and two writers. A record holds the facts; Print writes them for a person, and --json
// writes the same record for a program. So the two cannot disagree.
using System.Buffers;
using System.Text;
using System.Text.Encodings.Web;
using System.Text.Json;
using System.Text.Json.Serialization.Metadata;
using Slogger.Core.WorldLines;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli.Terminal;

/// <summary>Facts for a person and for a program. As JSON names are the properties' in snake_case, as those of DPR.INFO; durations are
/// milliseconds; what is not known is null.</summary>
internal abstract record Report
{
    /// <summary>The name of the option that asks for JSON.</summary>
    public const string Option = "json";

    // A person may read it, too: letters stay what they are.
    private static readonly JsonWriterOptions s_json = new() { Indented = true, Encoder = JavaScriptEncoder.UnsafeRelaxedJsonEscaping };

    /// <summary>How it is written as JSON.</summary>
    protected abstract JsonTypeInfo Shape { get; }

    /// <summary>The option, for a command that prints facts.</summary>
    /// <param name="group">Its heading in --help.</param>
    public static OptionDefinition Json(string group) =>
        new(Option, group, "", "Print what is found out as one JSON object, for programs. How far the command is, and errors, are "
            + "written to stderr then.", "", "") { Shape = OptionShape.Flag };

    /// <summary>Where a command tells how far it is: beside the facts, or for programs not among them.</summary>
    public static TextWriter Progress(AppHost host, bool asJson) => asJson ? host.Error : host.Output;

    /// <summary>The names of a report, for --help: those of an object in it in braces.</summary>
    public static string NamesOf(JsonTypeInfo shape) =>
        string.Join(", ", shape.Properties.Where(property => property.Get is not null)
            .Select(property => property.Name + Within(property.PropertyType, shape.Options)));

    /// <summary>For a person.</summary>
    public abstract void Print(AppHost host);

    /// <summary>For whom it is asked.</summary>
    public void Write(AppHost host, bool asJson)
    {
        if (asJson)
        {
            ArrayBufferWriter<byte> bytes = new();
            using (Utf8JsonWriter json = new(bytes, s_json)) { JsonSerializer.Serialize(json, this, Shape); }
            host.Output.WriteLine(Encoding.UTF8.GetString(bytes.WrittenSpan));
        }
        else
        {
            Print(host);
        }
        host.Output.Flush();
    }

    private static string Within(Type type, JsonSerializerOptions options) => options.GetTypeInfo(type) switch
    {
        { Kind: JsonTypeInfoKind.Object } shape => $" {{{NamesOf(shape)}}}",
        { Kind: JsonTypeInfoKind.Enumerable } when Within(type.GetGenericArguments()[0], options) is { Length: > 0 } each =>
            $" [{each.Trim()}]",
        _ when type == typeof(WorldPoint) || type == typeof(WorldPoint?) => $" {{{WorldPointJson.Names}}}",
        _ => "",
    };
}
