// The product under test: `slogger serve` over a Redis that it runs itself (supervised) or that the test runs (attached),
// with its metadata in SQLite or PostgreSQL. Everything lives in one workspace and is killed by process id.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Checking;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Chaos;

/// <param name="Attached">The test runs Redis, and restarts it empty after a kill; else the proxy runs it.</param>
/// <param name="Postgres">Metadata in a PostgreSQL of the test's own; else in SQLite in the data directory.</param>
/// <param name="VersionInterval">As for --version-interval.</param>
internal sealed record ProxySetup(bool Attached = false, bool Postgres = false, string VersionInterval = "5ms")
{
    /// <summary>As for --commit.</summary>
    public string Commit { get; init; } = "log";

    /// <summary>How many further directories the log has, in the workspace.</summary>
    public int LogDirectories { get; init; }

    /// <summary>Further options of serve.</summary>
    public IReadOnlyList<string> Options { get; init; } = [];

    /// <summary>Environment of the proxy (and of a supervised Redis).</summary>
    public IReadOnlyDictionary<string, string> Environment { get; init; } = new Dictionary<string, string>();

    /// <summary>Where the data directory is; default: in the workspace.</summary>
    public string? DataDirectory { get; init; }

    /// <summary>Password of Redis, which the proxy reads from a file (and gives to one that it runs); default: none.</summary>
    public string? RedisPassword { get; init; }

    /// <summary>Further options of an attached Redis.</summary>
    public IReadOnlyList<string> RedisOptions { get; init; } = [];

    /// <summary>A Unix socket on which an attached Redis listens, too, and over which the proxy reaches it; default: none.</summary>
    public string? RedisSocket { get; init; }

    /// <summary>The proxy's own password at Redis, if it is not <see cref="RedisPassword"/>.</summary>
    public string? ProxyPassword { get; init; }
}

internal sealed partial class ProxyDeployment : IDeployment
{
    private static readonly TimeSpan RecoveryLimit = TimeSpan.FromSeconds(60);

    private readonly Workspace _workspace;
    private readonly ProxySetup _setup;
    private readonly int _port = Workspace.FreePort();
    private ProxyProcess? _proxy;
    private RedisProcess? _redis;
    private PostgresProcess? _postgres;
    private int _copies;

    public ProxyDeployment(Workspace workspace, ProxySetup setup)
    {
        _workspace = workspace;
        _setup = setup;
        DataDirectory = setup.DataDirectory ?? workspace.File("data");
    }

    public static IReadOnlyList<Fault> AllFaults { get; } =
    [
        new("redis", NewWorldLine: true), new("proxy", LosesNothing: true, EndsProxy: true),
            new("both", NewWorldLine: true, EndsProxy: true, KillsAgain: true),
        new("redis-twice", NewWorldLine: true, KillsAgain: true), new("redis-then-proxy", NewWorldLine: true, EndsProxy: true),
            new("sigterm", LosesNothing: true, EndsProxy: true), Fault.None,
    ];

    public string Name => $"slogger, {(_setup.Attached ? "attached" : "supervised")} redis, {(_setup.Postgres ? "postgres" : "sqlite")}, "
        + $"{_setup.VersionInterval}";

    public EndPoint Endpoint => new IPEndPoint(IPAddress.Loopback, _port);

    public int Port => _port;

    public bool SpeaksDpr => true;

    public IReadOnlyList<Fault> Faults { get; init; } = AllFaults;

    public string DataDirectory { get; }

    public ProxyProcess Proxy => _proxy ?? throw new InvalidOperationException("not started");

    /// <summary>Whether the test runs Redis.</summary>
    public bool IsAttached => _setup.Attached;

    /// <summary>The Redis of an attached deployment.</summary>
    public RedisProcess Redis => _redis ?? throw new InvalidOperationException("this deployment has no Redis of the test's");

    public PostgresProcess Postgres => _postgres ?? throw new InvalidOperationException("this deployment has no PostgreSQL");

