// Finds the end of one RESP2 or RESP3 reply in received bytes, and whether it is an error. Allocates nothing.
namespace Slogger.Bench.Load;

internal static class ReplyScanner
{
    /// <summary>The length of the first whole reply in <paramref name="bytes"/>, or -1 when it is incomplete.</summary>
    /// <param name="bytes">Received bytes, beginning with a reply.</param>
    /// <param name="isError">True for - and !.</param>
    /// <exception cref="BenchException">The bytes are not RESP.</exception>
    public static int Length(ReadOnlySpan<byte> bytes, out bool isError)
    {
        isError = bytes.Length > 0 && bytes[0] is (byte)'-' or (byte)'!';
        int position = 0;
        long elementsLeft = 1;
        while (elementsLeft > 0)
        {
            int lineLength = bytes[position..].IndexOf((byte)'\n');
            if (lineLength < 0)
            {
                return -1;
            }

            byte type = bytes[position];
            ReadOnlySpan<byte> line = bytes.Slice(position + 1, lineLength - 1);
            position += lineLength + 1;
            elementsLeft--;
            switch (type)
            {
                case (byte)'+' or (byte)'-' or (byte)':' or (byte)'_' or (byte)'#' or (byte)',' or (byte)'(':
                    break;
                case (byte)'$' or (byte)'=' or (byte)'!':
                    long size = Number(line);
                    if (size >= 0)
                    {
                        if (position + size + 2 > bytes.Length)
                        {
                            return -1;
                        }

                        position += (int)size + 2;
                    }

                    break;
                case (byte)'*' or (byte)'~' or (byte)'>':
                    elementsLeft += Math.Max(0, Number(line));
                    break;
                case (byte)'%':
                    elementsLeft += 2 * Math.Max(0, Number(line));
                    break;
                default:
                    throw new BenchException($"not a reply: it begins with byte {type}");
            }

            if (elementsLeft > 0 && position >= bytes.Length)
            {
                return -1;
            }
        }

        return position;
    }

    private static long Number(ReadOnlySpan<byte> line) =>
        System.Buffers.Text.Utf8Parser.TryParse(line, out long value, out _) ? value
            : throw new BenchException("not a reply: a length is not a number");
}
