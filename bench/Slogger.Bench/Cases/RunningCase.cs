// A contestant that is up: where to send load, and whose CPU and memory count.
using Slogger.Bench.Host;

namespace Slogger.Bench.Cases;

/// <param name="Proxy">What stands in front of Redis or beside it (the drain); null for Redis alone.</param>
/// <param name="DataDirectory">Of the proxy; empty when it has none.</param>
internal sealed record RunningCase(
    CaseSpec Spec, int Port, int RedisPort, ManagedProcess Redis, ManagedProcess? Proxy, string DataDirectory)
{
    public string Name => Spec.Name;

    /// <summary>Lets this contestant run.</summary>
    public void Thaw()
    {
        Redis.Thaw();
        Proxy?.Thaw();
    }

    public void Freeze()
    {
        // The proxy first: it shall not see its Redis go silent.
        Proxy?.Freeze();
        Redis.Freeze();
    }

    /// <summary>Why it is of no use any more, or null.</summary>
    public string? Failure =>
        Proxy is { HasExited: true } p ? $"{p.Name} has ended:\n{p.LogTail()}"
        : Redis.HasExited ? $"{Redis.Name} has ended:\n{Redis.LogTail()}" : null;
}
