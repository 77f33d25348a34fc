// Bytes of requests as text for people.
using System.Globalization;
using System.Text;

namespace Slogger.Faster.Commands;

internal static class Latin1
{
    /// <summary>As C prints it: up to a zero byte.</summary>
    public static string Text(ReadOnlySpan<byte> bytes, int max = int.MaxValue)
    {
        int zero = bytes.IndexOf((byte)0);
        if (zero >= 0) bytes = bytes[..zero];
        return Encoding.Latin1.GetString(bytes[..Math.Min(bytes.Length, max)]);
    }

    public static byte[] Lower(ReadOnlySpan<byte> text) => Encoding.Latin1.GetBytes(Text(text).ToLowerInvariant());

    public static byte[] Lower(string text) => Encoding.Latin1.GetBytes(text.ToLower(CultureInfo.InvariantCulture));
}
