// Merges the layers (highest first) and turns texts into values; collects every error rather than stopping at the first.
// Used by ServeOptionsReader and RestoreOptionsReader.
using System.Collections.Immutable;
using System.Globalization;

namespace Slogger.Proxy.Configuration;

/// <summary>The values of one command's options, and what is wrong with them.</summary>
internal sealed class OptionReader
{
    private readonly IReadOnlyList<OptionLayer> _layers;

    /// <param name="layers">Highest precedence first.</param>
    public OptionReader(IReadOnlyList<OptionLayer> layers)
    {
        _layers = layers;
        Errors = [.. layers.SelectMany(layer => layer.Errors)];
        Warnings = [.. layers.SelectMany(layer => layer.Warnings)];
    }

    /// <summary>The command line goes over the environment, that over the file that one of them names: what it says of the shard that is
    /// meant, and then what it says of all.</summary>
    public static OptionReader Open(OptionLayer commandLine, OptionLayer environment)
    {
        OptionTexts? config = commandLine.Values.GetValueOrDefault("config") ?? environment.Values.GetValueOrDefault("config");
        if (config is not { Texts.Count: 1 }) { return new([commandLine, environment]); }
        OptionLayer file = OptionLayer.FromFile(config.Texts[0]);
        return file.OfShards.Count == 0 ? new([commandLine, environment, file])
            : new([commandLine, environment, OfShard(file, new([commandLine, environment, file])), file]);
    }

    private static OptionLayer OfShard(OptionLayer file, OptionReader named)
    {
        string all = string.Join(", ", file.OfShards.Keys.Order());
        if (named.Texts("shard") is not { } texts)
        {
            return new()
            {
                Failure = new($"the configuration file has options of shard {all}, and no shard is named", "",
                    "give --shard N, or set SLOGGER_SHARD"),
            };
        }
        // What is no number is said by whoever reads it.
        if (!int.TryParse(texts.Texts[0], NumberStyles.None, CultureInfo.InvariantCulture, out int shard)) { return new(); }
        return file.OfShards.GetValueOrDefault(shard) ?? new()
        {
            Failure = new($"the configuration file has nothing of shard {shard}, but of {all}", texts.Origin,
                $"correct it, or add the shard to \"{OptionLayer.OfShardKey}\" of the file"),
        };
    }

    /// <summary>Why a source says nothing; then nothing else that is wrong means anything. Null: all say what they can.</summary>
    public OptionError? Failure => _layers.Select(layer => layer.Failure).FirstOrDefault(failure => failure is not null);

    /// <summary>Everything wrong so far.</summary>
    public List<OptionError> Errors { get; }

    /// <summary>Everything that looks wrong so far.</summary>
    public List<string> Warnings { get; }

    /// <summary>The texts that count, by option.</summary>
    public IReadOnlyDictionary<string, OptionTexts> Given =>
        _layers.SelectMany(layer => layer.Values.Keys).Distinct().ToDictionary(name => name, name => Texts(name)!);

    /// <summary>Index of the layer that decides an option: 0 is the highest; the number of layers if no layer has it.</summary>
    public int LayerOf(string name)
    {
        for (int i = 0; i < _layers.Count; i++)
        {
            if (_layers[i].Values.ContainsKey(name))
            {
                return i;
            }
        }

        return _layers.Count;
    }

    /// <summary>True if some layer has the option.</summary>
    public bool IsGiven(string name) => LayerOf(name) < _layers.Count;

    /// <summary>Where an option comes from, for people; empty if it is not given.</summary>
    public string OriginOf(string name) => Texts(name)?.Origin ?? "";

    /// <summary>An option's value, or the fallback if it is not given or wrong (which is then an error).</summary>
    public T Value<T>(string name, OptionTextParser<T> parse, T fallback)
    {
        OptionTexts? texts = Texts(name);
        if (texts is null)
        {
            return fallback;
        }

        if (texts.Texts.Count > 1)
        {
            Errors.Add(new OptionError($"--{name} is given {texts.Texts.Count} times", texts.Origin, "give it once"));
            return fallback;
        }

        return TryParse(name, texts.Texts[0], texts.Origin, parse, out T value) ? value : fallback;
    }

    /// <summary>An optional value of a reference type: null if it is not given or wrong.</summary>
    public T? Optional<T>(string name, OptionTextParser<T> parse)
        where T : class
        => Value<T?>(name, (string text, out T? value, out string problem) =>
        {
            bool ok = parse(text, out T parsed, out problem);
            value = parsed;
            return ok;
        }, null);

    /// <summary>A list; the layer that has the option gives all of it.</summary>
    public ImmutableArray<T> List<T>(string name, OptionTextParser<T> parse, ImmutableArray<T> fallback)
    {
        OptionTexts? texts = Texts(name);
        if (texts is null)
        {
            return fallback;
        }

        ImmutableArray<T>.Builder values = ImmutableArray.CreateBuilder<T>();
        foreach (string text in texts.Texts)
        {
            if (TryParse(name, text, texts.Origin, parse, out T value))
            {
                values.Add(value);
            }
        }

        return values.ToImmutable();
    }

    /// <summary>Adds an error about an option that is given.</summary>
    public void Fail(string name, string what, string remedy) => Errors.Add(new OptionError($"--{name} {what}", OriginOf(name), remedy));

    /// <summary>An option's texts, of the highest source that has it; null: none has.</summary>
    public OptionTexts? Texts(string name) => _layers.Select(layer => layer.Values.GetValueOrDefault(name))
        .FirstOrDefault(texts => texts is not null);

    private bool TryParse<T>(string name, string text, string origin, OptionTextParser<T> parse, out T value)
    {
        if (parse(text, out value, out string problem))
        {
            return true;
        }

        OptionDefinition option = OptionCatalog.Find(name) ?? OptionCatalog.RestoreOnly.First(known => known.Name == name);
        string shown = option.IsSecret ? "" : $" \"{text}\"";
        Errors.Add(new OptionError($"--{name}{shown} {problem}", origin,
            $"expected {(option.ValueName.Length > 0 ? option.ValueName : "true or false")}; default: {option.Default}"));
        return false;
    }
}
