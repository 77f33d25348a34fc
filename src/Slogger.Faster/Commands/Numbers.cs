// Whole numbers as Redis reads and writes them.
using System.Buffers.Text;

namespace Slogger.Faster.Commands;

internal static class Numbers
{
    /// <summary>The longest that is written.</summary>
    public const int BytesMax = 20;

    /// <summary>Reads a number in the one way in which it would be written: no sign but '-', no zeros in front, nothing around it. Source:
    /// string2ll.</summary>
    public static bool TryParse(ReadOnlySpan<byte> text, out long value)
    {
        value = 0;
        if (text.Length is 0 or > BytesMax) return false;
        if (text.Length == 1 && text[0] == (byte)'0') return true;
        bool isNegative = text[0] == (byte)'-';
        ReadOnlySpan<byte> digits = isNegative ? text[1..] : text;
        if (digits.IsEmpty || digits[0] == (byte)'0') return false;
        ulong number = 0;
        foreach (byte b in digits)
        {
            uint digit = (uint)(b - '0');
            if (digit > 9 || number > (ulong.MaxValue - digit) / 10) return false;
            number = (number * 10) + digit;
        }

        if (number > (ulong)long.MaxValue + (isNegative ? 1UL : 0)) return false;
        value = isNegative ? (long)(0 - number) : (long)number;
        return true;
    }

    /// <summary>Writes a number; returns its length.</summary>
    public static int Format(long value, Span<byte> into)
    {
        _ = Utf8Formatter.TryFormat(value, into, out int written);
        return written;
    }
}
