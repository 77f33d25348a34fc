// Odd requests on a running proxy harm nobody: a short form of --fuzz.
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Fuzzing;

public sealed class FuzzTests
{
    [Theory]
    [InlineData(1, "approximate", "epoll")]
    [InlineData(2, "approximate", "sockets")]
    [InlineData(2, "exact", "epoll")]
    [InlineData(2, "hybrid", "epoll")]
    public async Task Requests_OfAllKinds_HarmNobody(int shards, string finder, string transport)
    {
        int seed = Environment.TickCount & 0xFFFFFF;
        TestContext.Current.TestOutputHelper?.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false) { Finder = finder,
            Options = ["--transport", transport] };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        var run = new FuzzRun(cluster, seed);
        await run.RunAsync(6_000);
        Assert.True(run.Counts.Requests >= 5_000 && run.Work.Operations > 0);
    }
}
