// A raw redis-server in place of the proxy, to test the harness itself. With an append-only file synced before every
// reply it loses nothing, so every check must pass; with losses made on purpose the checks must find them.
using System.Net;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Chaos;

internal sealed class RawDeployment(Workspace workspace, bool appendOnly) : IDeployment
{
    /// <summary>kill -9 and restart from the append-only file.</summary>
    public static readonly Fault Kill = new("redis", LosesNothing: true);

    /// <summary>kill -9 and restart from an RDB taken earlier in the round.</summary>
    public static readonly Fault BackToSnapshot = new("redis-lossy", LosesNothing: false);

    private RedisProcess? _redis;

    public string Name => appendOnly ? "raw redis with appendfsync always" : "raw redis with an old RDB";

    public EndPoint Endpoint => Redis.Endpoint;

    public bool SpeaksDpr => false;

    public IReadOnlyList<Fault> Faults { get; init; } = appendOnly ? [Kill, Fault.None] : [BackToSnapshot];

    /// <summary>Run on the restarted server before clients come back: makes wrong states for the checker to find.</summary>
    public Func<RespClient, Task>? Spoil { get; init; }

    public RedisProcess Redis => _redis ?? throw new InvalidOperationException("not started");

    public async Task StartAsync() => _redis = await RedisProcess.StartAsync(workspace.Folder("raw"),
        appendOnly ? ["--appendonly", "yes", "--appendfsync", "always", "--auto-aof-rewrite-percentage", "0"] : []);

    public async Task InjectAsync(Fault fault, Random random)
    {
        if (fault.Name == BackToSnapshot.Name)
        {
            using var client = await Redis.ConnectAsync();
            await client.DoAsync("SAVE");
            await Task.Delay(random.Next(100, 300));
        }

        Redis.KillHard();
    }

    public async Task RecoverAsync()
    {
        await Redis.RestartAsync();
        if (Spoil is { } spoil)
        {
            using var client = await Redis.ConnectAsync();
            await spoil(client);
        }
    }

    public Task<IReadOnlyList<Violation>?> CheckReplayAsync() => Task.FromResult<IReadOnlyList<Violation>?>(null);

    public string Tail() => Redis.Tail();

    public ValueTask DisposeAsync()
    {
        _redis?.Dispose();
        return ValueTask.CompletedTask;
    }
}
