// Reads a whole reply into lists and texts. For what is read once, such as the reply of COMMAND; not for the hot path.
using System.Globalization;
using System.Text;

namespace Slogger.Resp;

internal static class CommandReply
{
    /// <summary>Reads the value at <paramref name="at"/> and moves behind it: a list, a text (simple, bulk, number...), or
    /// null. A map is a list of its keys and values in turn.</summary>
    public static object? Read(ReadOnlySpan<byte> bytes, ref int at)
    {
        char kind = (char)bytes[at];
        int end = at + bytes[at..].IndexOf((byte)'\n') + 1;
        string line = Encoding.Latin1.GetString(bytes[(at + 1)..(end - 2)]);
        at = end;
        if ("+-:_,#(".Contains(kind, StringComparison.Ordinal)) { return line; }
        if (!int.TryParse(line, CultureInfo.InvariantCulture, out int count))
        {
            throw new FormatException($"'{kind}{line}' is no reply of Redis.");
        }
        if (count < 0) { return null; }
        if (kind is '$' or '=' or '!')
        {
            at += count + 2;
            return Encoding.Latin1.GetString(bytes.Slice(at - count - 2, count));
        }
        if (kind == '%') { count *= 2; }
        var items = new List<object?>();
        for (; count > 0; count--) { items.Add(Read(bytes, ref at)); }
        return items;
    }
}
