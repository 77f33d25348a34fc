// What processes say to the people who run them, when something is wrong and when nothing is.
using System.Text.RegularExpressions;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class MessageTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Theory]
    [InlineData("log", 1)]
    [InlineData("log", 3)]
    [InlineData("bgsave", 1)]
    [InlineData("faster", 1)]
    public async Task Metadata_FileWasDeleted_EveryStartSaysSoAndWhatToDo(string commit, int starts)
    {
        using var workspace = new Workspace();
        string metadata = workspace.File("m.db"), data = workspace.Folder("data"), copy = workspace.Folder("copy");
        int port = Workspace.FreePort();
        string[] store = commit == "faster" ? ["--faster-memory", "256mb"] : ["--redis-server", "redis-server", "--commit", commit];
        string[] options = ["--data", data, "--metadata", "sqlite:" + metadata, .. store];
        for (int i = 0; i < starts; i++) { await ServeAsync($"{i}"); }
        foreach (string file in Directory.GetFiles(workspace.Root, "m.db*"))
        {
            File.Move(file, Path.Combine(copy, Path.GetFileName(file)));
        }

        // Again and again, as a unit file has it: none brings the new file nearer to what is kept.
        for (int i = 0; i < 4; i++)
        {
            using var without = ProxyProcess.Launch(port, options);
            Assert.Equal(1, await without.ExitAsync(Generous));
            output.WriteLine(without.Tail());
            Assert.Contains("the metadata was deleted, or replaced", without.Tail(), StringComparison.Ordinal);
            Assert.Contains(metadata, without.Tail(), StringComparison.Ordinal);
            Assert.Contains($"the data directory {data} belongs to", without.Tail(), StringComparison.Ordinal);
            Assert.Contains("what to do: start with the metadata that this data directory was used with", without.Tail(),
                StringComparison.Ordinal);
        }
        (int exitCode, string text) = await ProxyProcess.CommandAsync(
            "restore", "--data", data, "--metadata", "sqlite:" + metadata, "--list");
        Assert.True(exitCode == 1, text);
        Assert.Contains("the metadata was deleted, or replaced", text, StringComparison.Ordinal);

        foreach (string file in Directory.GetFiles(workspace.Root, "m.db*")) { File.Delete(file); }
        foreach (string file in Directory.GetFiles(copy)) { File.Move(file, Path.Combine(workspace.Root, Path.GetFileName(file))); }
        await ServeAsync("later", expected: $"{starts - 1}");

        async Task ServeAsync(string value, string? expected = null)
        {
            using ProxyProcess proxy = await ProxyProcess.StartAsync(port, options);
            using (RespClient client = await proxy.ConnectAsync())
            {
                if (expected is not null) { Assert.Equal(expected, (await client.DoAsync("GET", "k")).Text); }
                await client.DoAsync("SET", "k", value);
                Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
            }
            Assert.Equal(0, await proxy.TerminateAsync());
        }
    }

    [Fact]
    public async Task Metadata_OfADirectoryFromBeforeThereWereIdentities_IsTakenUnlessTheLogIsAhead()
    {
        using var workspace = new Workspace();
        string record = Path.Combine(workspace.Folder("data"), "store.json");
        int port = Workspace.FreePort();
        string[] options = ["--data", workspace.Folder("data"), "--redis-server", "redis-server", "--metadata",
            "sqlite:" + workspace.File("m.db")];
        await ServeAsync();
        string noted = await File.ReadAllTextAsync(record);
        await File.WriteAllTextAsync(record, Regex.Replace(noted, @",\s*""cluster_identity"": ""[^""]*""", ""));
        Assert.DoesNotContain("cluster_identity", await File.ReadAllTextAsync(record), StringComparison.Ordinal);
        await ServeAsync();
        Assert.Equal(noted, await File.ReadAllTextAsync(record));

        await File.WriteAllTextAsync(record, Regex.Replace(noted, @",\s*""cluster_identity"": ""[^""]*""", ""));
        foreach (string file in Directory.GetFiles(workspace.Root, "m.db*")) { File.Delete(file); }
        using var without = ProxyProcess.Launch(port, options);
        Assert.Equal(1, await without.ExitAsync(Generous));
        Assert.Contains("was written under epoch", without.Tail(), StringComparison.Ordinal);
        Assert.Contains("the metadata was deleted, or replaced", without.Tail(), StringComparison.Ordinal);
        // It is not the directory's, and is not taken for it the next time.
        Assert.DoesNotMatch("cluster_identity\": \"[0-9a-f]", await File.ReadAllTextAsync(record));

        async Task ServeAsync()
        {
            using ProxyProcess proxy = await ProxyProcess.StartAsync(port, options);
            using (RespClient client = await proxy.ConnectAsync()) { await client.DoAsync("SET", "k", "v"); }
            Assert.Equal(0, await proxy.TerminateAsync());
        }
    }

    [Fact]
    public async Task Metadata_PostgresThatMayLoseWhatItConfirms_TheStartWarns()
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        using PostgresProcess postgres = await PostgresProcess.StartAsync(workspace);
        await SqlAsync("ALTER SYSTEM SET full_page_writes = off");
        await SqlAsync("SELECT pg_reload_conf()");
        await Eventually.AsyncTrue("PostgreSQL reads its settings again", Generous,
            async () => await SqlAsync("SHOW full_page_writes") == "off");
        using ProxyProcess proxy = await ProxyProcess.StartAsync(
            Workspace.FreePort(), ["--data", workspace.Folder("data"), "--redis-server", "redis-server", "--metadata",
                "postgres:" + postgres.ConnectionString]);
        Assert.Matches(
            @"warn.*the metadata, postgres:127\.0\.0\.1:\d+/postgres: full_page_writes is off.*docs/operate/metadata-database\.md",
            proxy.Tail());
        Assert.Equal(0, await proxy.TerminateAsync());

        async Task<string> SqlAsync(string sql)
        {
            (int exitCode, string said) = await ChildProcess.RunAsync(
                Path.Combine(PostgresProcess.Programs!, "psql"),
                    ["-h", "127.0.0.1", "-p", $"{postgres.Port}", "-U", "postgres", "-q", "-t", "-A", "-c", sql]);
            return exitCode == 0 ? said.Trim().Split('\n')[^1] : throw new InvalidOperationException(said);
        }
    }

    [Fact]
    public async Task Metadata_DiskIsFull_AStartSaysThatItEnds_AndOneWithRoomGoesOn()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        using var workspace = new Workspace();
        string mount = workspace.Folder("small");
        var (exitCode, error) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=4m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + error);
        try
        {
            int port = Workspace.FreePort();
            string[] options = ["--data", workspace.Folder("data"), "--redis-server", "redis-server", "--metadata",
                "sqlite:" + Path.Combine(mount, "m.db")];
            using (ProxyProcess proxy = await ProxyProcess.StartAsync(port, options))
            {
                using (RespClient client = await proxy.ConnectAsync()) { await client.DoAsync("SET", "k", "v"); }
                Assert.Equal(0, await proxy.TerminateAsync());
            }
            string ballast = Path.Combine(mount, "ballast");
            await ChildProcess.RunAsync("dd", ["if=/dev/zero", "of=" + ballast, "bs=4k"]);
            using (var full = ProxyProcess.Launch(port, options))
            {
                Assert.Equal(1, await full.ExitAsync(Generous));
                output.WriteLine(full.Tail());
                // SQLite cannot always tell why a write has failed.
                Assert.Matches(@"(Free space on its disk|Check its disk, and whether it is full)\. The proxy does not start", full.Tail());
                Assert.DoesNotContain("tried again", full.Tail(), StringComparison.Ordinal);
            }
            File.Delete(ballast);
            using ProxyProcess again = await ProxyProcess.StartAsync(port, options);
            using RespClient there = await again.ConnectAsync();
            Assert.Equal("v", (await there.DoAsync("GET", "k")).Text);
            await again.TerminateAsync();
        }
        finally
        {
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    // What passes by itself is no warning: whoever reads warnings is to find in them what wants somebody.
    [Fact]
    public async Task Normal_SeedingsAndASwitchOver_WarnOfNothingThatPasses()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        for (int shard = 0; shard < 2; shard++)
        {
            (int code, string text) = await sites.Backup.CommandAsync("seed", "--shard", $"{shard}");
            Assert.True(code == 0, text);
        }
        await sites.FollowingAsync();
        output.WriteLine(await sites.SwitchOverAsync());
        string[] warnings = [.. sites.Tail().Split('\n').Where(l => l.Contains(" warn ", StringComparison.Ordinal))];
        foreach (string line in warnings) { output.WriteLine(line); }
        Assert.DoesNotContain(warnings, l => l.Contains("--announce", StringComparison.Ordinal)
            || l.Contains("NotFound", StringComparison.Ordinal)
            || l.Contains("has to be seeded: there is no copy", StringComparison.Ordinal));
    }

    // A machine of the primary is gone, and with it a shard; the primary's other one and the backup live. What they warn of is that, and
    // the takeover.
    [Fact]
    public async Task Takeover_AProcessOfThePrimaryIsKilled_WarnsOfNothingElse()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        Site survivor = sites.Primary;
        survivor.KillProxy(0);
        await survivor.KillRedisAsync(0);
        output.WriteLine(await sites.FailOverAsync("--primary-metadata", survivor.Metadata));
        Assert.NotNull(await survivor.ExitAsync(1, Generous));
        string[] warnings = [.. $"{survivor.Tail(1)}\n{sites.Primary.Tail()}".Split('\n')
            .Where(l => l.Contains(" warn ", StringComparison.Ordinal))];
        foreach (string line in warnings) { output.WriteLine(line); }
        Assert.All(warnings, line => Assert.Matches(OfTheFailure, line));
    }

    // A process of the backup is asked to take over; whoever is deposed says why it ends.
    private const string OfTheFailure =
        "performs a failover, as it was asked to|is deposed|was deposed|shard 0.* (is down|does not answer|cannot be reached)";

    // A process that is stopped is there, and is not well.
    [Fact]
    public async Task Status_AProcessIsStopped_ItsStreamIsUnknown_AndWhenItGoesOnItFollows()
    {
        using var workspace = new Workspace();
        await using var sites = new TwoSites(workspace, shards: 2, usesPostgres: false, TimeSpan.FromMilliseconds(1));
        await sites.StartAsync();
        string process = $"{sites.Backup.ProcessId(1)}";
        await ChildProcess.RunAsync("kill", ["-STOP", process]);
        try
        {
            (int code, string text) = await sites.Backup.CommandAsync("status", "--site", "--timeout", "1s");
            output.WriteLine(text);
            Assert.Equal(1, code);
            Assert.Contains("it has not answered within 2 s, though it is there", text, StringComparison.Ordinal);
            Assert.Contains("unknown", text, StringComparison.Ordinal);
            (code, text) = await sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down", "--timeout", "1s");
            Assert.Equal(1, code);
            Assert.DoesNotContain("--lose-shard", text, StringComparison.Ordinal);
            // It has what it holds, and would be there again.
            (code, text) = await sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down", "--lose-shard", "1", "--timeout",
                "1s");
            output.WriteLine(text);
            Assert.Equal(1, code);
            Assert.Contains("shard 1 is not to be given up", text, StringComparison.Ordinal);
            Assert.Contains("end that process for good first", text, StringComparison.Ordinal);
        }
        finally
        {
            await ChildProcess.RunAsync("kill", ["-CONT", process]);
        }
        (int well, string shown) = await sites.Backup.CommandAsync("status", "--site");
        Assert.True(well == 0, shown);
    }
}
