// Patterns of KEYS, SCAN and CONFIG GET, with Redis's meaning to the letter (stringmatchlen in util.c), but without its recursion: what
// stands for one character stands for one character, so of several stars only the last has to be tried again.
namespace Slogger.Faster.Commands;

internal static class Glob
{
    /// <summary>Whether a text matches a pattern: * any, ? one, [a-c] and [^a-c] one of or none of, \ the next as it is. At most as many
    /// steps as both lengths multiplied.</summary>
    public static bool IsMatch(ReadOnlySpan<byte> pattern, ReadOnlySpan<byte> text)
    {
        // Redis looks at the pattern only as long as there is text.
        if (text.IsEmpty) return pattern.IsEmpty;
        int p = 0, t = 0, star = -1, tried = 0;
        while (t < text.Length)
        {
            int next = p;
            if (p < pattern.Length && pattern[p] == (byte)'*')
            {
                (star, tried) = (++p, t);
            }
            else if (p < pattern.Length && IsOne(pattern, ref next, text[t]))
            {
                p = next;
                t++;
            }
            else
            {
                if (star < 0) return false;
                (p, t) = (star, ++tried);
            }
        }

        while (p < pattern.Length && pattern[p] == (byte)'*') p++;
        return p == pattern.Length;
    }

    // Whether the pattern's next element is a byte; moves behind it.
    private static bool IsOne(ReadOnlySpan<byte> pattern, ref int p, byte b)
    {
        switch (pattern[p])
        {
            case (byte)'?':
                p++;
                return true;
            case (byte)'[':
                return IsOneOf(pattern, ref p, b);
            case (byte)'\\' when p + 1 < pattern.Length:
                p += 2;
                return pattern[p - 1] == b;
            default:
                return pattern[p++] == b;
        }
    }

    // What is not closed ends with the pattern. Bytes above 127 come before the others, as C's characters do.
    private static bool IsOneOf(ReadOnlySpan<byte> pattern, ref int p, byte b)
    {
        p++;
        bool isNot = p < pattern.Length && pattern[p] == (byte)'^', isIn = false;
        if (isNot) p++;
        for (; p < pattern.Length && pattern[p] != (byte)']'; p++)
        {
            if (pattern[p] == (byte)'\\' && p + 1 < pattern.Length)
            {
                isIn |= pattern[++p] == b;
            }
            else if (p + 2 < pattern.Length && pattern[p + 1] == (byte)'-')
            {
                sbyte from = (sbyte)pattern[p], to = (sbyte)pattern[p += 2];
                isIn |= (sbyte)b >= Math.Min(from, to) && (sbyte)b <= Math.Max(from, to);
            }
            else
            {
                isIn |= pattern[p] == b;
            }
        }

        if (p < pattern.Length) p++;
        return isIn != isNot;
    }
}
