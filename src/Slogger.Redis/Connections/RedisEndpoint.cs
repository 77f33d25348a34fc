// Where a Redis is and how to be let in. The password is part of the value but never of its text: endpoints end up in
// logs and error messages.
using System.Globalization;
using Slogger.Resp;

namespace Slogger.Redis.Connections;

/// <summary>The address of a Redis (TCP or Unix socket) with credentials and TLS settings.</summary>
public sealed record RedisEndpoint
{
    /// <summary>Host name or address; empty for a Unix socket.</summary>
    public string Host { get; init; } = "";

    /// <summary>TCP port; 0 for a Unix socket.</summary>
    public int Port { get; init; }

    /// <summary>Path of the Unix socket; null for TCP.</summary>
    public string? UnixSocketPath { get; init; }

    /// <summary>ACL user. Default: null, the user "default".</summary>
    public string? User { get; init; }

    /// <summary>Password. Default: null, no AUTH is sent.</summary>
    public string? Password { get; init; }

    /// <summary>TLS settings. Default: null, no TLS.</summary>
    public RedisTlsOptions? Tls { get; init; }

    /// <summary>Awaited on a new connection when Redis has answered on it, and before anything else is sent. A failure of it
    /// (<see cref="RedisException"/>) is one of connecting. Default: null, a connection is used as it is.</summary>
    public Func<CancellationToken, Task>? Admission { get; init; }

    /// <summary>Where commands that this process sends of its own accord are counted. Default: null, nowhere.</summary>
    public CommandCounts? Counts { get; init; }

    /// <summary>A TCP endpoint.</summary>
    public static RedisEndpoint Tcp(string host, int port, string? password = null, string? user = null) =>
        new() { Host = host, Port = port, Password = password, User = user };

    /// <summary>A Unix socket endpoint.</summary>
    public static RedisEndpoint Unix(string path, string? password = null, string? user = null) =>
        new() { UnixSocketPath = path, Password = password, User = user };

    /// <summary>Reads <c>host:port</c>, <c>[v6]:port</c>, <c>unix:/path</c>, <c>/path</c> or
    /// <c>redis[s]://[user[:password]@]host[:port]</c>.</summary>
    /// <exception cref="ArgumentException">The text is none of these; the message says what is expected.</exception>
    public static RedisEndpoint Parse(string text)
    {
        ArgumentException.ThrowIfNullOrWhiteSpace(text);
        if (text.StartsWith("unix:", StringComparison.Ordinal))
        {
            string path = text["unix:".Length..];
            return Unix(path.StartsWith("//", StringComparison.Ordinal) ? path[2..] : path);
        }
        if (text[0] == '/')
            return Unix(text);
        if (text.StartsWith("redis://", StringComparison.Ordinal) || text.StartsWith("rediss://", StringComparison.Ordinal))
            return ParseUri(text);
        int colon = text.LastIndexOf(':');
        if (colon <= 0 || !int.TryParse(text.AsSpan(colon + 1), NumberStyles.None, CultureInfo.InvariantCulture, out int port)
            || port is < 1 or > 65535)
            throw Malformed();
        return Tcp(text[..colon].Trim('[', ']'), port);
    }

    private static RedisEndpoint ParseUri(string text)
    {
        if (!Uri.TryCreate(text, UriKind.Absolute, out Uri? uri) || uri.Host.Length == 0)
            throw Malformed();
        string[] login = uri.UserInfo.Length == 0 ? [] : uri.UserInfo.Split(':', 2);
        string? user = login.Length > 0 && login[0].Length > 0 ? Uri.UnescapeDataString(login[0]) : null;
        string? password = login.Length > 1 ? Uri.UnescapeDataString(login[1]) : null;
        RedisEndpoint endpoint = Tcp(uri.Host.Trim('[', ']'), uri.Port > 0 ? uri.Port : 6379, password, user);
        return uri.Scheme == "rediss" ? endpoint with { Tls = new RedisTlsOptions() } : endpoint;
    }

    // The text is not repeated: it may hold a password.
    private static ArgumentException Malformed() => new(
        "The Redis address is not understood. Give host:port, unix:/path/to/socket, or redis://user:password@host:port " +
        "(rediss:// for TLS).");

    /// <summary>The address without credentials.</summary>
    public override string ToString() => UnixSocketPath is not null
        ? "unix:" + UnixSocketPath
        : string.Create(CultureInfo.InvariantCulture,
        $"{(Host.Contains(':') ? "[" + Host + "]" : Host)}:{Port}{(Tls is null ? "" : " (TLS)")}");

    // A record would otherwise print every property.
    private bool PrintMembers(System.Text.StringBuilder builder)
    {
        builder.Append(ToString());
        return true;
    }
}
