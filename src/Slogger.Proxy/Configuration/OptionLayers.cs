// One layer of option texts per source, and the two sources that are not the command line: the environment and the JSON
// file. A layer holds texts only; OptionReader gives them meaning.
using System.Collections;
using System.Globalization;
using System.Text;
using System.Text.Json;

namespace Slogger.Proxy.Configuration;

/// <summary>Something wrong with an option.</summary>
/// <param name="What">The option and what is wrong with it.</param>
/// <param name="Origin">Where it was given; empty if it was not given anywhere.</param>
/// <param name="Remedy">What to do.</param>
public sealed record OptionError(string What, string Origin, string Remedy);

/// <summary>The texts given for one option in one source.</summary>
/// <param name="Texts">One text, or several for a list.</param>
/// <param name="Origin">Where, for people: "the command line", "environment variable X", "FILE line N".</param>
public sealed record OptionTexts(IReadOnlyList<string> Texts, string Origin);

/// <summary>What one source says.</summary>
public sealed class OptionLayer
{
    /// <summary>The key of a file under which the options of single shards stand, by their numbers.</summary>
    public const string OfShardKey = "of-shard";

    /// <summary>Texts by option name.</summary>
    public Dictionary<string, OptionTexts> Values { get; } = [];

    /// <summary>Of a file: what it says of single shards, which goes over what it says of all.</summary>
    public Dictionary<int, OptionLayer> OfShards { get; } = [];

    /// <summary>What was wrong with the source itself.</summary>
    public List<OptionError> Errors { get; } = [];

    /// <summary>Why nothing can be said of it: then what is missing elsewhere is nobody's mistake. Null: something can.</summary>
    public OptionError? Failure { get; init; }

    /// <summary>The text of an option that may be given once; null: it is not given. The first one counts if it is given more often, which
    /// is an error.</summary>
    public string? One(string name, ICollection<OptionError> errors)
    {
        ArgumentNullException.ThrowIfNull(errors);
        if (!Values.TryGetValue(name, out OptionTexts? given)) { return null; }
        if (given.Texts.Count > 1)
        {
            errors.Add(new OptionError($"--{name} is given {given.Texts.Count} times", given.Origin, "give it once"));
        }
        return given.Texts[0];
    }

    /// <summary>What looks wrong but may be meant.</summary>
    public List<string> Warnings { get; } = [];

    /// <summary>
    /// The SLOGGER_* variables. An unknown one is a warning, not an error: orchestrators set variables of that shape for a service
    /// named slogger (SLOGGER_SERVICE_HOST, SLOGGER_PORT and so on, which are passed over in silence). An empty one counts as not set.
    /// </summary>
    public static OptionLayer FromEnvironment(IDictionary variables)
    {
        OptionLayer layer = new();
        Dictionary<string, OptionDefinition> known = OptionCatalog.All.ToDictionary(option => option.EnvironmentVariable);
        foreach (DictionaryEntry variable in variables)
        {
            string name = (string)variable.Key;
            string text = variable.Value as string ?? "";
            if (!name.StartsWith(OptionCatalog.EnvironmentPrefix, StringComparison.Ordinal) || text.Length == 0)
            {
                continue;
            }

            if (known.TryGetValue(name, out OptionDefinition? option))
            {
                string[] texts = option.Shape == OptionShape.List
                    ? text.Split(option.EnvironmentSeparator, StringSplitOptions.TrimEntries | StringSplitOptions.RemoveEmptyEntries)
                    : [text];
                layer.Values[option.Name] = new OptionTexts(texts, "environment variable " + name);
            }
            else if (!IsForeign(name))
            {
                string hint = NearestName.Find(name, known.Keys) is { } nearest ? $"; did you mean {nearest}?" : "";
                layer.Warnings.Add($"environment variable {name} is not an option and is ignored{hint}");
            }
        }

        return layer;
    }

    /// <summary>The JSON file: one object, values are strings, numbers, true, false, or lists of strings; and <see cref="OfShardKey"/>, an
    /// object of such objects. Comments are allowed.</summary>
    public static OptionLayer FromFile(string path)
    {
        try
        {
            return FromJson(File.ReadAllBytes(path), path);
        }
        catch (Exception e) when (e is IOException or UnauthorizedAccessException)
        {
            string why = e is FileNotFoundException or DirectoryNotFoundException ? "does not exist" : "cannot be read: " + e.Message;
            return new() { Failure = new($"the configuration file {path} {why}", "", "correct --config (or SLOGGER_CONFIG)") };
        }
    }

    /// <summary>As <see cref="FromFile"/>, from bytes.</summary>
    public static OptionLayer FromJson(byte[] json, string path)
    {
        OptionLayer layer = new();
        ReadOnlySpan<byte> text = json;
        if (text.StartsWith(Encoding.UTF8.Preamble))
        {
            text = text[Encoding.UTF8.Preamble.Length..];
        }

        Utf8JsonReader reader = new(text, new JsonReaderOptions { CommentHandling = JsonCommentHandling.Skip, AllowTrailingCommas = true });
        try
        {
            if (!reader.Read() || reader.TokenType != JsonTokenType.StartObject)
            {
                layer.Errors.Add(new OptionError("the configuration file is not a JSON object", path, "write one object of "
                    + "\"name\": value pairs"));
                return layer;
            }

            ReadObject(ref reader, text, path, layer, isOfShard: false);
            while (reader.Read())
            {
                // To the end, so that anything after the object is reported.
            }
        }
        catch (JsonException e)
        {
            layer.Errors.Add(new OptionError("the configuration file is not valid JSON", $"{path} line {e.LineNumber + 1}", "correct it: "
                + "one object of \"name\": value pairs"));
        }

        return layer;
    }

