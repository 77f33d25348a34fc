// The commands of two sites, and what befalls their processes while one is under way: real processes, Redis servers and databases.
using System.Globalization;
using System.Net.Sockets;
using System.Text.Json;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class SiteCommandTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    // ---- Drills ----

    [Fact]
    public async Task DrillRestore_Followed_TheLogGivesWhatTheStoresHold_AndAKeyThatWasTamperedWithIsFound()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.Zero);
        await sites.StartAsync();
        using var stop = new CancellationTokenSource();
        Task<int>[] writing = [.. Enumerable.Range(0, 2).Select(s => PushAsync(sites.Primary, s, stop.Token))];
        for (int s = 0; s < 2; s++) { await FillAsync(sites.Primary, s); }
        await sites.FollowingAsync();

        (int code, string text) = await sites.Backup.CommandAsync("drill", "--restore");
        output.WriteLine(text);
        Assert.True(code == 0, sites.Backup.Tail());
        for (int s = 0; s < 2; s++)
        {
            Assert.Contains($"shard {s}: restored to ", text, StringComparison.Ordinal);
            Assert.False(Directory.Exists(Path.Combine(sites.Backup.Data(s), "drill")), "the drill has left its directory behind");
        }

        using (RespClient store = await RespClient.ConnectAsync(
            new UnixDomainSocketEndPoint(Path.Combine(sites.Backup.Data(1), "redis", "redis.sock"))))
        {
            await store.DoAsync("CONFIG", "SET", "replica-read-only", "no");
            await store.DoAsync("HSET", sites.Primary.Key(1, "hash"), "7", "another");
            await store.DoAsync("CONFIG", "SET", "replica-read-only", "yes");
        }
        (code, text) = await sites.Backup.CommandAsync("drill", "--restore");
        output.WriteLine(text);
        Assert.Equal(1, code);
        Assert.Contains("shard 0: restored to ", text, StringComparison.Ordinal);
        Assert.Contains("shard 1: the drill of a restore failed: what the log restores is not what the store holds", text,
            StringComparison.Ordinal);
        await stop.CancelAsync();
        foreach (int pushed in await Task.WhenAll(writing)) { Assert.True(pushed > 0, "nothing was written meanwhile"); }
        await sites.FollowingAsync();
    }

    [Fact]
    public async Task DrillRestore_ProcessIsKilledInIt_TheNextStartEndsTheRedisThatItLeft()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero);
        await sites.StartAsync();
        await FillAsync(sites.Primary, 0);
        await sites.FollowingAsync();
        string left = Path.Combine(sites.Backup.Data(0), "drill");
        Task<(int ExitCode, string Output)> drill = sites.Backup.CommandAsync("drill", "--restore");
        int? redis = null;
        await Eventually.AsyncTrue("the drill has started a Redis", Generous,
            () => Task.FromResult(drill.IsCompleted || (redis = RedisIn(left)) is not null));
        sites.Backup.KillProxy(0);
        _ = await drill;
        await sites.Backup.StartAsync(0);
        await sites.FollowingAsync();
        Assert.False(Directory.Exists(left), "the directory of the drill is there still");
        Assert.True(redis is null || !IsRunning(redis.Value), "the Redis of the drill runs still");
    }

    // ---- By plan ----

    [Fact]
    public async Task Postgres_SwitchOver_UnderWriters_LosesNothing()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: true, TimeSpan.FromMilliseconds(5));
        await sites.StartAsync();
        Site from = sites.Primary, to = sites.Backup;
        using var stop = new CancellationTokenSource();
        Task<int>[] writing = [.. Enumerable.Range(0, 2).Select(s => PushAsync(from, s, stop.Token))];
        await AnsweredAsync(from, 100);

        string text = await sites.SwitchOverAsync();
        output.WriteLine(text);
        Assert.Contains("nothing is lost", text, StringComparison.Ordinal);
        // Whoever is deposed ends, and with it its clients' connections.
        int[] answered = await Task.WhenAll(writing).WaitAsync(Generous);
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await to.ConnectAsync(s);
            long there = (await client.DoAsync("LLEN", List(to, s))).Number;
            output.WriteLine($"shard {s}: {answered[s]} pushes were answered, {there} are there");
            Assert.InRange(there, answered[s], answered[s] + 1);
        }
    }

    [Fact]
    public async Task SwitchOver_LinkIsCut_IsCalledOffInTime_AndClientsGoOn()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        using var stop = new CancellationTokenSource();
        Task<int>[] writing = [.. Enumerable.Range(0, 2).Select(s => PushAsync(sites.Primary, s, stop.Token))];
        await AnsweredAsync(sites.Primary, 10);
        sites.Primary.Links[1].Cut();

        (int code, string text) = await sites.Primary.CommandAsync(
            "switchover", "--backup-metadata", sites.Backup.Metadata, "--within", "1s");
        output.WriteLine(text);
        Assert.Equal(1, code);
        Assert.Contains("called off", text, StringComparison.Ordinal);
        Assert.Contains("Clients of the primary go on", text, StringComparison.Ordinal);
        // The same connections: nobody had to connect anew.
        for (int s = 0; s < 2; s++)
        {
            long before = await LengthAsync(sites.Primary, s);
            await Eventually.AsyncTrue($"the writer of shard {s} goes on", Generous,
                async () => await LengthAsync(sites.Primary, s) > before);
        }
        sites.Primary.Links[1].Open();
        await sites.FollowingAsync();
        await stop.CancelAsync();
        int[] answered = await Task.WhenAll(writing);
        for (int s = 0; s < 2; s++) { Assert.Equal(answered[s], await LengthAsync(sites.Primary, s)); }
    }

    // ---- Seeding ----

    [Fact]
    public async Task Seed_OneShardWhileAllRun_IsSeededAnew_AndOneWithAnEmptyDiskByItself()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        for (int s = 0; s < 2; s++) { await FillAsync(sites.Primary, s); }
        using var stop = new CancellationTokenSource();
        Task<int>[] writing = [.. Enumerable.Range(0, 2).Select(s => PushAsync(sites.Primary, s, stop.Token))];
        await sites.FollowingAsync();

        (int code, string text) = await sites.Backup.CommandAsync("seed", "--shard", "1", "--primary-metadata", sites.Primary.Metadata);
        output.WriteLine(text);
        Assert.True(code == 0, sites.Tail());
        Assert.Contains("all streams follow", text, StringComparison.Ordinal);
        await sites.FollowingAsync();

        // Another machine in the place of shard 0's.
        sites.Backup.KillProxy(0);
        await sites.Backup.KillRedisAsync(0);
        Directory.Delete(sites.Backup.Data(0), recursive: true);
        await sites.Backup.StartAsync(0);
        await sites.FollowingAsync();
        await stop.CancelAsync();
        await Task.WhenAll(writing);
        await sites.FollowingAsync();
        for (int s = 0; s < 2; s++)
        {
            using RespClient primary = await sites.Primary.ConnectAsync(s), backup = await sites.Backup.ConnectAsync(s);
            foreach (string key in (string[])["hash", "set", "stream"])
            {
                string name = sites.Primary.Key(s, key);
                Assert.Equal((await ReadAsync(primary, key, name)).Order(), (await ReadAsync(backup, key, name)).Order());
            }
            Assert.Equal(await LengthAsync(sites.Primary, s), await LengthAsync(sites.Backup, s));
        }
        (code, text) = await sites.Backup.CommandAsync("drill", "--restore");
        Assert.True(code == 0, text);
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task LargeCopy_AProcessIsKilledInTheMiddle_GoesOnWhereItWas(bool isPrimary)
    {
        const int values = 50, valueBytes = 1_000_000;
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero, "--backup-window", "1mb",
            "--backup-resend", "2s");
        await sites.StartAsync();
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            // Nothing that could be compressed.
            var random = new Random(7);
            byte[] noise = new byte[valueBytes / 2];
            for (int i = 0; i < values; i++)
            {
                random.NextBytes(noise);
                await client.DoAsync("SET", $"value:{i}", Convert.ToHexString(noise));
            }
        }
        await sites.FollowingAsync();

        // Some three megabytes a second.
        WideLink link = sites.Primary.Links[0];
        link.OneWay = TimeSpan.FromMilliseconds(150);
        long before = link.Bytes;
        (int code, string text) = await sites.Backup.CommandAsync("seed", "--shard", "0", "--no-wait");
        Assert.True(code == 0, text);
        long size = 0, has = 0;
        await Eventually.AsyncTrue("a third of the copy has come, and is synced", Generous, () =>
        {
            (size, has) = Synced(sites.Backup.Data(0));
            return Task.FromResult(size > 0 && has > size / 3);
        });
        Assert.InRange(await NumberAsync(sites.Backup, "seed_has_bytes"), has, size);
        (code, text) = await sites.Backup.CommandAsync("status", "--site");
        output.WriteLine(text);
        Assert.True(code == 1 && text.Contains("the site could not take over now: shard 0 is being seeded", StringComparison.Ordinal),
            text);
        Site killed = isPrimary ? sites.Primary : sites.Backup;
        long first = link.Bytes - before;
        killed.KillProxy(0);
        await killed.StartAsync(0);
        link.OneWay = TimeSpan.Zero;
        await sites.FollowingAsync();
        long sent = link.Bytes - before;
        output.WriteLine(string.Create(CultureInfo.InvariantCulture, $"the copy has {size} bytes, {has} were synced when a process "
            + $"was killed and {first} had gone over the link, {sent} in all\n{sites.Tail()}"));
        // Once, and what was on its way or not synced yet: not again what had come before.
        Assert.InRange(sent - first, 1, size - (has / 2));
        using RespClient backup = await sites.Backup.ConnectAsync(0), primary = await sites.Primary.ConnectAsync(0);
        for (int i = 0; i < values; i++)
        {
            Assert.True((await backup.DoAsync("GET", $"value:{i}")).Text == (await primary.DoAsync("GET", $"value:{i}")).Text,
                $"value {i} differs");
        }
    }

    // ---- Who is let in ----

    [Fact]
    public async Task Secret_IsWrong_CommandsAndStreamsAreRefused()
    {
        using var workspace = new Workspace();
        string right = workspace.File("right"), wrong = workspace.File("wrong");
        File.WriteAllText(right, "4a1f9d\n");
        File.WriteAllText(wrong, "4a1f9e\n");
        await using var sites = new TwoSites(workspace, shards: 1, usesPostgres: false, TimeSpan.Zero, "--site-secret-file", right);
        await sites.StartAsync();

        (int code, string text) = await sites.Backup.CommandAsync("status", "--site", "--site-secret-file", right);
        Assert.True(code == 0 && !text.Contains("does not let us in", StringComparison.Ordinal), text);
        (_, text) = await sites.Backup.CommandAsync("status", "--site", "--site-secret-file", wrong);
        Assert.Contains("does not let us in: the secret is missing or wrong: give --site-secret-file", text, StringComparison.Ordinal);
        (code, text) = await sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down", "--site-secret-file", wrong);
        output.WriteLine(text);
        Assert.Equal(1, code);
        Assert.Contains("does not let us in", text, StringComparison.Ordinal);

        sites.Primary.KillProxy(0);
        sites.Primary.Options = ["--site-secret-file", wrong];
        await sites.Primary.StartAsync(0);
        await sites.Primary.ServingAsync(Generous);
        using (RespClient client = await sites.Primary.ConnectAsync(0))
        {
            await client.DoAsync("SET", "secret", "1");
            Assert.Equal(0, (await client.DoAsync("DPR.WAIT", "*", "2000", "BACKUP")).Items[2].Number);
        }
        output.WriteLine(sites.Primary.Tail());
        Assert.Contains("warn  shard 0: the backup at", sites.Primary.Tail(), StringComparison.Ordinal);
        Assert.Contains("the secret is missing or wrong: --site-secret-file must name the same secret at both sites", sites.Primary.Tail(),
            StringComparison.Ordinal);
        sites.Primary.KillProxy(0);
        sites.Primary.Options = ["--site-secret-file", right];
        await sites.Primary.StartAsync(0);
        await sites.FollowingAsync();
    }

    [Fact]
    public async Task Tls_CertificatesOfBothSides_EverythingGoesOverIt_AndNobodyElseIsLetIn()
    {
        using var workspace = new Workspace();
        using var authority = new SiteAuthority("the sites'");
        using var other = new SiteAuthority("another");
        string[] ours = authority.Issue(workspace.Folder("ours"), authority), strangers =
            other.Issue(workspace.Folder("strangers"), authority);
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1), ours);
        await sites.StartAsync();
        for (int s = 0; s < 2; s++) { await FillAsync(sites.Primary, s); }

        // On a busy machine a process may be asked more than once, which is said: only the end counts.
        (int code, string text) = await sites.Backup.CommandAsync("status", ["--site", .. ours]);
        Assert.True(code == 0 && !text.Contains("does not let us in", StringComparison.Ordinal), text);
        (_, text) = await sites.Backup.CommandAsync("status", ["--site", .. strangers]);
        Assert.Contains("does not let us in", text, StringComparison.Ordinal);
        (_, text) = await sites.Backup.CommandAsync("status", "--site");
        Assert.Contains("does not answer", text, StringComparison.Ordinal);
        (code, text) = await sites.Backup.CommandAsync("failover", ["--i-attest-the-primary-is-down", .. strangers]);
        Assert.True(code == 1, text);

        await sites.FollowingAsync();
        await sites.Primary.KillAsync();
        await sites.FailOverAsync(ours);
        for (int s = 0; s < 2; s++)
        {
            using RespClient client = await sites.Primary.ConnectAsync(s);
            Assert.Equal(100, (await client.DoAsync("HLEN", sites.Primary.Key(s, "hash"))).Number);
        }
    }

    // ---- Helpers ----

    private static string List(Site site, int shard) => site.Key(shard, "pushed");

    // 1, 2, 3...; each when the one before was answered. Until told to stop, or its connection ends. Returns how many were answered.
    private static async Task<int> PushAsync(Site site, int shard, CancellationToken stop)
    {
        int answered = 0;
        try
        {
            using RespClient client = await site.ConnectAsync(shard);
            while (!stop.IsCancellationRequested
                && !(await client.CallAsync("RPUSH", List(site, shard), (answered + 1).ToString(CultureInfo.InvariantCulture))).IsError)
            {
                answered++;
            }
        }
        catch (ConnectionLostException)
        {
            // The site is another's backup by now.
        }
        return answered;
    }

    private static async Task AnsweredAsync(Site site, int count)
    {
        for (int s = 0; s < site.Shards; s++)
        {
            await Eventually.AsyncTrue($"{count} pushes to shard {s}", Generous, async () => await LengthAsync(site, s) >= count);
        }
    }

    private static async Task<long> LengthAsync(Site site, int shard)
    {
        using RespClient client = await site.ConnectAsync(shard);
        return (await client.DoAsync("LLEN", List(site, shard))).Number;
    }

    private static async Task FillAsync(Site site, int shard)
    {
        using RespClient client = await site.ConnectAsync(shard);
        for (int i = 0; i < 100; i++)
        {
            string text = i.ToString(CultureInfo.InvariantCulture);
            await client.DoAsync("HSET", site.Key(shard, "hash"), text, "value " + text);
            await client.DoAsync("SADD", site.Key(shard, "set"), text);
            await client.DoAsync("XADD", site.Key(shard, "stream"), "*", "n", text);
            await client.DoAsync("SET", site.Key(shard, "expires " + text), text, "EX", i % 2 == 0 ? "1000" : "1");
        }
    }

    private static async Task<IReadOnlyList<string>> ReadAsync(RespClient client, string kind, string key) =>
        [.. (await client.DoAsync(
            kind switch { "hash" => ["HGETALL", key], "set" => ["SMEMBERS", key], _ => ["XRANGE", key, "-", "+"] })).Items.Select(
                i => i.Compact)];

    private static async Task<long> NumberAsync(Site site, string field) =>
        long.Parse(await site.InfoAsync(0, field) ?? "0", CultureInfo.InvariantCulture);

    private static (long Bytes, long Durable) Synced(string data)
    {
        try
        {
            using JsonDocument record = JsonDocument.Parse(File.ReadAllBytes(Path.Combine(data, "stream", "seed.json")));
            // Of the life before: the copy has yet to come.
            return record.RootElement.GetProperty("generation").GetInt64() < 2 ? default
                : (record.RootElement.GetProperty("bytes").GetInt64(), record.RootElement.GetProperty("durableBytes").GetInt64());
        }
        catch (IOException)
        {
            return default;
        }
    }

    private static int? RedisIn(string directory)
    {
        try
        {
            return int.TryParse(File.ReadAllText(Path.Combine(directory, "redis.pid")).Trim(), NumberStyles.None,
                CultureInfo.InvariantCulture, out int id) ? id : null;
        }
        catch (IOException)
        {
            return null;
        }
    }

    private static bool IsRunning(int process)
    {
        try
        {
            // A zombie has no command line any more.
            return File.ReadAllText($"/proc/{process}/cmdline").Contains("redis-server", StringComparison.Ordinal);
        }
        catch (IOException)
        {
            return false;
        }
    }
}
