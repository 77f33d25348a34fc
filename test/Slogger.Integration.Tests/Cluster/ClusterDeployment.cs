// Several shards of one cluster: a proxy each over a Redis that it runs, or with a store of its own, with one metadata database for all, in
// SQLite or in a PostgreSQL of the test's own. Killed by process id.
using System.Globalization;
using System.Net;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Cluster;

internal sealed class ClusterDeployment(Workspace workspace, int shards, bool usesPostgres, int joiners = 0) : IAsyncDisposable
{
    private static readonly TimeSpan ServingLimit = TimeSpan.FromSeconds(60);

    private readonly int[] _ports = [.. Enumerable.Range(0, shards + joiners).Select(_ => Workspace.FreePort())];
    private readonly ProxyProcess?[] _proxies = new ProxyProcess?[shards + joiners];
    private readonly SemaphoreSlim[] _starts = [.. Enumerable.Range(0, shards + joiners).Select(_ => new SemaphoreSlim(1, 1))];
    private readonly int[] _rollbacksSeen = new int[shards + joiners];
    private readonly int[] _servingSeen = new int[shards + joiners];
    private readonly List<(bool IsInPlace, string Reason)> _rollbacks = [];
    private readonly List<(bool IsEmbedded, long Milliseconds, string Stages)> _serving = [];
    private PostgresProcess? _postgres;
    private int _joined;

    /// <summary>How many shards the cluster has now: those that it was made with, and those that have joined.</summary>
    public int Shards => shards + _joined;

    /// <summary>How many it was made with.</summary>
    public int MadeWith => shards;

    /// <summary>Environment variables of all proxies.</summary>
    public IReadOnlyDictionary<string, string> Environment { get; init; } = new Dictionary<string, string>();

    /// <summary>Further options of serve.</summary>
    public IReadOnlyList<string> Options { get; init; } = [];

    /// <summary>Further options of serve, where the store is a Redis.</summary>
    public IReadOnlyList<string> RedisOptions { get; init; } = [];

    /// <summary>Further options of serve, where the store is embedded.</summary>
    public IReadOnlyList<string> EmbeddedOptions { get; init; } = [];

    /// <summary>How many shards, the last ones that the cluster was made with, have an embedded store.</summary>
    public int Embedded { get; init; }

    /// <summary>How many shards, the first ones, an application hosts: they are not run from here.</summary>
    public int Hosted { get; init; }

    /// <summary>What runs the proxies, with its first arguments; null: the executable.</summary>
    public IReadOnlyList<string>? Program { get; init; }

    /// <summary>Whether a shard's store is embedded in its proxy.</summary>
    public bool IsEmbedded(int shard) => shard < Hosted || (shard < shards && shard >= shards - Embedded);

    /// <summary>How far the clock of each shard's proxy is ahead of that of the shard before: their machines' clocks differ.</summary>
    public TimeSpan ClockSkew { get; init; }

    /// <summary>Who finds the cut: with another than the approximate finder, only the order of sessions is kept.</summary>
    public string Finder { get; init; } = "approximate";

    /// <summary>How keys fall into partitions.</summary>
    public Partitioning Partitions { get; init; } = Partitioning.Hash;

    /// <summary>Ten ranges, for names that begin with a digit, with '!' or with a letter.</summary>
    public static Partitioning TenRanges { get; } = Partitioning.TryParse("range:1,2,3,4,5,6,7,8,9", out Partitioning ranges, out _)
        ? ranges : throw new InvalidOperationException();

    /// <summary>The options that name a shard's store; default a Redis that its proxy runs.</summary>
    public Func<int, string[]> Store { get; init; } = _ => ["--redis-server", RedisProcess.Executable];

    public PostgresProcess? Postgres => _postgres;

    public EndPoint Endpoint(int shard) => new IPEndPoint(IPAddress.Loopback, _ports[shard]);

    public Task<RespClient> ConnectAsync(int shard) => RespClient.ConnectAsync(Endpoint(shard));

    /// <summary>A key that belongs to a shard as long as nothing has moved.</summary>
    public string Key(int shard, string name)
    {
        SlotMap map = SlotMap.Even(shards, Partitions.Count);
        for (int i = Partitions.Kind == PartitionKind.Hash ? 0 : name.Sum(c => c); ; i++)
        {
            string key = Partitions.Kind == PartitionKind.Hash ? string.Create(CultureInfo.InvariantCulture, $"{name}:{i}")
                : KeyIn(i % Partitions.Count, name);
            if (map.Owner(SlotOf(key)).Number == shard) { return key; }
        }
    }

