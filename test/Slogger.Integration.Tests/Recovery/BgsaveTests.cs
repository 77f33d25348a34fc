// Mode bgsave: a version is what a BGSAVE holds. Random kills as in mode log; saves of others, saves that fail, FLUSHALL in the
// middle of one (which kills it without a trace in the status), a store that comes back from a dump of its own.
using System.Globalization;
using System.Net;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class BgsaveTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public Task Supervised_KilledAtRandom_ComesBackToAnExactPrefix() => ChaosAsync(new ProxySetup { Commit = "bgsave" });

    [Fact]
    public Task Attached_KilledAtRandomAndBackFromItsDump_ComesBackToAnExactPrefix() =>
        ChaosAsync(new ProxySetup(Attached: true) { Commit = "bgsave" });

    [Fact]
    public async Task Kept_Snapshots_AreFewAndEachCanBeRestored()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = "bgsave" });
        await deployment.StartAsync();
        for (int i = 0; i < 5; i++) { await CommitAsync(deployment, $"{i}"); }
        string folder = Path.Combine(deployment.DataDirectory, "bgsave");
        await Eventually.AsyncTrue("old snapshots are deleted", Generous,
            () => Task.FromResult(Directory.EnumerateFiles(folder, "*.rdb").Count() <= 3));
        string digest = await DigestAsync(deployment.Endpoint);
        Assert.Equal(0, await deployment.Proxy.TerminateAsync());
        using var fresh = await RedisProcess.StartAsync(workspace.Folder("fresh"));
        string address = $"127.0.0.1:{fresh.Port}";
        var (exitCode, text) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--latest", "--redis", address);
        Assert.True(exitCode == 0, text);
        Assert.Equal(digest, await DigestAsync(fresh.Endpoint));
        (exitCode, text) = await ProxyProcess.CommandAsync(
            "restore", "--data", deployment.DataDirectory, "--version", "1", "--redis", address);
        Assert.True(exitCode != 0 && text.Contains("no snapshot of version 1 is kept", StringComparison.Ordinal), text);
    }

    [Fact]
    public async Task Idle_Shard_CommitsWithoutSaving()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = "bgsave" });
        await deployment.StartAsync();
        long before = await CommitAsync(deployment, "x");
        // Asking is being busy: the cut is looked at in the metadata's stead, after a while of silence.
        await Task.Delay(3000);
        using var client = await deployment.ConnectAsync();
        long after = (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
        Assert.True(after >= before + 200, $"cut {before}, three seconds later {after}");
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using var again = await deployment.ConnectAsync();
        Assert.Equal("$x", (await again.CallAsync("GET", "k")).Compact);
    }

    // Redis counts what was written since its last save, whoever keeps the file: a save that a killed proxy had begun counts too.
    [Fact]
    public async Task Save_WhoseProxyWasKilled_IsNotTakenForOneThatIsKept()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = "bgsave" });
        await deployment.StartAsync();
        await CommitAsync(deployment, "1");
        using var direct = await deployment.Redis.ConnectAsync();
        await direct.DoAsync("CONFIG", "SET", "rdb-key-save-delay", "500000");
        long open;
        using (var client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "k", "2");
            open = (await FieldsAsync(client))["open_version"];
            await Eventually.AsyncTrue("a save has begun", Generous, async () => await SavingAsync(direct));
        }

        deployment.Proxy.KillHard();
        await Eventually.AsyncTrue("the save has ended", Generous, async () => !await SavingAsync(direct));
        await direct.DoAsync("CONFIG", "SET", "rdb-key-save-delay", "0");
        await deployment.StartProxyAsync();
        using (var asking = await deployment.ConnectAsync())
        {
            await Eventually.AsyncTrue("the version is committed", Generous,
                async () => (await asking.DoAsync("DPR.CUT")).Items[1].AsInteger() > open);
        }

        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using var again = await deployment.ConnectAsync();
        Assert.Equal("$2", (await again.CallAsync("GET", "k")).Compact);
    }

    private static async Task<bool> SavingAsync(RespClient direct) =>
        (await direct.DoAsync("INFO", "persistence")).Text.Contains("rdb_bgsave_in_progress:1", StringComparison.Ordinal);

    private static async Task<Dictionary<string, long>> FieldsAsync(RespClient client) =>
        (await client.DoAsync("DPR.INFO")).Text.Split('\n', StringSplitOptions.RemoveEmptyEntries)
            .Select(l => l.TrimEnd('\r').Split(':', 2))
            .Where(p => p.Length == 2 && long.TryParse(p[1], out _))
                .ToDictionary(p => p[0], p => long.Parse(p[1], System.Globalization.CultureInfo.InvariantCulture));

    [Fact]
    public async Task Saves_OfOthersAndFlushAll_NeverCommitWhatIsNotKept()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = "bgsave" });
        await deployment.StartAsync();
        for (int round = 0; round < 6; round++)
        {
            using var direct = await deployment.Redis.ConnectAsync();
            using var client = await deployment.ConnectAsync();
            await direct.DoAsync("CONFIG", "SET", "rdb-key-save-delay", "200");
            for (int i = 0; i < 1000; i++) { await client.DoAsync("SET", $"k{i}", $"v{round}"); }
            await client.DoAsync("SET", "round", $"{round}");
            // In the middle of a save of some 200 ms: another one, a foreground one, one's death.
            await Task.Delay(60 * round);
            if (round % 3 == 0) { await direct.CallAsync("BGSAVE"); }
            if (round % 3 == 1) { await direct.CallAsync("SAVE"); }
            if (round % 3 == 2) { await client.DoAsync("FLUSHALL"); }
            await client.DoAsync("SET", "after", $"{round}");
            await client.SendAsync("DPR.WAIT", "*", "60000");
            Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
            string digest = await DigestAsync(deployment.Redis.Endpoint);
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            Assert.Equal(digest, await DigestAsync(deployment.Redis.Endpoint));
        }
    }

    [Fact]
    public async Task Save_ThatFails_CommitsNothingUntilOneSucceeds()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = "bgsave" });
        await deployment.StartAsync();
        await CommitAsync(deployment, "1");
        using var direct = await deployment.Redis.ConnectAsync();
        string directory = (await direct.DoAsync("CONFIG", "GET", "dir")).Items[1].Text;
        // A directory where the dump should be: the rename at the end of each save fails.
        await direct.DoAsync("CONFIG", "SET", "dbfilename", "occupied");
        Directory.CreateDirectory(Path.Combine(directory, "occupied", "really"));
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "2");
        Assert.Equal(0, (await client.DoAsync("DPR.WAIT", "*", "1500")).Items[2].AsInteger());
        Assert.Equal("$2", (await client.CallAsync("GET", "k")).Compact);
        await direct.DoAsync("CONFIG", "SET", "dbfilename", "dump.rdb");
        await client.SendAsync("DPR.WAIT", "*", "60000");
        Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
    }

    // Each save is slow, and meanwhile the dump's name becomes another file's: that is what is looked at when it has ended.
    [Theory]
    [InlineData("cut", "the file is broken")]
    [InlineData("flipped", "the file is broken")]
    [InlineData("missing", "is not a new file")]
    public async Task Dump_ThatIsBroken_IsNamedAndIsNoSnapshot(string how, string said)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = "bgsave" });
        await deployment.StartAsync();
        await CommitAsync(deployment, "1");
        using var direct = await deployment.Redis.ConnectAsync();
        string directory = (await direct.DoAsync("CONFIG", "GET", "dir")).Items[1].Text;
        byte[] dump = await File.ReadAllBytesAsync(Path.Combine(directory, "dump.rdb"));
        if (how == "flipped") { dump[dump.Length / 2] ^= 1; }
        if (how != "missing") { await File.WriteAllBytesAsync(Path.Combine(directory, "other.rdb"), how == "cut" ? dump[..^9] : dump); }
        await direct.DoAsync("CONFIG", "SET", "rdb-key-save-delay", "1000000");
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", "2");
        await Eventually.AsyncTrue("a save is on its way", Generous,
            async () => (await direct.DoAsync("INFO", "persistence")).Text.Contains("rdb_bgsave_in_progress:1", StringComparison.Ordinal));
        await direct.DoAsync("CONFIG", "SET", "dbfilename", "other.rdb");
        await direct.DoAsync("CONFIG", "SET", "rdb-key-save-delay", "0");
        await Eventually.AsyncTrue("it is said", Generous,
            () => Task.FromResult(deployment.Tail().Contains(said, StringComparison.Ordinal)));
        // The next save is a good one, and all that is kept can be loaded.
        await client.SendAsync("DPR.WAIT", "*", "60000");
        Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
        foreach (string kept in Directory.EnumerateFiles(Path.Combine(deployment.DataDirectory, "bgsave"), "*.rdb"))
        {
            try
            {
                Assert.Equal(Slogger.Redis.Rdb.RdbIntegrity.Good, Slogger.Redis.Rdb.RdbFile.Verify(kept));
            }
            catch (Slogger.Redis.Connections.RedisException) when (!File.Exists(kept))
            {
                // Later snapshots are in the cut: nobody needs this one any more.
            }
        }
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using var again = await deployment.ConnectAsync();
        Assert.Equal("$2", (await again.CallAsync("GET", "k")).Compact);
    }

    // The newest snapshot is what was committed: with another one a start would lose it.
    [Theory]
    [InlineData("cut")]
    [InlineData("flipped")]
    [InlineData("missing")]
    public async Task Snapshot_ThatIsDamaged_IsNamedAndNotUsed(string how)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Commit = "bgsave" });
        await deployment.StartAsync();
        for (int i = 0; i < 3; i++) { await CommitAsync(deployment, $"{i}"); }
        deployment.Proxy.KillHard();
        await deployment.KillRedisAsync();
        FileInfo newest = new DirectoryInfo(Path.Combine(deployment.DataDirectory, "bgsave")).EnumerateFiles("*.rdb")
            .MaxBy(f => long.Parse(f.Name.Split('-', '.')[^2], CultureInfo.InvariantCulture))!;
        byte[] content = await File.ReadAllBytesAsync(newest.FullName);
        if (how == "flipped") { content[content.Length / 2] ^= 1; }
        newest.Delete();
        if (how != "missing") { await File.WriteAllBytesAsync(newest.FullName, how == "cut" ? content[..^9] : content); }
        using (var refused = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions))
        {
            int? exitCode = await refused.ExitAsync(Generous);
            Assert.True(exitCode is not null and not 0, refused.Tail());
            Assert.Contains(newest.Name, refused.Tail(), StringComparison.Ordinal);
        }
        // Put back, it is used.
        if (how == "flipped") { content[content.Length / 2] ^= 1; }
        await File.WriteAllBytesAsync(newest.FullName, content);
        await deployment.StartProxyAsync();
        using var client = await deployment.ConnectAsync();
        Assert.Equal("$2", (await client.CallAsync("GET", "k")).Compact);
    }

    [Fact]
    public async Task Directory_ThatCannotBeRead_IsRefusedAtTheStart()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = "bgsave" });
        await deployment.StartAsync();
        deployment.Proxy.KillHard();
        string gone = workspace.Folder("gone");
        using var direct = await deployment.Redis.ConnectAsync();
        await direct.DoAsync("CONFIG", "SET", "dir", gone);
        Directory.Delete(gone);
        using var refused = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions);
        int? exitCode = await refused.ExitAsync(Generous);
        Assert.True(exitCode is not null and not 0, refused.Tail());
        Assert.Contains("cannot be read from here", refused.Tail(), StringComparison.Ordinal);
    }

    private async Task ChaosAsync(ProxySetup setup)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, setup);
        var options = ChaosOptions.FromEnvironment() with { RunMinMs = 800, RunMaxMs = 2000, ReplayEvery = 3, Report = output.WriteLine };
        var report = await new ChaosRun(deployment, options).RunAsync();
        Assert.True(report.Violations.Count == 0, report.Text);
        Assert.True(report.CommittedChecked > 0, "no writer ever heard of a commit\n" + report.Text);
    }

    private static async Task<long> CommitAsync(ProxyDeployment deployment, string value)
    {
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "k", value);
        var reply = await client.DoAsync("DPR.WAIT", "*", "30000");
        Assert.True(reply.Items[2].AsInteger() == 1, $"{reply}\n{deployment.Tail()}");
        return (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
    }

    private static async Task<string> DigestAsync(EndPoint endpoint)
    {
        using var client = await RespClient.ConnectAsync(endpoint);
        return (await client.DoAsync("DEBUG", "DIGEST")).Text;
    }
}
