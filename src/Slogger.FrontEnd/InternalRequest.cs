// Requests that the front end makes of its own accord on its connections to Redis. They are spelled as the proxy's own are
// (OwnSpelling), or MONITOR and the slow log would show them to clients.
using System.Globalization;
using System.Text;

namespace Slogger.FrontEnd;

/// <summary>Builds the front end's own requests.</summary>
internal static class InternalRequest
{
    public static ReadOnlySpan<byte> Role => "*1\r\n$4\r\nrOLE\r\n"u8;

    public static ReadOnlySpan<byte> MultiRole => "*1\r\n$5\r\nmULTI\r\n*1\r\n$4\r\nrOLE\r\n"u8;

    public static ReadOnlySpan<byte> Exec => "*1\r\n$4\r\neXEC\r\n"u8;

    public static ReadOnlySpan<byte> Unwatch => "*1\r\n$7\r\nuNWATCH\r\n"u8;

    public static ReadOnlySpan<byte> NoEvict => "*3\r\n$6\r\ncLIENT\r\n$8\r\nNO-EVICT\r\n$2\r\nON\r\n"u8;

    public static ReadOnlySpan<byte> ClientList => "*2\r\n$6\r\ncLIENT\r\n$4\r\nLIST\r\n"u8;

    public static ReadOnlySpan<byte> ClientId => "*2\r\n$6\r\ncLIENT\r\n$2\r\nID\r\n"u8;

    public static ReadOnlySpan<byte> ClientInfo => "*2\r\n$6\r\ncLIENT\r\n$4\r\nINFO\r\n"u8;

    public static ReadOnlySpan<byte> SlowLog => "*3\r\n$7\r\nsLOWLOG\r\n$3\r\nGET\r\n$2\r\n-1\r\n"u8;

    public static ReadOnlySpan<byte> ResetStatistics => "*2\r\n$6\r\ncONFIG\r\n$9\r\nRESETSTAT\r\n"u8;

    public static ReadOnlySpan<byte> Settings => "*4\r\n$6\r\ncONFIG\r\n$3\r\nGET\r\n$7\r\ntimeout\r\n$15\r\nslowlog-max-len\r\n"u8;

    /// <summary>The questions of <see cref="StoreFacts"/>, in the order of its parts.</summary>
    public static ReadOnlySpan<byte> Facts =>
        "*2\r\n$4\r\niNFO\r\n$7\r\nclients\r\n*3\r\n$6\r\ncONFIG\r\n$3\r\nGET\r\n$14\r\nprotected-mode\r\n*3\r\n$3\r\naCL\r\n$7\r\n"u8
            + "GETUSER\r\n$7\r\ndefault\r\n"u8;

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
}
