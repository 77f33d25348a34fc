// What processes say to the people who run them, when something is wrong and when nothing is.
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Sites;

public sealed class MessageTests(ITestOutputHelper output)
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(90);

    [Fact]
    public async Task Metadata_FileWasDeleted_TheStartSaysSoAndWhatToDo()
    {
        using var workspace = new Workspace();
        string metadata = workspace.File("m.db"), data = workspace.Folder("data");
        int port = Workspace.FreePort();
        string[] options = ["--data", data, "--redis-server", "redis-server", "--metadata", "sqlite:" + metadata];
        // The second start has an epoch above the first one's, and writes the log under it.
        for (int i = 0; i < 2; i++)
        {
            using ProxyProcess proxy = await ProxyProcess.StartAsync(port, options);
            using (RespClient client = await proxy.ConnectAsync()) { await client.DoAsync("SET", "k", $"{i}"); }
            Assert.Equal(0, await proxy.TerminateAsync());
        }
        foreach (string file in Directory.GetFiles(workspace.Root, "m.db*")) { File.Delete(file); }
        using var without = ProxyProcess.Launch(port, options);
        Assert.Equal(1, await without.ExitAsync(Generous));
        output.WriteLine(without.Tail());
        Assert.Contains("the metadata was deleted, or replaced", without.Tail(), StringComparison.Ordinal);
        Assert.Contains(metadata, without.Tail(), StringComparison.Ordinal);
        Assert.Contains("what to do: start with the metadata that this data directory was used with", without.Tail(), StringComparison.Ordinal);
        Assert.DoesNotContain("Take a new epoch", without.Tail(), StringComparison.Ordinal);
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
            string[] options = ["--data", workspace.Folder("data"), "--redis-server", "redis-server", "--metadata", "sqlite:" + Path.Combine(mount, "m.db")];
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
        Assert.DoesNotContain(warnings, l => l.Contains("--announce", StringComparison.Ordinal) || l.Contains("NotFound", StringComparison.Ordinal) || l.Contains("has to be seeded: there is no copy", StringComparison.Ordinal));
    }

    // A machine of the primary is gone, and with it a shard; the primary's other one and the backup live. What they warn of is that, and the takeover.
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
        string[] warnings = [.. $"{survivor.Tail(1)}\n{sites.Primary.Tail()}".Split('\n').Where(l => l.Contains(" warn ", StringComparison.Ordinal))];
        foreach (string line in warnings) { output.WriteLine(line); }
        Assert.All(warnings, line => Assert.Matches(OfTheFailure, line));
    }

    // A process of the backup is asked to take over; whoever is deposed says why it ends.
    private const string OfTheFailure = "performs a failover, as it was asked to|is deposed|was deposed|shard 0.* (is down|does not answer|cannot be reached)";

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
            (code, text) = await sites.Backup.CommandAsync("failover", "--i-attest-the-primary-is-down", "--lose-shard", "1", "--timeout", "1s");
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
