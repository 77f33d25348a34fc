// One `slogger serve` with a Redis that it runs. Replies come before their commit, so it has to stand what loses no store: processes that
// stand still, and a clock that jumps.
using Slogger.Integration.Tests.Processes;

namespace Slogger.Linearizability.Rounds;

internal sealed class SloggerSystem : NodeSystem
{
    private const int Port = 7379;

    public override int Nodes => 1;

    public override IReadOnlyList<FaultKind> Faults => [FaultKind.Pause, FaultKind.ClockJump];

    public override IMasterFinder FinderOf(int client) => new FixedAddress(Network.Endpoint(1, Port));

    public override Task ReadyAsync() => MasterFinder.WaitAsync(FinderOf(0));

    protected override string DataOf(int node) => Path.Combine(Disk(node), "data");

    protected override void Furnish(int node)
    {
        // What sets the clock stops a redis-server.
        File.WriteAllText(Launcher(node), $"#!/bin/sh\nexec env -u LD_PRELOAD {RedisProcess.Executable} \"$@\"\n");
        if (OperatingSystem.IsLinux()) { File.SetUnixFileMode(Launcher(node), UnixFileMode.UserRead | UnixFileMode.UserExecute); }
    }

    protected override IEnumerable<NodeProcess> ProcessesOf(int node) =>
    [
        new("slogger", "dotnet", ProxyProcess.Executable, "serve", "--listen", Network.Endpoint(node, Port).ToString(),
            "--data", DataOf(node), "--redis-server", Launcher(node)) { HasOwnClock = true },
    ];

    private static string Launcher(int node) => Path.Combine(Disk(node), "redis-server");
}
