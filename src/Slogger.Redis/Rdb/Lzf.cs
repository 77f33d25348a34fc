// Unpacks LZF, in which Redis packs strings of more than 20 bytes in its RDB files. Source: liblzf's format.
namespace Slogger.Redis.Rdb;

internal static class Lzf
{
    /// <summary>Unpacks; false if that does not give exactly so many bytes.</summary>
    public static bool TryUnpack(ReadOnlySpan<byte> packed, Span<byte> plain)
    {
        int at = 0, to = 0;
        while (at < packed.Length)
        {
            int control = packed[at++];
            if (control < 32)
            {
                int literals = control + 1;
                if (literals > packed.Length - at || literals > plain.Length - to) { return false; }
                packed.Slice(at, literals).CopyTo(plain[to..]);
                at += literals;
                to += literals;
                continue;
            }
            int length = control >> 5;
            if (length == 7)
            {
                if (at == packed.Length) { return false; }
                length += packed[at++];
            }
            if (at == packed.Length) { return false; }
            int from = to - ((control & 31) << 8) - packed[at++] - 1;
            length += 2;
            if (from < 0 || length > plain.Length - to) { return false; }
            // Byte by byte: what is copied may be part of the copy.
            for (; length > 0; length--) { plain[to++] = plain[from++]; }
        }
        return to == plain.Length;
    }
}
