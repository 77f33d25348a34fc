// One redis-server that syncs each write before it answers. It has to stand being killed and started again.
namespace Slogger.Linearizability.Rounds;

internal sealed class RedisSystem : NodeSystem
{
    private const int Port = 6379;

    public override int Nodes => 1;

    public override IReadOnlyList<FaultKind> Faults => [FaultKind.Kill];

    public override IMasterFinder FinderOf(int client) => new FixedAddress(Network.Endpoint(1, Port));

    public override Task ReadyAsync() => MasterFinder.WaitAsync(FinderOf(0));

    protected override IEnumerable<NodeProcess> ProcessesOf(int node) =>
    [
        new("redis-server", "redis-server", "--port", $"{Port}", "--bind", Network.Address(node), "--protected-mode", "no", "--dir", Disk(node),
            "--save", "", "--appendonly", "yes", "--appendfsync", "always"),
    ];
}
