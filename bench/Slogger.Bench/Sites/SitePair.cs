// Two sites of the suites: primaries that ship over links with a delay, and their backups, each over a Redis that it runs, each site with a
// PostgreSQL of its own.
using System.Globalization;
using System.Net;
using Slogger.Bench.Cases;
using Slogger.Bench.Finders;
using Slogger.Bench.Host;
using Slogger.Bench.Load;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Processes;

namespace Slogger.Bench.Sites;

internal sealed class SitePair : IDisposable
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);
    private static int s_pairs;

    private readonly BenchOptions _options;
    private readonly CaseFleet _fleet;
    private readonly string _directory;
    private readonly string _cluster = string.Create(CultureInfo.InvariantCulture,
        $"pair{Environment.ProcessId}-{Interlocked.Increment(ref s_pairs)}");
    private readonly (string Primary, string Backup) _metadata;
    private readonly string _arguments, _shipping;
    private readonly int[] _primaryPorts, _backupPorts, _primarySitePorts, _sitePorts;
    private readonly ManagedProcess?[] _primaries, _backups;
    private readonly WideLink[] _links;
    private readonly HashSet<int> _stores = [];

    /// <summary>Starts both, and returns when the backup follows.</summary>
    /// <param name="options">Of the bench.</param>
    /// <param name="fleet">Starts processes.</param>
    /// <param name="directory">For data.</param>
    /// <param name="metadata">SQL of the two sites.</param>
    /// <param name="shards">How many.</param>
    /// <param name="oneWay">What the links take.</param>
    /// <param name="arguments">Further options of all processes.</param>
    /// <param name="shipping">And of the primary's.</param>
    public SitePair(BenchOptions options, CaseFleet fleet, string directory, (string Primary, string Backup) metadata, int shards,
        TimeSpan oneWay, string arguments, string shipping = "")
    {
        (_options, _fleet, _metadata, _arguments, _shipping) = (options, fleet, metadata, arguments, shipping);
        _directory = Path.Combine(directory, _cluster);
        Directory.CreateDirectory(_directory);
        int[] Ports() => [.. Enumerable.Range(0, shards).Select(_ => fleet.NextPort())];
        (_primaryPorts, _backupPorts, _primarySitePorts, _sitePorts) = (Ports(), Ports(), Ports(), Ports());
        (_primaries, _backups) = (new ManagedProcess?[shards], new ManagedProcess?[shards]);
        _links = [.. _sitePorts.Select(p => new WideLink(new IPEndPoint(IPAddress.Loopback, p), oneWay))];
        for (int s = 0; s < shards; s++) { LaunchBackup(s); }
        for (int s = 0; s < shards; s++) { LaunchPrimary(s); }
        for (int s = 0; s < shards; s++) { WaitForPrimary(s); }
        Following();
    }

    public int Shards => _links.Length;

    public IReadOnlyList<WideLink> Links => _links;

    public int PrimaryPort(int shard) => _primaryPorts[shard];

    public int BackupPort(int shard) => _backupPorts[shard];

    /// <summary>Where the backup's processes listen for the other site, and for each other.</summary>
    public int SitePort(int shard) => _sitePorts[shard];

    public ManagedProcess Primary(int shard) => _primaries[shard]!;

    public ManagedProcess Backup(int shard) => _backups[shard]!;

    /// <summary>A key of a shard.</summary>
    public string Key(int shard, string text)
    {
        SlotMap map = SlotMap.Even(Shards, HashSlot.Count);
        for (int i = 0; ; i++)
        {
            string key = string.Create(CultureInfo.InvariantCulture, $"{{{text}:{i}}}");
            if (map.Owner(HashSlot.Of(System.Text.Encoding.ASCII.GetBytes(key))).Number == shard) { return key; }
        }
    }

    public void LaunchPrimary(int shard) =>
        _primaries[shard] = _fleet.LaunchProcess($"{_cluster}-primary{shard}",
            Command("serve", shard, _primaryPorts[shard], _metadata.Primary, "primary", _primarySitePorts[shard],
                $"--backup 127.0.0.1:{_links[shard].Port} {_shipping}"));

    public void LaunchBackup(int shard) =>
        _backups[shard] = _fleet.LaunchProcess($"{_cluster}-backup{shard}",
            Command("backup", shard, _backupPorts[shard], _metadata.Backup, "backup", _sitePorts[shard], ""));

    public void WaitForPrimary(int shard) => CaseFleet.WaitUntilUp(Primary(shard), _primaryPorts[shard], "PING\r\n", s_limit);

    public void WaitForBackup(int shard) => CaseFleet.WaitUntilUp(Backup(shard), _backupPorts[shard], "PING\r\n", s_limit);

    /// <summary>Returns when every stream counts, and what is written now is held by the backup.</summary>
    public void Following()
    {
        for (int s = 0; s < Shards; s++)
        {
            WaitForBackup(s);
            DateTime end = DateTime.UtcNow + s_limit;
            using var client = new RespClient(_primaryPorts[s], s_limit);
            client.Expect("SET", Key(s, "following"), "1");
            while (client.Call("DPR.WAIT", "*", "1000", "BACKUP") is not object?[] { Length: 3 } held || held[2] is not 1L)
            {
                if (DateTime.UtcNow > end || Backup(s).HasExited || Primary(s).HasExited)
                {
                    throw new BenchException($"the backup of shard {s} does not follow:\n{Backup(s).LogTail()}\n{Primary(s).LogTail()}");
                }
            }
            _stores.Add(ServerOf(_primaryPorts[s]));
            _stores.Add(ServerOf(_backupPorts[s]));
        }
    }

    /// <summary>Returns when no process of the backup is about to rehearse a failover.</summary>
    public void Rehearsed()
    {
        for (int s = 0; s < Shards; s++)
        {
            DateTime end = DateTime.UtcNow + s_limit;
            using var client = new RespClient(_backupPorts[s], s_limit);
            while (client.Text("DPR.INFO") is var info
                && (info.Contains("failover_rehearsal:due", StringComparison.Ordinal)
                || info.Contains("failover_rehearsal:under way", StringComparison.Ordinal)))
            {
                if (DateTime.UtcNow > end)
                {
                    throw new BenchException(
                        $"the backup's process of shard {s} does not come to rehearsing a failover:\n{Backup(s).LogTail()}");
                }
                Thread.Sleep(100);
            }
        }
    }

    /// <summary>Kills every process of the primary.</summary>
    public void LosePrimary()
    {
        foreach (ManagedProcess? primary in _primaries) { primary!.Kill(); }
    }

    /// <summary>Runs slogger failover, to its end; what it says.</summary>
    public string FailOver()
    {
        (string output, string errors, int exit) = ManagedProcess.Run(
            [.. _options.ProxyProgram, "failover", "--metadata", _metadata.Backup, "--cluster", _cluster, "--i-attest-the-primary-is-down"], null,
                s_limit);
        return exit == 0 ? output + errors : throw new BenchException($"slogger failover ended with {exit}:\n{output}{errors}");
    }

    public void Dispose()
    {
        foreach (WideLink link in _links) { link.Dispose(); }
        foreach (ManagedProcess? process in _primaries.Concat(_backups)) { process?.Stop(TimeSpan.FromSeconds(5)); }
        foreach (int pid in _stores)
        {
            _ = Native.Kill(pid, Native.SigKill);
            ProcessRegistry.Disown(pid);
        }
    }

    private static int ServerOf(int port)
    {
        using var client = new RespClient(port, s_limit);
        int pid = client.ServerProcess();
        ProcessRegistry.Adopt(pid);
        return pid;
    }

    private string[] Command(string command, int shard, int port, string metadata, string name, int sitePort, string more) =>
    [
        .. _options.ProxyProgram, command, "--listen", $"127.0.0.1:{port}", "--redis-server", "redis-server", "--data",
            Path.Combine(_directory, $"{name}{shard}"), "--metadata", metadata, "--cluster", _cluster,
        "--shards", Shards.ToString(CultureInfo.InvariantCulture), "--shard", shard.ToString(CultureInfo.InvariantCulture),
            "--site-listen", $"127.0.0.1:{sitePort}",
        .. more.Split(' ', StringSplitOptions.RemoveEmptyEntries), .. _arguments.Split(' ', StringSplitOptions.RemoveEmptyEntries),
        .. _options.ProxyArguments.Split(' ', StringSplitOptions.RemoveEmptyEntries),
    ];
}
