// A partitioning as text: what people give as an option, what the metadata keeps and what is shown. "hash", or "range:" and the split keys
// with commas between. Bytes that are no visible ASCII characters, and those with a meaning (, \ @ "), are written \xHH; what people
// write may hold any characters besides, which are taken as UTF-8.
using System.Collections.Immutable;
using System.Globalization;
using System.Text;

namespace Slogger.Core.Ownership;

public sealed partial class Partitioning
{
    private const string HashText = "hash", RangePrefix = "range:";

    /// <summary>What partitions are called in texts for people.</summary>
    public string Noun => Kind == PartitionKind.Hash ? "slots" : "partitions";

    /// <summary>Reads "hash" or "range:KEY,KEY,...".</summary>
    /// <param name="text">The text.</param>
    /// <param name="partitions">What it says.</param>
    /// <param name="problem">What is wrong with it, to be read behind the text.</param>
    public static bool TryParse(string text, out Partitioning partitions, out string problem)
    {
        ArgumentNullException.ThrowIfNull(text);
        if (text.Equals(HashText, StringComparison.OrdinalIgnoreCase))
        {
            (partitions, problem) = (Hash, "");
            return true;
        }

        if (text.StartsWith(RangePrefix, StringComparison.OrdinalIgnoreCase))
            return TryRead(text[RangePrefix.Length..].Split(','), out partitions, out problem);
        (partitions, problem) = (Hash, "is neither hash nor range:KEY,KEY,...");
        return false;
    }

    /// <summary>Cuts the keys into ranges, where a file says: a split key in each line, written as in an option, but for commas and @,
    /// which have no meaning there. Empty lines are passed over.</summary>
    /// <param name="lines">The lines.</param>
    /// <param name="partitions">What they say.</param>
    /// <param name="problem">What is wrong with them.</param>
    public static bool TryReadLines(IEnumerable<string> lines, out Partitioning partitions, out string problem)
    {
        ArgumentNullException.ThrowIfNull(lines);
        return TryRead([.. lines.Select(l => l.TrimEnd('\r')).Where(l => l.Length > 0)], out partitions, out problem);
    }

    /// <summary>As <see cref="TryParse"/> reads it; of two that are equal the same.</summary>
    public override string ToString() => Kind == PartitionKind.Hash ? HashText
        : RangePrefix + string.Join(',', _splits.Select(s => Escape(s)));

    /// <summary>The keys of some partitions that follow each other, for people; empty with hash partitions.</summary>
    public string KeysOf(SlotRange range)
    {
        if (Kind == PartitionKind.Hash) return "";
        string from = range.First.Number == 0 ? "" : $"from \"{Escape(_splits[range.First.Number - 1])}\"";
        string to = range.Last.Number == _splits.Length ? "" : $"below \"{Escape(_splits[range.Last.Number])}\"";
        return from.Length + to.Length == 0 ? "all keys" : $"keys {from}{(from.Length > 0 && to.Length > 0 ? ", " : "")}{to}";
    }

    /// <summary>Which of some ranges there are not, for people; null: there are all.</summary>
    public string? Missing(ImmutableArray<SlotRange> ranges) => ranges.All(r => r.IsValid && r.Last.Number < Count) ? null
        : $"there are {Noun} 0 to {Count - 1}, and no {ranges.First(r => !r.IsValid || r.Last.Number >= Count).Last}";

    private static bool TryRead(IReadOnlyList<string> texts, out Partitioning partitions, out string problem)
    {
        partitions = Hash;
        var keys = new List<ReadOnlyMemory<byte>>(texts.Count);
        foreach (string text in texts)
        {
            if (Unescape(text) is not { } key)
            {
                problem = $"has the split key \"{text}\": a backslash is written \\x5c, and any other byte \\xHH with two "
                    + "hexadecimal digits";
                return false;
            }

            keys.Add(key);
        }

        Partitioning? read = ByRange(keys, out problem);
        partitions = read ?? Hash;
        return read is not null;
    }

    private static string Escape(ReadOnlySpan<byte> key)
    {
        var text = new StringBuilder(key.Length);
        foreach (byte b in key)
        {
            if (b is > (byte)' ' and < 0x7f and not ((byte)',' or (byte)'\\' or (byte)'@' or (byte)'"')) text.Append((char)b);
            else text.Append(CultureInfo.InvariantCulture, $"\\x{b:x2}");
        }

        return text.ToString();
    }

    private static byte[]? Unescape(string text)
    {
        var bytes = new List<byte>(text.Length);
        for (int at = 0; at < text.Length;)
        {
            int backslash = text.IndexOf('\\', at);
            int end = backslash < 0 ? text.Length : backslash;
            bytes.AddRange(Encoding.UTF8.GetBytes(text[at..end]));
            if (backslash < 0) break;
            if (text.Length - end < 4 || text[end + 1] != 'x'
                || !byte.TryParse(text.AsSpan(end + 2, 2), NumberStyles.AllowHexSpecifier, CultureInfo.InvariantCulture, out byte b))
                return null;
            bytes.Add(b);
            at = end + 4;
        }

        return [.. bytes];
    }
}
