// The options of slogger status. They are its own: it needs an address and perhaps a password, not a proxy's configuration.
using Slogger.Cli.Access;
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
        .. ProxyAccess.Options(Group),
        Report.Json(Group),
        new("site", "A whole site", "",
            "Show the whole site that --metadata names, with all its streams, as its processes say. Exit code 0 only if a backup could "
            + "take over now, or all processes of a primary answer.", "", "") { Shape = OptionShape.Flag },
        .. SiteStatus.Options,
    ];
}
