// Splits an inline request into arguments exactly as Redis does (sdssplitargs in sds.c): words, "..." with escapes,
// '...' with \' only.
namespace Slogger.Resp;

/// <summary>Splits the line of an inline request.</summary>
public static class InlineRequest
{
    /// <summary>Splits a line without its line end.</summary>
    /// <returns>The arguments, none for an empty line; <c>null</c> when quotes are unbalanced or not followed by a space.</returns>
    public static List<byte[]>? Split(ReadOnlySpan<byte> line)
    {
        List<byte[]> arguments = [];
        List<byte> word = [];
        int i = 0;
        while (true)
        {
            while (i < line.Length && IsSpace(line[i])) { i++; }
            if (i >= line.Length || line[i] == 0) { return arguments; }
            word.Clear();
            int quote = 0;
            while (true)
            {
                byte b = i < line.Length ? line[i] : (byte)0;
                if (quote == '"')
                {
                    if (b == 0) { return null; }
                    if (b == '\\' && i + 3 < line.Length && line[i + 1] == 'x' && IsHex(line[i + 2]) && IsHex(line[i + 3]))
                    {
                        word.Add((byte)((Hex(line[i + 2]) << 4) | Hex(line[i + 3])));
                        i += 4;
                        continue;
                    }
                    if (b == '\\' && i + 1 < line.Length)
                    {
                        byte escaped = line[i + 1];
                        word.Add(escaped switch
                        {
                            (byte)'n' => (byte)'\n',
                            (byte)'r' => (byte)'\r',
                            (byte)'t' => (byte)'\t',
                            (byte)'b' => (byte)'\b',
                            (byte)'a' => (byte)'\a',
                            _ => escaped,
                        });
                        i += 2;
                        continue;
                    }
                    if (b == '"')
                    {
                        if (i + 1 < line.Length && !IsSpace(line[i + 1])) { return null; }
                        i++;
                        break;
                    }
                }
                else if (quote == '\'')
                {
                    if (b == 0) { return null; }
                    if (b == '\\' && i + 1 < line.Length && line[i + 1] == '\'')
                    {
                        word.Add((byte)'\'');
                        i += 2;
                        continue;
                    }
                    if (b == '\'')
                    {
                        if (i + 1 < line.Length && !IsSpace(line[i + 1])) { return null; }
                        i++;
                        break;
                    }
                }
                else
                {
                    if (b is 0 or (byte)' ' or (byte)'\n' or (byte)'\r' or (byte)'\t') { break; }
                    if (b is (byte)'"' or (byte)'\'')
                    {
                        quote = b;
                        i++;
                        continue;
                    }
                }
                word.Add(b);
                i++;
            }
            arguments.Add([.. word]);
            if (i < line.Length && line[i] != 0) { continue; }
            return arguments;
        }
    }

    private static bool IsSpace(byte b) => b is 32 or (>= 9 and <= 13);

    private static bool IsHex(byte b) => b is (>= (byte)'0' and <= (byte)'9') or (>= (byte)'a' and <= (byte)'f')
        or (>= (byte)'A' and <= (byte)'F');

    private static int Hex(byte b) => b <= '9' ? b - '0' : (b | 32) - 'a' + 10;
}
