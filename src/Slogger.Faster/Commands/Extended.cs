// Numbers as INCRBYFLOAT has them: Redis computes in the processor's 80-bit format, with a mantissa of 64 bits, and its results show it.
// .NET has no such type, so the few operations are done on whole numbers, exactly, and rounded as the processor does.
using System.Globalization;
using System.Numerics;
using System.Text;

namespace Slogger.Faster.Commands;

/// <summary>A number of x87's extended format: a mantissa of at most 64 bits, times a power of two; or infinite.</summary>
internal readonly struct Extended
{
    private const int MantissaBits = 64;
    private const int ExponentMin = -16445;      // of the smallest number's only bit
    private const int MagnitudeMax = 16384;      // all numbers are below two to that
    private const int TextBytesMax = (5 << 10) - 1;
    private const int Decimals = 17;
    private readonly BigInteger _mantissa;
    private readonly int _exponent;
    private readonly int _infinity;              // its sign; 2: no number, the sum of two infinite ones

    private Extended(BigInteger mantissa, int exponent, int infinity = 0) =>
        (_mantissa, _exponent, _infinity) = (mantissa, exponent, infinity);

    public static Extended Zero => default;

    public bool IsFinite => _infinity == 0;

    public static Extended operator +(Extended a, Extended b)
    {
        if (!a.IsFinite || !b.IsFinite)
            return new(0, 0, a.IsFinite ? b._infinity : b.IsFinite || a._infinity == b._infinity ? a._infinity : 2);
        int exponent = Math.Min(a._exponent, b._exponent);
        return Round((a._mantissa << (a._exponent - exponent)) + (b._mantissa << (b._exponent - exponent)), exponent);
    }

    /// <summary>Reads a number as C's strtold does, decimal or hexadecimal, if all of the text is one and it is in range. Source:
    /// string2ld.</summary>
    public static bool TryParse(ReadOnlySpan<byte> text, out Extended value)
    {
        value = default;
        if (text.Length is 0 or > TextBytesMax) return false;
        bool isNegative = text[0] == (byte)'-';
        if (text[0] is (byte)'-' or (byte)'+') text = text[1..];
        if (Ascii.EqualsIgnoreCase(text, "inf"u8) || Ascii.EqualsIgnoreCase(text, "infinity"u8))
        {
            value = new(0, 0, isNegative ? -1 : 1);
            return true;
        }

        bool isHex = text.Length > 2 && text[0] == (byte)'0' && text[1] is (byte)'x' or (byte)'X';
        if (!(isHex ? TryHex(text[2..], out value) : TryDecimal(text, out value)) || !value.IsFinite) return false;
        if (isNegative) value = new(-value._mantissa, value._exponent);
        return true;
    }

    /// <summary>With at most 17 decimals, and no zeros behind them. Source: ld2string.</summary>
    public override string ToString()
    {
        BigInteger scaled = BigInteger.Abs(_mantissa) * BigInteger.Pow(10, Decimals);
        if (_exponent >= 0) scaled <<= _exponent;
        else scaled = ShiftRight(scaled, -_exponent);
        string digits = scaled.ToString(CultureInfo.InvariantCulture).PadLeft(Decimals + 1, '0');
        string text = $"{digits[..^Decimals]}.{digits[^Decimals..]}".TrimEnd('0').TrimEnd('.');
        return _mantissa.Sign < 0 && text != "0" ? $"-{text}" : text;
    }

    private static bool TryDecimal(ReadOnlySpan<byte> text, out Extended value)
    {
        value = default;
        if (!TryDigits(ref text, 10, (byte)'e', out BigInteger digits, out int point, out int exponent)) return false;
        // Where the first digit is decides what is out of range, however large the exponent.
        int power = exponent - point;
        if (digits.IsZero) return true;
        double magnitude = BigInteger.Log10(digits) + power;
        if (magnitude is > 5000 or < -5000) return false;
        value = power >= 0 ? Round(digits * BigInteger.Pow(10, power), 0) : Divide(digits, BigInteger.Pow(10, -power));
        // Too small to be told from nothing.
        return !value._mantissa.IsZero || !value.IsFinite;
    }

    private static bool TryHex(ReadOnlySpan<byte> text, out Extended value)
    {
        value = default;
        if (!TryDigits(ref text, 16, (byte)'p', out BigInteger digits, out int point, out int exponent)) return false;
        if (digits.IsZero) return true;
        long power = exponent - (4L * point);
        if (Math.Abs(power + digits.GetBitLength()) > 40_000) return false;
        value = Round(digits, (int)power);
        return !value._mantissa.IsZero || !value.IsFinite;
    }

    // Digits with a point among them, and an exponent behind.
    private static bool TryDigits(ref ReadOnlySpan<byte> text, int radix, byte mark, out BigInteger digits, out int point, out int exponent)
    {
        (digits, point, exponent) = (0, 0, 0);
        var found = new StringBuilder("0");
        bool hasPoint = false;
        int i = 0;
        for (; i < text.Length; i++)
        {
            if (text[i] == (byte)'.' && !hasPoint) hasPoint = true;
            else if (radix == 16 ? char.IsAsciiHexDigit((char)text[i]) : char.IsAsciiDigit((char)text[i]))
            {
                found.Append((char)text[i]);
                if (hasPoint) point++;
            }
            else break;
        }

        if (found.Length == 1) return false;
        digits = BigInteger.Parse(found.ToString(), radix == 16 ? NumberStyles.AllowHexSpecifier : NumberStyles.None,
            CultureInfo.InvariantCulture);
        text = text[i..];
        if (text.IsEmpty) return true;
        if ((text[0] | 0x20) != mark || text.Length < 2) return false;
        bool isNegative = text[1] == (byte)'-';
        text = text[(text[1] is (byte)'-' or (byte)'+' ? 2 : 1)..];
        if (text.IsEmpty) return false;
        foreach (byte b in text)
        {
            if (!char.IsAsciiDigit((char)b)) return false;
            exponent = Math.Min(1_000_000, (exponent * 10) + (b - '0'));
        }

        if (isNegative) exponent = -exponent;
        return true;
    }

    private static Extended Divide(BigInteger a, BigInteger b)
    {
        // More bits than are kept, and one that says whether there would be more.
        int shift = (int)Math.Max(0, MantissaBits + 8 - (a.GetBitLength() - b.GetBitLength()));
        BigInteger quotient = BigInteger.DivRem(a << shift, b, out BigInteger rest);
        return Round((quotient << 1) | (rest.IsZero ? 0 : 1), -shift - 1);
    }

    private static Extended Round(BigInteger mantissa, int exponent)
    {
        int excess = Math.Max((int)BigInteger.Abs(mantissa).GetBitLength() - MantissaBits, ExponentMin - exponent);
        if (excess > 0)
        {
            BigInteger rounded = ShiftRight(BigInteger.Abs(mantissa), excess);
            mantissa = mantissa.Sign < 0 ? -rounded : rounded;
            exponent += excess;
        }

        long magnitude = (long)BigInteger.Abs(mantissa).GetBitLength() + exponent;
        return magnitude > MagnitudeMax ? new(0, 0, mantissa.Sign) : new(mantissa, mantissa.IsZero ? 0 : exponent);
    }

    // To the nearest, and if two are, to the even one.
    private static BigInteger ShiftRight(BigInteger value, int bits)
    {
        BigInteger kept = value >> bits, rest = value - (kept << bits), half = BigInteger.One << (bits - 1);
        return rest > half || (rest == half && !kept.IsEven) ? kept + 1 : kept;
    }
}
