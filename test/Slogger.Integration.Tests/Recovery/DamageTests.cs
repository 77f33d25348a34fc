// What happens to the files: damage in the middle of the log is refused, a torn tail is cut, a full disk loses nothing.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class DamageTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Log_CorruptedInTheMiddle_IsRefusedWithFileAndOffset()
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup());
        await WriteAndKillBothAsync(deployment);
        var (segment, used) = LargestSegment(deployment);
        await OverwriteAsync(segment, used / 2, [0xde, 0xad, 0xbe, 0xef, 0xde, 0xad, 0xbe, 0xef]);

        using var proxy = ProxyProcess.Launch(deployment.Port, deployment.ServeOptions);
        int? exitCode = await proxy.ExitAsync(Generous);
        Assert.True(exitCode is not null and not 0, $"exit code {exitCode}; a corrupt log must be refused\n{proxy.Tail()}");
        Assert.Contains(Path.GetFileName(segment), proxy.Tail(), StringComparison.Ordinal);
        Assert.Matches("[0-9]+", proxy.Tail());
    }

    [Fact]
    public async Task Disk_Full_NothingCommittedIsLostAndItGoesOnWithSpace()
    {
        Assert.SkipUnless(Environment.IsPrivilegedProcess && OperatingSystem.IsLinux(), "mounting a small tmpfs needs root");
        using var workspace = new Workspace();
        string mount = workspace.Folder("small");
        var (exitCode, output) = await ChildProcess.RunAsync("mount", ["-t", "tmpfs", "-o", "size=192m", "tmpfs", mount]);
        Assert.SkipUnless(exitCode == 0, "cannot mount a tmpfs here: " + output);
        try
        {
            await using var deployment = new ProxyDeployment(workspace, new ProxySetup { DataDirectory = Path.Combine(mount, "data") });
            await deployment.StartAsync();
            long committed = await FillAsync(deployment);
            await ChildProcess.RunAsync("mount", ["-o", "remount,size=1g", mount]);
            await Eventually.AsyncTrue("commits go on with space, if need be after a restart", Generous, () => GoesOnAsync(deployment));
            using var client = await deployment.ConnectAsync();
            long found = (await client.DoAsync("GET", "n")).AsInteger();
            Assert.True(found >= committed, $"{committed} was committed, {found} is there\n{deployment.Tail()}");
        }
        finally
        {
            await ChildProcess.RunAsync("umount", ["-l", mount]);
        }
    }

    private static async Task<bool> GoesOnAsync(ProxyDeployment deployment)
    {
        try
        {
            if (deployment.Proxy.HasExited)
            {
                await deployment.StartProxyAsync();
            }

            using var client = await deployment.ConnectAsync();
            var write = await client.CallAsync("SET", "after", "1");
            var wait = await client.CallAsync("DPR.WAIT", "*", "5000");
            return !write.IsError && !wait.IsError && wait.Items[2].AsInteger() == 1;
        }
        catch (Exception e) when (e is ConnectionLostException or InvalidOperationException)
        {
            return false;
        }
    }

    /// <summary>Writes until nothing more is committed; returns the highest committed value of the counter "n".</summary>
    private static async Task<long> FillAsync(ProxyDeployment deployment)
    {
        long committed = 0;
        string ballast = new('b', 256 * 1024);
        try
        {
            using var client = await deployment.ConnectAsync();
            for (long i = 1; i < 4000; i++)
            {
                bool refused = (await client.CallAsync("SET", "n", i.ToString(CultureInfo.InvariantCulture))).IsError
                    || (await client.CallAsync("SET", "ballast", ballast)).IsError;
                var wait = await client.CallAsync("DPR.WAIT", "*", "3000");
                if (refused || wait.IsError || wait.Items[2].AsInteger() == 0)
                {
                    return committed;
                }

                committed = i;
            }
        }
        catch (Exception e) when (e is ConnectionLostException or TimeoutException)
        {
            return committed;
        }

        throw new InvalidOperationException("1 GB fitted on a disk of 192 MB: the log is not in the data directory?");
    }

    private static async Task<long> WriteAndKillBothAsync(ProxyDeployment deployment)
    {
        const long Writes = 4000;
        await deployment.StartAsync();
        using (var client = await deployment.ConnectAsync())
        {
            for (int i = 0; i < Writes; i++)
            {
                await client.DoAsync("INCR", "n");
            }

            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        }

        await deployment.InjectAsync(new Fault("both"), new Random(2));
        return Writes;
    }

    /// <summary>The log file with most in it, and the length up to its last byte that is not zero (segments are preallocated).</summary>
    private static (string File, long UsedBytes) LargestSegment(ProxyDeployment deployment) =>
        Directory.EnumerateFiles(Path.Combine(deployment.DataDirectory, "log"), "*", SearchOption.AllDirectories)
            .Select(f => (File: f, UsedBytes: UsedBytes(f))).MaxBy(f => f.UsedBytes);

    private static long UsedBytes(string file)
    {
        byte[] content = File.ReadAllBytes(file);
        return content.AsSpan().LastIndexOfAnyExcept((byte)0) + 1;
    }

    private static async Task OverwriteAsync(string file, long at, byte[] bytes)
    {
        await using var stream = new FileStream(file, FileMode.Open, FileAccess.Write);
        stream.Position = at;
        await stream.WriteAsync(bytes);
    }
}
