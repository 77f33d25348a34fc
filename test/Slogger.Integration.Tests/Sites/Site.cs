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

    /// <summary>Which of these are a shard's; without it, that of its number.</summary>
    public IReadOnlyList<int[]>? LinksOf { get; set; }

    /// <summary>How many shards the other site has, if that is another number.</summary>
    public int? OtherShards { get; set; }

    /// <summary>Further options of all processes.</summary>
    public IReadOnlyList<string> Options { get; set; } = [];

    /// <summary>Further options of a shard's process.</summary>
    public Func<int, IReadOnlyList<string>> OptionsOfOne { get; set; } = static _ => [];

    /// <summary>Environment of the processes that are started from now on.</summary>
    public IReadOnlyDictionary<string, string>? Environment { get; set; }

    /// <summary>Whether its stores are embedded: then it has no backup.</summary>
    public bool IsEmbedded { get; init; }

    /// <summary>How clients push numbers.</summary>
    public SiteLists Lists { get; init; } = new(AsText: false);

    /// <summary>Whether its processes rehearse a failover while they are a backup's.</summary>
    public bool Rehearses { get; set; }

    /// <summary>Whether it runs its processes as a backup's: also after it has taken over.</summary>
    public bool IsBackup { get; set; }

    public EndPoint Endpoint(int shard) => new IPEndPoint(IPAddress.Loopback, _clientPorts[shard]);

    public Task<RespClient> ConnectAsync(int shard) => RespClient.ConnectAsync(Endpoint(shard));

    public string Metadata => _postgres is { } postgres ? "postgres:" + postgres.ConnectionString
        : "sqlite:" + workspace.File(name + ".db");

    public PostgresProcess? Postgres => _postgres;

    public int Port(int shard) => _clientPorts[shard];

    /// <summary>The shard of a key.</summary>
    public int ShardOf(string key) => SlotMap.Even(shards, HashSlot.Count)
        .Owner(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(key))).Number;

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
        _processes[shard] = await ProxyProcess.StartAsync(
            _clientPorts[shard], OptionsOf(shard), Environment, command: IsBackup ? "backup" : "serve");
    }

    public void Launch(int shard)
    {
        _processes[shard]?.Dispose();
        _processes[shard] = ProxyProcess.Launch(_clientPorts[shard], OptionsOf(shard), Environment, command: IsBackup ? "backup" : "serve");
    }

    public string[] OptionsOf(int shard) =>
    [
        .. IsEmbedded ? (string[])["--commit", "faster", "--faster-memory", "64mb", "--faster-page", "4mb"]
            : ["--redis-server", RedisProcess.Executable, "--backup",
            string.Join(',', (LinksOf?[shard] ?? [shard]).Select(l => $"127.0.0.1:{Links[l].Port}"))],
        "--data", Data(shard), "--metadata", Metadata, "--shards", Text(shards), "--shard", Text(shard), "--site-listen",
            $"127.0.0.1:{_sitePorts[shard]}",
        .. IsBackup && OtherShards is { } others ? (string[])["--primary-shards", Text(others)] : [],
        .. IsBackup ? ["--failover-rehearsal", Rehearses ? "on" : "off"] : (string[])[], .. Options, .. OptionsOfOne(shard),
    ];

    /// <summary>Runs a command of the site.</summary>
    public Task<(int ExitCode, string Output)> CommandAsync(string command, params string[] arguments) =>
        ProxyProcess.CommandAsync([command, "--metadata", Metadata, .. arguments]);

    public Task<int> TerminateAsync(int shard) => _processes[shard]!.TerminateAsync();

    public void KillProxy(int shard) => _processes[shard]?.KillHard();

    /// <summary>Also those of a rehearsal that is under way: nobody else would end them.</summary>
    public async Task KillRedisAsync(int shard)
    {
        await SupervisedRedis.KillAsync(Data(shard));
        foreach (string data in InRehearsal(shard)) { await SupervisedRedis.KillAsync(data); }
    }

    /// <summary>The data of the sites in small with which a backup's process rehearses a failover; none: it does not.</summary>
    public IReadOnlyList<string> InRehearsal(int shard)
    {
        try
        {
            return Directory.GetDirectories(Rehearsal(shard));
        }
        catch (IOException)
        {
            return [];
        }
    }

    /// <summary>Where it does that.</summary>
    public string Rehearsal(int shard) => Path.Combine(Data(shard), "rehearsal");

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

    /// <summary>Waits until a shard may not tell commits any more.</summary>
    public Task LeaseOverAsync(int shard, TimeSpan limit) => Eventually.AsyncTrue("the lease has run out", limit, async () =>
    {
        try
        {
            return await InfoAsync(shard, "site_lease") == "expired";
        }
        catch (ConnectionLostException)
        {
            // It ran out between the question and the answer, which says what is committed.
            return false;
        }
    });

    /// <summary>Waits until every shard takes writes.</summary>
    public Task ServingAsync(TimeSpan limit) => Eventually.AsyncTrue($"all shards of site {name} serve", limit, async () =>
    {
        for (int i = 0; i < shards; i++)
        {
            if (IsDown(i))
            {
                throw new InvalidOperationException($"the process of shard {i} of site {name} has ended by itself\n{Tail()}");
            }
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
            await SupervisedRedis.KillScratchAsync(Data(i));
        }
        _postgres?.Dispose();
    }

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