    private static bool IsForeign(string name)
        => name.StartsWith("SLOGGER_SERVICE_", StringComparison.Ordinal)
        || name == "SLOGGER_PORT" || name.StartsWith("SLOGGER_PORT_", StringComparison.Ordinal)
        || name.StartsWith("SLOGGER_TEST", StringComparison.Ordinal);

    private static void ReadObject(ref Utf8JsonReader reader, ReadOnlySpan<byte> json, string path, OptionLayer layer, bool isOfShard)
    {
        while (reader.Read() && reader.TokenType == JsonTokenType.PropertyName)
        {
            string name = reader.GetString()!;
            string origin = PlaceIn(ref reader, json, path);
            reader.Read();
            if (name == OfShardKey && !isOfShard)
            {
                ReadOfShards(ref reader, json, path, layer, origin);
                continue;
            }

            List<string>? texts = ReadTexts(ref reader);
            OptionDefinition? option = OptionCatalog.Find(name);
            if (option is null || name == "config" || (name == "shard" && isOfShard))
            {
                string remedy = option is not null && name == "shard" ? "its key is its number; remove it"
                    : option is not null ? "a configuration file cannot name another; remove it"
                    : NearestName.Find(name, OptionCatalog.All.Select(known => known.Name)) is { } nearest ? $"did you mean \"{nearest}\"?"
                    : "remove it; slogger serve --help lists the names";
                layer.Errors.Add(new OptionError(option is null ? $"\"{name}\" is not an option" : $"\"{name}\" stands "
                    + (isOfShard ? "among the options of a shard" : "in a configuration file"), origin, remedy));
            }
            else if (texts is null || (texts.Count != 1 && option.Shape != OptionShape.List))
            {
                string expected = option.Shape == OptionShape.List ? "a string or a list of strings" : "one string, number, true or false";
                layer.Errors.Add(new OptionError($"\"{name}\" has a value of the wrong shape", origin, $"give it {expected}"));
            }
            else if (!layer.Values.TryAdd(name, new OptionTexts(texts, origin)))
            {
                layer.Errors.Add(new OptionError($"\"{name}\" is given twice", $"{layer.Values[name].Origin} and {origin}",
                    "remove one of them"));
            }
        }
    }

    private static void ReadOfShards(ref Utf8JsonReader reader, ReadOnlySpan<byte> json, string path, OptionLayer layer, string origin)
    {
        const string remedy = "give it an object: { \"0\": { ... }, \"1\": { ... } }";
        if (reader.TokenType != JsonTokenType.StartObject)
        {
            layer.Errors.Add(new OptionError($"\"{OfShardKey}\" has a value of the wrong shape", origin, remedy));
            reader.Skip();
            return;
        }

        while (reader.Read() && reader.TokenType == JsonTokenType.PropertyName)
        {
            string key = reader.GetString()!;
            string place = PlaceIn(ref reader, json, path);
            reader.Read();
            OptionLayer ofShard = new();
            if (!int.TryParse(key, NumberStyles.None, CultureInfo.InvariantCulture, out int shard)
                || reader.TokenType != JsonTokenType.StartObject)
            {
                layer.Errors.Add(new OptionError($"\"{key}\" in \"{OfShardKey}\" is no shard's number with its options", place, remedy));
                reader.Skip();
            }
            else if (layer.OfShards.TryAdd(shard, ofShard))
            {
                ReadObject(ref reader, json, path, ofShard, isOfShard: true);
                layer.Errors.AddRange(ofShard.Errors);
            }
            else
            {
                layer.Errors.Add(new OptionError($"shard {shard} is given twice", place, "remove one of them"));
                reader.Skip();
            }
        }
    }

    private static string PlaceIn(ref Utf8JsonReader reader, ReadOnlySpan<byte> json, string path) =>
        $"{path} line {1 + json[..(int)reader.TokenStartIndex].Count((byte)'\n')}";

    // Null for shapes that no option has (objects, nested lists, null).
    private static List<string>? ReadTexts(ref Utf8JsonReader reader)
    {
        if (reader.TokenType != JsonTokenType.StartArray)
        {
            string? single = ScalarText(ref reader);
            return single is null ? null : [single];
        }

        List<string>? texts = [];
        while (reader.Read() && reader.TokenType != JsonTokenType.EndArray)
        {
            if (ScalarText(ref reader) is { } text)
            {
                texts?.Add(text);
            }
            else
            {
                texts = null;
            }
        }

        return texts;
    }

    private static string? ScalarText(ref Utf8JsonReader reader)
    {
        switch (reader.TokenType)
        {
            case JsonTokenType.String:
                return reader.GetString()!;
            case JsonTokenType.Number:
                return Encoding.UTF8.GetString(reader.ValueSpan);
            case JsonTokenType.True:
                return "true";
            case JsonTokenType.False:
                return "false";
            default:
                reader.Skip();
                return null;
        }
    }
}
