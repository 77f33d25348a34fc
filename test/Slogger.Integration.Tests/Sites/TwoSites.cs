// Two sites with a wide-area link for each shard, in each direction: at first the one is the primary and the other its backup, and they
// change with each failover.
using Slogger.Core.Sites;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

internal sealed class TwoSites : IAsyncDisposable
{
    public static readonly TimeSpan OneWay = TimeSpan.FromMilliseconds(12.5);
    private static int s_made;
    private bool _isDisposed;
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(90);

    public TwoSites(Workspace workspace, int shards, bool usesPostgres, TimeSpan? oneWay = null, params string[] options)
        : this(workspace, shards, shards, usesPostgres, embedded: false, oneWay, options)
    {
    }

    /// <summary>Two sites of different numbers of shards, near each other.</summary>
    public TwoSites(Workspace workspace, int shards, int backupShards)
        : this(workspace, shards, backupShards, usesPostgres: false, embedded: false, TimeSpan.FromMilliseconds(1))
    {
    }

    /// <summary>A link for each shard; with another number of shards at the backup for each pair whose slots overlap.</summary>
    /// <param name="embedded">Whether the backup's stores are embedded: then it can take over, and has no backup itself.</param>
    public TwoSites(Workspace workspace, int shards, int backupShards, bool usesPostgres, bool embedded, TimeSpan? oneWay = null,
        params string[] options)
    {
        int number = Interlocked.Increment(ref s_made);
        bool isPlain = shards == backupShards;
        Primary = new Site(workspace, $"east{number}", shards, usesPostgres) { Options = options, OtherShards = isPlain ? null
            : backupShards, Lists = new(AsText: embedded) };
        Backup = new Site(workspace, $"west{number}", backupShards, usesPostgres) { Options = options, OtherShards = isPlain ? null
            : shards, IsBackup = true, IsEmbedded = embedded, Lists = new(AsText: embedded) };
        foreach ((Site from, Site to) in new[] { (Primary, Backup), (Backup, Primary) })
        {
            (int Source, int Shard)[] pairs = isPlain ? [.. Enumerable.Range(0, shards).Select(s => (s, s))]
                : [.. new StreamLayout(from.Shards, to.Shards).Pairs];
            from.Links = [.. pairs.Select(p => new WideLink(to.SiteEndpoint(p.Shard), oneWay ?? OneWay))];
            from.LinksOf = [.. Enumerable.Range(0, from.Shards)
                .Select(s => Enumerable.Range(0, pairs.Length).Where(l => pairs[l].Source == s).ToArray())];
        }
    }

    public Site Primary { get; private set; }

    public Site Backup { get; private set; }

    public int Shards => Primary.Shards;

    /// <summary>Starts both, and waits until the backup could take over.</summary>
    public async Task StartAsync()
    {
        await Task.WhenAll(Primary.StartSqlAsync(), Backup.StartSqlAsync());
        await Backup.StartAsync();
        await Primary.StartAsync();
        await Primary.ServingAsync(Limit);
        await FollowingAsync();
    }

    /// <summary>Waits until every stream counts, and the backup's stores hold what is written now at the primary.</summary>
    public async Task FollowingAsync()
    {
        try
        {
            await FollowsAsync();
        }
        catch (TimeoutException e)
        {
            throw new TimeoutException($"{e.Message}\n{Tail()}", e);
        }
    }

    private async Task FollowsAsync()
    {
        await Eventually.AsyncTrue("the backup follows", Limit, async () =>
        {
            for (int s = 0; s < Backup.Shards; s++)
            {
                if (Backup.IsDown(s))
                {
                    throw new InvalidOperationException($"the backup's process of shard {s} has ended by itself\n{Backup.Tail()}");
                }
            }
            for (int s = 0; s < Shards; s++)
            {
                try
                {
                    string key = Primary.Key(s, "following"), now = Environment.TickCount64.ToString(
                        System.Globalization.CultureInfo.InvariantCulture);
                    using RespClient primary = await Primary.ConnectAsync(s), backup =
                        await Backup.ConnectAsync(Backup.Shards == Shards ? s : Backup.ShardOf(key));
                    if ((await primary.CallAsync("SET", key, now)).IsError) { return false; }
                    RespValue held = await primary.CallAsync("DPR.WAIT", "*", "2000", "BACKUP");
                    if (held.IsError || held.Items[2].Number != 1) { return false; }
                    await Eventually.AsyncTrue($"the backup's store of shard {s} follows", Limit,
                        async () => (await backup.CallAsync("GET", key)).Text == now);
                }
                catch (ConnectionLostException)
                {
                    return false;
                }
            }
            return true;
        });
    }

    /// <summary>Has the backup take over, and waits until it has.</summary>
    public async Task<string> FailOverAsync(params string[] options)
    {
        (int code, string output) = await Backup.CommandAsync("failover", ["--i-attest-the-primary-is-down", .. options]);
        Assert.True(code == 0, $"slogger failover ended with {code}\n{output}\n{Tail()}");
        (Primary, Backup) = (Backup, Primary);
        Backup.IsBackup = true;
        await Primary.ServingAsync(Limit);
        return output;
    }

    /// <summary>Hands over by plan, and waits until the other site serves.</summary>
    public async Task<string> SwitchOverAsync(params string[] options)
    {
        (int code, string output) = await Primary.CommandAsync("switchover", ["--backup-metadata", Backup.Metadata, .. options]);
        Assert.True(code == 0, $"slogger switchover ended with {code}\n{output}\n{Tail()}");
        (Primary, Backup) = (Backup, Primary);
        await Primary.ServingAsync(Limit);
        return output;
    }

    /// <summary>Orders a failover that cannot be done, since a process of the backup is down.</summary>
    public async Task FailOverRefusedAsync()
    {
        (int code, string output) = await Backup.CommandAsync("failover", "--i-attest-the-primary-is-down");
        Assert.True(code == 1 && output.Contains("start its slogger backup", StringComparison.Ordinal),
            $"slogger failover ended with {code}\n{output}");
    }

    /// <summary>The site that was the primary, and is down, becomes the backup of the other.</summary>
    public async Task SeedBackAsync()
    {
        foreach (WideLink link in Primary.Links.Concat(Backup.Links)) { link.Open(); }
        (int code, string output) = await Backup.CommandAsync("seed", "--primary-metadata", Primary.Metadata, "--no-wait");
        Assert.True(code == 0, $"slogger seed ended with {code}\n{output}");
        Backup.IsBackup = true;
        await Backup.StartAsync();
        await FollowingAsync();
    }

    public string Tail() => $"==== primary: {Primary.Name}\n{Primary.Tail()}\n==== backup: {Backup.Name}\n{Backup.Tail()}";

    public async ValueTask DisposeAsync()
    {
        if (_isDisposed) { return; }
        _isDisposed = true;
        foreach (WideLink link in Primary.Links.Concat(Backup.Links)) { link.Dispose(); }
        await Primary.DisposeAsync();
        await Backup.DisposeAsync();
    }
}
