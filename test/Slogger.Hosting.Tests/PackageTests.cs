// The package as a user gets it: packed, restored from a folder into a project that knows nothing of this repository, and used.
using Slogger.Tests.Packages;

namespace Slogger.Hosting.Tests;

public sealed class PackageTests : IDisposable
{
    private readonly PackedProject _project = new();

    public void Dispose() => _project.Dispose();

    [Fact]
    public async Task Package_InAFreshProject_RestoresAndRunsAShard_WhoseDataIsThereTheNextTime()
    {
        await _project.PackAsync("Slogger.Client");
        string package = await _project.PackAsync("Slogger.Hosting");
        string[] files = PackedProject.FilesOf(package);
        foreach (string file in (string[])["Slogger.Hosting.dll", "Slogger.Hosting.xml", "Slogger.Proxy.dll", "Slogger.FrontEnd.dll",
            "Slogger.Faster.dll", "Slogger.Log.dll", "Slogger.Metadata.dll", "Slogger.Redis.dll",
            "Slogger.Replication.dll", "Slogger.Reports.dll"])
        {
            Assert.Contains("lib/net10.0/" + file, files);
        }

        PackedProject.AssertComplete(package, "lib/net10.0/");

        // These are in the client's package.
        Assert.DoesNotContain("lib/net10.0/Slogger.Core.dll", files);
        Assert.DoesNotContain("lib/net10.0/Slogger.Resp.dll", files);
        Assert.Equal(
            ["Microsoft.Data.SqlClient", "Microsoft.Data.Sqlite", "Microsoft.FASTER.Core", "Npgsql", "Slogger.Client"],
            PackedProject.DependenciesOf(package).Keys.Order(StringComparer.Ordinal));

        await _project.BuildAsync("Slogger.Hosting", """
            using Microsoft.Extensions.DependencyInjection;
            using Microsoft.Extensions.Hosting;
            using Microsoft.Extensions.Logging;
            using Slogger.Hosting;
            HostApplicationBuilder builder = Host.CreateApplicationBuilder();
            builder.Logging.SetMinimumLevel(LogLevel.Warning);
            builder.Services.AddSloggerShard(o =>
            {
                o.Serve["listen"] = "127.0.0.1:0";
                o.Serve["data"] = args[0];
                o.Serve["faster-memory"] = "256mb";
            });
            using IHost host = builder.Build();
            await host.StartAsync();
            var shard = host.Services.GetRequiredService<ISloggerShard>();
            await shard.Ready;
            await using LocalSession session = shard.OpenSession();
            long visits = session.Increment("visits"u8, 1, out _);
            long remote = (await session.Remote.IncrementAsync("visits")).Value;
            await session.WaitForCommitAsync();
            Console.WriteLine($"visits {visits} and {remote}, committed up to {session.CommittedUpTo}");
            await host.StopAsync();
            """);
        string data = Path.Combine(_project.Folder, "data");
        Assert.Contains("visits 1 and 2, committed up to 2", await _project.RunAsync(data), StringComparison.Ordinal);
        Assert.Contains("visits 3 and 4, committed up to 2", await _project.RunAsync(data), StringComparison.Ordinal);
        Assert.Empty(KnownBad.Among(_project.Restored()));
    }
}
