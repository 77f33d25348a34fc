// What a replayed PUBLISH or SPUBLISH is replaced with. Subscribers must not get a message twice, but every byte of the
// stream counts in the offset; so the command becomes one `PING <padding>` of exactly the same length. A replica executes it
// without effect and without reply, outside and inside a transaction. Three lengths in a thousand cannot be met, because
// the length's own digits count (16, 107, 1008 ... bytes of argument): then an empty line of one byte goes before it,
// which Redis skips and counts. One command becomes one command, so that every offset Redis can stop at is a command
// boundary of the original, too.
//
// A stretch of history that a rollback in place undid is filled in the same way: with a SELECT of what is selected behind it, and such
// commands for the rest.
using System.Globalization;
using System.Text;

namespace Slogger.Redis.Feeding;

/// <summary>Commands that do nothing, of any length.</summary>
public static class Filler
{
    private const int PieceBytesMax = 1 << 20;

    /// <summary>The shortest stretch that can be filled.</summary>
    public const int StretchBytesMin = 64;

    // "*2\r\n$4\r\nPING\r\n" and "$" "\r\n" ... "\r\n" around the digits and the padding.
    private const int FixedBytes = 14 + 3 + 2;

    /// <summary>The shortest length that can be met; the shortest PUBLISH has 29.</summary>
    public const int BytesMin = FixedBytes + 1;

    private const byte Padding = (byte)'.';

    /// <summary>Fills a stretch of history, piece by piece. They are valid until the next one.</summary>
    /// <param name="total">Its length in bytes.</param>
    /// <param name="database">The database selected behind it.</param>
    public static IEnumerable<ReadOnlyMemory<byte>> Stretch(long total, int database)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(total, StretchBytesMin);
        string number = database.ToString(CultureInfo.InvariantCulture);
        byte[] select = Encoding.ASCII.GetBytes(
            string.Create(CultureInfo.InvariantCulture, $"*2\r\n$6\r\nSELECT\r\n${number.Length}\r\n{number}\r\n"));
        yield return select;
        byte[] piece = [];
        for (long left = total - select.Length; left > 0; left -= piece.Length)
        {
            // What is left behind a piece must be enough for another.
            long length = left <= PieceBytesMax ? left : Math.Min(PieceBytesMax, left - BytesMin - 1);
            if (piece.Length != length)
            {
                piece = new byte[length];
                Overwrite(piece);
            }
            yield return piece;
        }
    }

    /// <summary>The head of a filler of <paramref name="total"/> bytes; then come <paramref name="padding"/> bytes of padding and
    /// CRLF.</summary>
    public static byte[] Head(long total, out long padding)
    {
        ArgumentOutOfRangeException.ThrowIfLessThan(total, BytesMin);
        string before = "";
        if (!TryPadding(total, out padding))
        {
            before = "\n";
            if (!TryPadding(total - 1, out padding))
                throw new InvalidOperationException($"No filler of {total} bytes exists.");
        }
        return Encoding.ASCII.GetBytes(string.Create(CultureInfo.InvariantCulture, $"{before}*2\r\n$4\r\nPING\r\n${padding}\r\n"));
    }

    /// <summary>Overwrites a whole command.</summary>
    public static void Overwrite(Span<byte> command)
    {
        byte[] head = Head(command.Length, out long padding);
        head.CopyTo(command);
        FillBody(command.Slice(head.Length), (int)padding);
    }

    /// <summary>Writes padding, and CRLF if there is room behind it.</summary>
    public static void FillBody(Span<byte> destination, int padding)
    {
        destination[..padding].Fill(Padding);
        if (destination.Length >= padding + 2)
            "\r\n"u8.CopyTo(destination[padding..]);
    }

    private static bool TryPadding(long total, out long padding)
    {
        long left = total - FixedBytes;
        for (int digits = 1; digits <= 19; digits++)
        {
            padding = left - digits;
            if (padding >= 0 && Digits(padding) == digits)
                return true;
        }
        padding = 0;
        return false;
    }

    private static int Digits(long value)
    {
        int digits = 1;
        while ((value /= 10) > 0)
            digits++;
        return digits;
    }
}
