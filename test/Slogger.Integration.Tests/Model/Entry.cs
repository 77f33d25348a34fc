// One key's value in the model, with a canonical text that the reader of a real server produces too, so that equal texts
// mean equal values. Mutable; owned by one KeyspaceModel.
using System.Globalization;
using System.Text;

namespace Slogger.Integration.Tests.Model;

internal abstract class Entry
{
    /// <summary>Absolute expiry in Unix milliseconds; 0 for none.</summary>
    public long ExpiresAtMs { get; set; }

    public abstract bool IsEmpty { get; }

    public string Canonical
    {
        get
        {
            var text = new StringBuilder();
            Describe(text);
            if (ExpiresAtMs != 0)
            {
                text.Append(CultureInfo.InvariantCulture, $" @{ExpiresAtMs}");
            }

            return text.ToString();
        }
    }

    public abstract Entry Clone();

    protected abstract void Describe(StringBuilder text);

    protected static void AppendItems(StringBuilder text, IEnumerable<string> items)
    {
        foreach (string item in items)
        {
            text.Append(CultureInfo.InvariantCulture, $" {item.Length}:").Append(item);
        }
    }
}

internal sealed class StringEntry(string value) : Entry
{
    public string Value { get; set; } = value;

    public override bool IsEmpty => false;

    public override Entry Clone() => new StringEntry(Value) { ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) => text.Append("string ").Append(Value);
}

internal sealed class ListEntry : Entry
{
    public List<string> Items { get; init; } = [];

    public override bool IsEmpty => Items.Count == 0;

    public override Entry Clone() => new ListEntry { Items = [.. Items], ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) => AppendItems(text.Append("list"), Items);
}

internal sealed class SetEntry : Entry
{
    public SortedSet<string> Members { get; init; } = new(StringComparer.Ordinal);

    public override bool IsEmpty => Members.Count == 0;

    public override Entry Clone() =>
        new SetEntry { Members = new(Members, StringComparer.Ordinal), ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) => AppendItems(text.Append("set"), Members);
}

internal sealed class HashEntry : Entry
{
    public SortedDictionary<string, string> Fields { get; init; } = new(StringComparer.Ordinal);

    public override bool IsEmpty => Fields.Count == 0;

    public override Entry Clone() =>
        new HashEntry { Fields = new(Fields, StringComparer.Ordinal), ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) =>
        AppendItems(text.Append("hash"), Fields.SelectMany(f => new[] { f.Key, f.Value }));
}

/// <summary>A sorted set whose scores are whole numbers.</summary>
internal sealed class SortedSetEntry : Entry
{
    public Dictionary<string, long> Scores { get; init; } = new(StringComparer.Ordinal);

    public override bool IsEmpty => Scores.Count == 0;

    /// <summary>In Redis's order: by score, then by bytes.</summary>
    public IEnumerable<KeyValuePair<string, long>> Ranked =>
        Scores.OrderBy(s => s.Value).ThenBy(s => s.Key, StringComparer.Ordinal);

    public override Entry Clone() =>
        new SortedSetEntry { Scores = new(Scores, StringComparer.Ordinal), ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) => AppendItems(text.Append("zset"),
        Ranked.SelectMany(s => new[] { s.Key, s.Value.ToString(CultureInfo.InvariantCulture) }));
}

/// <summary>A stream of one-field entries; an empty stream is still a key.</summary>
internal sealed class StreamEntry : Entry
{
    public List<(string Id, string Field, string Value)> Entries { get; init; } = [];

    public override bool IsEmpty => false;

    public override Entry Clone() => new StreamEntry { Entries = [.. Entries], ExpiresAtMs = ExpiresAtMs };

    protected override void Describe(StringBuilder text) =>
        AppendItems(text.Append("stream"), Entries.SelectMany(e => new[] { e.Id, e.Field, e.Value }));
}