    /// <summary>The options of serve, less --listen.</summary>
    public IReadOnlyList<string> ServeOptions =>
    [
        .. _setup.Attached
            ? (string[])["--redis", _setup.RedisSocket is { } socket ? "unix:" + socket
            : string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{Redis.Port}")]
            : ["--redis-server", RedisProcess.Executable, "--redis-directive", "enable-debug-command yes"],
        .. (_setup.ProxyPassword ?? _setup.RedisPassword) is null ? (string[])[] : ["--redis-password-file", _workspace.File("password")],
        "--data", DataDirectory, "--metadata", MetadataSpec, "--commit", _setup.Commit, "--version-interval", _setup.VersionInterval,
        .. _setup.LogDirectories == 0 ? (string[])[] : ["--log-dirs", string.Join(',', LogDirectories)],
        .. _setup.Options,
    ];

    /// <summary>The further directories of the log.</summary>
    public IReadOnlyList<string> LogDirectories => [.. Enumerable.Range(1, _setup.LogDirectories).Select(i => LogDirectory(i))];

    /// <summary>A directory in the workspace that may be one of those.</summary>
    public string LogDirectory(int number) => _workspace.File(string.Create(CultureInfo.InvariantCulture, $"log{number}"));

    private string MetadataSpec => _setup.Postgres ? "postgres:" + Postgres.ConnectionString
        : "sqlite:" + Path.Combine(DataDirectory, "metadata.db");

    public async Task StartAsync()
    {
        Directory.CreateDirectory(DataDirectory);
        await File.WriteAllTextAsync(_workspace.File("password"), (_setup.ProxyPassword ?? _setup.RedisPassword) + "\n");
        if (_setup.Postgres)
        {
            _postgres = await PostgresProcess.StartAsync(_workspace);
        }

        if (_setup.Attached)
        {
            string[] password = _setup.RedisPassword is { } secret ? ["--requirepass", secret] : [];
            string[] socket = _setup.RedisSocket is { } path ? ["--unixsocket", path] : [];
            _redis = await RedisProcess.StartAsync(_workspace.Folder("redis"), [.. password, .. socket, .. _setup.RedisOptions]);
        }

        await StartProxyAsync();
    }

    /// <param name="environment">In place of that of the setup.</param>
    public async Task StartProxyAsync(IReadOnlyDictionary<string, string>? environment = null)
    {
        _proxy?.Dispose();
        _proxy = await ProxyProcess.StartAsync(_port, ServeOptions, environment ?? _setup.Environment);
    }

    public Task<RespClient> ConnectAsync() => RespClient.ConnectAsync(Endpoint);

    public async Task KillRedisAsync()
    {
        if (_setup.Attached)
        {
            Redis.KillHard();
        }
        else if (!await SupervisedRedis.KillAsync(DataDirectory))
        {
            throw new InvalidOperationException("no supervised redis-server found to kill\n" + Tail());
        }
    }

    public async Task InjectAsync(Fault fault, Random random)
    {
        switch (fault.Name)
        {
            case "redis":
                await KillRedisAsync();
                break;
            case "proxy":
                Proxy.KillHard();
                break;
            case "both" when random.Next(2) == 0:
                await KillRedisAsync();
                Proxy.KillHard();
                await KillAdoptedAsync();
                break;
            case "both":
                Proxy.KillHard();
                await Task.Delay(random.Next(30));
                await KillRedisAsync();
                break;
            case "redis-twice":
                await KillRedisAsync();
                await Task.Delay(random.Next(400));
                await AttachedRestartAsync(random.Next(300));
                await KillAdoptedAsync();
                break;
            case "redis-then-proxy":
                await KillRedisAsync();
                await AttachedRestartAsync(random.Next(300));
                await Task.Delay(random.Next(300));
                Proxy.KillHard();
                break;
            case "sigterm":
                int exitCode = await Proxy.TerminateAsync();
                if (exitCode != 0)
                {
                    throw new InvalidOperationException($"exit code {exitCode} after SIGTERM\n" + Tail());
                }

                break;
            default:
                throw new ArgumentException($"no fault {fault.Name}", nameof(fault));
        }
    }

    public async Task RecoverAsync()
    {
        if (_setup.Attached && !await AnswersAsync(Redis.Endpoint, "PING"))
        {
            await Redis.RestartAsync();
        }

        if (Proxy.HasExited)
        {
            await StartProxyAsync();
        }

        await Eventually.AsyncTrue("the proxy serves again\n" + Proxy.Tail(), RecoveryLimit, () => AnswersAsync(Endpoint, "DBSIZE"));
    }

    public string Tail()
    {
        string redisLog = Path.Combine(DataDirectory, "redis", "redis.log");
        string log = File.Exists(redisLog) ? "--- supervised redis ---\n" + string.Join('\n', File.ReadLines(redisLog).TakeLast(60)) : "";
        return string.Join('\n', _proxy?.Tail(), _redis?.Tail(), _postgres?.Tail(), log);
    }

    public async ValueTask DisposeAsync()
    {
        _proxy?.Dispose();
        if (!_setup.Attached)
        {
            await SupervisedRedis.KillAsync(DataDirectory);
            await SupervisedRedis.KillScratchAsync(DataDirectory);
        }

        _redis?.Dispose();
        _postgres?.Dispose();
    }

    private async Task KillAdoptedAsync()
    {
        // Whatever runs now: the proxy may or may not have started the next one.
        if (_setup.Attached)
        {
            Redis.KillHard();
        }
        else
        {
            await SupervisedRedis.KillAsync(DataDirectory);
        }
    }

    private async Task AttachedRestartAsync(int waitMs)
    {
        if (_setup.Attached)
        {
            await Redis.RestartAsync();
            await Task.Delay(waitMs);
        }
    }

    private async Task<bool> AnswersAsync(EndPoint endpoint, string command)
    {
        try
        {
            using var client = await RespClient.ConnectAsync(endpoint);
            if (_setup.RedisPassword is { } password) { await client.CallAsync("AUTH", password); }
            await client.SendAsync(command);
            return !(await client.ReadAsync(TimeSpan.FromSeconds(5))).IsError;
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            return false;
        }
    }
}
