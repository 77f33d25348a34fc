// An endpoint as people and -MOVED write it.
using System.Globalization;

namespace Slogger.Client.Wire;

/// <summary>HOST:PORT; the host of an IPv6 address without brackets.</summary>
internal readonly record struct Address(string Host, int Port)
{
    public static Address Parse(string text) => TryParse(text, out Address address)
        ? address : throw new ArgumentException($"'{text}' is not an endpoint: write HOST:PORT or [IPV6]:PORT.");

    public static bool TryParse(string text, out Address address)
    {
        address = default;
        int colon = text.LastIndexOf(':');
        if (colon <= 0 || !int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out int port)
            || port is < 1 or > 65535)
        {
            return false;
        }
        string host = text[..colon];
        if (host.StartsWith('[') && host.EndsWith(']')) { host = host[1..^1]; }
        if (host.Length == 0) { return false; }
        address = new(host, port);
        return true;
    }

    public override string ToString() => Host.Contains(':', StringComparison.Ordinal)
        ? string.Create(CultureInfo.InvariantCulture, $"[{Host}]:{Port}") : string.Create(CultureInfo.InvariantCulture, $"{Host}:{Port}");
}
