// How Redis lets others in, as far as LockOut must know it.
using System.Globalization;

namespace Slogger.FrontEnd;

/// <summary>What Redis has said of itself.</summary>
/// <param name="Connections">How many connections it has, the proxy's among them; 0: not known.</param>
/// <param name="IsProtected">Whether it is in protected mode, or that is not known.</param>
/// <param name="IsOpenToAll">Whether its default user needs no password, be it that nobody can log in as that one; <c>null</c>: not
/// known.</param>
internal sealed record StoreFacts(long Connections, bool IsProtected, bool? IsOpenToAll)
{
    /// <summary>Nothing is known.</summary>
    public static readonly StoreFacts Unknown = new(0, true, null);

    /// <summary>From the replies to INFO clients, CONFIG GET protected-mode and ACL GETUSER default; an error among them leaves its part
    /// unknown.</summary>
    public static StoreFacts Of(IReadOnlyList<string> replies)
    {
        const string Connected = "connected_clients:";
        int at = replies[0].IndexOf(Connected, StringComparison.Ordinal);
        string digits = at < 0 ? "" : replies[0][(at + Connected.Length)..].Split('\r')[0];
        return new(
            long.TryParse(digits, NumberStyles.None, CultureInfo.InvariantCulture, out long connections) ? connections : 0,
            !replies[1].EndsWith("\r\nno\r\n", StringComparison.Ordinal),
            replies[2].StartsWith('-') ? null : replies[2].Contains("\r\nnopass\r\n", StringComparison.Ordinal));
    }
}
