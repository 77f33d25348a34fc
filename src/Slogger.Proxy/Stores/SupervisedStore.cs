// A Redis that the proxy runs: started, adopted after the proxy's own death, started again after its. It survives a proxy
// that is killed, and is stopped by one that ends in order.
using Slogger.Proxy.Cluster;
using Slogger.Proxy.Configuration;
using Slogger.Redis.Connections;
using Slogger.Redis.Supervision;

namespace Slogger.Proxy.Stores;

internal sealed class SupervisedStore : IRedisStore
{
    /// <summary>Its directory, in the data directory.</summary>
    public const string Folder = "redis";

    /// <summary>Replication backlog of a supervised Redis.</summary>
    public const long BacklogBytes = 16L << 20;

    private readonly RedisSupervisor _supervisor;
    private readonly ILogger _log;
    private bool _ranBefore;

    public SupervisedStore(ServeOptions options, ILogger log)
    {
        _log = log;
        _supervisor = new RedisSupervisor(ServerIn(Folder, options));
    }

    /// <summary>How a redis-server is run by the process's options.</summary>
    /// <param name="folder">Its directory, in the data directory.</param>
    /// <param name="options">The options.</param>
    /// <param name="further">Lines of configuration that win over those.</param>
    public static RedisSupervisorOptions ServerIn(string folder, ServeOptions options, params IReadOnlyList<string> further)
    {
        var lines = new List<string>();
        if (options.RedisConfigFile is { } file) { lines.Add($"include \"{file}\""); }
        lines.AddRange(options.RedisDirectives);
        lines.AddRange(further);
        return new()
        {
            Directory = Path.Combine(options.DataDirectory, folder),
            Executable = options.RedisServerPath!,
            BacklogBytes = BacklogBytes,
            ExtraLines = lines,
            Password = StoreEndpoint.PasswordIn(options.RedisPasswordFile),
            User = options.RedisUser,
        };
    }

    public bool IsSupervised => true;

    public RedisEndpoint Endpoint => _supervisor.Endpoint;

    public string Name => "the supervised Redis";

    public bool HasEnded => _supervisor.HasEnded;

    public bool IsEnding => _supervisor.IsEnding;

    public async Task EnsureRunningAsync(CancellationToken stop)
    {
        var pause = TimeSpan.FromMilliseconds(100);
        while (true)
        {
            switch (await _supervisor.StartOrAdoptAsync(stop).ConfigureAwait(false))
            {
                case SupervisedStart.Started started:
                    _log.Info($"redis-server started, process {started.ProcessId}");
                    _ranBefore = true;
                    return;
                case SupervisedStart.Adopted adopted:
                    if (!_ranBefore) { _log.Info($"redis-server adopted, process {adopted.ProcessId}"); }
                    if (adopted.SettingsDiffer && !_ranBefore)
                    {
                        _log.Warn("the running redis-server was started with other settings; the new ones take effect at its next start");
                    }
                    _ranBefore = true;
                    return;
                case SupervisedStart.Failed failed when !_ranBefore:
                    throw new RecoveryRefusedException(failed.Message);
                case SupervisedStart.Failed failed:
                    _log.Error($"redis-server does not start: {failed.Message}");
                    await Task.Delay(pause, stop).ConfigureAwait(false);
                    if (pause < TimeSpan.FromSeconds(5)) { pause *= 2; }
                    break;
            }
        }
    }

    public async Task EndAsync(bool isKept)
    {
        if (isKept)
        {
            // It only stops watching the process, which takes a moment that nobody need wait for.
            _ = _supervisor.DisposeAsync().AsTask();
            return;
        }
        await _supervisor.StopAsync().ConfigureAwait(false);
        await _supervisor.DisposeAsync().ConfigureAwait(false);
    }
}
