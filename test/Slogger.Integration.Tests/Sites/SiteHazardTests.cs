// What befalls one of two sites while both run: a primary that is cut off and healthy, a backup whose disk is full, whose database is only
// just starting, or whose Redis ends while it takes over. Real processes, Redis servers and databases.
using System.Globalization;
using Slogger.Core.Sites;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

namespace Slogger.Integration.Tests.Sites;

public sealed class SiteHazardTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Fact]
    public async Task Lease_PrimaryIsCutOff_AnswersNobodyOnceTheBackupServes_AndEndsWhenItHears()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(2), "--site-lease", "1s");
        await sites.StartAsync();
        Site before = sites.Primary, after = sites.Backup;
        RespClient[] clients = [await before.ConnectAsync(0), await before.ConnectAsync(1)];
        try
        {
            for (int s = 0; s < 2; s++)
            {
                for (int i = 1; i <= 5; i++)
                {
                    Assert.Equal(1, await PushAndWaitAsync(clients[s], before.Key(s, "list"), "20000", "BACKUP"));
                }
            }
            foreach (WideLink link in before.Links) { link.Cut(); }

            // Nobody attests anything: it waits for the lease.
            (int code, string said) = await after.CommandAsync("failover");
            output.WriteLine(said);
            Assert.True(code == 0, $"slogger failover ended with {code}\n{said}\n{sites.Tail()}");
            Assert.Contains("may hold a site lease", said, StringComparison.Ordinal);
            await after.ServingAsync(Generous);

            // The primary has heard nothing of it. What it would answer is not true any more, and it keeps it to itself.
            for (int s = 0; s < 2; s++)
            {
                using RespClient client = await after.ConnectAsync(s), asking = await before.ConnectAsync(s);
                Assert.Equal(6, (await client.DoAsync("RPUSH", after.Key(s, "list"), "new")).Number);
                await clients[s].SendAsync("LLEN", before.Key(s, "list"));
                await clients[s].SendAsync("RPUSH", before.Key(s, "list"), "lost");
                Assert.Equal("expired", await before.InfoAsync(s, "site_lease"));
                Assert.Equal(0, (await asking.DoAsync("DPR.CUT")).Items[1].Number);
                await Assert.ThrowsAsync<TimeoutException>(async () =>
                    Assert.Fail($"it was answered {await clients[s].ReadAsync(TimeSpan.FromMilliseconds(200))}"));
            }

            foreach (WideLink link in before.Links) { link.Open(); }
            for (int s = 0; s < 2; s++)
            {
                await Assert.ThrowsAsync<ConnectionLostException>(async () =>
                    Assert.Fail($"it was answered {await clients[s].ReadAsync(Generous)}"));
                Assert.NotNull(await before.ExitAsync(s, Generous));
            }
        }
        finally
        {
            foreach (RespClient client in clients) { client.Dispose(); }
        }

        // And stays down.
        before.Launch(0);
        Assert.Equal(1, await before.ExitAsync(0, Generous));
        Assert.Contains("slogger seed", before.Tail(0), StringComparison.Ordinal);
    }

    [Fact]
    public async Task Disk_OfABackupIsFull_ThePrimaryGoesOn_AndNothingHeldIsLost()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        string mount = sites.Backup.Data(1);
        var (exitCode, error) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=192m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + error);
        try
        {
            await sites.StartAsync();
            long last = await FillAsync(sites.Primary);
            output.WriteLine($"write {last} was not held any more: the disk was full");
            using (RespClient client = await sites.Primary.ConnectAsync(1))
            {
                await client.DoAsync("SET", sites.Primary.Key(1, "n"), (last + 1).ToString(CultureInfo.InvariantCulture));
                Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
            }
            // What it had before it shows still, or its process has ended and said why.
            if (sites.Backup.IsDown(1)) { Assert.Contains("space", sites.Backup.Tail(1), StringComparison.OrdinalIgnoreCase); }

            await ChildProcess.RunAsync("mount", ["-o", "remount,size=2g", mount]);
            if (sites.Backup.IsDown(1)) { await sites.Backup.StartAsync(1); }
            await sites.FollowingAsync();
            await sites.Primary.KillAsync();
            await sites.FailOverAsync();
            using RespClient survivor = await sites.Primary.ConnectAsync(1);
            Assert.Equal(last + 1, (await survivor.DoAsync("GET", sites.Primary.Key(1, "n"))).AsInteger());
        }
        finally
        {
            await sites.DisposeAsync();
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    [Fact]
    public async Task Postgres_OfTheBackupStarts_WhenTheFailoverIsOrdered_ItIsWaitedFor()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: true, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        await sites.Primary.KillAsync();
        sites.Backup.Postgres!.KillHard();
        Task<string> failingOver = sites.FailOverAsync();
        await sites.Backup.Postgres.RestartAsync();
        output.WriteLine(await failingOver);
    }

    // Its store stood at the final watermark, and is gone before the shard has looked at it as a primary's.
    [Fact]
    public async Task Redis_OfTheBackupEnds_WhileItTakesOver_ItIsStartedAgainWithWhatItHad()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        Site backup = sites.Backup;
        backup.Environment = new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "site-taken+5000" };
        await sites.StartAsync();
        string[] keys = [sites.Primary.Key(0, "n"), sites.Primary.Key(1, "n")];
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await sites.Primary.ConnectAsync(s);
            await client.DoAsync("SET", keys[s], "7");
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000", "BACKUP")).Items[2].Number);
        }
        await sites.Primary.KillAsync();
        Task<string> failingOver = sites.FailOverAsync();
        await using (IMetadataStore metadata = MetadataStoreFactory.Create(backup.Metadata))
        {
            await Eventually.AsyncTrue("the site is the primary", Generous,
                async () => (await metadata.SiteAsync("default")).Role == SiteRole.Primary);
        }
        await backup.KillRedisAsync(1);
        output.WriteLine(await failingOver);
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await backup.ConnectAsync(s);
            Assert.Equal("7", (await client.DoAsync("GET", keys[s])).Text);
        }
    }

    // 1: committed, or held by the backup.
    private static async Task<long> PushAndWaitAsync(RespClient client, string list, string timeout, params string[] scope)
    {
        Assert.False((await client.CallAsync("RPUSH", list, "x")).IsError);
        RespValue waited = await client.CallAsync(["DPR.WAIT", "*", timeout, .. scope]);
        Assert.False(waited.IsError, waited.Text);
        return waited.Items[2].Number;
    }

    // Until the backup holds nothing more: the number of the first write that it does not hold yet.
    private static async Task<long> FillAsync(Site primary)
    {
        string ballast = new('b', 256 * 1024), number = primary.Key(1, "n"), large = primary.Key(1, "ballast");
        using RespClient client = await primary.ConnectAsync(1);
        for (long i = 1; i < 4000; i++)
        {
            await client.DoAsync("SET", number, i.ToString(CultureInfo.InvariantCulture));
            await client.DoAsync("SET", large, ballast);
            RespValue held = await client.CallAsync("DPR.WAIT", "*", "3000", "BACKUP");
            if (held.IsError || held.Items[2].Number == 0) { return i; }
        }
        throw new InvalidOperationException("1 GB fitted on a disk of 192 MB: the stream's log is not in the data directory?");
    }
}