    /// <summary>A key of one of the ranges.</summary>
    public string KeyIn(int partition, string name) =>
        (partition == 0 ? "!" : System.Text.Encoding.ASCII.GetString(Partitions.SplitKeys[partition - 1].Span)) + name;

    /// <summary>The partition of a key.</summary>
    public HashSlot SlotOf(string key) => Partitions.Of(System.Text.Encoding.ASCII.GetBytes(key));

    public async Task StartAsync()
    {
        if (usesPostgres) { _postgres = await PostgresProcess.StartAsync(workspace); }
        for (int i = Hosted; i < shards; i++) { await StartProxyAsync(i); }
    }

    /// <summary>Has the next shard join.</summary>
    public async Task JoinAsync(IReadOnlyDictionary<string, string>? environment = null)
    {
        await StartProxyAsync(Shards, environment);
        _joined++;
    }

    /// <summary>Starts the next shard's proxy, which dies at a place on its way into the cluster.</summary>
    public async Task JoinUpToAsync(string failpoint)
    {
        try
        {
            await StartProxyAsync(Shards, new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = failpoint });
            Assert.NotNull(await ExitAsync(Shards, ServingLimit));
        }
        catch (InvalidOperationException)
        {
            // It did not come to be ready.
        }
    }

    /// <summary>Has the last shard leave: runs slogger leave.</summary>
    public async Task<(int ExitCode, string Output)> LeaveAsync()
    {
        (int ExitCode, string Output) left = await ProxyProcess.CommandAsync("leave", "--metadata", Metadata, "--shard", Text(Shards - 1));
        if (left.ExitCode == 0) { _joined--; }
        return left;
    }

    /// <summary>Runs slogger interval.</summary>
    public Task<(int ExitCode, string Output)> ChangeIntervalAsync(string to) =>
        ProxyProcess.CommandAsync("interval", "--to", to, "--metadata", Metadata);

    /// <summary>The metadata, as the options name it.</summary>
    public string Metadata => _postgres is { } postgres ? "postgres:" + postgres.ConnectionString
        : "sqlite:" + workspace.File("metadata.db");

    /// <summary>Port of a shard's proxy.</summary>
    public int Port(int shard) => _ports[shard];

    /// <summary>The shard whose proxy has a port; -1: none.</summary>
    public int ShardAt(int port) => Array.IndexOf(_ports, port);

    /// <summary>Runs slogger move.</summary>
    public Task<(int ExitCode, string Output)> MoveAsync(params string[] arguments) =>
        ProxyProcess.CommandAsync(["move", "--metadata", Metadata, .. arguments]);

    /// <summary>Waits until a shard's proxy has ended by itself.</summary>
    public async Task<int?> ExitAsync(int shard, TimeSpan limit) => await _proxies[shard]!.ExitAsync(limit);

    /// <summary>Starts a shard's proxy, in place of the one that there is. Of two at the same time the later ends the earlier.</summary>
    public async Task StartProxyAsync(int shard, IReadOnlyDictionary<string, string>? environment = null)
    {
        await _starts[shard].WaitAsync();
        try
        {
            await StartAloneAsync(shard, environment);
        }
        finally
        {
            _starts[shard].Release();
        }
    }

    private async Task StartAloneAsync(int shard, IReadOnlyDictionary<string, string>? environment)
    {
        TakeRollbacks(shard);
        _proxies[shard]?.Dispose();
        _proxies[shard] = await ProxyProcess.StartAsync(_ports[shard], OptionsOf(shard),
            new Dictionary<string, string>([.. Environment, .. environment ?? new Dictionary<string, string>()])
        {
            ["SLOGGER_TEST_CLOCK_OFFSET_US"] = ((long)(shard * ClockSkew.TotalMicroseconds)).ToString(CultureInfo.InvariantCulture),
        }, Program);
        _rollbacksSeen[shard] = _servingSeen[shard] = 0;
    }

    /// <summary>A shard's options of serve, besides where it listens.</summary>
    public string[] OptionsOf(int shard) =>
    [
        .. IsEmbedded(shard) ? EmbeddedOptions : [.. Store(shard), .. RedisOptions], "--data", Data(shard), "--metadata", Metadata,
        .. shard < shards ? ["--shards", Text(shards)] : (string[])["--join"], "--shard", Text(shard), "--finder", Finder, "--partitions",
            Partitions.ToString(), .. Options,
    ];

    public void KillProxy(int shard) => _proxies[shard]!.KillHard();

    /// <summary>SIGTERM; the exit code.</summary>
    public Task<int> TerminateProxyAsync(int shard) => _proxies[shard]!.TerminateAsync();

    /// <summary>Whether proxies cannot be started for the time being: they need the metadata for that.</summary>
    public bool IsMetadataAway { get; set; }

    /// <summary>Starts the proxies of embedded stores that were killed while the metadata was away.</summary>
    public async Task StartEndedAsync()
    {
        for (int i = 0; i < shards; i++)
        {
            if (IsEmbedded(i) && IsDown(i)) { await StartProxyAsync(i); }
        }
    }

    /// <summary>Kills a shard's store. One that is embedded dies with its proxy, which is started again when it can be.</summary>
    public async Task KillRedisAsync(int shard)
    {
        if (!IsEmbedded(shard))
        {
            await SupervisedRedis.KillAsync(Data(shard));
            return;
        }

        if (IsDown(shard)) { return; }
        KillProxy(shard);
        if (!IsMetadataAway) { await StartProxyAsync(shard); }
    }

    public void SuspendProxy(int shard) => ChildProcess.Suspend(_proxies[shard]!.Id);

    public void ResumeProxy(int shard) => ChildProcess.Resume(_proxies[shard]!.Id);

    /// <summary>How the proxies say that survivors went back since this was asked last.</summary>
    public IReadOnlyList<(bool IsInPlace, string Reason)> TakeRollbacks()
    {
        for (int i = 0; i < _proxies.Length; i++) { TakeRollbacks(i); }
        (bool, string)[] taken = [.. _rollbacks];
        _rollbacks.Clear();
        return taken;
    }

    /// <summary>How long survivors took, since this was asked last, from hearing of another shard's recovery until they served, and what
    /// for. As of the last <see cref="TakeRollbacks()"/>.</summary>
    public IReadOnlyList<(bool IsEmbedded, long Milliseconds, string Stages)> TakeServingTimes()
    {
        (bool, long, string)[] taken = [.. _serving];
        _serving.Clear();
        return taken;
    }

    private void TakeServingTimes(int shard, string[] lines)
    {
        const string Heard = ": another shard's recovery ", Serves = ": serves in world-line ";
        // Of a recovery that another has overtaken only the end is told: from what it heard first.
        string[] some = [.. lines.Where(l => l.Contains(Heard, StringComparison.Ordinal) || l.Contains(Serves, StringComparison.Ordinal))];
        for (int i = Math.Max(1, _servingSeen[shard]); i < some.Length; i++)
        {
            if (!some[i - 1].Contains(Heard, StringComparison.Ordinal) || !some[i].Contains(Serves, StringComparison.Ordinal)) { continue; }
            string[] words = some[i].Split(", ")[1].Split(' ');
            _serving.Add((IsEmbedded(shard), long.Parse(words[0], CultureInfo.InvariantCulture),
                some[i][some[i].IndexOf('(', StringComparison.Ordinal)..]));
        }
        _servingSeen[shard] = some.Length;
    }

    private void TakeRollbacks(int shard)
    {
        const string InPlace = ": rolled back in place: ", Full = "since a rollback in place is not possible: ";
        string[] all = (_proxies[shard]?.Tail() ?? "").Split('\n');
        TakeServingTimes(shard, all);
        string[] lines = [.. all.Where(l => l.Contains(InPlace, StringComparison.Ordinal) || l.Contains(Full, StringComparison.Ordinal))];
        foreach (string line in lines.Skip(_rollbacksSeen[shard]))
        {
            int at = line.IndexOf(Full, StringComparison.Ordinal);
            _rollbacks.Add((at < 0, at < 0 ? line : line[(at + Full.Length)..line.LastIndexOf(" (", StringComparison.Ordinal)]));
        }
        _rollbacksSeen[shard] = lines.Length;
    }

    /// <summary>The exit code of a proxy that ends by itself.</summary>
    public Task<int?> ProxyExitAsync(int shard) => _proxies[shard]!.ExitAsync(TimeSpan.FromSeconds(60));

    /// <summary>A number of DPR.INFO.</summary>
    public async Task<long> NumberAsync(int shard, string field) =>
        long.Parse((await InfoAsync(shard, field))!, CultureInfo.InvariantCulture);

    /// <summary>Waits until a shard could go back in place.</summary>
    public Task RollbackReadyAsync(int shard) =>
        Eventually.AsyncTrue($"shard {shard} has its indexes", ServingLimit, async () => await NumberAsync(shard, "rollback_ready") == 1);

    public int ProcessId(int shard) => _proxies[shard]!.Id;

    public bool IsDown(int shard) => shard >= Hosted && _proxies[shard] is not { HasExited: false };

    /// <summary>The shard's world-line and the cluster's committed version, by DPR.CUT.</summary>
    public async Task<(long WorldLine, long Version)> CutAsync(int shard)
    {
        using RespClient client = await ConnectAsync(shard);
        RespValue cut = await client.DoAsync("DPR.CUT");
        return (cut.Items[0].Number, cut.Items[1].Number);
    }

    /// <summary>Waits until no move is under way. Read here: a process for each look would take longer than the move.</summary>
    public async Task MovesOverAsync()
    {
        await using IMetadataStore metadata = MetadataStoreFactory.Create(Metadata);
        await Eventually.AsyncTrue("all moves are over", ServingLimit,
            async () => (await metadata.OwnershipAsync("default")).Moves.IsEmpty);
    }

    /// <summary>Waits until every shard serves and all are in the world-line that is the cluster's: the one that a command may just have
    /// begun.</summary>
    public async Task<long> ServingAsync()
    {
        long line = 0;
        await using IMetadataStore metadata = MetadataStoreFactory.Create(Metadata);
        await Eventually.AsyncTrue("all shards serve in one world-line", ServingLimit, async () =>
        {
            var lines = new HashSet<long>();
            for (int i = 0; i < Shards; i++)
            {
                if (IsDown(i)) { throw new InvalidOperationException($"the proxy of shard {i} has ended by itself\n{Tail()}"); }
                try
                {
                    using RespClient client = await ConnectAsync(i);
                    // Its slot may have moved: to be sent on shows as well that the shard serves.
                    RespValue reply = await client.CallAsync("SET", Key(Math.Min(i, shards - 1), "serving"), "1");
                    if (reply.Compact != "+OK" && !(reply.IsError && reply.Text.StartsWith("MOVED ", StringComparison.Ordinal)))
                    {
                        return false;
                    }
                    // That one may have been answered by the proxy alone, which need not know yet that its store is gone; this is not.
                    if ((await client.CallAsync("ECHO", "serving")).Text != "serving") { return false; }
                    lines.Add((await CutAsync(i)).WorldLine);
                }
                catch (ConnectionLostException)
                {
                    return false;
                }
            }

            try
            {
                line = (await metadata.WatchAsync("default")).Cut.Cut.WorldLine.Number;
            }
            catch (MetadataUnavailableException)
            {
                return false;
            }

            return lines.SetEquals([line]);
        });
        return line;
    }

    /// <summary>A line of DPR.INFO; null without it.</summary>
    public async Task<string?> InfoAsync(int shard, string name)
    {
        using RespClient client = await ConnectAsync(shard);
        string info = (await client.DoAsync("DPR.INFO")).Text;
        return info.Split("\r\n").FirstOrDefault(l => l.StartsWith(name + ":", StringComparison.Ordinal))?[(name.Length + 1)..];
    }

    /// <summary>The shard whose proxy coordinates the cuts; null if nobody does.</summary>
    public async Task<int?> CoordinatorAsync()
    {
        for (int i = 0; i < Shards; i++)
        {
            try
            {
                if (!IsDown(i) && await InfoAsync(i, "coordinator") == "here") { return i; }
            }
            catch (ConnectionLostException)
            {
                // Not this one now.
            }
        }

        return null;
    }

    public string Tail() => string.Join('\n', [.. _proxies.Select(p => p?.Tail()), _postgres?.Tail()]);

    public async ValueTask DisposeAsync()
    {
        for (int i = 0; i < _proxies.Length; i++)
        {
            if (_proxies[i] is not { } proxy) { continue; }
            ResumeProxy(i);
            proxy.Dispose();
            if (!IsEmbedded(i)) { await SupervisedRedis.KillAsync(Data(i)); }
            await SupervisedRedis.KillScratchAsync(Data(i));
        }

        _postgres?.Dispose();
    }

    public string Data(int shard) => workspace.Folder("shard" + Text(shard));

    private static string Text(int number) => number.ToString(CultureInfo.InvariantCulture);
}
