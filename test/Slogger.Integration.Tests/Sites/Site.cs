// One site: its processes, each with a Redis that it runs, and SQL of its own. Killed by process id.
using System.Globalization;
using System.Net;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

internal sealed class Site(Workspace workspace, string name, int shards, bool usesPostgres) : IAsyncDisposable
{
    private readonly int[] _clientPorts = [.. Enumerable.Range(0, shards).Select(_ => Workspace.FreePort())];
    private readonly int[] _sitePorts = [.. Enumerable.Range(0, shards).Select(_ => Workspace.FreePort())];
    private readonly ProxyProcess?[] _processes = new ProxyProcess?[shards];
    private PostgresProcess? _postgres;
    private int _generation;

    public string Name => name;

    public int Shards => shards;

    /// <summary>Where a shard's process listens for the other site, once it has been told where that is.</summary>
    public EndPoint SiteEndpoint(int shard) => new IPEndPoint(IPAddress.Loopback, _sitePorts[shard]);

    /// <summary>Where its shards ship to.</summary>
    public IReadOnlyList<WideLink> Links { get; set; } = [];

    /// <summary>Further options of all processes.</summary>
    public IReadOnlyList<string> Options { get; set; } = [];

    /// <summary>Whether it runs its processes as a backup's: also after it has taken over.</summary>
    public bool IsBackup { get; set; }

    public EndPoint Endpoint(int shard) => new IPEndPoint(IPAddress.Loopback, _clientPorts[shard]);

    public Task<RespClient> ConnectAsync(int shard) => RespClient.ConnectAsync(Endpoint(shard));

    public string Metadata => _postgres is { } postgres ? "postgres:" + postgres.ConnectionString : "sqlite:" + workspace.File(name + ".db");

    public PostgresProcess? Postgres => _postgres;

    public int Port(int shard) => _clientPorts[shard];

    /// <summary>The shard of a key.</summary>
    public int ShardOf(string key) => SlotMap.Even(shards, HashSlot.Count).Owner(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(key))).Number;

    /// <summary>A key of a shard.</summary>
    public string Key(int shard, string text)
    {
        SlotMap map = SlotMap.Even(shards, HashSlot.Count);
        for (int i = 0; ; i++)
        {
            string key = string.Create(CultureInfo.InvariantCulture, $"{{{text}:{i}}}");
            if (map.Owner(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(key))).Number == shard) { return key; }
        }
    }

    public async Task StartSqlAsync()
    {
        if (usesPostgres) { _postgres = await PostgresProcess.StartAsync(workspace, name); }
    }

    public async Task StartAsync()
    {
        // Of a backup all at once: those of the others wait for that of shard 0.
        if (IsBackup)
        {
            await Task.WhenAll(Enumerable.Range(0, shards).Select(StartAsync));
            return;
        }
        for (int i = 0; i < shards; i++) { await StartAsync(i); }
    }

    public async Task StartAsync(int shard)
    {
        _processes[shard]?.Dispose();
        _processes[shard] = await ProxyProcess.StartAsync(_clientPorts[shard], OptionsOf(shard), command: IsBackup ? "backup" : "serve");
    }

    public void Launch(int shard)
    {
        _processes[shard]?.Dispose();
        _processes[shard] = ProxyProcess.Launch(_clientPorts[shard], OptionsOf(shard), command: IsBackup ? "backup" : "serve");
    }

    public string[] OptionsOf(int shard) =>
    [
        "--redis-server", RedisProcess.Executable, "--data", Data(shard), "--metadata", Metadata, "--shards", Text(shards), "--shard", Text(shard),
        "--site-listen", $"127.0.0.1:{_sitePorts[shard]}", "--backup", $"127.0.0.1:{Links[shard].Port}", .. Options,
    ];

    /// <summary>Runs a command of the site.</summary>
    public Task<(int ExitCode, string Output)> CommandAsync(string command, params string[] arguments) =>
        ProxyProcess.CommandAsync([command, "--metadata", Metadata, .. arguments]);

    public void KillProxy(int shard) => _processes[shard]?.KillHard();

    public Task KillRedisAsync(int shard) => SupervisedRedis.KillAsync(Data(shard));

    public bool IsDown(int shard) => _processes[shard] is not { HasExited: false };

    public Task<int?> ExitAsync(int shard, TimeSpan limit) => _processes[shard]!.ExitAsync(limit);

    public string Tail(int shard) => _processes[shard]?.Tail() ?? "";

    public int ProcessId(int shard) => _processes[shard]!.Id;

    /// <summary>The whole site at once.</summary>
    public async Task KillAsync()
    {
        for (int i = 0; i < shards; i++) { KillProxy(i); }
        for (int i = 0; i < shards; i++) { await KillRedisAsync(i); }
    }

    /// <summary>What the machines of a site have on their disks is gone: it begins anew with empty ones.</summary>
    public void LoseDisks() => _generation++;

    /// <summary>A line of DPR.INFO; null without it.</summary>
    public async Task<string?> InfoAsync(int shard, string field)
    {
        using RespClient client = await ConnectAsync(shard);
        string info = (await client.DoAsync("DPR.INFO")).Text;
        return info.Split("\r\n").FirstOrDefault(l => l.StartsWith(field + ":", StringComparison.Ordinal))?[(field.Length + 1)..];
    }

    /// <summary>Waits until every shard takes writes.</summary>
    public Task ServingAsync(TimeSpan limit) => Eventually.AsyncTrue($"all shards of site {name} serve", limit, async () =>
    {
        for (int i = 0; i < shards; i++)
        {
            if (IsDown(i)) { throw new InvalidOperationException($"the process of shard {i} of site {name} has ended by itself\n{Tail()}"); }
            try
            {
                using RespClient client = await ConnectAsync(i);
                if ((await client.CallAsync("SET", Key(i, "serving"), "1")).Compact != "+OK") { return false; }
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        }
        return true;
    });

    public string Tail() => string.Join('\n', [.. _processes.Select(p => p?.Tail()), _postgres?.Tail()]);

    public string Data(int shard) => workspace.Folder(string.Create(CultureInfo.InvariantCulture, $"{name}-{_generation}-{shard}"));

    public async ValueTask DisposeAsync()
    {
        for (int i = 0; i < shards; i++)
        {
            _processes[i]?.Dispose();
            await KillRedisAsync(i);
        }
        _postgres?.Dispose();
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
