// A history on disk: one operation a line, as JSON, so that a failure can be looked at and checked again.
using System.Text.Json;
using System.Text.Json.Serialization;

namespace Slogger.Linearizability.Histories;

internal static class HistoryFile
{
    private static readonly JsonSerializerOptions s_options = new()
    {
        DefaultIgnoreCondition = JsonIgnoreCondition.WhenWritingNull,
        Converters = { new JsonStringEnumConverter() },
    };

    public static void Save(string path, IEnumerable<Operation> operations) =>
        File.WriteAllLines(path, operations.Select(o => JsonSerializer.Serialize(o, s_options)));

    /// <exception cref="FormatException">A line is no operation.</exception>
    public static IReadOnlyList<Operation> Load(string path)
    {
        try
        {
            return [.. File.ReadLines(path).Where(l => l.Length > 0).Select(l => JsonSerializer.Deserialize<Operation>(l, s_options)!)];
        }
        catch (JsonException e)
        {
            throw new FormatException($"{path} is no history: {e.Message}", e);
        }
    }
}
