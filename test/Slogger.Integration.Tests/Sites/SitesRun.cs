// Rounds of disasters: clients write at the primary, something fails, then the site is lost (or taken for lost), the backup takes over, and
// what it holds is compared with what the clients did. The site that was lost becomes the backup, and the next round goes the other way.
using System.Globalization;
using System.Text;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

internal sealed class SitesRun(TwoSites sites, int rounds, int seed, Action<string> report)
{
    private const int Writers = 4;
    private static readonly TimeSpan EndLimit = TimeSpan.FromSeconds(60);

    public static readonly IReadOnlyList<string> Faults =
    [
        "none", "primary-proxy", "primary-redis", "backup-proxy", "backup-proxy-stays-down", "backup-redis", "link-cut", "link-broken",
            "links-slow", "primary-sql", "backup-sql",
    ];

    /// <summary>The backup is so far behind that windows are sent; with options under which this is soon so.</summary>
    public const string FarBehind = "far-behind";

    private const int FarCommands = 20_000, FarBytesPerSecond = 400_000;

    /// <summary>total: every process of the primary is killed. proxies: its Redis servers live on. cut-off: nobody reaches it, it lives,
    /// and the link is back later. mistaken: nothing is wrong with it.</summary>
    public static readonly IReadOnlyList<string> Disasters = ["total", "proxies", "cut-off", "mistaken"];

    private readonly Random _random = new(seed);
    private readonly SortedDictionary<string, int> _counts = new(StringComparer.Ordinal);
    private long _pushes, _lost, _rollbacks;

    /// <summary>Only this fault, if given.</summary>
    public string? Only { get; init; }

    /// <summary>The sites of the present round.</summary>
    public TwoSites Sites => sites;

    /// <summary>Where a site that has taken over can have no backup: makes others, and starts them.</summary>
    public Func<Task<TwoSites>>? Anew { get; init; }

    /// <summary>Pushes that were begun.</summary>
    public long Pushes => _pushes;

    /// <summary>Runs all rounds.</summary>
    /// <exception cref="InvalidDataException">A violation, or something that did not go on: the text has the round and the
    /// seed.</exception>
    public async Task RunAsync()
    {
        using ChildProcess partner = ChildProcess.Start("partner", "dotnet", [typeof(SitesRun).Assembly.Location, SitePartner.Option],
            hasInput: true);
        for (int round = 1; round <= rounds; round++)
        {
            string fault = Only ?? Pick(), disaster = Disasters[_random.Next(Disasters.Count)];
            try
            {
                await RoundAsync(partner, fault, disaster);
            }
            catch (Exception e) when (e is InvalidDataException or TimeoutException or InvalidOperationException
                or Xunit.Sdk.XunitException)
            {
                throw new InvalidDataException($"{e.Message}\nround {round} of seed {seed}: {fault}, then {disaster}\n{sites.Tail()}", e);
            }
            Count(fault);
            Count(disaster);
            report(string.Create(CultureInfo.InvariantCulture,
                $"{DateTime.UtcNow:HH:mm:ss} round {round} ({fault}, {disaster}): {Summary()}"));
        }
    }

    public string Summary()
    {
        var text = new StringBuilder();
        text.Append(CultureInfo.InvariantCulture,
            $"{_pushes} writes, {_lost} answered ones lost with a site, {_rollbacks} rollbacks at a primary, 0 violations;");
        foreach ((string name, int count) in _counts) { text.Append(CultureInfo.InvariantCulture, $" {name} {count}"); }
        return text.ToString();
    }

    private string Pick()
    {
        while (true)
        {
            string fault = Faults[_random.Next(Faults.Count)];
            if ((sites.Primary.Postgres is not null || !fault.EndsWith("-sql", StringComparison.Ordinal))
                && !(sites.Backup.IsEmbedded && fault == "backup-redis"))
            {
                return fault;
            }
        }
    }

