// A marker: the command that cuts the history of a shard into versions. Written inline into the shared upstream, so that
// what was forwarded before it is in the closed version and what comes after is in the next; read again in the
// replication stream, where its end is the version's boundary.
using System.Buffers.Text;
using Slogger.Core.Time;
using Slogger.Core.Versions;
using Slogger.Core.WorldLines;

namespace Slogger.Core.Shards;

/// <summary>What a marker says. Two markers are the same only if all four parts are.</summary>
/// <param name="WorldLine">The world-line of the sender.</param>
/// <param name="Closed">The version it closes, with all before it that are still open.</param>
/// <param name="Next">The version of what is forwarded after it.</param>
/// <param name="Time">When it was sent.</param>
public readonly record struct Marker(WorldLine WorldLine, VersionNumber Closed, VersionNumber Next, HybridTimestamp Time)
{
    /// <summary>The longest payload, in bytes.</summary>
    public const int PayloadBytesMax = 83;

    /// <summary>A marker takes no more of the replication stream, in bytes.</summary>
    public const int StreamBytesMax = 200;

    /// <summary>Writes the payload "worldline:closed:next:hlc bits" in decimal ASCII.</summary>
    /// <returns>How many bytes were written; 0 if the span is too short.</returns>
    public int Format(Span<byte> payload)
    {
        int at = 0;
        return Put(payload, ref at, (ulong)WorldLine.Number) && Put(payload, ref at, (ulong)Closed.Number)
            && Put(payload, ref at, (ulong)Next.Number) && Put(payload, ref at, Time.Bits) ? at - 1 : 0;

        static bool Put(Span<byte> to, ref int at, ulong number)
        {
            if (!Utf8Formatter.TryFormat(number, to[Math.Min(at, to.Length)..], out int n)) return false;
            at += n;
            if (at < to.Length) to[at] = (byte)':'; // behind the last number nobody looks at it
            at++;
            return true;
        }
    }

    /// <summary>Reads a payload. Anything but exactly four decimal numbers in range is refused.</summary>
    public static bool TryParse(ReadOnlySpan<byte> payload, out Marker marker)
    {
        marker = default;
        if (!Take(ref payload, ':', out ulong line) || !Take(ref payload, ':', out ulong closed)
            || !Take(ref payload, ':', out ulong next) || !Take(ref payload, '\0', out ulong bits))
            return false;
        if (line > long.MaxValue || closed > long.MaxValue || next > long.MaxValue || next <= closed) return false;
        marker = new(new((long)line), new((long)closed), new((long)next), new(bits));
        return true;

        static bool Take(ref ReadOnlySpan<byte> from, char end, out ulong number)
        {
            bool last = end == '\0';
            int n = last ? from.Length : from.IndexOf((byte)end);
            number = 0;
            if (n <= 0 || !char.IsAsciiDigit((char)from[0]) || !Utf8Parser.TryParse(from[..n], out number, out int used) || used != n)
                return false;
            from = last ? default : from[(n + 1)..];
            return true;
        }
    }
}
