// Writes effects once more so that a master can execute them: with all expiries moved by the same span into a far future. So no key
// expires between a base and the commands on top of it, and Redis itself keeps track of which key has which expiry, whatever
// renames, copies and empties it. Afterwards each expiry is read, and moved back.
using System.Buffers;
using System.Buffers.Text;
using System.Globalization;
using System.Text;

namespace Slogger.Redis.Rollback;

/// <summary>Writes commands for a replay by a master.</summary>
internal static class EffectReplay
{
    /// <summary>How far expiries are moved, in milliseconds: some 35,000 years.</summary>
    public const long ExpiryShiftMs = 1L << 50;

    // Beyond this they would not fit any more, and be taken for moved ones.
    private const long ExpiryMsMax = 1L << 49;

    /// <summary>Appends a command with its expiry moved. Returns why that cannot be done; null if it was.</summary>
    public static string? Append(Effect effect, IBufferWriter<byte> output)
    {
        if (effect.Is(0, "SET"u8)) { return AppendMoved(effect, ExpiryOfSet(effect, out bool known), known, output); }
        if (effect.Is(0, "PEXPIREAT"u8)) { return AppendMoved(effect, 2, effect.Count >= 3, output); }
        if (effect.Is(0, "RESTORE"u8))
        {
            bool isNone = effect.Count >= 4 && effect[2] is [(byte)'0'];
            return AppendMoved(effect, isNone ? 0 : 2, isNone || IsAbsolute(effect), output);
        }
        output.Write(effect.Bytes);
        return null;
    }

    /// <summary>Appends a command.</summary>
    public static void Write(IBufferWriter<byte> output, params ReadOnlySpan<byte[]> words)
    {
        WriteHead(output, '*', words.Length);
        foreach (byte[] word in words) { WriteWord(output, word); }
    }

    /// <summary>A number as a word.</summary>
    public static byte[] Number(long number) => Encoding.ASCII.GetBytes(number.ToString(CultureInfo.InvariantCulture));

    /// <summary>Whether an expiry can be moved and told from one that was not.</summary>
    public static bool IsMovable(long expiresAtMs) => expiresAtMs is >= 0 and < ExpiryMsMax;

    private static string? AppendMoved(Effect effect, int expiry, bool known, IBufferWriter<byte> output)
    {
        string name = Encoding.Latin1.GetString(effect[0]);
        if (!known) { return $"{name} with an expiry that is not an absolute time in milliseconds"; }
        if (expiry == 0)
        {
            output.Write(effect.Bytes);
            return null;
        }
        if (!Utf8Parser.TryParse(effect[expiry], out long time, out int used) || used != effect[expiry].Length || !IsMovable(time))
        {
            return $"{name} with an expiry out of the ordinary";
        }
        WriteHead(output, '*', effect.Count);
        for (int i = 0; i < effect.Count; i++)
        {
            if (i == expiry) { WriteWord(output, Number(time + ExpiryShiftMs)); } else { WriteWord(output, effect[i]); }
        }
        return null;
    }

    // SET key value [NX|XX] [GET] [KEEPTTL|PXAT ms]: other times are never in a stream.
    private static int ExpiryOfSet(Effect effect, out bool known)
    {
        known = effect.Count >= 3;
        int expiry = 0;
        for (int i = 3; i < effect.Count; i++)
        {
            if (effect.Is(i, "PXAT"u8) && i + 1 < effect.Count) { expiry = ++i; }
            else if (!effect.Is(i, "KEEPTTL"u8) && !effect.Is(i, "NX"u8) && !effect.Is(i, "XX"u8) && !effect.Is(i, "GET"u8))
            {
                known = false;
            }
        }
        return expiry;
    }

    private static bool IsAbsolute(Effect restore)
    {
        for (int i = 4; i < restore.Count; i++)
        {
            if (restore.Is(i, "ABSTTL"u8)) { return true; }
        }
        return false;
    }

    private static void WriteWord(IBufferWriter<byte> output, ReadOnlySpan<byte> word)
    {
        WriteHead(output, '$', word.Length);
        output.Write(word);
        output.Write("\r\n"u8);
    }

    private static void WriteHead(IBufferWriter<byte> output, char prefix, long number)
    {
        Span<byte> head = output.GetSpan(24);
        head[0] = (byte)prefix;
        Utf8Formatter.TryFormat(number, head[1..], out int digits);
        head[1 + digits] = (byte)'\r';
        head[2 + digits] = (byte)'\n';
        output.Advance(3 + digits);
    }
}
