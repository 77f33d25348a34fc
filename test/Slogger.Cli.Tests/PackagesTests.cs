// The packages that the tool ships.
using System.Xml.Linq;
using Slogger.Tests.Packages;

namespace Slogger.Cli.Tests;

public sealed class PackagesTests
{
    [Fact]
    public void Tool_ShipsNoPackageThatIsKnownToBeFlawed()
    {
        IReadOnlyList<(string Package, string Version)> shipped =
            KnownBad.PackagesOf(Path.Combine(AppContext.BaseDirectory, "slogger.deps.json"));
        Assert.Contains(shipped, p => p.Package == "Microsoft.Data.SqlClient");
        Assert.Empty(KnownBad.Among(shipped));
    }

    [Fact]
    public async Task Tool_IsPackedWithAllThatItNeedsAndWhatItOwes()
    {
        using PackedProject project = new();
        string package = await project.PackAsync("Slogger.Cli");
        const string folder = "tools/net10.0/any/";
        PackedProject.AssertComplete(package, folder);
        string[] files = PackedProject.FilesOf(package);
        foreach (string file in (string[])["DotnetToolSettings.xml", "slogger.dll", "slogger.deps.json", "slogger.runtimeconfig.json",
            "Npgsql.dll"])
        {
            Assert.Contains(folder + file, files);
        }
        Assert.Contains("THIRD-PARTY-NOTICES.md", files);
        Assert.Empty(PackedProject.DependenciesOf(package));
    }

    // Each library, with the licence that its own package names.
    [Fact]
    public void Notices_NameTheToolsLibrariesAndTheirLicences()
    {
        string notices = File.ReadAllText(Path.Combine(PackedProject.Repository(), "THIRD-PARTY-NOTICES.md"));
        Dictionary<string, string> listed = notices.Split('\n').Select(line => line.Split(" | ", StringSplitOptions.TrimEntries))
            .Where(cells => cells.Length == 3 && cells[0].StartsWith("| ", StringComparison.Ordinal))
            .Where(cells => cells[0] is not ("| library" or "| ---"))
            .ToDictionary(cells => cells[0][2..], cells => cells[1]);
        IReadOnlyList<(string Package, string Version)> shipped =
            KnownBad.PackagesOf(Path.Combine(AppContext.BaseDirectory, "slogger.deps.json"));
        Assert.Equal(shipped.Select(p => p.Package).Order(StringComparer.Ordinal), listed.Keys.Order(StringComparer.Ordinal));
        string cache = Environment.GetEnvironmentVariable("NUGET_PACKAGES")
            ?? Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".nuget", "packages");
        foreach ((string package, string version) in shipped)
        {
            string name = package.ToLowerInvariant();
            XElement? licence = XDocument.Load(Path.Combine(cache, name, version, name + ".nuspec")).Descendants()
                .SingleOrDefault(e => e.Name.LocalName == "license");
            // Of one that is a file the notices have the text.
            Assert.True(licence?.Attribute("type")!.Value == "file"
                ? listed[package] is "Public domain" or "Microsoft Software License" : listed[package] == licence?.Value,
                $"{package} {version}: {licence}, and the notices say {listed[package]}");
            Assert.Contains($"\n## {listed[package]}\n", notices, StringComparison.Ordinal);
        }
    }

    [Theory]
    [InlineData("Microsoft.Data.SqlClient", "2.1.4", true)]
    [InlineData("Microsoft.Data.SqlClient", "2.1.7", false)]
    [InlineData("microsoft.data.sqlclient", "5.1.2", true)]
    [InlineData("Microsoft.Data.SqlClient", "5.1.3-preview1", false)]
    [InlineData("Microsoft.Data.SqlClient", "7.1.0", false)]
    [InlineData("Npgsql", "8.0.2", true)]
    [InlineData("SQLite", "3.53.4", false)]
    public void List_FindsTheVersionsWithTheFlaw(string package, string version, bool isBad) =>
        Assert.Equal(isBad, KnownBad.Among([(package, version)]).Any());
}
