// A shard of the past's suites, with the redis-server that it runs.
using Slogger.Bench.Cases;
using Slogger.Bench.Host;
using Slogger.Bench.Load;

namespace Slogger.Bench.Past;

/// <summary>Starts it, and ends it with its store.</summary>
internal sealed class PastShard : IDisposable
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(5), s_patience = TimeSpan.FromSeconds(30);

    private readonly CaseFleet _fleet;
    private readonly string _name, _directory, _options;
    private ManagedProcess _proxy;
    private int _store;

    /// <param name="fleet">Where it runs.</param>
    /// <param name="name">Its name.</param>
    /// <param name="directory">Of the suite.</param>
    /// <param name="options">Options of `slogger serve`, besides those that all of them get.</param>
    public PastShard(CaseFleet fleet, string name, string directory, string options)
    {
        (_fleet, _name, _directory, _options) = (fleet, name, Path.Combine(directory, name), options);
        Port = fleet.NextPort();
        _proxy = Start();
    }

    public int Port { get; }

    /// <summary>CPU that proxy and store have used, in seconds.</summary>
    public double CpuSeconds => ProcFs.CpuSeconds(_proxy.Pid) + ProcFs.CpuSeconds(_store);

    /// <summary>Its version log.</summary>
    public string LogDirectory => Path.Combine(_directory, "data", "log");

    public RespClient Connect() => new(Port, s_limit);

    /// <summary>Another process of the proxy, which knows nothing yet; the store goes on.</summary>
    public void Restart()
    {
        _proxy.Stop(s_patience);
        _proxy = Start();
    }

    public void Dispose()
    {
        _proxy.Stop(s_patience);
        if (_store == 0) { return; }
        _ = Native.Kill(_store, Native.SigKill);
        ProcessRegistry.Disown(_store);
    }

    private ManagedProcess Start()
    {
        Directory.CreateDirectory(_directory);
        ManagedProcess proxy = _fleet.LaunchProcess(_name, _fleet.SloggerCommand(
            $"--commit log --metadata sqlite:{Path.Combine(_directory, "metadata.db")} {_options}", Port, "--redis-server redis-server",
            Path.Combine(_directory, "data")));
        CaseFleet.WaitUntilUp(proxy, Port, "PING\r\n", s_limit);
        using RespClient client = Connect();
        _store = client.ServerProcess();
        ProcessRegistry.Adopt(_store);
        return proxy;
    }
}
