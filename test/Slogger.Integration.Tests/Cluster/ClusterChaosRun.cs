// Rounds of failures in one long-lived cluster, under writers that work on all shards. After each round the state of all shards
// is read and compared with what every writer did and was told: invariants I1, I2, I3 and I5.
using System.Globalization;
using System.Text;
using Slogger.Core.Ownership;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Cluster;

internal sealed class ClusterChaosRun(ClusterDeployment cluster, int rounds, int seed, Action<string> report)
{
    private const int Writers = 5;

    public static readonly IReadOnlyList<string> Faults =
    [
        "redis", "two-redis", "redis-then-redis", "proxy", "both", "redis-and-proxy", "pause-proxy", "pause-and-redis",
        "postgres", "postgres-and-redis", "coordinator", "coordinator-and-redis", "all", "none",
        "move", "move-and-redis", "move-and-proxy", "move-and-both", "move-and-postgres", "move-and-pause", "move-cancelled",
    ];

    private readonly Random _random = new(seed);
    private readonly Dictionary<string, int> _faults = [];
    private readonly Dictionary<string, int> _reasons = [];
    private readonly List<long> _servingEmbedded = [], _servingRedis = [];
    private (long Milliseconds, string Stages) _slowest;
    private long _inPlace, _full;
    private long _worldLine = 1, _operations, _rolledBack, _committedChecked, _lostUncommitted;
    private (long WorldLine, long Version) _cut;

    /// <summary>How often a writer's committed operations were looked at and found.</summary>
    public long CommittedChecked => _committedChecked;

    /// <summary>How many world-lines began.</summary>
    public long RolledBack => _rolledBack;

    /// <summary>Only this fault, if given.</summary>
    public string? Only { get; init; }

    /// <summary>What is done in each round, by name, instead of faults that are drawn.</summary>
    public IReadOnlyList<(string Name, Func<IReadOnlyList<ClusterWriter>, Task> Do)> Course { get; init; } = [];

