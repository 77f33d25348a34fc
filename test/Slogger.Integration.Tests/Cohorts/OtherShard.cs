// The other shard of two, beside a cohort: a process alone, with a Redis that it runs, which answers early.
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Cohorts;

internal sealed class OtherShard(Workspace workspace, CohortNodes nodes) : IAsyncDisposable
{
    /// <summary>Its data directory.</summary>
    public string Data { get; } = workspace.File("alone");

    /// <summary>Its process, which has been launched.</summary>
    public ProxyProcess Process { get; } = ProxyProcess.Launch(Workspace.FreePort(),
    [
        "--redis-server", RedisProcess.Executable, "--data", workspace.File("alone"), "--metadata", nodes.Metadata, "--cluster",
        CohortNodes.Cluster, "--shards", "2", "--shard", "1",
    ]);

    public async ValueTask DisposeAsync()
    {
        Process.KillHard();
        Process.Dispose();
        await SupervisedRedis.KillAsync(Data);
    }
}
