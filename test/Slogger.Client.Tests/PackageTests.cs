// What is in the package. That it restores and runs in a user's project the tests of Slogger.Hosting show, whose package needs it, and the
// page docs/start/4-from-dotnet.md.
using Slogger.Tests.Packages;

namespace Slogger.Client.Tests;

public sealed class PackageTests : IDisposable
{
    private readonly PackedProject _project = new();

    public void Dispose() => _project.Dispose();

    [Fact]
    public async Task Package_HasWhatItNeeds_AndNoMore()
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
    }
}
