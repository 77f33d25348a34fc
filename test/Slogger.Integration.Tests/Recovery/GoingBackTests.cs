// slogger restore --version, and the start after it: nothing brings another version back unasked; each of the two ways brings exactly what
// it says, and stays through kill -9; what sessions are told; several shards; what cannot be.
using System.Globalization;
using Slogger.Client;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Client;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Embedded;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class GoingBackTests
{
    private const int Killed = 137;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);
    private static readonly Dictionary<string, string> Nowhere = [];

    [Theory]
    [InlineData("log", true, "", true)]
    [InlineData("log", true, "--seed from-redis", true)]
    [InlineData("log", true, "--seed from-redis", false)]
    [InlineData("log", false, "--seed from-log", true)]
    [InlineData("log", false, "", false)]
    [InlineData("bgsave", true, "--seed from-redis", true)]
    [InlineData("bgsave", true, "", false)]
    [InlineData("bgsave", false, "", true)]
    public async Task Serve_AfterARestore_RefusesAndEachWayBringsItsState(string commit, bool attached, string seed, bool keeps)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: attached) { Commit = commit, Options = seed.Split(' ', StringSplitOptions.RemoveEmptyEntries) });
        long early = await WriteTwiceAndStopAsync(deployment, commit);
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early));

        for (int start = 0; start < 2; start++)
        {
            string refused = await RefusedAsync(deployment);
            Assert.Contains($"slogger restore --version {early} --keep", refused, StringComparison.Ordinal);
            Assert.Contains("slogger restore --latest", refused, StringComparison.Ordinal);
        }

        string said = await RestoreAsync(deployment.DataDirectory, keeps ? ["--version", Text(early), "--keep"] : ["--latest"]);
        Assert.Contains(keeps ? $"goes on from version {early}" : "goes on from the newest", said, StringComparison.Ordinal);
        await deployment.StartProxyAsync(Nowhere);
        string expected = keeps ? "old" : "new";
        Assert.Equal(expected, await GetAsync(deployment));
        // At once, and again when more has been written.
        await KillBothAsync(deployment);
        Assert.Equal(expected, await GetAsync(deployment));
        Assert.True(await SetAsync(deployment, "newer") > early);
        await KillBothAsync(deployment);
        Assert.Equal("newer", await GetAsync(deployment));
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("newer", await GetAsync(deployment));
        Assert.False(File.Exists(Path.Combine(deployment.DataDirectory, "restored.json")));
    }

    // An older copy of the directory stands for a disk that has lost what was committed last.
    [Theory]
    [InlineData("log")]
    [InlineData("bgsave")]
    public async Task Directory_LacksWhatWasCommitted_IsGoneOnWithOnlyByWhoAcceptsTheLoss(string commit)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = commit });
        await deployment.StartAsync();
        await SetAsync(deployment, "old");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        string older = workspace.File("older");
        Copy(deployment.DataDirectory, older);
        await deployment.StartProxyAsync(Nowhere);
        long lost = await SetAsync(deployment, "new");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        foreach (string entry in Directory.GetDirectories(deployment.DataDirectory)) { Directory.Delete(entry, recursive: true); }
        Copy(older, deployment.DataDirectory, file => !file.StartsWith("metadata.db", StringComparison.Ordinal));

        Assert.Contains("--latest --keep --i-accept-loss", await RefusedAsync(deployment), StringComparison.Ordinal);
        (int exitCode, string said) = await ProxyProcess.CommandAsync(["restore", "--data", deployment.DataDirectory, "--latest"]);
        Assert.Equal(1, exitCode);
        Assert.Contains("--i-accept-loss", said, StringComparison.Ordinal);
        Assert.Contains("which were committed",
            await RestoreAsync(deployment.DataDirectory, "--latest", "--keep", "--i-accept-loss"), StringComparison.Ordinal);
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("old", await GetAsync(deployment));
        // No version is given twice.
        Assert.True(await SetAsync(deployment, "newer") > lost);
        await KillBothAsync(deployment);
        Assert.Equal("newer", await GetAsync(deployment));
    }

    [Fact]
    public async Task EmbeddedStore_LacksWhatWasCommitted_IsGoneOnWithOnlyByWhoAcceptsTheLoss()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        await SetAsync(shard, "old");
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        string older = workspace.File("older");
        Copy(shard.Data, older);
        await shard.StartAsync();
        await SetAsync(shard, "new");
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        Directory.Delete(Path.Combine(shard.Data, "faster"), recursive: true);
        Copy(older, shard.Data, file => !file.StartsWith("metadata.db", StringComparison.Ordinal));

        (int exitCode, string said) = await ProxyProcess.CommandAsync(["restore", "--data", shard.Data, "--latest"]);
        Assert.True(exitCode == 1, said);
        Assert.Contains("which were committed",
            await RestoreAsync(shard.Data, "--latest", "--keep", "--i-accept-loss"), StringComparison.Ordinal);
        await shard.StartAsync();
        Assert.Equal("old", await GetAsync(shard));
        await SetAsync(shard, "newer");
        await shard.KillAndStartAsync();
        Assert.Equal("newer", await GetAsync(shard));
    }

    [Theory]
    [InlineData("log", "world-line-recorded")]
    [InlineData("log", "origin-recorded")]
    [InlineData("log", "restore-at-target")]
    [InlineData("log", "restored")]
    [InlineData("log", "checkpoint-kept")]
    [InlineData("log", "history-begun")]
    [InlineData("log", "older-version-kept")]
    [InlineData("bgsave", "world-line-recorded")]
    [InlineData("bgsave", "restored")]
    [InlineData("bgsave", "snapshot-kept")]
    [InlineData("bgsave", "older-version-kept")]
    public async Task Keep_KilledOnTheWay_TheNextStartGoesOnFromThatVersion(string commit, string point)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = commit });
        long early = await WriteTwiceAndStopAsync(deployment, commit);
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early), "--keep");
        using (var dying = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions,
            new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = point }))
        {
            Assert.Equal(Killed, await dying.ExitAsync(Generous));
        }
        await deployment.StartProxyAsync(Nowhere);
        string got = await GetAsync(deployment);
        Assert.True(got == "old", $"'{got}'\n{deployment.Proxy.Tail()}");
        await SetAsync(deployment, "newer");
        await KillBothAsync(deployment);
        Assert.Equal("newer", await GetAsync(deployment));
    }

    [Fact]
    public async Task EmbeddedStore_GoesOnFromAnOlderCommit_AlsoAcrossAKill()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        string commits = Path.Combine(shard.Data, "faster", "commits"), saved = workspace.Folder("saved");
        await shard.StartAsync();
        await SetAsync(shard, "old");
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        foreach (string file in Directory.EnumerateFiles(commits)) { File.Copy(file, Path.Combine(saved, Path.GetFileName(file))); }
        // The newest: an older one, which a slow machine may not have deleted yet, may be of before the write.
        string version = (await ListedAsync(shard.Data))[^1];
        await shard.StartAsync();
        await SetAsync(shard, "new");
        Assert.Equal(0, await shard.Proxy.TerminateAsync());
        // As the process leaves it that dies before it deletes the commits that the cut has left behind.
        foreach (string file in Directory.EnumerateFiles(saved))
        {
            File.Copy(file, Path.Combine(commits, Path.GetFileName(file)), overwrite: true);
        }

        string[] listed = await ListedAsync(shard.Data);
        Assert.True(listed.Length > 1 && listed.Contains(version), string.Join('\n', listed));
        (int exitCode, string text) = await ProxyProcess.CommandAsync("restore", "--data", shard.Data, "--version", version);
        Assert.True(exitCode == 1, text);
        Assert.Contains($"slogger restore --version {version} --keep", text, StringComparison.Ordinal);
        (exitCode, text) = await ProxyProcess.CommandAsync("restore", "--data", shard.Data, "--version", "1");
        Assert.True(exitCode == 1, text);
        Assert.Contains("no commit of version 1 is kept", text, StringComparison.Ordinal);

        await RestoreAsync(shard.Data, "--version", version, "--keep");
        // Thought better of.
        await RestoreAsync(shard.Data, "--latest");
        Assert.False(File.Exists(Path.Combine(shard.Data, "restored.json")));
        await RestoreAsync(shard.Data, "--version", version, "--keep");
        await shard.StartAsync();
        Assert.Equal("old", await GetAsync(shard));
        await shard.KillAndStartAsync();
        Assert.Equal("old", await GetAsync(shard));
        await SetAsync(shard, "newer");
        await shard.KillAndStartAsync();
        Assert.Equal("newer", await GetAsync(shard));
    }

    [Fact]
    public async Task List_ShowsEachVersionWithItsTime_AndWhatIsNotThereIsRefused()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        long early = await SetAsync(deployment, "old"), late = await SetAsync(deployment, "new");
        (int running, string text) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--version", Text(early), "--keep");
        Assert.True(running == 1, text);
        Assert.Contains("in use", text, StringComparison.Ordinal);
        Assert.Equal("new", await GetAsync(deployment));
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());

        string[] lines = (await RestoreAsync(deployment.DataDirectory, "--list")).Split('\n');
        string year = DateTime.UtcNow.Year.ToString(CultureInfo.InvariantCulture);
        foreach (long version in (long[])[early, late])
        {
            Assert.Contains(lines, l => Covers(l, version) && l.Contains($", closed {year}-", StringComparison.Ordinal)
                && l.Contains(" UTC", StringComparison.Ordinal));
        }
        (int exitCode, string missing) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--version", Text(late + 1_000_000_000), "--keep");
        Assert.True(exitCode == 1, missing);
        Assert.Contains("newest durable version is", missing, StringComparison.Ordinal);
        // Nothing was decided by it.
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("new", await GetAsync(deployment));
    }

    [Fact]
    public async Task Keep_OfAVersionInTheMiddleOfAListedRun_GoesOnFromItsContent()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        long early = await SetAsync(deployment, "old");
        using (RespClient idle = await deployment.ConnectAsync())
        {
            await Eventually.AsyncTrue("versions pass that hold nothing", Generous,
                async () => (await idle.DoAsync("DPR.CUT")).Items[1].AsInteger() > early + 10);
        }
        long late = await SetAsync(deployment, "new");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        long[][] runs = [.. (await RestoreAsync(deployment.DataDirectory, "--list")).Split('\n')
            .Where(l => l.Contains(" to ", StringComparison.Ordinal) && l.Contains(", closed ", StringComparison.Ordinal))
            .Select(l => l.Split(',')[0].Split(' '))
                .Select(w => new[] { long.Parse(w[0], CultureInfo.InvariantCulture), long.Parse(w[^1], CultureInfo.InvariantCulture) })];
        long[] run = runs.First(r => r[0] >= early && r[1] < late && r[1] - r[0] >= 2);
        string middle = Text((run[0] + run[1]) / 2);

        string said = await RestoreAsync(deployment.DataDirectory, "--version", middle, "--keep");
        Assert.Contains($"goes on from version {middle}", said, StringComparison.Ordinal);
        // That it is the last moment for a copy is said before anything else.
        int warned = said.IndexOf($"deletes the history after version {middle}. If it may be needed, copy {deployment.DataDirectory}",
            StringComparison.Ordinal);
        Assert.True(warned >= 0 && warned < said.IndexOf("restoring version", StringComparison.Ordinal), said);
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("old", await GetAsync(deployment));
        Assert.True(await SetAsync(deployment, "newer") > late);
        await KillBothAsync(deployment);
        Assert.Equal("newer", await GetAsync(deployment));
    }

    // The owner of the directory, who may want to be more than he is, has laid links in it: to a directory of root's, and where the command
    // writes.
    [Fact]
    public async Task Restore_ByRoot_WorksAsTheOwnerOfTheDirectory_AndTouchesNothingOutside()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        if (Environment.UserName != "root" || OperatingSystem.IsWindows())
        {
            Assert.Skip("only root can become another user");
            return;
        }

        long early = await WriteTwiceAndStopAsync(deployment, "log");
        string outside = workspace.Folder("outside"), file = Path.Combine(outside, "file"), link =
            Path.Combine(deployment.DataDirectory, "link");
        string written = Path.Combine(deployment.DataDirectory, "proxy.pid");
        await File.WriteAllTextAsync(file, "root's", TestContext.Current.CancellationToken);
        Directory.CreateSymbolicLink(link, outside);
        await ChildProcess.RunAsync("ln", [file, Path.Combine(outside, "hard")]);
        File.CreateSymbolicLink(written, file);
        File.SetUnixFileMode(workspace.Root, File.GetUnixFileMode(workspace.Root) | UnixFileMode.GroupExecute | UnixFileMode.OtherExecute);
        await ChildProcess.RunAsync("chown", ["-h", "-R", "12345:12346", deployment.DataDirectory]);

        (int exitCode, string said) = await ProxyProcess.CommandAsync(["restore", "--data", deployment.DataDirectory, "--list"]);
        Assert.True(exitCode == 1 && said.Contains(written, StringComparison.Ordinal), said);
        Assert.Equal("root's", await File.ReadAllTextAsync(file, TestContext.Current.CancellationToken));
        File.Delete(written);
        await RestoreAsync(deployment.DataDirectory, "--list");
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early), "--keep");
        Assert.True(File.Exists(Path.Combine(deployment.DataDirectory, "restored.json")));
        (int code, string others) = await ChildProcess.RunAsync(
            "find", [deployment.DataDirectory, "(", "!", "-user", "12345", "-o", "!", "-group", "12346", ")"]);
        Assert.True(code == 0 && !others.Contains(deployment.DataDirectory, StringComparison.Ordinal), others);
        (code, others) = await ChildProcess.RunAsync("find", [outside, "(", "!", "-user", "0", "-o", "!", "-group", "0", ")"]);
        Assert.True(code == 0 && !others.Contains(outside, StringComparison.Ordinal), others);
    }

    [Fact]
    public async Task OtherRedis_RestoredToLookAt_TheShardGoesOnWithItsOwnAndTheOtherIsAsked()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        long early = await SetAsync(deployment, "old");
        await SetAsync(deployment, "new");
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        using var other = await RedisProcess.StartAsync(workspace.Folder("other"));
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early), "--redis", $"127.0.0.1:{other.Port}");
        string[] options = [.. deployment.ServeOptions.Select(o => o == $"127.0.0.1:{deployment.Redis.Port}" ? $"localhost:{other.Port}"
            : o)];
        using (var refused = ProxyProcess.Launch(deployment.Port, options))
        {
            Assert.Equal(1, await refused.ExitAsync(Generous));
            Assert.Contains("--keep", refused.Tail(), StringComparison.Ordinal);
        }
        using (RespClient client = await other.ConnectAsync()) { Assert.Equal("old", (await client.DoAsync("GET", "k")).Text); }
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("new", await GetAsync(deployment));
    }

    [Theory]
    [InlineData("from-log")]
    [InlineData("from-redis")]
    public async Task OwnRedis_RestartedAndNamedInOtherWords_IsAskedAllTheSame(string seed)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Options = ["--seed", seed] });
        long early = await WriteTwiceAndStopAsync(deployment, "log");
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early));
        using (RespClient direct = await deployment.Redis.ConnectAsync()) { await direct.DoAsync("SAVE"); }
        deployment.Redis.KillHard();
        await deployment.Redis.RestartAsync();
        string[] options = [.. deployment.ServeOptions.Select(o => o == $"127.0.0.1:{deployment.Redis.Port}"
            ? $"localhost:{deployment.Redis.Port}" : o)];
        using (var refused = ProxyProcess.Launch(deployment.Port, options))
        {
            Assert.Equal(1, await refused.ExitAsync(Generous));
            Assert.Contains($"slogger restore --version {early} --keep", refused.Tail(), StringComparison.Ordinal);
        }
        using (RespClient direct = await deployment.Redis.ConnectAsync()) { Assert.Equal("old", (await direct.DoAsync("GET", "k")).Text); }

        // What is decided in other words holds for the shard's own store, too.
        await RestoreAsync(deployment.DataDirectory, "--version", Text(early), "--keep", "--seed", "from-log", "--redis",
            $"localhost:{deployment.Redis.Port}");
        await RestoreAsync(deployment.DataDirectory, "--latest", "--redis", $"localhost:{deployment.Redis.Port}");
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal("new", await GetAsync(deployment));
    }

    [Fact]
    public async Task SeveralShards_GoOnFromOneVersion_SessionsReadItAndGoOn()
    {
        using var workspace = new Workspace();
        await using var shards = new ClusterDeployment(workspace, 2, usesPostgres: false);
        await shards.StartAsync();
        string[] keys = [shards.Key(0, "k"), shards.Key(1, "k")];
        await using SloggerClient client = await ClientCluster.ConnectAsync(shards);
        await using SloggerSession session = client.OpenSession();
        foreach (string key in keys) { await session.SetAsync(key, "old"); }
        await session.WaitForCommitAsync();
        (_, long early) = await shards.CutAsync(0);
        foreach (string key in keys) { await session.SetAsync(key, "new"); }
        await session.WaitForCommitAsync();

        Assert.Equal(0, await shards.TerminateProxyAsync(1));
        (int exitCode, string text) = await ProxyProcess.CommandAsync(
            "restore", "--data", shards.Data(1), "--metadata", shards.Metadata, "--version", Text(early), "--keep");
        Assert.True(exitCode == 1, text);
        Assert.Contains("stop the proxies of all shards", text, StringComparison.Ordinal);
        Assert.Equal(0, await shards.TerminateProxyAsync(0));
        for (int i = 0; i < 2; i++)
        {
            await RestoreAsync(shards.Data(i), "--metadata", shards.Metadata, "--version", Text(early), "--keep");
        }
        await Task.WhenAll(shards.StartProxyAsync(0), shards.StartProxyAsync(1));
        await shards.ServingAsync();
        // All of the session was committed, and is history still: it is told of no loss, reads what is there now, and goes on.
        foreach (string key in keys) { Assert.Equal("old", (await session.GetAsync(key).AsTask().WaitAsync(Generous)).Value); }
        await session.SetAsync(shards.Key(0, "other"), "x").AsTask().WaitAsync(Generous);
        await session.WaitForCommitAsync().WaitAsync(Generous);
        for (int round = 0; round < 2; round++)
        {
            for (int i = 0; i < 2; i++)
            {
                using RespClient direct = await shards.ConnectAsync(i);
                Assert.Equal("old", (await direct.DoAsync("GET", keys[i])).Text);
                Assert.Equal(1, (await direct.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
            }
            if (round > 0) { break; }
            shards.KillProxy(0);
            shards.KillProxy(1);
            await Task.WhenAll(shards.StartProxyAsync(0), shards.StartProxyAsync(1));
        }
    }

    [Fact]
    public async Task Settings_OfAnAttachedRedis_AreAsBeforeWhenAProxyDiedBeforeItPutThemBack()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: true) { RedisOptions = ["--notify-keyspace-events", "KEA", "--masterauth", "secret-of-before"] });
        await deployment.StartAsync();
        await SetAsync(deployment, "old");
        deployment.Proxy.KillHard();
        deployment.Redis.KillHard();
        await deployment.Redis.RestartAsync();
        string[] before = await SettingsAsync(deployment.Redis);
        Assert.Contains("secret-of-before", before);
        using (var dying = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions,
            new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "promoted" }))
        {
            Assert.Equal(Killed, await dying.ExitAsync(Generous));
        }
        Assert.NotEqual(before, await SettingsAsync(deployment.Redis));
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal(before, await SettingsAsync(deployment.Redis));
        Assert.Equal("old", await GetAsync(deployment));
        Assert.Empty(Directory.EnumerateFiles(deployment.DataDirectory, "*-undo.json"));
    }

    [Fact]
    public async Task Settings_ChangedForACheckpoint_AreAsBeforeWhenAProxyDiedBeforeItPutThemBack()
    {
        using var workspace = new Workspace();
        // With such a backlog the next start takes no checkpoint: it has nothing else to do with that setting.
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: true) { RedisOptions = ["--repl-diskless-sync-delay", "7", "--repl-backlog-size", "64mb"] });
        await deployment.StartAsync();
        await deployment.Proxy.TerminateAsync();
        await deployment.StartProxyAsync(new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "checkpoint-taken" });
        using (RespClient client = await deployment.ConnectAsync())
        {
            for (int i = 0; i < 3; i++) { await client.SendAsync("SET", $"large:{i}", new string('x', 4 << 20)); }
            Assert.Equal(Killed, await deployment.Proxy.ExitAsync(Generous));
        }
        Assert.Equal("0", await DelayAsync());
        Assert.True(File.Exists(Path.Combine(deployment.DataDirectory, "attach-undo.json")));
        await deployment.StartProxyAsync(Nowhere);
        Assert.Contains("settings of", deployment.Proxy.Tail(), StringComparison.Ordinal);
        Assert.Equal("7", await DelayAsync());
        Assert.Empty(Directory.EnumerateFiles(deployment.DataDirectory, "*-undo.json"));

        async Task<string> DelayAsync()
        {
            using RespClient direct = await deployment.Redis.ConnectAsync();
            return (await direct.DoAsync("CONFIG", "GET", "repl-diskless-sync-delay")).Items[1].Text;
        }
    }

    [Fact]
    public async Task Settings_OfAnotherRun_AreNotPutIntoTheNextOne()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace,
            new ProxySetup(Attached: true) { RedisOptions = ["--notify-keyspace-events", "KEA"] });
        await deployment.StartAsync();
        await SetAsync(deployment, "old");
        deployment.Proxy.KillHard();
        deployment.Redis.KillHard();
        await deployment.Redis.RestartAsync();
        using (var dying = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions,
            new Dictionary<string, string> { ["SLOGGER_TEST_FAILPOINT"] = "promoted" }))
        {
            Assert.Equal(Killed, await dying.ExitAsync(Generous));
        }
        deployment.Redis.KillHard();
        await deployment.Redis.RestartAsync();
        using (RespClient direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("CONFIG", "SET", "notify-keyspace-events", "Kg");
        }
        string[] own = await SettingsAsync(deployment.Redis);
        await deployment.StartProxyAsync(Nowhere);
        Assert.Equal(own, await SettingsAsync(deployment.Redis));
        Assert.Equal("old", await GetAsync(deployment));
    }

    private static async Task<string[]> SettingsAsync(RedisProcess redis)
    {
        using RespClient direct = await redis.ConnectAsync();
        var settings = new List<string>();
        foreach (string name in (string[])["replica-read-only", "replica-ignore-maxmemory", "notify-keyspace-events", "repl-diskless-load",
            "repl-diskless-sync-delay", "masteruser", "masterauth", "repl-timeout", "replica-serve-stale-data"])
        {
            settings.Add((await direct.DoAsync("CONFIG", "GET", name)).Items[1].Text);
        }
        return [.. settings];
    }

    private static bool Covers(string line, long version)
    {
        string[] words = line.Split(',')[0].Split(' ');
        return long.TryParse(words[0], CultureInfo.InvariantCulture, out long first) && first <= version
            && version <= long.Parse(words[^1], CultureInfo.InvariantCulture);
    }

    // Returns a version that holds the first value and is kept. Of mode bgsave that is the last snapshot but one: an ordered end would save
    // once more.
    private static async Task<long> WriteTwiceAndStopAsync(ProxyDeployment deployment, string commit)
    {
        await deployment.StartAsync();
        long early = await SetAsync(deployment, "old");
        await SetAsync(deployment, "new");
        if (commit == "log")
        {
            Assert.Equal(0, await deployment.Proxy.TerminateAsync());
            return early;
        }
        deployment.Proxy.KillHard();
        Assert.NotNull(await deployment.Proxy.ExitAsync(Generous));
        // The last but one: an older one may be there still, which the process was about to delete.
        return (await RestoreAsync(deployment.DataDirectory, "--list")).Split('\n')
            .Where(l => l.Contains(", closed ", StringComparison.Ordinal))
            .Select(l => long.Parse(l.Split(',')[0].Split(' ')[0], CultureInfo.InvariantCulture)).Order().SkipLast(1).Last();
    }

    private static void Copy(string from, string to, Func<string, bool>? which = null)
    {
        foreach (string file in Directory.GetFiles(from, "*", SearchOption.AllDirectories))
        {
            string name = Path.GetRelativePath(from, file), copy = Path.Combine(to, name);
            if (which?.Invoke(name) == false) { continue; }
            Directory.CreateDirectory(Path.GetDirectoryName(copy)!);
            File.Copy(file, copy, overwrite: true);
        }
    }

    // The proxy, and the Redis that the test runs.
    private static async Task KillBothAsync(ProxyDeployment deployment)
    {
        deployment.Proxy.KillHard();
        if (deployment.IsAttached)
        {
            deployment.Redis.KillHard();
            await deployment.Redis.RestartAsync();
        }
        await deployment.StartProxyAsync(Nowhere);
    }

    private static async Task<string> RefusedAsync(ProxyDeployment deployment)
    {
        using var refused = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions);
        Assert.Equal(1, await refused.ExitAsync(Generous));
        return refused.Tail();
    }

    private static async Task<string[]> ListedAsync(string data) => [.. (await RestoreAsync(data, "--list")).Split('\n')
        .Where(l => l.Contains(", closed ", StringComparison.Ordinal)).Select(l => l.Split(',')[0].Split(' ')[0])];

    private static async Task<string> RestoreAsync(string data, params string[] arguments)
    {
        (int exitCode, string text) = await ProxyProcess.CommandAsync(["restore", "--data", data, .. arguments]);
        Assert.True(exitCode == 0, text);
        return text;
    }

    /// <summary>Sets the key; returns the committed version that holds it, and no more.</summary>
    private static async Task<long> SetAsync(ProxyDeployment deployment, string value)
    {
        using RespClient client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", value);
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        return (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
    }

    private static async Task SetAsync(EmbeddedShard shard, string value)
    {
        using RespClient client = await shard.ConnectAsync();
        await client.DoAsync("SET", "k", value);
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
    }

    private static async Task<string> GetAsync(ProxyDeployment deployment)
    {
        using RespClient client = await deployment.ConnectAsync();
        return (await client.DoAsync("GET", "k")).Text;
    }

    private static async Task<string> GetAsync(EmbeddedShard shard)
    {
        using RespClient client = await shard.ConnectAsync();
        var value = await client.DoAsync("GET", "k");
        return value.IsNull ? "" : value.Text;
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