    private void Count(string what) => _counts[what] = _counts.GetValueOrDefault(what) + 1;

    private async Task RoundAsync(ChildProcess partner, string fault, string disaster)
    {
        Site primary = sites.Primary, backup = sites.Backup;
        var history = new SiteHistory();
        using var stop = new CancellationTokenSource();
        Task[] writing = StartWriters(history, partner, stop.Token);
        var seen = new Dictionary<string, int>();
        await Task.Delay(_random.Next(50, 500));
        // Of the backup; of the primary the same, where these are as many.
        int shard = _random.Next(backup.Shards);
        await InjectAsync(fault, shard);
        if (fault == "primary-redis")
        {
            // The primary goes back by itself: that, too, is a prefix. What the others do from then on is another history.
            await stop.CancelAsync();
            await Task.WhenAll(writing);
            await primary.ServingAsync(EndLimit);
            Check(await ReadAsync(primary, history), history, seen);
            await sites.FollowingAsync();
            _rollbacks++;
            var next = new SiteHistory();
            using var end = new CancellationTokenSource();
            Task[] again = StartWriters(next, partner, end.Token);
            await Task.Delay(_random.Next(50, 300));
            await FailOverAsync(primary, backup, next, seen, shard, fault, disaster, end, again);
            return;
        }
        await FailOverAsync(primary, backup, history, seen, shard, fault, disaster, stop, writing);
    }

    private Task[] StartWriters(SiteHistory history, ChildProcess partner, CancellationToken stop) =>
        [.. Enumerable.Range(0, Writers).Select(i => new SiteWriter(i, sites.Primary, history, _random.Next(), i == 0 ? partner : null))
            .Select(w => Task.Run(() => w.RunAsync(stop), CancellationToken.None))];

    private async Task FailOverAsync(Site primary, Site backup, SiteHistory history, Dictionary<string, int> seen, int shard, string fault,
        string disaster, CancellationTokenSource stop, Task[] writing)
    {
        using var reading = new CancellationTokenSource();
        Task readers = Task.Run(() => ReadBackupAsync(backup, history, seen, reading.Token), CancellationToken.None);
        await Task.Delay(_random.Next(20, 300));
        switch (disaster)
        {
            case "total":
                await primary.KillAsync();
                break;
            case "proxies":
                for (int s = 0; s < primary.Shards; s++) { primary.KillProxy(s); }
                break;
            case "cut-off":
                foreach (WideLink link in primary.Links) { link.Close(); }
                break;
        }
        await reading.CancelAsync();
        await readers;
        if (fault == "backup-proxy-stays-down")
        {
            // Without it nothing can be taken over together, and the command says so before anything is done.
            await sites.FailOverRefusedAsync();
            await backup.StartAsync(shard);
        }
        _ = await sites.FailOverAsync();
        await stop.CancelAsync();
        await Task.WhenAll(writing);
        IReadOnlyDictionary<string, IReadOnlyList<int>> there = await ReadAsync(backup, history);
        Check(there, history, seen);
        _lost += history.Lost(there);
        _pushes += history.Count;
        foreach (WideLink link in primary.Links)
        {
            link.OneWay = backup.Links[0].OneWay;
            link.BytesPerSecond = 0;
            link.Open();
        }
        for (int s = 0; s < primary.Shards; s++)
        {
            // It hears that it was deposed, and ends.
            if (await primary.ExitAsync(s, EndLimit) is null)
            {
                throw new InvalidDataException(
                    $"the process of shard {s} at site {primary.Name} goes on though the other site has taken over (I6)");
            }
        }
        if (Anew is null)
        {
            await sites.SeedBackAsync();
            return;
        }
        await sites.DisposeAsync();
        sites = await Anew();
    }

