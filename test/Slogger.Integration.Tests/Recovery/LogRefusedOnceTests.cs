// A write or a sync of the log fails once, and the next one would work: by strace, which has the kernel refuse one call of the running
// proxy. After a sync that failed the pages may be lost and called clean, so a later sync proves nothing: the process has to stop.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class LogRefusedOnceTests
{
    private const string Strace = "/usr/bin/strace";
    private const int SigTerm = 15;
    private const long Committed = 10;
    private static readonly TimeSpan Limit = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("fdatasync", "EIO", false)]
    [InlineData("fdatasync", "EIO", true)]
    [InlineData("pwrite64", "ENOSPC", false)]
    [InlineData("pwrite64", "EIO", true)]
    public async Task Log_RefusedOnce_TellsNoCommitOfItAndStops_AndTheNextStartHasAllThatWasTold(string call, string error, bool attached)
    {
        Assert.SkipUnless(File.Exists(Strace), "needs strace");
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup { Attached = attached });
        await deployment.StartAsync();
        using RespClient client = await deployment.ConnectAsync();
        for (long n = 1; n <= Committed; n++)
        {
            Assert.Equal(n, (await client.DoAsync("INCR", "n")).AsInteger());
            Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
        }
        using (ChildProcess strace = Refuse(deployment, call, error))
        {
            await strace.WaitForLineAsync(l => l.Contains("attached", StringComparison.Ordinal), Limit);
            Assert.False(await IsToldAsync(client),
                $"a commit was told although the log's {call} had failed\n{strace.Tail()}\n{deployment.Tail()}");
            await strace.WaitForLineAsync(l => l.Contains("INJECTED", StringComparison.Ordinal), Limit);
            ChildProcess.Signal(strace.Id, SigTerm);
        }
        int? exitCode = await deployment.Proxy.ExitAsync(Limit);
        Assert.True(exitCode is > 0, $"exit code {exitCode}\n{deployment.Tail()}");
        Assert.Contains("the version log cannot be written", deployment.Proxy.Tail(), StringComparison.Ordinal);
        // Only the log tells now: a supervised Redis has ended with the proxy.
        if (attached) { await deployment.KillRedisAsync(); }
        await deployment.RecoverAsync();
        using RespClient after = await deployment.ConnectAsync();
        long found = (await after.DoAsync("GET", "n")).AsInteger();
        Assert.InRange(found, Committed, Committed + 1);
        Assert.Equal(found + 1, (await after.DoAsync("INCR", "n")).AsInteger());
        Assert.Equal(1, (await after.DoAsync("DPR.WAIT", "*", "60000")).Items[2].AsInteger());
    }

    // Has the next such call of each thread fail that is of the log's files.
    private static ChildProcess Refuse(ProxyDeployment deployment, string call, string error)
    {
        IEnumerable<string> files = Directory.EnumerateFiles(Path.Combine(deployment.DataDirectory, "log"))
            .SelectMany(f => (string[])["-P", f]);
        string pid = deployment.Proxy.Id.ToString(CultureInfo.InvariantCulture);
        return ChildProcess.Start(
            "strace", Strace, ["-f", "-p", pid, .. files, "-e", $"trace={call}", "-e", $"inject={call}:error={error}:when=1"]);
    }

    private static async Task<bool> IsToldAsync(RespClient client)
    {
        try
        {
            if ((await client.CallAsync("INCR", "n")).IsError) { return false; }
            await client.SendAsync("DPR.WAIT", "*", "60000");
            RespValue reply = await client.ReadAsync(Limit + Limit);
            return !reply.IsError && reply.Items[2].AsInteger() == 1;
        }
        catch (ConnectionLostException)
        {
            return false;
        }
    }
}
