// Three redis-servers, one of them the master, and three sentinels, a pair on each node, as the documentation of Sentinel recommends.
// Timeouts are short. A write counts as acknowledged when WAIT has counted a replica.
using System.Globalization;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Linearizability.Rounds;

/// <param name="fsync">Redis's <c>appendfsync</c>: everysec or always.</param>
internal sealed class SentinelSystem(string fsync) : NodeSystem
{
    private const int Port = 6379, SentinelPort = 26379;
    private const string Master = "shop";

    public override int Nodes => 3;

    public override IReadOnlyList<FaultKind> Faults => [.. Enum.GetValues<FaultKind>().Where(f => f is not (FaultKind.ClockJump or FaultKind.RemoveMember))];

    public override Confirmation? Confirmation => Confirmation.Replica;

    public override IMasterFinder FinderOf(int client) =>
        new SentinelFinder(Master, [.. Enumerable.Range(1, Nodes).Select(n => Network.Endpoint(n, SentinelPort))]);

    public override async Task ReadyAsync()
    {
        await MasterFinder.WaitAsync(FinderOf(0));
        for (int node = 1; node <= Nodes; node++)
        {
            // Each knows both others, and both replicas.
            await Eventually.AsyncTrue($"the sentinel of node {node} knows all", MasterFinder.StartLimit, () => KnowsAllAsync(node));
        }
    }

    // A node that has lost its data keeps its configuration: it still knows of whom it is a replica.
    protected override string DataOf(int node) => Path.Combine(Disk(node), "data");

    protected override void Furnish(int node)
    {
        Directory.CreateDirectory(DataOf(node));
        File.WriteAllLines(RedisFile(node),
        [
            "port " + Said(Port), "bind " + Network.Address(node), "protected-mode no", "dir " + DataOf(node), "save \"\"",
            "appendonly yes", "appendfsync " + fsync, "repl-diskless-sync-delay 0", "repl-ping-replica-period 1", "repl-timeout 5",
            .. node == 1 ? Array.Empty<string>() : [$"replicaof {Network.Address(1)} {Said(Port)}"],
        ]);
        File.WriteAllLines(SentinelFile(node),
        [
            "port " + Said(SentinelPort), "bind " + Network.Address(node), "protected-mode no", "dir " + Disk(node),
            $"sentinel monitor {Master} {Network.Address(1)} {Said(Port)} 2", $"sentinel down-after-milliseconds {Master} 500",
            $"sentinel failover-timeout {Master} 2000",
        ]);
    }

    protected override IEnumerable<NodeProcess> ProcessesOf(int node) =>
        [new("redis-server", "redis-server", RedisFile(node)), new("sentinel", "redis-server", SentinelFile(node), "--sentinel")];

    private static async Task<bool> KnowsAllAsync(int node)
    {
        try
        {
            using var client = await MasterFinder.ConnectAsync(Network.Endpoint(node, SentinelPort));
            var reply = await client.DoAsync("SENTINEL", "MASTER", Master);
            var facts = reply.Items.Chunk(2).ToDictionary(f => f[0].Text, f => f[1].Text);
            return facts["num-other-sentinels"] == "2" && facts["num-slaves"] == "2" && facts["flags"] == "master";
        }
        catch (Exception e) when (MasterFinder.IsNoAnswer(e))
        {
            return false;
        }
    }

    private static string RedisFile(int node) => Path.Combine(Disk(node), "redis.conf");

    private static string SentinelFile(int node) => Path.Combine(Disk(node), "sentinel.conf");

    private static string Said(int port) => port.ToString(CultureInfo.InvariantCulture);
}
