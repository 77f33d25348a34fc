// The past of shards with an embedded store: what each of its readers says of an instant is what clients saw then, whatever dies.
// SLOGGER_TEST_SEED repeats a run; SLOGGER_TEST_ROUNDS=n makes that with kills longer.
using System.Globalization;
using System.Text.Json;
using Slogger.Client;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Embedded;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Integration.Tests.Workload;
using static Slogger.Integration.Tests.Past.StoreView;

namespace Slogger.Integration.Tests.Past;

public sealed class EmbeddedPastTests(ITestOutputHelper output)
{
    private const string Failpoint = "SLOGGER_TEST_FAILPOINT";
    private const int Killed = 137;
    private static readonly TimeSpan s_limit = TimeSpan.FromMinutes(2);
    private static readonly string s_filler = new('x', 100_000);

    private static readonly int s_rounds = int.TryParse(
        Environment.GetEnvironmentVariable("SLOGGER_TEST_ROUNDS"), CultureInfo.InvariantCulture, out int n) ? n : 5;

    // With a program that shows the past.
    internal static readonly string[] Shown = ["--commit", "faster", "--redis-server", RedisProcess.Executable];

    private static string[] Options(string retention = "1h", params string[] further) =>
        ["--faster-memory", "256mb", .. Shown, "--retention", retention, "--checkpoint-every", "1mb", "--log-budget", "512mb", .. further];

    private sealed record Moment(string Version, List<Seen> Keys);

    [Fact]
    public async Task RandomCommands_AnyInstant_IsReadAsItWas_ByEachReader()
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        List<Moment> moments = [];
        for (int i = 0; i < 15; i++)
        {
            await WriteAsync(client, random, random.Next(30, 300));
            moments.Add(await LookAsync(client));
            // What expires meanwhile was there.
            await Task.Delay(random.Next(40));
        }
        Assert.True(await shard.NumberAsync("checkpoint_last_bytes") > 1000, "no checkpoint was taken");
        foreach (Moment moment in moments.OrderBy(_ => random.Next())) { await AssertReadAsync(client, moment, random); }

        // All of it, going forward.
        string name = (await client.DoAsync("DPR.ROLL", "BEGIN", "FROM", moments[0].Version, "TO", moments[^1].Version)).Text;
        foreach (Moment moment in moments)
        {
            await Eventually.AsyncTrue("it stands there", s_limit, async () =>
                (await client.DoAsync("DPR.ROLL", "TO", name, moment.Version)).Items[0].AsInteger() == 1);
            RespValue all = await client.DoAsync("DPR.ROLL", "EVAL", name, """
                local all = {}
                for _, key in ipairs(redis.call('KEYS', '*')) do all[#all + 1] = {key, redis.call('GET', key)} end
                return all
                """);
            Dictionary<string, string> found = all.Items.ToDictionary(i => i.Items[0].Text, i => i.Items[1].Compact);
            foreach (Seen seen in moment.Keys) { Assert.Equal(seen.Type == "none" ? null : seen.Value, found.GetValueOrDefault(seen.Key)); }
            Assert.All(found.Keys.Except(moment.Keys.Select(s => s.Key)), k => Assert.StartsWith("fleet", k));
        }
        await client.DoAsync("DPR.ROLL", "END", name);

        // Between two of them.
        (Moment from, Moment to) = (moments[3], moments[9]);
        (int code, string said) = await ProxyProcess.CommandAsync("diff", "--address", At(shard), "--from", from.Version, "--to", to.Version);
        Assert.True(code == 0, said);
        string[] differ = [.. said.Split('\n').Where(l => l.Length > 2 && "+-~E".Contains(l[0]) && l[1] == ' ').Select(l => l[2..])];
        foreach (string key in Lasting(from).Concat(Lasting(to)).Select(s => s.Key).Distinct())
        {
            Seen? before = from.Keys.Find(s => s.Key == key), after = to.Keys.Find(s => s.Key == key);
            Assert.True(before == after || differ.Contains(key), $"{key} differs, and it is not said:\n{said}");
        }
        Assert.All(differ.Where(k => from.Keys.Find(s => s.Key == k) == to.Keys.Find(s => s.Key == k)), k => Assert.Contains("fleet", k));

