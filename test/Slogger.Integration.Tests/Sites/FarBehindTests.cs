// A backup that is far behind gets windows of the log in place of it: it becomes the same with fewer bytes, whoever dies when, and what it
// takes over with is a recorded cut.
using System.Globalization;
using System.Text;
using Slogger.Integration.Tests.Past;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;

namespace Slogger.Integration.Tests.Sites;

public sealed class FarBehindTests(ITestOutputHelper output)
{
    private static readonly TimeSpan s_limit = TimeSpan.FromSeconds(90);

    // Windows of half a megabyte, from two on.
    private static readonly string[] s_options =
        ["--reduce-ship-above", "1mb", "--backup-window", "256kb", "--redis-directive", "enable-debug-command yes"];

    [Fact]
    public async Task BackupIsDown_WhileMuchIsWritten_ItBecomesTheSameWithFewerBytes_AndTakesOver()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, usesPostgres: false, TimeSpan.FromMilliseconds(1), s_options);
        await sites.StartAsync();
        var load = new FarLoad(TestSeed.Choose(output));
        sites.Backup.KillProxy(0);
        long log = await InfoAsync(sites.Primary, "backup_log_bytes"), sent = await InfoAsync(sites.Primary, "backup_sent_bytes");
        string first = await VersionNowAsync(sites.Primary);
        await load.WriteAsync(sites.Primary, 0, 20_000);
        string inside = await VersionNowAsync(sites.Primary);
        await load.WriteAsync(sites.Primary, 0, 20_000);
        await sites.Backup.StartAsync(0);
        await sites.FollowingAsync();
        log = await InfoAsync(sites.Primary, "backup_log_bytes") - log;
        sent = await InfoAsync(sites.Primary, "backup_sent_bytes") - sent;
        long spared = await InfoAsync(sites.Primary, "backup_spared_bytes");
        output.WriteLine($"{log} bytes of log, {sent} sent, {spared} spared");
        Assert.True(spared > log / 3 && sent + spared < log + (log / 4), $"{log} bytes of log, {sent} sent, {spared} spared");
        Assert.Equal(0, await InfoAsync(sites.Primary, "backup_sends_windows"));
        await AssertSameAsync(sites);

        // What lies inside of a window is no instant at the backup; by time it is the one before. Neither is it when that has taken over.
        inside = await HiddenAsync(sites.Backup, inside);
        await PastAsync(sites.Backup, first, inside);
        string before = await StateAsync(sites.Primary);
        await sites.Primary.KillAsync();
        await sites.FailOverAsync();
        Assert.Equal(before, await StateAsync(sites.Primary));
        await PastAsync(sites.Primary, first, inside);
        await load.WriteAsync(sites.Primary, 0, 1000);

        // And the other way.
        await sites.SeedBackAsync();
        await AssertSameAsync(sites);
    }

    [Fact]
    public async Task BackupIsKilled_AgainAndAgainWhileItCatchesUp_ItBecomesTheSame()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, usesPostgres: false, TimeSpan.FromMilliseconds(1), s_options);
        await sites.StartAsync();
        var random = new Random(TestSeed.Choose(output));
        var load = new FarLoad(random.Next());
        sites.Backup.KillProxy(0);
        await load.WriteAsync(sites.Primary, 0, 60_000);
        sites.Primary.Links[0].BytesPerSecond = 250_000;
        int among = 0;
        for (int kill = 0; kill < 20; kill++)
        {
            await sites.Backup.StartAsync(0);
            await Task.Delay(random.Next(600));
            if (await InfoAsync(sites.Primary, "backup_sends_windows") == 1) { among++; }
            if (random.Next(3) == 0) { await sites.Backup.KillRedisAsync(0); }
            sites.Backup.KillProxy(0);
        }
        output.WriteLine($"killed among windows {among} times, {await InfoAsync(sites.Primary, "backup_spared_bytes")} bytes spared");
        Assert.True(among > 0);
        sites.Primary.Links[0].BytesPerSecond = 0;
        await sites.Backup.StartAsync(0);
        await sites.FollowingAsync();
        await AssertSameAsync(sites);
        string before = await StateAsync(sites.Primary);
        await sites.FailOverAsync();
        Assert.Equal(before, await StateAsync(sites.Primary));
    }

    [Fact]
    public async Task PrimaryIsKilled_WhileTheBackupCatchesUp_ItBecomesTheSame()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 1, usesPostgres: false, TimeSpan.FromMilliseconds(1), s_options);
        await sites.StartAsync();
        var random = new Random(TestSeed.Choose(output));
        var load = new FarLoad(random.Next());
        foreach (bool losesRedis in new[] { false, true, false })
        {
            sites.Primary.Links[0].Close();
            await load.WriteAsync(sites.Primary, 0, 30_000);
            // Windows go up to the cut that is recorded when the link is there again.
            await VersionNowAsync(sites.Primary);
            sites.Primary.Links[0].BytesPerSecond = 500_000;
            sites.Primary.Links[0].Open();
            await Eventually.AsyncTrue("windows are sent", s_limit, async () => await InfoAsync(sites.Primary, "backup_spared_bytes") > 0);
            await Task.Delay(random.Next(300));
            if (losesRedis) { await sites.Primary.KillRedisAsync(0); }
            sites.Primary.KillProxy(0);
            await sites.Primary.StartAsync(0);
            await sites.Primary.ServingAsync(s_limit);
            sites.Primary.Links[0].BytesPerSecond = 0;
            await sites.FollowingAsync();
            await AssertSameAsync(sites);
        }
    }

    [Fact]
    public async Task TwoShards_TheSiteIsLostWhileTheBackupCatchesUp_ItTakesOverAPrefix()
    {
        int seed = TestSeed.Choose(output);
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, 2, usesPostgres: false, TimeSpan.FromMilliseconds(5), s_options);
        await sites.StartAsync();
        var run = new SitesRun(sites, rounds: 3, seed, output.WriteLine) { Only = SitesRun.FarBehind };
        await run.RunAsync();
        Assert.True(run.Pushes > 0, "nothing was written");
    }

    private static async Task<long> InfoAsync(Site site, string field) =>
        long.Parse(await site.InfoAsync(0, field) ?? "0", CultureInfo.InvariantCulture);

    private static async Task<string> VersionNowAsync(Site site)
    {
        using RespClient client = await site.ConnectAsync(0);
        return Text((await client.DoAsync("DPR.ASOF", "AGO", "0")).Items[1].AsInteger());
    }

    // The first from a version on that lies inside of a window: that one may be the end of one.
    private static async Task<string> HiddenAsync(Site site, string from)
    {
        long version = long.Parse(from, CultureInfo.InvariantCulture), limit = version + 1000;
        while (!(await ErrorAsync(site, Text(version))).StartsWith("SLOGGER NOTKEPT", StringComparison.Ordinal))
        {
            Assert.True(++version < limit, "no version is inside of a window");
        }
        return Text(version);
    }

    // The version is in the middle of what was written; its time is that of a state before it.
    private static async Task PastAsync(Site site, string first, string inside)
    {
        Assert.StartsWith("SLOGGER NOTKEPT", await ErrorAsync(site, inside), StringComparison.Ordinal);
        using RespClient client = await site.ConnectAsync(0);
        RespValue found = await client.DoAsync("DPR.ASOF", "VERSION", inside);
        Assert.InRange(found.Items[1].AsInteger(), long.Parse(first, CultureInfo.InvariantCulture) - 1,
            long.Parse(inside, CultureInfo.InvariantCulture) - 1);
        RespValue size = await StoreView.OfAllAsync(client, Text(found.Items[1].AsInteger()), "DBSIZE");
        Assert.False(size.IsError, size.Text);
    }

    private static async Task<string> ErrorAsync(Site site, string version)
    {
        using RespClient client = await site.ConnectAsync(0);
        RespValue answer = await client.CallAsync("DPR.ASOF", "VERSION", version, "GET", "following");
        return answer.IsError ? answer.Text : $"no error: {answer.Compact}";
    }

    private static async Task AssertSameAsync(TwoSites sites)
    {
        string primary = await StateAsync(sites.Primary);
        await Eventually.AsyncTrue("the backup's store is the primary's", s_limit, async () => await StateAsync(sites.Backup) == primary);
    }

    // What the store itself holds, past its proxy: digest, and all keys of all databases with their expiries.
    private static async Task<string> StateAsync(Site site)
    {
        using RespClient redis = await SupervisedRedis.ConnectAsync(site.Data(0));
        var state = new StringBuilder((await redis.DoAsync("DEBUG", "DIGEST")).Text);
        foreach (string database in new[] { "0", "3" })
        {
            await redis.DoAsync("SELECT", database);
            foreach (string key in (await redis.DoAsync("KEYS", "*")).Items.Select(k => k.Text).Order(StringComparer.Ordinal))
            {
                state.Append(CultureInfo.InvariantCulture,
                    $"\n{database} {key} {(await redis.DoAsync("PEXPIRETIME", key)).Number}");
            }
        }
        return state.ToString();
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
