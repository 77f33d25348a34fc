// Versions of packages with published flaws, of those that we use or that come with them. The registry that the build reaches
// serves no such data, so its silence proves nothing. The list is as of November 2026: who learns of a flaw adds a line.
using System.Text.Json;

namespace Slogger.Tests.Packages;

internal static class KnownBad
{
    // A package, the first version with the flaw, the first one without it, and the flaw.
    private static readonly (string Package, string From, string Fixed, string Flaw)[] Ranges =
    [
        ("Azure.Identity", "0.0", "1.11.4", "CVE-2024-35255"),
        ("Google.Protobuf", "0.0", "3.15.0", "CVE-2021-22570"),
        ("Microsoft.Data.SqlClient", "0.0", "2.1.7", "CVE-2024-0056"),
        ("Microsoft.Data.SqlClient", "3.0", "3.1.5", "CVE-2024-0056"),
        ("Microsoft.Data.SqlClient", "4.0", "4.0.5", "CVE-2024-0056"),
        ("Microsoft.Data.SqlClient", "5.0", "5.1.3", "CVE-2024-0056"),
        ("Microsoft.Extensions.Caching.Memory", "6.0", "6.0.2", "CVE-2024-43483"),
        ("Microsoft.Extensions.Caching.Memory", "8.0", "8.0.1", "CVE-2024-43483"),
        ("Microsoft.IdentityModel.JsonWebTokens", "0.0", "5.7.0", "CVE-2024-21319"),
        ("Microsoft.IdentityModel.JsonWebTokens", "6.5", "6.34.0", "CVE-2024-21319"),
        ("Microsoft.IdentityModel.JsonWebTokens", "7.0", "7.1.2", "CVE-2024-21319"),
        ("Npgsql", "0.0", "4.0.14", "CVE-2024-32655"),
        ("Npgsql", "4.1", "4.1.13", "CVE-2024-32655"),
        ("Npgsql", "5.0", "5.0.18", "CVE-2024-32655"),
        ("Npgsql", "6.0", "6.0.11", "CVE-2024-32655"),
        ("Npgsql", "7.0", "7.0.7", "CVE-2024-32655"),
        ("Npgsql", "8.0", "8.0.3", "CVE-2024-32655"),
        ("SQLite", "0.0", "3.50.2", "CVE-2025-6965"),
        ("SQLitePCLRaw.lib.e_sqlite3", "0.0", "3.0.0", "CVE-2025-6965"),
        ("System.Drawing.Common", "4.0", "4.7.2", "CVE-2021-24112"),
        ("System.Drawing.Common", "5.0", "5.0.3", "CVE-2021-24112"),
        ("System.Formats.Asn1", "5.0", "6.0.1", "CVE-2024-38095"),
        ("System.Formats.Asn1", "7.0", "8.0.1", "CVE-2024-38095"),
        ("System.IdentityModel.Tokens.Jwt", "0.0", "5.7.0", "CVE-2024-21319"),
        ("System.IdentityModel.Tokens.Jwt", "6.5", "6.34.0", "CVE-2024-21319"),
        ("System.IdentityModel.Tokens.Jwt", "7.0", "7.1.2", "CVE-2024-21319"),
        ("System.Security.Cryptography.Pkcs", "6.0", "6.0.3", "CVE-2023-29331"),
        ("System.Security.Cryptography.Pkcs", "7.0", "7.0.2", "CVE-2023-29331"),
        ("System.Text.Encodings.Web", "4.6", "4.7.2", "CVE-2021-26701"),
        ("System.Text.Json", "6.0", "6.0.10", "CVE-2024-43485"),
        ("System.Text.Json", "8.0", "8.0.5", "CVE-2024-43485"),
    ];

    /// <summary>Those of some packages that have a flaw, each with its version and what it is.</summary>
    public static IEnumerable<string> Among(IEnumerable<(string Package, string Version)> packages) =>
        from used in packages
        from range in Ranges
        where string.Equals(used.Package, range.Package, StringComparison.OrdinalIgnoreCase)
        let version = Version.Parse(used.Version.Split('-', '+')[0])
        where version >= Version.Parse(range.From) && version < Version.Parse(range.Fixed)
        select $"{used.Package} {used.Version} has {range.Flaw}: use {range.Fixed} or later";

    /// <summary>The packages of a program (its <c>.deps.json</c>) or of a restored project (<c>project.assets.json</c>).</summary>
    public static IReadOnlyList<(string Package, string Version)> PackagesOf(string file)
    {
        using JsonDocument document = JsonDocument.Parse(File.ReadAllBytes(file));
        return
        [
            .. document.RootElement.GetProperty("libraries").EnumerateObject()
                .Where(l => l.Value.GetProperty("type").GetString() == "package")
                .Select(l => l.Name.Split('/')).Select(p => (p[0], p[1])),
        ];
    }
}
