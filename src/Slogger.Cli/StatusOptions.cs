// The options of slogger status. They are its own: it needs an address and perhaps a password, not a proxy's configuration.
using Slogger.Cli.Sites;
using Slogger.Cli.Terminal;
using Slogger.Proxy.Configuration;

namespace Slogger.Cli;

/// <summary>The list, for parsing and --help.</summary>
internal static class StatusOptions
{
    private const string Group = "Options (and ADDRESS: HOST:PORT or a Unix socket)";

    public static readonly IReadOnlyList<OptionDefinition> All =
    [
        new("data", Group, "DIR", "Find the proxy by its data directory.", "SLOGGER_DATA, then slogger-data in the current directory", ""),
        Report.Json(Group),
        new("user", Group, "NAME", "ACL user, where Redis asks for a password.", "Redis's user default", ""),
        new("password-file", Group, "FILE", "File whose first line is the password.", "none", ""),
        new("tls", Group, "", "Connect over TLS; implied where --data finds a proxy that listens with TLS only.", "",
            "") { Shape = OptionShape.Flag },
        new("tls-ca", Group, "FILE", "Authorities (PEM) that the proxy's certificate must come from.", "the system's", ""),
        new("tls-insecure", Group, "", "Take any certificate.", "", "") { Shape = OptionShape.Flag },
        new("site", "A whole site", "",
            "Show the whole site that --metadata names, with all its streams, as its processes say. Exit code 0 only if a backup could "
            + "take over now, or all processes of a primary answer.", "", "") { Shape = OptionShape.Flag },
        .. SiteStatus.Options,
    ];
}