    private async Task InjectAsync(string fault, int shard)
    {
        Site primary = sites.Primary, backup = sites.Backup;
        bool isPlain = primary.Shards == backup.Shards;
        int source = isPlain ? shard : _random.Next(primary.Shards);
        WideLink link = primary.Links[isPlain ? shard : _random.Next(primary.Links.Count)];
        switch (fault)
        {
            case "none":
                break;
            case "primary-proxy":
                primary.KillProxy(source);
                await primary.StartAsync(source);
                break;
            case "primary-redis":
                await primary.KillRedisAsync(source);
                break;
            case "backup-proxy":
                backup.KillProxy(shard);
                await Task.Delay(_random.Next(0, 300));
                await backup.StartAsync(shard);
                break;
            case "backup-proxy-stays-down":
                backup.KillProxy(shard);
                break;
            case "backup-redis":
                await backup.KillRedisAsync(shard);
                break;
            case "link-cut":
                link.Cut();
                break;
            case "link-broken":
                for (int i = 0; i < 3; i++)
                {
                    link.Break();
                    await Task.Delay(_random.Next(0, 100));
                }
                break;
            case "links-slow":
                foreach (WideLink some in primary.Links) { some.OneWay = TimeSpan.FromMilliseconds(_random.Next(0, 80)); }
                break;
            case FarBehind:
                foreach (WideLink some in primary.Links) { some.Close(); }
                var load = new FarLoad(_random.Next());
                for (int s = 0; s < primary.Shards; s++) { await load.WriteAsync(primary, s, FarCommands); }
                // Windows go up to the cut that is recorded when the link is there again.
                for (int s = 0; s < primary.Shards; s++)
                {
                    using RespClient client = await primary.ConnectAsync(s);
                    await client.DoAsync("DPR.ASOF", "AGO", "0");
                }
                // What comes now comes so slowly that the disaster is in between.
                foreach (WideLink some in primary.Links)
                {
                    some.BytesPerSecond = FarBytesPerSecond;
                    some.Open();
                }
                await Eventually.AsyncTrue("windows are sent in place of the log", EndLimit,
                    async () => await primary.InfoAsync(source, "backup_spared_bytes") is not (null or "0"));
                break;
            case "primary-sql":
                primary.Postgres!.KillHard();
                await primary.Postgres.RestartAsync();
                break;
            case "backup-sql":
                backup.Postgres!.KillHard();
                await backup.Postgres.RestartAsync();
                break;
            default:
                throw new InvalidOperationException($"no fault is called {fault}");
        }
    }

    // What readers of the backup see is its watermark's state: none of it may be gone later.
    private static async Task ReadBackupAsync(Site backup, SiteHistory history, Dictionary<string, int> seen, CancellationToken stop)
    {
        while (!stop.IsCancellationRequested)
        {
            foreach (string list in history.Lists)
            {
                if (stop.IsCancellationRequested) { return; }
                try
                {
                    using RespClient client = await backup.ConnectAsync(backup.ShardOf(list));
                    if (await backup.Lists.CountAsync(client, list) is > 0 and { } count)
                    {
                        seen[list] = Math.Max(seen.GetValueOrDefault(list), count);
                    }
                }
                catch (Exception e) when (e is ConnectionLostException or TimeoutException)
                {
                    // Not now.
                }
            }
            await Task.Delay(1, CancellationToken.None);
        }
    }

    private static async Task<IReadOnlyDictionary<string, IReadOnlyList<int>>> ReadAsync(Site site, SiteHistory history)
    {
        var there = new Dictionary<string, IReadOnlyList<int>>();
        foreach (IGrouping<int, string> lists in history.Lists.GroupBy(site.ShardOf))
        {
            using RespClient client = await site.ConnectAsync(lists.Key);
            foreach (string list in lists) { there[list] = await site.Lists.ReadAsync(client, list); }
        }
        return there;
    }

    private static void Check(IReadOnlyDictionary<string, IReadOnlyList<int>> there, SiteHistory history, Dictionary<string, int> seen)
    {
        if (history.Flaw(there, seen) is { } flaw) { throw new InvalidDataException(flaw); }
    }
}
