// Whether two replies to the same command say the same. Byte for byte, but for what cannot be the same, command by command.
using System.Globalization;
using System.Text;

namespace Slogger.Faster.Tests.Commands.Differential;

internal static class Comparison
{
    /// <summary>Null: they do.</summary>
    public static bool IsSame(string[] command, ReadOnlySpan<byte> redis, ReadOnlySpan<byte> engine)
    {
        if (redis.SequenceEqual(engine)) return true;
        int at = 0;
        object? a = Read(redis, ref at);
        at = 0;
        object? b = Read(engine, ref at);
        return IsSame(command[0].ToUpperInvariant(), command, a, b);
    }

    /// <summary>The same for EXEC, of whose commands each has its rule.</summary>
    public static bool IsSameTransaction(List<string[]> commands, ReadOnlySpan<byte> redis, ReadOnlySpan<byte> engine)
    {
        if (redis.SequenceEqual(engine)) return true;
        int at = 0;
        object? a = Read(redis, ref at);
        at = 0;
        object? b = Read(engine, ref at);
        if (a is not List<object?> left || b is not List<object?> right || left.Count != right.Count || left.Count != commands.Count)
            return false;
        for (int i = 0; i < left.Count; i++) if (!IsSame(commands[i][0].ToUpperInvariant(), commands[i], left[i], right[i])) return false;
        return true;
    }

    private static bool IsSame(string name, string[] command, object? a, object? b)
    {
        string redis = Show(a), engine = Show(b);
        if (redis == engine) return true;
        if (redis.StartsWith('-') || engine.StartsWith('-')) return false;
        return name switch
        {
            "KEYS" => Show(Sorted(a)) == Show(Sorted(b)),
            "SCAN" => a is List<object?> and [string c, List<object?> k] && b is List<object?> and [string d, List<object?> l] && c == d
                && Show(Sorted(k)) == Show(Sorted(l)),
            "RANDOMKEY" => redis.StartsWith('$') == engine.StartsWith('$'),
            "TTL" or "PTTL" or "EXPIRETIME" or "PEXPIRETIME" => IsNear(redis, engine, name[0] == 'P' ? 60_000 : 60),
            "TIME" or "LASTSAVE" or "MEMORY" => redis[0] == engine[0],
            "HELLO" => Without(a, "id") == Without(b, "id"),
            "CLIENT" => command.Length > 1 && command[1].Equals("ID", StringComparison.OrdinalIgnoreCase) && redis[0] == engine[0],
            // A random one.
            "ACL" => command.Length > 1 && command[1].Equals("GENPASS", StringComparison.OrdinalIgnoreCase)
                && redis.Length == engine.Length,
            _ => false,
        };
    }

    // What was set by a number of seconds from now is not to the millisecond the same.
    private static bool IsNear(string a, string b, long tolerance)
    {
        if (a[0] != ':' || b[0] != ':') return false;
        long left = long.Parse(a.AsSpan(1), CultureInfo.InvariantCulture), right = long.Parse(b.AsSpan(1), CultureInfo.InvariantCulture);
        return left > 0 && right > 0 && Math.Abs(left - right) < tolerance && !CommandMaker.IsAbsolute(left)
            && !CommandMaker.IsAbsolute(right);
    }

    private static List<object?>? Sorted(object? list) => list is List<object?> items ? [.. items.OrderBy(Show, StringComparer.Ordinal)]
        : null;

    private static string Without(object? map, string field)
    {
        if (map is not List<object?> items) return Show(map);
        int at = items.FindIndex(i => i is string s && s == "$" + field);
        return Show(items.Where((_, i) => i != at + 1).ToList());
    }

    private static string Show(object? value) => value is List<object?> items ? $"[{string.Join(' ', items.Select(Show))}]"
        : (string?)value ?? "null";

    // A scalar is its kind and text; an aggregate a list that begins with its kind where that is not an array.
    private static object? Read(ReadOnlySpan<byte> bytes, ref int at)
    {
        char kind = (char)bytes[at];
        int end = at + bytes[at..].IndexOf((byte)'\n') + 1;
        string line = Encoding.Latin1.GetString(bytes[(at + 1)..(end - 2)]);
        at = end;
        if (kind is '+' or '-' or ':' or '_' or ',' or '#' or '(') return kind + line;
        int count = int.Parse(line, CultureInfo.InvariantCulture);
        if (count < 0) return kind + line;
        if (kind is '$' or '=')
        {
            at += count + 2;
            return kind + Encoding.Latin1.GetString(bytes.Slice(at - count - 2, count));
        }

        var items = new List<object?>();
        if (kind != '*') items.Add(kind.ToString());
        for (int n = kind == '%' ? count * 2 : count; n > 0; n--) items.Add(Read(bytes, ref at));
        return items;
    }
}
