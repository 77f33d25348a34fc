// Applications that use StackExchange.Redis, while servers die: a short form of --multiplexer.
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Multiplexer;

public sealed class MultiplexerTests(ITestOutputHelper output)
{
    [Theory]
    [InlineData(1, false)]
    [InlineData(1, true)]
    [InlineData(3, false)]
    public async Task Multiplexers_ServersDie_EveryCallEndsAndSubscriptionsGoOn(int shards, bool isEmbedded)
    {
        int seed = Environment.TickCount & 0xFFFFFF;
        output.WriteLine($"seed {seed}");
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards, usesPostgres: false) { Embedded = isEmbedded ? shards : 0 };
        await cluster.StartAsync();
        // The long run has more of them, and longer ones.
        await using var run = new MultiplexerRun(cluster, rounds: 3, seed, output.WriteLine) { Faults = ["redis", "proxy", "connections"] };
        await run.RunAsync();
        Assert.True(run.Tally.Answered > 0);
    }
}
