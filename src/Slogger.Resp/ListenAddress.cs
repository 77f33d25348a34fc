// The address of a RESP service: where the proxy listens, and where it finds Redis. Written as HOST:PORT, [IPV6]:PORT,
// unix:PATH or an absolute PATH; ToString gives a text that Parse reads back. No name is resolved here.
using System.Diagnostics.CodeAnalysis;
using System.Globalization;
using System.Net;
using System.Text;

namespace Slogger.Resp;

/// <summary>A TCP host and port, or the path of a Unix socket. Exactly one of <see cref="Host"/> and <see cref="UnixPath"/> is
/// set.</summary>
public sealed record ListenAddress
{
    /// <summary>Longest path that fits into a Unix socket address. Unit: bytes of UTF-8.</summary>
    public const int UnixPathBytesMax = 107;

    private ListenAddress(string? host, int port, string? unixPath) => (Host, Port, UnixPath) = (host, port, unixPath);

    /// <summary>Host name or IP address (IPv6 without brackets); null for a Unix socket.</summary>
    public string? Host { get; }

    /// <summary>TCP port, 0 to 65535; 0 means any free port where the proxy listens. 0 for a Unix socket.</summary>
    public int Port { get; }

    /// <summary>Absolute path of the Unix socket; null for TCP.</summary>
    public string? UnixPath { get; }

    /// <summary>True for a Unix socket.</summary>
    [MemberNotNullWhen(true, nameof(UnixPath))]
    [MemberNotNullWhen(false, nameof(Host))]
    public bool IsUnix => UnixPath is not null;

    /// <summary>True if only this machine can reach it: a Unix socket, localhost, 127.0.0.0/8 or ::1.</summary>
    public bool IsLocal => IsUnix
        || Host.Equals("localhost", StringComparison.OrdinalIgnoreCase)
        || (IPAddress.TryParse(Host, out IPAddress? ip) && IPAddress.IsLoopback(ip));

    /// <summary>True if it is no address of one machine but stands for every interface of it: 0.0.0.0 or [::].</summary>
    public bool IsEveryInterface => !IsUnix && IPAddress.TryParse(Host, out IPAddress? ip)
        && (ip.Equals(IPAddress.Any) || ip.Equals(IPAddress.IPv6Any));

    /// <summary>A TCP address. <paramref name="host"/>: a name, IPv4 or IPv6 without brackets.</summary>
    public static ListenAddress Tcp(string host, int port)
    {
        ArgumentException.ThrowIfNullOrEmpty(host);
        ArgumentOutOfRangeException.ThrowIfNegative(port);
        ArgumentOutOfRangeException.ThrowIfGreaterThan(port, IPEndPoint.MaxPort);
        return new ListenAddress(host, port, null);
    }

    /// <summary>A Unix socket; a relative path is made absolute against the current directory.</summary>
    public static ListenAddress Unix(string path)
    {
        ArgumentException.ThrowIfNullOrEmpty(path);
        return new ListenAddress(null, 0, Path.GetFullPath(path));
    }

    /// <summary>Reads an address; on failure <paramref name="problem"/> says what is wrong and what is expected.</summary>
    public static bool TryParse(string text, [NotNullWhen(true)] out ListenAddress? address, [NotNullWhen(false)] out string? problem)
    {
        address = null;
        problem = null;
        if (text.StartsWith("unix:", StringComparison.Ordinal) || text.StartsWith('/'))
        {
            return TryParseUnix(text.StartsWith('/') ? text : text["unix:".Length..], out address, out problem);
        }

        if (text.Contains("://", StringComparison.Ordinal))
        {
            problem = "is a URL; write HOST:PORT or unix:PATH";
            return false;
        }

        int colon = text.LastIndexOf(':');
        if (colon < 0)
        {
            problem = "has no port; write HOST:PORT, [IPV6]:PORT or unix:PATH";
            return false;
        }

        string host = text[..colon];
        if (host.Length == 0 || host == "*")
        {
            problem = $"has no host; write 127.0.0.1:{text[(colon + 1)..]} for this machine only, or 0.0.0.0 or [::] for every interface";
            return false;
        }

        if (!int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out int port)
            || port > IPEndPoint.MaxPort)
        {
            problem = "has a bad port; it is a number from 0 to 65535";
            return false;
        }

        if (host.StartsWith('[') && host.EndsWith(']'))
        {
            host = host[1..^1];
            if (!host.Contains(':') || !IPAddress.TryParse(host, out _))
            {
                problem = "has something in brackets that is not an IPv6 address";
                return false;
            }
        }
        else if (host.Contains(':'))
        {
            problem = "is ambiguous; put an IPv6 address in brackets, as in [::1]:6380";
            return false;
        }
        else if (Uri.CheckHostName(host) == UriHostNameType.Unknown)
        {
            problem = "has a bad host name";
            return false;
        }

        address = new ListenAddress(host, port, null);
        return true;
    }

    /// <summary>HOST:PORT, [IPV6]:PORT or unix:PATH.</summary>
    public override string ToString()
        => IsUnix ? "unix:" + UnixPath
        : Host.Contains(':') ? string.Create(CultureInfo.InvariantCulture, $"[{Host}]:{Port}")
        : string.Create(CultureInfo.InvariantCulture, $"{Host}:{Port}");

    private static bool TryParseUnix(string path, [NotNullWhen(true)] out ListenAddress? address, [NotNullWhen(false)] out string? problem)
    {
        address = null;
        problem = null;
        if (path.Length == 0 || path.EndsWith('/') || path.Contains('\0'))
        {
            problem = "names no socket file; write unix:/path/to/socket";
            return false;
        }

        string full = Path.GetFullPath(path);
        if (Encoding.UTF8.GetByteCount(full) > UnixPathBytesMax)
        {
            problem = $"is too long for a Unix socket ({full} has more than {UnixPathBytesMax} bytes)";
            return false;
        }

        address = new ListenAddress(null, 0, full);
        return true;
    }
}
