// The package as a user gets it: packed, restored from a folder into a project that knows nothing of this repository, and used.
using Slogger.Tests.Packages;

namespace Slogger.Client.Tests;

public sealed class PackageTests : IDisposable
{
    private readonly PackedProject _project = new();

    public void Dispose() => _project.Dispose();

    [Fact]
    public async Task Package_InAFreshProject_RestoresAndRuns()
    {
        string package = await _project.PackAsync("Slogger.Client");
        foreach (string file in (string[])["lib/net10.0/Slogger.Client.dll", "lib/net10.0/Slogger.Client.xml",
            "lib/net10.0/Slogger.Core.dll", "lib/net10.0/Slogger.Core.xml", "lib/net10.0/Slogger.Resp.dll", "lib/net10.0/Slogger.Resp.xml"])
        {
            Assert.Contains(file, PackedProject.FilesOf(package));
        }
        PackedProject.AssertComplete(package, "lib/net10.0/");

        // Nothing that is not on NuGet, and no upper bounds.
        Assert.Equal(((string[])["Configuration", "DependencyInjection", "Logging"])
            .Select(name => KeyValuePair.Create($"Microsoft.Extensions.{name}.Abstractions", "10.0.14")),
            PackedProject.DependenciesOf(package).OrderBy(d => d.Key, StringComparer.Ordinal));

        await _project.BuildAsync("Slogger.Client", """
            using Slogger.Client;
            await using SloggerClient client = await SloggerClient.ConnectAsync(args[0]);
            await using SloggerSession session = client.OpenSession();
            Result<string?> result = await session.GetAsync("key");
            Console.WriteLine($"found {result.Value} as {result.Sequence} in {result.Version}");
            """);
        await using var proxy = new ScriptedProxy(0, _ => "$5\r\nvalue\r\n") { Version = 77 };
        Assert.Contains("found value as 1 in 77", await _project.RunAsync(proxy.Endpoint), StringComparison.Ordinal);
        Assert.Empty(KnownBad.Among(_project.Restored()));
    }
}