    /// <summary>Runs all rounds.</summary>
    /// <exception cref="InvalidDataException">A violation: the text names the invariant, the round and the seed.</exception>
    public async Task RunAsync()
    {
        ClusterWriter[] writers = [.. Enumerable.Range(0, Writers).Select(i => new ClusterWriter(i, cluster, seed + (1000 * i)))];
        await cluster.ServingAsync();
        // On a busy machine commits may take longer than the first rounds last: without any, these have shown little.
        for (int round = 1; round <= rounds || (CommittedChecked == 0 && Course.Count == 0 && round <= 5 * rounds); round++)
        {
            string fault = Course.Count > 0 ? Course[(round - 1) % Course.Count].Name : Only ?? Pick();
            try
            {
                await RoundAsync(writers, fault);
            }
            catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException or ConnectionLostException)
            {
                throw new InvalidDataException($"{e.Message}\nround {round} of seed {seed}, fault {fault}\n{cluster.Tail()}", e);
            }

            if (round % 10 == 0 || round >= rounds) { report($"{round} rounds: {Summary()}"); }
        }
    }

    public string Summary()
    {
        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture,
            $"{_operations} operations, {_committedChecked} committed and found, {_lostUncommitted} uncommitted lost, {_rolledBack} "
                + $"rollbacks, {Moves} moves of slots, 0 violations; survivors went back in place {_inPlace} times, by a full restore "
                + $"{_full} times{Reasons()}; served after they had heard of it, in ms: with a Redis {Spread(_servingRedis)}, embedded "
                + $"{Spread(_servingEmbedded)}, at the slowest {_slowest.Milliseconds} {_slowest.Stages}; faults:");
        foreach ((string name, int count) in _faults.OrderBy(f => f.Key, StringComparer.Ordinal)) { text.Append(
            CultureInfo.InvariantCulture, $" {name} {count}"); }
        return text.ToString();
    }

    /// <summary>How often a survivor went back in place.</summary>
    public long InPlace => _inPlace;

    private static string Spread(List<long> milliseconds)
    {
        if (milliseconds.Count == 0) { return "never"; }
        milliseconds.Sort();
        return string.Create(CultureInfo.InvariantCulture,
            $"{milliseconds[milliseconds.Count / 2]} (median), {milliseconds[milliseconds.Count * 9 / 10]} (one in ten)");
    }

    private string Reasons() => _reasons.Count == 0 ? ""
        : $" ({string.Join("; ", _reasons.OrderByDescending(r => r.Value).Select(r => $"{r.Value} {r.Key}"))})";

    // What the proxies' logs say of how survivors went back.
    private void CountRollbacks()
    {
        foreach ((bool isInPlace, string reason) in cluster.TakeRollbacks())
        {
            if (isInPlace) { _inPlace++; continue; }
            _full++;
            _reasons[reason] = _reasons.GetValueOrDefault(reason) + 1;
        }

        foreach ((bool isEmbedded, long milliseconds, string stages) in cluster.TakeServingTimes())
        {
            (isEmbedded ? _servingEmbedded : _servingRedis).Add(milliseconds);
            if (isEmbedded && milliseconds > _slowest.Milliseconds) { _slowest = (milliseconds, stages); }
        }
    }

    private string Pick()
    {
        while (true)
        {
            string fault = Faults[_random.Next(Faults.Count)];
            bool isPossible = (cluster.Postgres is not null || !fault.Contains("postgres", StringComparison.Ordinal))
                && ((cluster.Finder == "approximate" && cluster.Embedded == 0) || !fault.StartsWith("move", StringComparison.Ordinal));
            if (isPossible) { return fault; }
        }
    }

    private async Task RoundAsync(ClusterWriter[] writers, string fault)
    {
        _faults[fault] = _faults.GetValueOrDefault(fault) + 1;
        using var stop = new CancellationTokenSource();
        Task[] running = [.. writers.Select(w => Task.Run(() => w.RunAsync(writers, stop.Token)))];
        await Task.Delay(_random.Next(150, 600));
        await (Course.Count > 0 ? Course.First(c => c.Name == fault).Do(writers) : InjectAsync(fault, writers));
        await Task.Delay(_random.Next(0, 100));
        await stop.CancelAsync();
        await Task.WhenAll(running);
        long line = await cluster.ServingAsync();
        await CheckAsync(writers, line, mayLose: line > _worldLine);
        _rolledBack += line - _worldLine;
        CountRollbacks();
        _worldLine = line;
    }

    private async Task CheckAsync(ClusterWriter[] writers, long line, bool mayLose)
    {
        if (line < _worldLine) { throw new InvalidDataException($"I5: the cluster went back from world-line {_worldLine} to {line}"); }
        for (int i = 0; i < cluster.Shards; i++)
        {
            (long WorldLine, long Version) cut = await cluster.CutAsync(i);
            if (cut.CompareTo(_cut) < 0 && cut.WorldLine < _cut.WorldLine)
            {
                throw new InvalidDataException($"I3: shard {i} says that the cut is {cut}, after {_cut}");
            }
            if (cut.Version < _cut.Version && cut.WorldLine > _cut.WorldLine)
            {
                throw new InvalidDataException($"I3: world-line {cut.WorldLine} stands at {cut.Version}, below the cut {_cut}");
            }
            if (cut.CompareTo(_cut) > 0) { _cut = cut; }
        }

        var survived = new Dictionary<ClusterWriter, long>();
        foreach (ClusterWriter writer in writers)
        {
            long count = survived[writer] = await writer.SurvivedAsync();
            if (!mayLose && count < writer.Done)
            {
                throw new InvalidDataException(
                    $"I1: writer {writer.Id}: {writer.Done} operations were answered, {count} are there, and no world-line has begun");
            }
            _lostUncommitted += Math.Max(0, writer.Done - count);
            _operations += count;
        }

        foreach (ClusterWriter writer in writers)
        {
            if (writer.Unsupported(survived) is { } violation) { throw new InvalidDataException(violation); }
            _committedChecked += writer.Committed;
        }

        foreach (ClusterWriter writer in writers) { writer.ContinueFrom(survived[writer], mayLose); }
    }

    private async Task InjectAsync(string fault, IReadOnlyList<ClusterWriter> writers)
    {
        if (fault.StartsWith("move", StringComparison.Ordinal))
        {
            await MoveAsync(fault, writers);
            return;
        }

        int a = _random.Next(cluster.Shards), b = (a + 1 + _random.Next(cluster.Shards - 1)) % cluster.Shards;
        switch (fault)
        {
            case "redis":
                await cluster.KillRedisAsync(a);
                break;
            case "two-redis":
                await Task.WhenAll(cluster.KillRedisAsync(a), cluster.KillRedisAsync(b));
                break;
            case "redis-then-redis":
                await cluster.KillRedisAsync(a);
                await Task.Delay(_random.Next(1, 250));
                await cluster.KillRedisAsync(_random.Next(2) == 0 ? a : b);
                break;
            case "proxy":
                cluster.KillProxy(a);
                await cluster.StartProxyAsync(a);
                break;
            case "both":
                cluster.KillProxy(a);
                await cluster.KillRedisAsync(a);
                await cluster.StartProxyAsync(a);
                break;
            case "redis-and-proxy":
                await cluster.KillRedisAsync(a);
                await Task.Delay(_random.Next(1, 250));
                cluster.KillProxy(b);
                await cluster.StartProxyAsync(b);
                break;
            case "pause-proxy":
                await PauseAsync(a, () => Task.CompletedTask);
                break;
            case "pause-and-redis":
                await PauseAsync(a, () => cluster.KillRedisAsync(b));
                break;
            case "postgres":
                await WithoutPostgresAsync(() => Task.CompletedTask);
                break;
            case "postgres-and-redis":
                await WithoutPostgresAsync(() => cluster.KillRedisAsync(a));
                break;
            case "coordinator":
                await KillCoordinatorAsync();
                break;
            case "coordinator-and-redis":
                await Task.WhenAll(KillCoordinatorAsync(), cluster.KillRedisAsync(a));
                break;
            case "all":
                for (int i = 0; i < cluster.Shards; i++) { cluster.KillProxy(i); }
                for (int i = 0; i < cluster.Shards; i++) { await cluster.KillRedisAsync(i); }
                for (int i = 0; i < cluster.Shards; i++) { await cluster.StartProxyAsync(i); }
                break;
            case "none":
                break;
            default:
                throw new ArgumentException($"no fault is called {fault}; there are {string.Join(", ", Faults)}");
        }
    }

    // Whoever has the role: its shard goes with it.
    private async Task KillCoordinatorAsync()
    {
        int shard = await cluster.CoordinatorAsync() ?? _random.Next(cluster.Shards);
        cluster.KillProxy(shard);
        await Task.Delay(_random.Next(1, 300));
        await cluster.StartProxyAsync(shard);
    }

    // Moves the slots of some writers' keys, one owner's, to another shard, and has something fail meanwhile.
    private async Task MoveAsync(string fault, IReadOnlyList<ClusterWriter> writers)
    {
        (_, string listed) = await cluster.MoveAsync("--list");
        string[] keys = [.. writers.SelectMany(w => w.Keys)];
        int[] slots = [.. keys.Select(k => cluster.SlotOf(k).Number)];
        var owners = new int[cluster.Partitions.Count];
        foreach (string line in listed.Split('\n').Where(l => l.StartsWith(cluster.Partitions.Noun, StringComparison.Ordinal)))
        {
            string[] words = line.Split(' ', ':');
            string[] ends = words[1].Split('-');
            Array.Fill(owners, int.Parse(line.Split(' ')[^1], CultureInfo.InvariantCulture),
                int.Parse(ends[0], CultureInfo.InvariantCulture),
                    int.Parse(ends[^1], CultureInfo.InvariantCulture) - int.Parse(ends[0], CultureInfo.InvariantCulture) + 1);
        }

        int from = owners[slots[_random.Next(slots.Length)]];
        int[] some = [.. slots.Where(s => owners[s] == from).Distinct().Take(_random.Next(1, 4))];
        int to = (from + 1 + _random.Next(cluster.Shards - 1)) % cluster.Shards;
        (int exit, _) = await cluster.MoveAsync("--slots", string.Join(',', some), "--to", to.ToString(CultureInfo.InvariantCulture),
            "--no-wait");
        if (exit == 0) { Moves++; }
        await Task.Delay(_random.Next(0, 300));
        int victim = _random.Next(2) == 0 ? from : to;
        switch (fault)
        {
            case "move-and-redis":
                await cluster.KillRedisAsync(victim);
                break;
            case "move-and-proxy":
                cluster.KillProxy(victim);
                await cluster.StartProxyAsync(victim);
                break;
            case "move-and-both":
                cluster.KillProxy(from);
                cluster.KillProxy(to);
                await cluster.KillRedisAsync(victim);
                await cluster.StartProxyAsync(from);
                await cluster.StartProxyAsync(to);
                break;
            case "move-and-postgres":
                await WithoutPostgresAsync(() => Task.CompletedTask);
                break;
            case "move-and-pause":
                await PauseAsync(victim, () => Task.CompletedTask);
                break;
            case "move-cancelled":
                await cluster.MoveAsync("--slots", string.Join(',', some), "--cancel");
                break;
            default:
                await Task.Delay(_random.Next(0, 600));
                break;
        }
    }

    /// <summary>How many moves of slots were planned.</summary>
    public int Moves { get; private set; }

    private async Task PauseAsync(int shard, Func<Task> meanwhile)
    {
        cluster.SuspendProxy(shard);
        // It may hold SQLite's lock.
        cluster.IsMetadataAway = true;
        try
        {
            await meanwhile();
            await Task.Delay(_random.Next(50, 1500));
        }
        finally
        {
            cluster.ResumeProxy(shard);
            cluster.IsMetadataAway = false;
        }

        await cluster.StartEndedAsync();
    }

    private async Task WithoutPostgresAsync(Func<Task> meanwhile)
    {
        cluster.Postgres!.KillHard();
        cluster.IsMetadataAway = true;
        await meanwhile();
        await Task.Delay(_random.Next(50, 500));
        await cluster.Postgres.RestartAsync();
        cluster.IsMetadataAway = false;
        await cluster.StartEndedAsync();
    }
}
