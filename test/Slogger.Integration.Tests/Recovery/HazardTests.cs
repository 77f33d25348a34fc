// Rare courses of a life: idle stretches across restarts, a tail torn by a power failure, a disk that is full when a new
// world-line is to begin.
using System.Buffers;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class HazardTests
{
    private const int SectorBytes = 512;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    // Versions of 5 ms end 200 times a second. Where nothing happens nobody is woken for that; what is done next is in its version.
    [Theory]
    [InlineData("--redis-server", "redis-server")]
    [InlineData("--faster-memory", "256mb")]
    public async Task Idle_TheLoopIsHardlyWoken_AndVersionsPass(params string[] store)
    {
        using var workspace = new Workspace();
        using ProxyProcess proxy = await ProxyProcess.StartAsync(Workspace.FreePort(), ["--data", workspace.File("data"), .. store]);
        using RespClient client = await proxy.ConnectAsync();
        await client.DoAsync("SET", "k", "1");
        await client.DoAsync("DPR.WAIT", "*", "5000");
        await Task.Delay(500);
        string info = (await client.CallAsync("INFO", "dpr")).Text;
        long open = OpenVersion(info), woken = Wakes();
        await Task.Delay(2000);
        // Ten times a second, for all else; the system may wake it as well.
        Assert.InRange(Wakes() - woken, 1, 150);
        info = (await client.CallAsync("INFO", "dpr")).Text;
        Assert.InRange(OpenVersion(info), open + 400, long.MaxValue);

        static long OpenVersion(string info) =>
            long.Parse(info.Split("\nopen_version:")[1].Split('\r')[0], System.Globalization.CultureInfo.InvariantCulture);

        long Wakes()
        {
            string loop = Directory.GetDirectories($"/proc/{proxy.Id}/task")
                .Single(t => File.ReadAllText(Path.Combine(t, "comm")).Trim() == "front end");
            string line = File.ReadLines(Path.Combine(loop, "status")).Single(l => l.StartsWith("voluntary", StringComparison.Ordinal));
            return long.Parse(line.Split(':')[1], System.Globalization.CultureInfo.InvariantCulture);
        }
    }

    [Fact]
    public async Task Checkpoints_CannotBeKept_CommitsGoOn_AndLaterOnesAreKept()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        string directory = Path.Combine(deployment.DataDirectory, "checkpoints");
        var list = new CountedList(deployment);
        await list.CommitAsync(20);
        using var client = await deployment.ConnectAsync();
        long TailOf(string info) =>
            long.Parse(info.Split("log_tail_bytes:")[1].Split('\r')[0], System.Globalization.CultureInfo.InvariantCulture);
        // The tail is not left to grow far beyond the 8 MB that are nothing to a restore.
        async Task GrowAsync(int megabytes)
        {
            for (int i = 0; i < megabytes; i++) { await client.DoAsync("SET", $"big{i % 4}", new string('x', 1 << 20)); }
        }

        await GrowAsync(12);
        await Eventually.AsyncTrue("an early checkpoint", Generous,
            async () => TailOf((await client.CallAsync("INFO", "dpr")).Text) < 8 << 20);
        Directory.Move(directory, directory + ".away");
        await File.WriteAllTextAsync(directory, "");
        await GrowAsync(12);
        await Eventually.AsyncTrue("a warning", Generous,
            () => Task.FromResult(deployment.Proxy.Tail().Contains("no checkpoint could be", StringComparison.Ordinal)));
        await list.CommitAsync(20);
        Assert.True(TailOf((await client.CallAsync("INFO", "dpr")).Text) > 8 << 20);
        File.Delete(directory);
        Directory.Move(directory + ".away", directory);
        await Eventually.AsyncTrue("the next checkpoint", Generous,
            async () => TailOf((await client.CallAsync("INFO", "dpr")).Text) < 8 << 20);
        await list.CommitAsync(5);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync("checkpoints could not be kept for a while");
    }

    [Theory]
    [InlineData("log", false)]
    [InlineData("log", true)]
    [InlineData("bgsave", true)]
    public async Task Idle_AcrossRestartsAndLosses_VersionsGoOnAndNothingChanges(string commit, bool attached)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: attached) { Commit = commit });
        await deployment.StartAsync();
        var list = new CountedList(deployment);
        await list.CommitAsync(20);
        long before = await CutAsync(deployment);
        foreach (string end in (string[])["kill", "redis", "term", "both", "kill"])
        {
            // Idle: a run of empty versions is written once a second.
            long idle = before;
            await Eventually.AsyncTrue("the cut of an idle shard goes on", Generous, async () =>
            {
                await Task.Delay(1500);
                idle = await CutAsync(deployment);
                return idle > before;
            });
            switch (end)
            {
                case "kill":
                    deployment.Proxy.KillHard();
                    break;
                case "redis":
                    await deployment.KillRedisAsync();
                    break;
                case "term":
                    Assert.Equal(0, await deployment.Proxy.TerminateAsync());
                    break;
                default:
                    await deployment.InjectAsync(new Fault("both"), new Random(1));
                    break;
            }

            await deployment.RecoverAsync();
            await list.CheckAsync($"idle, then {end}");
            long after = await CutAsync(deployment);
            Assert.True(after >= idle, $"the cut went back from {idle} to {after} ({end})");
            before = after;
        }

        await list.CommitAsync(5);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync("written again");
    }

    // It asks its Redis now and then whether it is still there: no client did.
    [Fact]
    public async Task Statistics_OfAProxyThatNobodyUses_ShowNothingOfItsOwn()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("CONFIG", "RESETSTAT");
        await Task.Delay(TimeSpan.FromSeconds(3.5));
        string text = (await client.DoAsync("INFO", "commandstats")).Text;
        Assert.DoesNotContain("cmdstat_ping", text, StringComparison.Ordinal);
    }

    // No version was closed, so the log shows none: only what the proxy has noted of its clock.
    [Fact]
    public async Task Clock_SetBackWhileTheProxyIsAway_OpensNoVersionAgain()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(VersionInterval: "60s")
        {
            Environment = new Dictionary<string, string> { ["SLOGGER_TEST_CLOCK_OFFSET_US"] = "600000000" },
        });
        await deployment.StartAsync();
        long before = await OpenAsync();
        deployment.Proxy.KillHard();
        await deployment.StartProxyAsync(new Dictionary<string, string>());
        Assert.InRange(await OpenAsync(), before, before + 1);

        async Task<long> OpenAsync()
        {
            using var client = await deployment.ConnectAsync();
            string line = (await client.DoAsync("DPR.INFO")).Text.Split("\r\n")
                .Single(l => l.StartsWith("open_version:", StringComparison.Ordinal));
            return long.Parse(line.Split(':')[1], System.Globalization.CultureInfo.InvariantCulture);
        }
    }

    [Fact]
    public async Task Backlog_OverflowsWhileTheProxyRuns_ItGoesOnFromACheckpointWithoutARollback()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        var list = new CountedList(deployment);
        await list.CommitAsync(50);
        using (var direct = await deployment.Redis.ConnectAsync())
        {
            await direct.DoAsync("CONFIG", "SET", "repl-backlog-size", "16384");
            for (int round = 0; round < 3; round++)
            {
                // In one piece: the link is cut, and before it can come back the backlog has moved on.
                var pieces = new ArrayBufferWriter<byte>();
                RespClient.Append(pieces, ["MULTI"]);
                RespClient.Append(pieces, ["CLIENT", "KILL", "TYPE", "replica"]);
                for (int i = 0; i < 100; i++)
                {
                    RespClient.Append(pieces, ["SET", $"direct{i}", new string('d', 1000)]);
                }

                RespClient.Append(pieces, ["EXEC"]);
                await direct.WriteAsync(pieces.WrittenMemory);
                for (int i = 0; i < 103; i++)
                {
                    await direct.ReadAsync();
                }

                await list.CommitAsync(20);
                await list.CheckAsync($"gap {round}", least: 50 + (20 * (round + 1)));
            }
        }

        Assert.Contains("by a fresh checkpoint", deployment.Tail(), StringComparison.Ordinal);
        using (var client = await deployment.ConnectAsync())
        {
            Assert.Equal(1, (await client.DoAsync("DPR.CUT")).Items[0].AsInteger());
        }

        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync("Redis lost after the gaps");
        using var last = await deployment.ConnectAsync();
        Assert.Equal(101, (await last.DoAsync("DBSIZE")).AsInteger());
    }

    [Theory]
    [InlineData("cut off")]
    [InlineData("zeroed")]
    public async Task Tail_TornByAPowerFailure_IsGivenUpAndNothingCommittedIsLost(string how)
    {
        Assert.SkipWhen(PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Postgres: true));
        await deployment.StartAsync();
        var list = new CountedList(deployment);
        await list.CommitAsync(200);
        // From here on nothing is recorded: what a power failure takes was promised to nobody.
        deployment.Postgres.KillHard();
        await list.PushAsync(100);
        using (var client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "big", new string('b', 60_000));
        }

        await Task.Delay(300);
        await deployment.InjectAsync(new Fault("both"), new Random(2));
        string segment = Directory.EnumerateFiles(Path.Combine(deployment.DataDirectory, "log")).MaxBy(UsedBytes)!;
        // Into the block of the big value; what was written behind it is gone too.
        long at = (UsedBytes(segment) - 20_000) / SectorBytes * SectorBytes;
        await using (var file = new FileStream(segment, FileMode.Open, FileAccess.Write))
        {
            long length = file.Length;
            file.SetLength(at);
            if (how == "zeroed")
            {
                file.SetLength(length);
            }
        }

        await deployment.Postgres.RestartAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync($"the tail was {how}");
        using (var client = await deployment.ConnectAsync())
        {
            Assert.Equal("_", (await client.CallAsync("GET", "big")).Compact); // or nothing was torn
        }

        await list.CommitAsync(20);
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        await list.CheckAsync("written again behind it");
    }

    [Theory]
    [InlineData(false)]
    [InlineData(true)]
    public async Task Disk_FullDuringARecovery_TheProxyEndsWithTheReasonAndRecoversWithSpace(bool postgres)
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        Assert.SkipWhen(postgres && PostgresProcess.Programs is null, "PostgreSQL is not installed");
        using var workspace = new Workspace();
        string mount = workspace.Folder("small");
        var (exitCode, output) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=400m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + output);
        try
        {
            // With PostgreSQL the world-line can be recorded, and the log cannot follow.
            await using var deployment = new ProxyDeployment(workspace,
                new ProxySetup(Attached: true, Postgres: postgres) { DataDirectory = Path.Combine(mount, "data") });
            await deployment.StartAsync();
            var list = new CountedList(deployment);
            await list.CommitAsync(100);
            await list.PushAsync(100);
            await deployment.InjectAsync(new Fault("both"), new Random(2));
            await deployment.Redis.RestartAsync();
            string ballast = Path.Combine(mount, "ballast");
            await ChildProcess.RunAsync("dd", ["if=/dev/zero", "of=" + ballast, "bs=64k"]);
            using (var full = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions))
            {
                int? code = await full.ExitAsync(Generous);
                Assert.True(code is not null and not 0, $"exit code {code}\n{full.Tail()}");
                Assert.DoesNotContain("Unhandled", full.Tail(), StringComparison.Ordinal);
                Assert.Matches("(?i)space|full", full.Tail());
            }

            File.Delete(ballast);
            await deployment.RecoverAsync();
            await list.CheckAsync("the disk has room again");
            await list.CommitAsync(20);
            await deployment.KillRedisAsync();
            await deployment.RecoverAsync();
            await list.CheckAsync("Redis lost again");
        }
        finally
        {
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    private static async Task<long> CutAsync(ProxyDeployment deployment)
    {
        using var client = await deployment.ConnectAsync();
        return (await client.DoAsync("DPR.CUT")).Items[1].AsInteger();
    }

    // Segments are preallocated.
    private static long UsedBytes(string file) => File.ReadAllBytes(file).AsSpan().LastIndexOfAnyExcept((byte)0) + 1;
}
