// The past at a backup's site and at a cohort's follower: the same as at the primary, from their own log and checkpoints. The primary may
// be gone.
using System.Globalization;
using System.Security.Cryptography;
using System.Text.Json;
using Slogger.Integration.Tests.Cohorts;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Sites;
using Slogger.Integration.Tests.Wire;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class BackupPastTests
{
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2), s_near = TimeSpan.FromMilliseconds(1);

    [Fact]
    public async Task Backup_EachCommand_SaysWhatThePrimarySays_AlsoWhenThatIsGone_AndAfterItHasTakenOver()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, s_near);
        await sites.StartAsync();
        Site primary = sites.Primary, backup = sites.Backup;
        using RespClient one = await primary.ConnectAsync(0), two = await primary.ConnectAsync(1);
        string word = primary.Key(0, "word"), hash = primary.Key(1, "hash");
        await FillAsync(primary, one, two);
        string before = await VersionAsync(one, two);
        await one.DoAsync("SET", word, "first", "PX", "3600000");
        await two.DoAsync("HSET", hash, "field", "first");
        string at = await VersionAsync(one, two);
        string time = Text(((await one.DoAsync("DPR.ASOF", "VERSION", at)).Items[2].AsInteger() + 999) / 1000);
        await Task.Delay(50);
        await one.DoAsync("SET", word, "second");
        await two.DoAsync("DEL", hash);
        string after = await VersionAsync(one, two);
        await ReachedAsync(sites, after);

        string[][] commands =
        [
            ["get", "--version", at, word, hash, "missing"],
            ["run", "--version", at, "--", "HGETALL", hash],
            ["run", "--version", at, "--", "PEXPIRETIME", word],
            ["history", "--from", before, "--to", after, word],
            ["diff", "--from", before, "--to", after, "--values"],
            ["find", "--from", before, "--to", after, "--when", "redis.call('GET', KEYS[1]) == 'second'", word],
            ["find", "--from", before, "--to", after, "--first", "--when", $"redis.call('EXISTS', '{word}') == 1"],
        ];
        var expected = new List<string>();
        foreach (string[] command in commands) { expected.Add(await SaidAsync(primary, command)); }
        Assert.Contains("first", expected[0]);
        string taken = await SnapshotTests.TakeAsync(workspace, primary.Port(0), "--version", at);
        string digest = await DigestAsync(workspace, taken, 2);
        // A snapshot of the same version is to be in another directory.
        using var other = new Workspace();
        async Task CompareAsync(Site site)
        {
            for (int i = 0; i < commands.Length; i++)
            {
                string said = await SaidAsync(site, commands[i]);
                Assert.True(expected[i] == said, $"{string.Join(' ', commands[i])}:\n{expected[i]}\n--- and not\n{said}");
            }
        }
        await CompareAsync(backup);
        string directory = await SnapshotTests.TakeAsync(other, backup.Port(1), "--version", at);
        Assert.Equal(digest, await DigestAsync(workspace, directory, 2));
        // What differs from the primary's.
        string delta = await SnapshotTests.TakeAsync(other, backup.Port(0), "--version", after, "--from", taken);
        JsonElement[] parts = [.. JsonDocument.Parse(await File.ReadAllTextAsync(Path.Combine(delta, "manifest.json"))).RootElement
            .GetProperty("shards").EnumerateArray()];
        Assert.Equal(1, parts.Sum(s => s.GetProperty("keys").GetInt64()));
        Assert.Equal(1, parts.Sum(s => s.GetProperty("removed").GetProperty("keys").GetInt64()));
        // Times are those of the primary's grid, exactly.
        using (RespClient follower = await backup.ConnectAsync(0))
        {
            foreach (string[] instant in (string[][])[["VERSION", at], ["TIME", time]])
            {
                string[] question = ["DPR.ASOF", .. instant];
                Assert.Equal((await one.DoAsync(question)).Compact, (await follower.DoAsync(question)).Compact);
            }
            Assert.Equal("second", (await follower.DoAsync("DPR.ASOF", "AGO", "0", "GET", word)).Text);
            Assert.Contains("DPR.RESET is for the primary", (await follower.CallAsync("DPR.RESET", "PREPARE", at)).Text);
            Assert.StartsWith("READONLY", (await follower.CallAsync("DPR.ASOF", "VERSION", at, "SET", word, "x")).Text);
            Assert.StartsWith("SLOGGER NOTCLOSED", (await follower.CallAsync("DPR.ASOF", "VERSION", "99999999999")).Text);
        }
        JsonElement reach = JsonDocument.Parse(await SaidAsync(backup, "retention", "--json")).RootElement;
        Assert.Equal(2, reach.GetProperty("shards").GetArrayLength());
        await SaidAsync(backup, "roll", "--from", before, "--to", at, "--step", "1s", "--exec", "true");

        await primary.KillAsync();
        await CompareAsync(backup);

        // Who reads meanwhile gets the answer, or an error, or loses the connection: never another answer.
        using var stop = new CancellationTokenSource();
        Task<int> reading = ReadAsync(backup, at, word, stop.Token);
        await sites.FailOverAsync();
        await Eventually.AsyncTrue("it is read again", s_limit, async () =>
        {
            using RespClient client = await backup.ConnectAsync(0);
            return (await client.CallAsync("DPR.ASOF", "VERSION", at, "GET", word)).Text == "first";
        });
        await stop.CancelAsync();
        Assert.True(await reading > 0, "nobody read anything");
        await CompareAsync(backup);
        using (RespClient now = await backup.ConnectAsync(0))
        {
            Assert.Equal(at, Text((await now.DoAsync("DPR.ASOF", "TIME", time)).Items[1].AsInteger()));
            await now.DoAsync("SET", word, "third");
            Assert.Equal("third", (await now.DoAsync("DPR.ASOF", "AGO", "0", "GET", word)).Text);
        }
        // A process that begins anew knows the times, too.
        await backup.TerminateAsync(0);
        await backup.StartAsync(0);
        await backup.ServingAsync(s_limit);
        using RespClient anew = await backup.ConnectAsync(0);
        Assert.Equal(at, Text((await anew.DoAsync("DPR.ASOF", "TIME", time)).Items[1].AsInteger()));
        Assert.Equal("first", (await anew.DoAsync("DPR.ASOF", "TIME", time, "GET", word)).Text);
    }

    [Fact]
    public async Task BackupOfAnotherNumberOfShards_ItsSnapshot_HoldsWhatThePrimarysDoes()
    {
        using var workspace = new Workspace();
        using var other = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, backupShards: 3);
        await sites.StartAsync();
        using RespClient one = await sites.Primary.ConnectAsync(0), two = await sites.Primary.ConnectAsync(1);
        await FillAsync(sites.Primary, one, two);
        await ReachedAsync(sites, await VersionAsync(one, two));
        // Of its versions a backup of another number of shards has only those at which it has stood.
        using RespClient backup = await sites.Backup.ConnectAsync(2);
        string at = await VersionNowAsync(backup);
        for (int i = 0; i < 100; i += 2) { await one.DoAsync("DEL", sites.Primary.Key(0, $"key:{i}")); }
        await ReachedAsync(sites, await VersionAsync(one, two));
        string expected = await DigestAsync(workspace, await SnapshotTests.TakeAsync(workspace, sites.Primary.Port(0), "--version", at), 2);
        Assert.NotEqual(new string('0', 40), expected);
        Assert.Equal(expected, await DigestAsync(workspace,
            await SnapshotTests.TakeAsync(other, sites.Backup.Port(2), "--version", at), 3));
    }

    [Fact]
    public async Task Follower_ShowsThePast_AsItsLeaderDoes()
    {
        using var workspace = new Workspace();
        await using var nodes = new CohortNodes(workspace);
        await nodes.StartAsync();
        int leader = await nodes.LeaderAsync(), node = (leader + 1) % CohortNodes.Count;
        await nodes.FollowsAsync(node);
        await nodes.SetAsync("k", "first");
        string at = "";
        await nodes.EventuallyAsync("the leader says which version that is", async () =>
        {
            leader = await nodes.LeaderAsync();
            RespValue? now = await nodes.AskAsync(leader, "DPR.ASOF", "AGO", "0");
            if (now is not { IsError: false } known) { return false; }
            at = Text(known.Items[1].AsInteger());
            return true;
        });
        await nodes.SetAsync("k", "second");
        node = (leader + 1) % CohortNodes.Count;
        await nodes.EventuallyAsync("the follower has what is committed", async () =>
            (await nodes.AskAsync(node, "DPR.ASOF", "AGO", "0", "GET", "k"))?.Text == "second");
        // Also of who has not said READONLY: the past is the same everywhere.
        using (RespClient client = await nodes.ConnectAsync(node))
        {
            Assert.Equal("first", (await client.DoAsync("DPR.ASOF", "VERSION", at, "GET", "k")).Text);
        }
        string to = workspace.Folder("snapshots");
        string address = string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{nodes.Ports[node]}");
        (int code, string told) = await ProxyProcess.CommandAsync(["get", "--address", address, "--version", at, "k"]);
        Assert.True(code == 0, told);
        Assert.Contains("k: first", told);
        (code, told) = await ProxyProcess.CommandAsync(["snapshot", "--address", address, "--version", at, "--to", to, "--json"]);
        Assert.True(code == 0, told);
        // The leader has made none.
        Assert.True(Directory.Exists(Path.Combine(nodes.Data(node), "snapshots")));
        Assert.False(Directory.Exists(Path.Combine(nodes.Data(leader), "snapshots")));
        Assert.Equal("first", await OfPlainAsync(workspace, Directory.GetDirectories(to).Single(), "k"));
    }

    private static async Task<int> ReadAsync(Site site, string version, string key, CancellationToken stop)
    {
        int answers = 0;
        while (!stop.IsCancellationRequested)
        {
            try
            {
                using RespClient client = await site.ConnectAsync(0);
                while (!stop.IsCancellationRequested)
                {
                    RespValue reply = await client.CallAsync("DPR.ASOF", "VERSION", version, "GET", key);
                    if (reply.IsError) { continue; }
                    Assert.Equal("first", reply.Text);
                    answers++;
                }
            }
            catch (ConnectionLostException)
            {
                await Task.Delay(10, CancellationToken.None);
            }
        }
        return answers;
    }

    private static async Task FillAsync(Site site, RespClient one, RespClient two)
    {
        for (int i = 0; i < 500; i++)
        {
            (RespClient client, int shard) = i % 2 == 0 ? (one, 0) : (two, 1);
            string key = site.Key(shard, $"key:{i}");
            await client.DoAsync((i % 5) switch
            {
                0 => ["SET", key, Text(i), "PX", "7200000"],
                1 => ["HSET", key, "a", Text(i), "b", "x"],
                2 => ["RPUSH", key, "1", "2", Text(i)],
                3 => ["ZADD", key, Text(i), "member"],
                _ => ["SADD", key, "a", Text(i)],
            });
        }
    }

    // The newest version that both shards have closed, with all that was acknowledged.
    private static async Task<string> VersionAsync(RespClient one, RespClient two)
    {
        string version = "";
        await Eventually.AsyncTrue("both have closed one version", s_limit, async () =>
        {
            version = await VersionNowAsync(one);
            string there = Text((await two.DoAsync("DPR.ASOF", "VERSION", version)).Items[1].AsInteger());
            return there == version && long.Parse(await VersionNowAsync(two), CultureInfo.InvariantCulture)
                >= long.Parse(version, CultureInfo.InvariantCulture);
        });
        return version;
    }

    private static async Task ReachedAsync(TwoSites sites, string version)
    {
        for (int i = 0; i < sites.Backup.Shards; i++)
        {
            using RespClient client = await sites.Backup.ConnectAsync(i);
            await Eventually.AsyncTrue("the backup is there", s_limit, async () =>
                !(await client.CallAsync("DPR.ASOF", "VERSION", version)).IsError);
        }
    }

    internal static async Task<string> SaidAsync(Site site, params string[] command)
    {
        (int code, string said) = await ProxyProcess.CommandAsync(
            [command[0], "--address", string.Create(CultureInfo.InvariantCulture, $"127.0.0.1:{site.Port(0)}"), .. command[1..]]);
        Assert.True(code == 0, $"{string.Join(' ', command)} ended with {code}: {said}");
        // Not how far it was meanwhile.
        return string.Join('\n', said.Split('\n').Where(l => !l.StartsWith("shard ", StringComparison.Ordinal)
            && !l.Contains(", now at ", StringComparison.Ordinal)));
    }

    // Of all shards together: Redis's digest is the exclusive or of its keys' digests, and of one for database 0.
    internal static async Task<string> DigestAsync(Workspace workspace, string directory, int shards)
    {
        byte[] all = new byte[20], ofDatabase = SHA1.HashData(SHA1.HashData(new byte[4]));
        for (int shard = 0; shard < shards; shard++)
        {
            using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder($"plain-{Guid.NewGuid():n}"),
                "--dir", directory, "--dbfilename", $"shard-{Text(shard)}.rdb", "--enable-debug-command", "yes");
            using RespClient client = await redis.ConnectAsync();
            byte[] digest = Convert.FromHexString((await client.DoAsync("DEBUG", "DIGEST")).Text);
            for (int i = 0; i < all.Length; i++) { all[i] ^= (byte)(digest[i] ^ ofDatabase[i]); }
        }
        return Convert.ToHexStringLower(all);
    }

    private static async Task<string> OfPlainAsync(Workspace workspace, string directory, string key)
    {
        using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder("plain"),
            "--dir", directory, "--dbfilename", "shard-0.rdb");
        using RespClient client = await redis.ConnectAsync();
        return (await client.DoAsync("GET", key)).Text;
    }
}
