// A project of a user: it knows nothing of this repository, and restores what was packed from a folder.
using System.Diagnostics;
using System.IO.Compression;
using System.Xml.Linq;

namespace Slogger.Tests.Packages;

internal sealed class PackedProject : IDisposable
{
    private const string Version = "0.1.0-tested";
    private readonly string _folder = Directory.CreateTempSubdirectory("slogger-package-").FullName;

    public string Folder => _folder;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    /// <summary>Packs what was built already.</summary>
    /// <returns>The package's file.</returns>
    public async Task<string> PackAsync(string name)
    {
        string configuration = new DirectoryInfo(AppContext.BaseDirectory).Parent!.Name;
        await DotnetAsync(Repository(), "pack", "src/" + name, "-c", configuration, "--no-build", "-o", _folder, "-p:Version=" + Version);
        string package = Path.Combine(_folder, $"{name}.{Version}.nupkg");
        Assert.True(File.Exists(Path.ChangeExtension(package, ".snupkg")));
        return package;
    }

    /// <summary>What every package of ours has: a licence, a page to read, a picture, where its sources are, and symbols of all that is
    /// ours in it.</summary>
    /// <param name="package">The package's file.</param>
    /// <param name="folder">Where its libraries are in it.</param>
    public static void AssertComplete(string package, string folder)
    {
        string[] files = FilesOf(package);
        foreach (string file in (string[])["README.md", "icon.png", "LICENSE"]) { Assert.Contains(file, files); }
        XElement metadata = Nuspec(package).Descendants().Single(e => e.Name.LocalName == "metadata");
        string? text(string name) => metadata.Elements().SingleOrDefault(e => e.Name.LocalName == name)?.Value;
        Assert.Equal(("MIT", "README.md", "icon.png", "The Slogger developers"), (text("license"), text("readme"), text("icon"),
            text("authors")));
        Assert.NotEmpty(text("description") ?? "");
        Assert.NotEqual("Package Description", text("description"));
        Assert.NotEmpty(text("tags") ?? "");
        Assert.Contains("The Slogger developers", text("copyright"), StringComparison.Ordinal);
        // By git, where the sources are in it. The address is the remote's, or who packs gives it: none is made up.
        if (Directory.Exists(Path.Combine(Repository(), ".git")) || File.Exists(Path.Combine(Repository(), ".git")))
        {
            XElement repository = metadata.Elements().Single(e => e.Name.LocalName == "repository");
            Assert.Equal("git", repository.Attribute("type")!.Value);
            Assert.Matches("^[0-9a-f]{40}$", repository.Attribute("commit")!.Value);
        }
        Assert.Null(text("projectUrl"));

        string[] ours = [.. files.Where(f => f.StartsWith(folder, StringComparison.Ordinal)
            && Path.GetFileName(f) is var name && (name.StartsWith("Slogger.", StringComparison.Ordinal) || name == "slogger.dll")
            && name.EndsWith(".dll", StringComparison.Ordinal))];
        Assert.NotEmpty(ours);
        string[] symbols = FilesOf(Path.ChangeExtension(package, ".snupkg"));
        Assert.All(ours, library => Assert.Contains(Path.ChangeExtension(library, ".pdb"), symbols));
    }

    /// <summary>A program that uses one package, built.</summary>
    public async Task BuildAsync(string package, string program)
    {
        await File.WriteAllTextAsync(Path.Combine(_folder, "user.csproj"), $"""
            <Project Sdk="Microsoft.NET.Sdk">
              <PropertyGroup>
                <OutputType>Exe</OutputType>
                <TargetFramework>net10.0</TargetFramework>
                <ImplicitUsings>enable</ImplicitUsings>
                <RestoreAdditionalProjectSources>{_folder}</RestoreAdditionalProjectSources>
                <RestorePackagesPath>{_folder}/packages</RestorePackagesPath>
                <RestoreFallbackFolders>{Fallback()}</RestoreFallbackFolders>
              </PropertyGroup>
              <ItemGroup>
                <PackageReference Include="{package}" Version="{Version}" />
              </ItemGroup>
            </Project>
            """);
        await File.WriteAllTextAsync(Path.Combine(_folder, "user.cs"), program);
        await DotnetAsync(_folder, "build", "-c", "Release", "-o", "out");
    }

    /// <summary>The packages that it got.</summary>
    public IReadOnlyList<(string Package, string Version)> Restored() =>
        KnownBad.PackagesOf(Path.Combine(_folder, "obj", "project.assets.json"));

    /// <summary>Runs it to its end. Returns what it said.</summary>
    public Task<string> RunAsync(params string[] arguments) => DotnetAsync(_folder, ["out/user.dll", .. arguments]);

    /// <summary>What is in a package.</summary>
    public static string[] FilesOf(string package)
    {
        using ZipArchive zip = ZipFile.OpenRead(package);
        return [.. zip.Entries.Select(e => e.FullName)];
    }

    /// <summary>What a package asks for, by name, and the version of each.</summary>
    public static Dictionary<string, string> DependenciesOf(string package) =>
        Nuspec(package).Descendants().Where(e => e.Name.LocalName == "dependency")
            .ToDictionary(e => e.Attribute("id")!.Value, e => e.Attribute("version")!.Value);

    private static XDocument Nuspec(string package)
    {
        using ZipArchive zip = ZipFile.OpenRead(package);
        using Stream stream = zip.Entries.Single(e => e.FullName.EndsWith(".nuspec", StringComparison.Ordinal)).Open();
        return XDocument.Load(stream);
    }

    private static async Task<string> DotnetAsync(string folder, params string[] arguments)
    {
        var info = new ProcessStartInfo("dotnet", arguments) { WorkingDirectory = folder, RedirectStandardOutput = true,
            RedirectStandardError = true };
        info.Environment["DOTNET_CLI_TELEMETRY_OPTOUT"] = "1";
        info.Environment["MSBUILDDISABLENODEREUSE"] = "1";
        using Process process = Process.Start(info)!;
        Task<string> output = process.StandardOutput.ReadToEndAsync(), error = process.StandardError.ReadToEndAsync();
        await process.WaitForExitAsync();
        string all = await output + await error;
        Assert.True(process.ExitCode == 0, $"dotnet {string.Join(' ', arguments)}\n{all}");
        return all;
    }

    // What this machine has of other packages already.
    private static string Fallback()
    {
        string folder = Environment.GetEnvironmentVariable("NUGET_PACKAGES")
            ?? Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".nuget", "packages");
        return Directory.Exists(folder) ? folder : "";
    }

    /// <summary>The root of this repository.</summary>
    public static string Repository()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder!.FullName, "Slogger.sln"))) { folder = folder.Parent; }
        return folder.FullName;
    }
}
