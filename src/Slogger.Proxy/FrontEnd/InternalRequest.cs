// Requests that the proxy makes of its own accord on its connections to Redis. They are spelled as no client spells them
// (Redis does not mind), so that a line of MONITOR or an entry of the slow log shows by itself that it is none of a
// client's doing. A client that spells so all the same is respelled, or it could hide from MONITOR.
using System.Globalization;
using System.Text;

namespace Slogger.Proxy.FrontEnd;

/// <summary>Builds and recognizes the proxy's own requests.</summary>
internal static class InternalRequest
{
    public static ReadOnlySpan<byte> NoEvict => "*3\r\n$6\r\ncLIENT\r\n$8\r\nNO-EVICT\r\n$2\r\nON\r\n"u8;

    public static ReadOnlySpan<byte> ClientList => "*2\r\n$6\r\ncLIENT\r\n$4\r\nLIST\r\n"u8;

    public static ReadOnlySpan<byte> ClientId => "*2\r\n$6\r\ncLIENT\r\n$2\r\nID\r\n"u8;

    public static ReadOnlySpan<byte> ClientInfo => "*2\r\n$6\r\ncLIENT\r\n$4\r\nINFO\r\n"u8;

    public static ReadOnlySpan<byte> SlowLog => "*3\r\n$7\r\nsLOWLOG\r\n$3\r\nGET\r\n$2\r\n-1\r\n"u8;

    public static ReadOnlySpan<byte> Settings => "*4\r\n$6\r\ncONFIG\r\n$3\r\nGET\r\n$7\r\ntimeout\r\n$15\r\nslowlog-max-len\r\n"u8;

    /// <summary>Changes nothing, and is allowed to every user who is logged in.</summary>
    public static ReadOnlySpan<byte> Nothing => "*1\r\n$5\r\nhELLO\r\n"u8;

    public static ReadOnlySpan<byte> Hello(int protocol) =>
        protocol == 3 ? "*2\r\n$5\r\nhELLO\r\n$1\r\n3\r\n"u8 : "*2\r\n$5\r\nhELLO\r\n$1\r\n2\r\n"u8;

    public static byte[] Select(int db)
    {
        string digits = db.ToString(CultureInfo.InvariantCulture);
        return Encoding.ASCII.GetBytes($"*2\r\n$6\r\nsELECT\r\n${digits.Length}\r\n{digits}\r\n");
    }

    public static byte[] Kill(long redisId)
    {
        string digits = redisId.ToString(CultureInfo.InvariantCulture);
        return Encoding.ASCII.GetBytes($"*4\r\n$6\r\ncLIENT\r\n$4\r\nKILL\r\n$2\r\nID\r\n${digits.Length}\r\n{digits}\r\n");
    }

    /// <summary>Whether a command's name is spelled as in the proxy's own requests.</summary>
    public static bool IsSpelled(ReadOnlySpan<byte> name) => name.Length is >= 5 and <= 7 && name[0] >= (byte)'a'
        && (name.SequenceEqual("cLIENT"u8) || name.SequenceEqual("sELECT"u8) || name.SequenceEqual("hELLO"u8)
            || name.SequenceEqual("sLOWLOG"u8) || name.SequenceEqual("cONFIG"u8) || name.SequenceEqual("cOMMAND"u8));
}