        // The files of snapshots are loaded by a plain Redis.
        foreach (Moment moment in moments.OrderBy(_ => random.Next()).Take(3))
        {
            string directory = await SnapshotTests.TakeAsync(workspace, shard.Proxy.Port, "--version", moment.Version);
            using RedisProcess redis = await RedisProcess.StartAsync(workspace.Folder($"plain-{moment.Version}"),
                "--dir", directory, "--dbfilename", "shard-0.rdb");
            using RespClient plain = await redis.ConnectAsync();
            SnapshotTests.AssertSame(moment.Keys, await StoreContents.ReadAllAsync(plain, databases: 1));
        }
    }

    [Fact]
    public async Task History_TellsWhatACommitHasMadeOfAKey()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        // From where the past begins.
        await VersionNowAsync(client);
        long expires = DateTimeOffset.UtcNow.AddHours(1).ToUnixTimeMilliseconds();
        string[][] commands = [["SET", "k", "1"], ["APPEND", "k", "2"], ["PEXPIREAT", "k", Text(expires)], ["DEL", "k"], ["SET", "k", "x"]];
        List<string> versions = [];
        foreach (string[] command in commands)
        {
            await client.DoAsync(command);
            versions.Add(await VersionNowAsync(client));
        }
        // Of one version only the last is told.
        await client.DoAsync("MULTI");
        for (int i = 0; i < 10; i++) { await client.DoAsync("SET", "k", Text(i)); }
        await client.DoAsync("EXEC");
        versions.Add(await VersionNowAsync(client));
        RespValue told = (await client.DoAsync("DPR.HISTORY", "k", "TO", versions[^1])).Items[3];
        Assert.Equal(["SET k 1", "SET k 12", $"SET k 12 PXAT {expires}", "DEL k", "SET k x", "SET k 9"],
            told.Items.Select(e => string.Join(' ', e.Items[4].Items.Select(w => w.Text))));
        foreach ((RespValue entry, string version) in told.Items.Zip(versions))
        {
            Assert.True(entry.Items[0].AsInteger() <= long.Parse(version, CultureInfo.InvariantCulture));
        }
        RespValue changed = await client.DoAsync("DPR.CHANGED", "FROM", versions[1], "TO", versions[^1]);
        Assert.Equal("k", Assert.Single(changed.Items[1].Items).Text);
    }

    // Anywhere: while commits are appended, while checkpoints are written.
    [Fact]
    public async Task ProxyKilled_AgainAndAgain_ThePastIsWhatItWas()
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        List<Moment> moments = [];
        for (int round = 0; round < s_rounds; round++)
        {
            using (RespClient client = await shard.ConnectAsync())
            {
                for (int i = 0; i < 3; i++)
                {
                    await WriteAsync(client, random, random.Next(200));
                    moments.Add(await LookAsync(client));
                }
            }
            using var stop = new CancellationTokenSource();
            Task writing = Task.Run(async () =>
            {
                try
                {
                    using RespClient writer = await shard.ConnectAsync();
                    while (!stop.IsCancellationRequested) { await WriteAsync(writer, new Random(round), 100); }
                }
                catch (Exception e) when (e is IOException or System.Net.Sockets.SocketException or InvalidOperationException)
                {
                    // The proxy was killed.
                }
            });
            await Task.Delay(random.Next(600));
            shard.Proxy.KillHard();
            await stop.CancelAsync();
            await writing;
            await shard.StartAsync();
            using RespClient after = await shard.ConnectAsync();
            // Before anything is done: what was durable is there.
            moments.Add(await LookAsync(after));
            foreach (Moment moment in moments) { await AssertReadAsync(after, moment, random, keys: 4); }
            Assert.DoesNotContain("has a gap", shard.Proxy.Tail());
        }
    }

    [Theory]
    [InlineData("past-appended")]
    [InlineData("past-durable")]
    [InlineData("checkpoint-taken")]
    [InlineData("checkpoint-kept")]
    public async Task ProxyKilled_BetweenTwoSteps_ThePastIsWhatItWas(string point)
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        List<Moment> moments = [];
        using (RespClient client = await shard.ConnectAsync())
        {
            await WriteAsync(client, random, 200);
            moments.Add(await LookAsync(client));
        }
        await shard.Proxy.TerminateAsync();
        // It serves for a while, and dies at the next commit, or at the next checkpoint.
        using (ProxyProcess dying = ProxyProcess.Launch(shard.Proxy.Port, ["--data", shard.Data, .. shard.Options],
            new Dictionary<string, string> { [Failpoint] = point }))
        {
            Task<int?> ended = dying.ExitAsync(s_limit);
            while (!ended.IsCompleted)
            {
                try
                {
                    using RespClient client = await dying.ConnectAsync();
                    while (!ended.IsCompleted) { await client.DoAsync("SET", $"filler:{random.Next(30)}", s_filler); }
                }
                catch (Exception e) when (e is IOException or System.Net.Sockets.SocketException or InvalidOperationException)
                {
                    await Task.Delay(20);
                }
            }
            Assert.Equal(Killed, await ended);
        }
        await shard.StartAsync();
        using RespClient after = await shard.ConnectAsync();
        moments.Add(await LookAsync(after));
        await WriteAsync(after, random, 200);
        moments.Add(await LookAsync(after));
        foreach (Moment moment in moments) { await AssertReadAsync(after, moment, random, keys: 20); }
        Assert.DoesNotContain("has a gap", shard.Proxy.Tail());
    }

    [Theory]
    [InlineData("checkpoint-taken")]
    [InlineData("checkpoint-kept")]
    [InlineData("history-begun")]
    public async Task ProxyKilled_WhileThePastBegins_ItBegins(string point)
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        int port = Workspace.FreePort();
        using (ProxyProcess dying = ProxyProcess.Launch(port, ["--data", shard.Data, .. shard.Options],
            new Dictionary<string, string> { [Failpoint] = point }))
        {
            Assert.Equal(Killed, await dying.ExitAsync(s_limit));
        }
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await client.DoAsync("SET", "k", "v");
        string version = await VersionNowAsync(client);
        await client.DoAsync("SET", "k", "later");
        Assert.Equal("v", (await client.DoAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
    }

    // What was done while nobody kept it is not told as if nothing had been done.
    [Fact]
    public async Task RetentionLeftOutForAWhile_LeavesAGap_ThatIsTold()
    {
        using var workspace = new Workspace();
        string data = workspace.File("data");
        int port = Workspace.FreePort();
        Moment before, unknown;
        using (ProxyProcess kept = await ProxyProcess.StartAsync(port, ["--data", data, .. Options()]))
        {
            using RespClient client = await kept.ConnectAsync();
            await client.DoAsync("SET", "k", "before");
            before = await LookAsync(client);
            await kept.TerminateAsync();
        }
        using (ProxyProcess without = await ProxyProcess.StartAsync(port, ["--data", data, "--faster-memory", "256mb"]))
        {
            using RespClient client = await without.ConnectAsync();
            Assert.Contains("or an embedded store with --retention", (await client.CallAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
            for (int i = 0; i < 5; i++)
            {
                await client.DoAsync("SET", "k", $"unknown {i}");
                await client.DoAsync("WAITAOF", "1", "0", "0");
            }
            string info = (await client.DoAsync("DPR.INFO")).Text;
            unknown = new(info.Split("\r\n").First(l => l.StartsWith("committed_version:", StringComparison.Ordinal)).Split(':')[1], []);
            await client.DoAsync("SET", "k", "known again");
            await client.DoAsync("WAITAOF", "1", "0", "0");
            await Eventually.AsyncTrue("older commits are deleted", s_limit, async () =>
                (await client.DoAsync("DPR.INFO")).Text.Contains("commits_kept:1\r\n", StringComparison.Ordinal));
            await without.TerminateAsync();
        }
        using ProxyProcess again = await ProxyProcess.StartAsync(port, ["--data", data, .. Options()]);
        using RespClient reader = await again.ConnectAsync();
        Moment after = await LookAsync(reader);
        Assert.Contains("the past has a gap", again.Tail());
        await AssertReadAsync(reader, before, new Random(1));
        await AssertReadAsync(reader, after, new Random(1));
        RespValue refused = await reader.CallAsync("DPR.ASOF", "VERSION", unknown.Version, "GET", "k");
        Assert.Contains("NOTKEPT", refused.Text);
        Assert.Contains("writes that no log has", refused.Text);
        Assert.Contains("has a gap", (await reader.CallAsync("DPR.HISTORY", "k", "FROM", before.Version)).Text);
    }

    // The store has an older content from one version to the next: no change says so.
    [Fact]
    public async Task RestoredToAnOlderVersion_ThePastGoesOnWithItsContent()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        Moment older;
        using (RespClient client = await shard.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "older");
            older = await LookAsync(client);
        }
        await shard.Proxy.TerminateAsync();
        // The versions since are of the same content. Of their commits the one at which the history stands is kept, and the newer ones.
        string kept = await NewestCommitAsync(shard.Data);
        string newer;
        // The history stands still.
        using (ProxyProcess still = await ProxyProcess.StartAsync(Workspace.FreePort(), ["--data", shard.Data, .. shard.Options],
            new Dictionary<string, string> { [Failpoint] = "past-appended+3600000" }))
        {
            using RespClient client = await still.ConnectAsync();
            await client.DoAsync("MSET", "k", "newer", "other", "newer");
            await client.DoAsync("WAITAOF", "1", "0", "0");
            newer = (await client.DoAsync("DPR.INFO")).Text.Split("\r\n")
                .First(l => l.StartsWith("committed_version:", StringComparison.Ordinal)).Split(':')[1];
            // For the newest version the older content stands from then on.
            await client.DoAsync("SET", "k", "newest");
            await client.DoAsync("WAITAOF", "1", "0", "0");
            still.KillHard();
        }
        (int code, string told) = await ProxyProcess.CommandAsync("restore", "--data", shard.Data, "--version", kept, "--keep");
        Assert.True(code == 0, told);
        await shard.StartAsync();
        using RespClient after = await shard.ConnectAsync();
        Assert.Equal("older", (await after.DoAsync("GET", "k")).Text);
        Moment restored = await LookAsync(after);
        await after.DoAsync("SET", "k", "afterwards");
        Moment last = await LookAsync(after);
        foreach (Moment moment in (Moment[])[older, restored, last]) { await AssertReadAsync(after, moment, new Random(1)); }
        Assert.Contains("writes that no log has", (await after.CallAsync("DPR.ASOF", "VERSION", newer, "GET", "k")).Text);
    }

    // The other shard's store is lost: both go back to the cut, and so does what is said of it.
    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    public async Task ClusterRolledBack_ThePastIsWhatSurvived(int embedded)
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false)
        {
            Embedded = embedded, EmbeddedOptions = Shown, Options = ["--retention", "1h"],
        };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        List<(string Version, string Value)> moments = [];
        string key = cluster.Key(1, "k");
        for (int round = 0; round < 4; round++)
        {
            using (RespClient client = await cluster.ConnectAsync(1))
            {
                for (int i = 0; i < 3; i++)
                {
                    string value = $"{round}.{i}";
                    await client.DoAsync("SET", key, value);
                    moments.Add((await VersionNowAsync(client), value));
                }
                for (int i = random.Next(50); i > 0; i--) { await client.CallAsync("SET", key, $"in doubt {i}"); }
            }
            await cluster.KillRedisAsync(0);
            await cluster.ServingAsync();
            // The embedded one itself, too, with what has just been taken back.
            if (round == 2)
            {
                await cluster.KillRedisAsync(1);
                await cluster.ServingAsync();
            }
            using RespClient after = await cluster.ConnectAsync(1);
            string survived = (await after.DoAsync("GET", key)).Text;
            moments.Add((await VersionNowAsync(after), survived));
            foreach ((string version, string value) in moments)
            {
                Assert.Equal(value, (await after.DoAsync("DPR.ASOF", "VERSION", version, "GET", key)).Text);
            }
        }
        // Of both shards.
        string directory = await SnapshotTests.TakeAsync(workspace, cluster.Port(0));
        Assert.Equal(2, Directory.GetFiles(directory, "shard-*.rdb").Length);
        await using SloggerClient sessions = await ClientCluster.ConnectAsync(cluster);
        await using SloggerSession session = sessions.OpenSession();
        await session.SetAsync(key, "of a session");
        await session.WaitForCommitAsync();
        await using PastView view = await session.AsOfAsync(TimeSpan.Zero);
        await session.SetAsync(key, "later");
        Assert.Equal("of a session", await view.GetAsync(key));
    }

    [Fact]
    public async Task Retention_OlderHistoryIsDeleted()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options("4s") };
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        List<Moment> moments = [];
        await Eventually.AsyncTrue("older history is deleted", s_limit, async () =>
        {
            for (int n = 0; n < 4; n++) { await client.DoAsync("SET", $"filler:{n}", s_filler); }
            await client.DoAsync("SET", "k", Text(moments.Count));
            await client.DoAsync("WAITAOF", "1", "0", "0");
            moments.Add(new(Text(await shard.NumberAsync("committed_version")), [new(0, "k", "string", $"${moments.Count}", -1)]));
            return await shard.NumberAsync("past_from_version") > long.Parse(moments[0].Version, CultureInfo.InvariantCulture);
        });
        Assert.Equal(0, await shard.NumberAsync("retention_short"));
        RespValue gone = await client.CallAsync("DPR.ASOF", "VERSION", moments[0].Version, "GET", "k");
        Assert.Contains("is not kept: the log of this shard goes back to version", gone.Text);
        await VersionNowAsync(client);
        foreach (Moment moment in moments.TakeLast(5)) { await AssertReadAsync(client, moment, new Random(1)); }
    }

    // Behind --retention-detail the commits are reduced as the log of a Redis is.
    [Fact]
    public async Task RetentionDetail_WhatIsOlder_IsThereAsStates()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace)
        {
            Options = Options("1h", "--retention-detail", "2s", "--retention-step", "200ms"),
        };
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await VersionNowAsync(client);
        List<(long Version, long Value)> written = [];
        // On a busy machine hardly any time is left to reduce it.
        await Eventually.AsyncTrue("the past is reduced", 3 * s_limit, async () =>
        {
            for (int n = 0; n < 4; n++) { await client.DoAsync("SET", $"filler:{n}", s_filler); }
            await client.DoAsync("SET", "k", Text(written.Count));
            await client.DoAsync("WAITAOF", "1", "0", "0");
            written.Add((await shard.NumberAsync("committed_version"), written.Count));
            // What comes faster than it is reduced reaches the budget.
            await Task.Delay(50);
            long from = await shard.NumberAsync("past_detail_from_version");
            return written.Count(w => w.Version < from) > 20;
        });
        foreach ((long version, long value) in written.Take(15))
        {
            // The last before it that is kept.
            string kept = Text((await client.DoAsync("DPR.ASOF", "VERSION", Text(version))).Items[1].AsInteger());
            RespValue read = await client.DoAsync("DPR.ASOF", "VERSION", kept, "GET", "k");
            long found = read.IsNull ? -1 : long.Parse(read.Text, CultureInfo.InvariantCulture);
            Assert.InRange(found, -1, value);
        }
    }

    [Fact]
    public async Task WithoutAProgramToShowIt_TheHistoryIsThere_AndWhatCannotBeDoneSaysWhy()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = ["--faster-memory", "256mb", "--retention", "1h"] };
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await VersionNowAsync(client);
        await client.DoAsync("SET", "k", "v");
        string version = await VersionNowAsync(client);
        Assert.Contains("start with --commit faster --redis-server redis-server",
            (await client.CallAsync("DPR.ASOF", "VERSION", version, "GET", "k")).Text);
        Assert.Contains("--redis-server redis-server", (await client.CallAsync("DPR.SNAPSHOT", "BEGIN", "AGO", "0")).Text);
        Assert.Single((await client.DoAsync("DPR.HISTORY", "k", "TO", version)).Items[3].Items);
        (int code, string told) = await ProxyProcess.CommandAsync("reset", "--address", At(shard), "--to", version, "--dry-run");
        Assert.Equal(1, code);
        Assert.Contains("start with --commit faster --redis-server redis-server", told);
        (code, told) = await ProxyProcess.CommandAsync("retention", "--address", At(shard));
        Assert.True(code == 0, told);
        Assert.Contains("1 h promised", told);
    }

    [Fact]
    public async Task DamagedHistory_IsNamed_AndNothingElseIsTouched()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        using (RespClient client = await shard.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "v");
            await VersionNowAsync(client);
        }
        await shard.Proxy.TerminateAsync();
        string checkpoint = Assert.Single(Directory.GetFiles(Path.Combine(shard.Data, "history", "checkpoints"), "*.rdb"));
        File.Delete(checkpoint);
        using (ProxyProcess refused = ProxyProcess.Launch(shard.Proxy.Port, ["--data", shard.Data, .. shard.Options]))
        {
            Assert.NotEqual(0, await refused.ExitAsync(s_limit));
            Assert.Contains("the past cannot be opened", refused.Tail());
            Assert.Contains($"move {Path.Combine(shard.Data, "history")} away", refused.Tail());
        }
        Directory.Move(Path.Combine(shard.Data, "history"), workspace.File("away"));
        await shard.StartAsync();
        using RespClient after = await shard.ConnectAsync();
        Assert.Equal("v", (await after.DoAsync("GET", "k")).Text);
        Assert.Equal("v", (await after.DoAsync("DPR.ASOF", "AGO", "0", "GET", "k")).Text);
    }

    [Fact]
    public async Task Reset_AnyMoment_IsThereAgain_AndSoIsWhatWasBefore()
    {
        int seed = TestSeed.Choose(output);
        var random = new Random(seed);
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options = Options() };
        await shard.StartAsync();
        List<Moment> moments = [];
        using (RespClient client = await shard.ConnectAsync())
        {
            for (int i = 0; i < 8; i++)
            {
                await WriteAsync(client, random, random.Next(30, 300));
                moments.Add(await LookAsync(client));
            }
        }
        foreach (Moment moment in moments.OrderBy(_ => random.Next()).Take(4))
        {
            List<Seen> before = await ContentsAsync(shard);
            JsonElement report = await ResetSteps.ResetAsync(shard.Proxy.Port, moment.Version);
            SnapshotTests.AssertSame(moment.Keys, await ContentsAsync(shard));
            // Now and then of a process that was killed since.
            if (random.Next(2) == 0) { await shard.KillAndStartAsync(); }
            SnapshotTests.AssertSame(moment.Keys, await ContentsAsync(shard));
            await ResetSteps.ResetAsync(shard.Proxy.Port, report.GetProperty("undo_version").GetRawText());
            SnapshotTests.AssertSame(before, await ContentsAsync(shard));
        }
    }

    // What does not fit is an error, and the store is as it was.
    [Fact]
    public async Task Reset_WithoutRoomForIt_ChangesNothing()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace)
        {
            Options = ["--faster-memory", "64mb", "--faster-page", "8mb", .. Shown, "--retention", "1h"],
        };
        await shard.StartAsync();
        string large = new('y', 1 << 20), version;
        using (RespClient client = await shard.ConnectAsync())
        {
            for (int i = 0; i < 12; i++) { await client.DoAsync("SET", $"large:{i}", large); }
            version = await VersionNowAsync(client);
            for (int i = 0; i < 12; i++) { await client.DoAsync("SET", $"large:{i}", "small"); }
            await VersionNowAsync(client);
            for (int i = 0; (await client.CallAsync("SET", $"filler:{i}", large)) is { IsError: false }; i++) { Assert.True(i < 100); }
        }
        (int code, string told) = await ProxyProcess.CommandAsync("reset", "--address", At(shard), "--to", version, "--prefix", "large:");
        Assert.Equal(1, code);
        // A store that is full does not keep its commits for the past.
        Assert.Matches("the store answered OOM|has a gap|is not kept", told);
        // A world-line may have begun.
        await Eventually.AsyncTrue("it answers", s_limit, async () =>
        {
            if (shard.Proxy.HasExited)
            {
                // What was written meanwhile is taken back; if there is no room for that, a process that starts does so.
                Assert.Contains("Start the proxy again", shard.Proxy.Tail());
                await shard.StartAsync();
            }
            try
            {
                using RespClient after = await shard.ConnectAsync();
                for (int i = 0; i < 12; i++) { Assert.Equal("small", (await after.DoAsync("GET", $"large:{i}")).Text); }
                return true;
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
    }

    // ---- What a store shows ----

    private static string At(EmbeddedShard shard) => $"127.0.0.1:{Text(shard.Proxy.Port)}";

    private static async Task<List<Seen>> ContentsAsync(EmbeddedShard shard)
    {
        using RespClient client = await shard.ConnectAsync();
        return await StoreContents.ReadAllAsync(client, databases: 1);
    }

    private static async Task<string> NewestCommitAsync(string data)
    {
        (int code, string told) = await ProxyProcess.CommandAsync("restore", "--data", data, "--list");
        Assert.True(code == 0, told);
        return told.Split('\n').Where(l => l.Contains(", closed ") && !l.Contains("not committed"))
            .Max(l => long.Parse(l.Split(',')[0].Split(' ')[^1], CultureInfo.InvariantCulture)).ToString(CultureInfo.InvariantCulture);
    }

    private static async Task<Moment> LookAsync(RespClient client)
    {
        string version = await VersionNowAsync(client);
        return new(version, await StoreContents.ReadAllAsync(client, databases: 1));
    }

    private static List<Seen> Lasting(Moment moment) => [.. moment.Keys.Where(s => s.Type != "none" && s.ExpiresAtMs < 0)];

    private static async Task AssertReadAsync(RespClient client, Moment moment, Random random, int keys = 10)
    {
        string[] at = ["DPR.ASOF", "VERSION", moment.Version];
        foreach (Seen seen in moment.Keys.OrderBy(_ => random.Next()).Take(keys))
        {
            string type = (await client.DoAsync([.. at, "TYPE", seen.Key])).Text;
            string value = seen.Type == "none" ? "" : (await client.DoAsync([.. at, "GET", seen.Key])).Compact;
            long expires = (await client.DoAsync([.. at, "PEXPIRETIME", seen.Key])).AsInteger();
            Assert.Equal(seen, seen with { Type = type, Value = value, ExpiresAtMs = expires });
        }
    }

    private static async Task WriteAsync(RespClient client, Random random, int count)
    {
        for (int i = 0; i < count; i++) { await client.CallAsync(Next(random)); }
    }

    private static string[] Next(Random random)
    {
        string key = $"k{random.Next(60)}", other = $"k{random.Next(60)}", value = new((char)('a' + random.Next(26)), random.Next(1, 4000));
        return random.Next(16) switch
        {
            0 => ["DEL", key],
            1 => ["APPEND", key, value[..Math.Min(value.Length, 50)]],
            2 => ["INCR", $"n{random.Next(10)}"],
            3 => ["RENAME", key, other],
            4 => ["SET", key, value, "PX", Text(random.Next(1_000_000, 100_000_000))],
            5 => ["SET", $"fleet{random.Next(10)}", value, "PX", Text(random.Next(1, 60))],
            6 => ["PERSIST", key],
            7 => ["PEXPIRE", key, Text(random.Next(1_000_000, 100_000_000))],
            8 => ["MSET", key, value, other, "2"],
            9 => ["SETBIT", $"b{random.Next(10)}", Text(random.Next(3000)), "1"],
            10 => ["COPY", key, other, "REPLACE"],
            11 when random.Next(50) == 0 => ["FLUSHALL"],
            _ => ["SET", key, value],
        };
    }
}
