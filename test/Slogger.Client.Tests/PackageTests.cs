// The package as a user gets it: packed, restored from a folder into a project that knows nothing of this repository, and used.
using System.Diagnostics;
using System.IO.Compression;
using System.Xml.Linq;

namespace Slogger.Client.Tests;

public sealed class PackageTests : IDisposable
{
    private const string Version = "0.1.0-tested";
    private readonly string _folder = Directory.CreateTempSubdirectory("slogger-package-").FullName;

    public void Dispose() => Directory.Delete(_folder, recursive: true);

    [Fact]
    public async Task Package_InAFreshProject_RestoresAndRuns()
    {
        string configuration = new DirectoryInfo(AppContext.BaseDirectory).Parent!.Name;
        await DotnetAsync(Repository(), "pack", "src/Slogger.Client", "-c", configuration, "--no-build", "-o", _folder, "-p:Version=" + Version);
        string package = Path.Combine(_folder, $"Slogger.Client.{Version}.nupkg");
        Assert.True(File.Exists(Path.ChangeExtension(package, ".snupkg")));
        CheckContent(package);

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
                <PackageReference Include="Slogger.Client" Version="{Version}" />
              </ItemGroup>
            </Project>
            """);
        await File.WriteAllTextAsync(Path.Combine(_folder, "user.cs"), """
            using Slogger.Client;
            await using SloggerClient client = await SloggerClient.ConnectAsync(args[0]);
            await using SloggerSession session = client.OpenSession();
            Result<string?> result = await session.GetAsync("key");
            Console.WriteLine($"found {result.Value} as {result.Sequence} in {result.Version}");
            """);
        await DotnetAsync(_folder, "build", "-c", "Release", "-o", "out");
        await using var proxy = new ScriptedProxy(0, _ => "$5\r\nvalue\r\n") { Version = 77 };
        Assert.Contains("found value as 1 in 77", await DotnetAsync(_folder, "out/user.dll", proxy.Endpoint), StringComparison.Ordinal);
    }

    private static void CheckContent(string package)
    {
        using ZipArchive zip = ZipFile.OpenRead(package);
        string[] names = [.. zip.Entries.Select(e => e.FullName)];
        foreach (string file in (string[])["lib/net10.0/Slogger.Client.dll", "lib/net10.0/Slogger.Client.xml", "lib/net10.0/Slogger.Core.dll", "lib/net10.0/Slogger.Resp.dll", "README.md"]) { Assert.Contains(file, names); }
        using Stream stream = zip.GetEntry("Slogger.Client.nuspec")!.Open();
        XElement[] all = [.. XDocument.Load(stream).Descendants()];
        // Nothing that is not on NuGet, and no upper bounds.
        XElement dependency = Assert.Single(all, e => e.Name.LocalName == "dependency");
        Assert.Equal(("Microsoft.Extensions.Logging.Abstractions", "10.0.0"), (dependency.Attribute("id")!.Value, dependency.Attribute("version")!.Value));
    }

    private static async Task<string> DotnetAsync(string folder, params string[] arguments)
    {
        var info = new ProcessStartInfo("dotnet", arguments) { WorkingDirectory = folder, RedirectStandardOutput = true, RedirectStandardError = true };
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
        string folder = Environment.GetEnvironmentVariable("NUGET_PACKAGES") ?? Path.Combine(Environment.GetFolderPath(Environment.SpecialFolder.UserProfile), ".nuget", "packages");
        return Directory.Exists(folder) ? folder : "";
    }

    private static string Repository()
    {
        var folder = new DirectoryInfo(AppContext.BaseDirectory);
        while (!File.Exists(Path.Combine(folder!.FullName, "Slogger.sln"))) { folder = folder.Parent; }
        return folder.FullName;
    }
}
