// A shard of a cluster of two, without a cohort: a process alone, with a Redis that it runs, which answers early.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Integration.Tests.Cohorts;

/// <param name="workspace">Where its files are.</param>
/// <param name="nodes">Of the cohort.</param>
/// <param name="shard">Its number.</param>
internal sealed class OtherShard(Workspace workspace, CohortNodes nodes, int shard = 1) : IAsyncDisposable
{
    /// <summary>Its data directory.</summary>
    public string Data { get; } = DataOf(workspace, shard);

    /// <summary>Its process, which has been launched.</summary>
    public ProxyProcess Process { get; } = ProxyProcess.Launch(Workspace.FreePort(),
    [
        "--redis-server", RedisProcess.Executable, "--data", DataOf(workspace, shard), "--metadata", nodes.Metadata, "--cluster",
        CohortNodes.Cluster, "--shards", "2", "--shard", shard.ToString(CultureInfo.InvariantCulture),
    ]);

    private static string DataOf(Workspace workspace, int shard) =>
        workspace.File(string.Create(CultureInfo.InvariantCulture, $"alone-{shard}"));

    public async ValueTask DisposeAsync()
    {
        Process.KillHard();
        Process.Dispose();
        await SupervisedRedis.KillAsync(Data);
    }
}
