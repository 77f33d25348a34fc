// Clients that would take every file descriptor of the proxy: they are refused as too many, and the proxy goes on with those that are left
// to it.
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class DescriptorTests
{
    private const int Limit = 600, Clients = 700;
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("PING")]
    [InlineData("BLPOP none 0")]
    public async Task Clients_MoreThanThereAreDescriptors_AreRefusedAndOthersAreServed(string request)
    {
        Assert.SkipUnless(OperatingSystem.IsLinux(), "Descriptors are counted on Linux only.");
        using var workspace = new Workspace();
        int port = Workspace.FreePort();
        using ChildProcess proxy = ChildProcess.Start("slogger serve", "prlimit",
            [$"--nofile={Limit}:{Limit}", "dotnet", ProxyProcess.Executable, "serve", "--listen", $"127.0.0.1:{port}", "--redis-server",
                RedisProcess.Executable, "--data", workspace.Folder("data")]);
        await proxy.WaitForLineAsync(l => l.Contains("listening on", StringComparison.Ordinal), Generous);
        var endpoint = new System.Net.IPEndPoint(System.Net.IPAddress.Loopback, port);
        using RespClient first = await RespClient.ConnectAsync(endpoint);
        await first.DoAsync("SET", "k", "1");
        var clients = new List<RespClient>();
        try
        {
            for (int i = 0; i < Clients; i++)
            {
                clients.Add(await RespClient.ConnectAsync(endpoint));
                await clients[^1].SendAsync(request.Split(' '));
            }

            await Eventually.AsyncTrue("another is refused", Generous, async () =>
            {
                clients.Add(await RespClient.ConnectAsync(endpoint));
                try
                {
                    await clients[^1].SendAsync(request.Split(' '));
                    return (await clients[^1].ReadAsync(TimeSpan.FromSeconds(1))).Text == "ERR max number of clients reached";
                }
                catch (TimeoutException)
                {
                    // It has come in, and blocks.
                    return false;
                }
                catch (ConnectionLostException)
                {
                    // It was refused, and closed before it had sent its request.
                    return true;
                }
            });
            // The proxy has what it needs: files of the log, and connections of its own.
            for (int i = 0; i < 100; i++) { await first.DoAsync("SET", $"k{i}", new string('x', 100_000)); }
            Assert.Equal(1, (await first.DoAsync("DPR.WAIT", "*", "50000")).Items[2].AsInteger());
        }
        finally
        {
            foreach (RespClient client in clients) { client.Dispose(); }
        }

        await Eventually.AsyncTrue("others are served when these have gone", Generous, async () =>
        {
            try
            {
                using RespClient next = await RespClient.ConnectAsync(endpoint);
                return (await next.CallAsync("PING")).Compact == "+PONG";
            }
            catch (ConnectionLostException)
            {
                return false;
            }
        });
        Assert.DoesNotContain("cannot accept", proxy.Tail(), StringComparison.Ordinal);
        proxy.Terminate();
        Assert.True(await proxy.WaitForExitAsync(Generous), proxy.Tail());
        Assert.Equal(0, proxy.ExitCode);
    }
}
