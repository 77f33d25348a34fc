// One redis-server that is killed and started again. It syncs each write before it answers, and so has to stand that; or it writes nothing
// to its disk, and so has to be found out.
namespace Slogger.Linearizability.Rounds;

/// <param name="appendOnly">Whether it keeps what it has answered.</param>
internal sealed class RedisSystem(bool appendOnly) : NodeSystem
{
    private const int Port = 6379;

    public override int Nodes => 1;

    public override IReadOnlyList<FaultKind> Faults => [FaultKind.Kill];

    public override IMasterFinder FinderOf(int client) =>
        client % 2 == 0 ? new FixedAddress(Network.Endpoint(1, Port)) : new RoleFinder([Network.Endpoint(1, Port)]);

    public override Task ReadyAsync() => MasterFinder.WaitAsync(FinderOf(0));

    protected override IEnumerable<NodeProcess> ProcessesOf(int node) =>
    [
        new("redis-server", "redis-server", "--port", $"{Port}", "--bind", Network.Address(node), "--protected-mode", "no",
            "--dir", Disk(node), "--save", "", "--appendonly", appendOnly ? "yes" : "no", "--appendfsync", "always"),
    ];
}
