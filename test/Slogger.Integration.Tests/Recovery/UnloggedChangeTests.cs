// DEBUG POPULATE and its like change data in a way that Redis does not replicate: nothing is committed before a checkpoint
// holds the change, and what is committed then survives, whoever waited for the reply.
using System.Globalization;
using System.Net.Sockets;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Recovery;

public sealed class UnloggedChangeTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Fact]
    public async Task Reply_Comes_WhenTheCheckpointHoldsTheChangeAndItsChildHasEnded()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        for (int i = 0; i < 5; i++)
        {
            await client.SendAsync("DEBUG", "POPULATE", "20000", $"round{i}");
            Assert.Equal("+OK", (await client.ReadAsync(Generous)).Compact);
            // Redis would put the rewrite off ("scheduled") while it has a child.
            Assert.Contains("rewriting started", (await client.CallAsync("BGREWRITEAOF")).Compact, StringComparison.Ordinal);
            await Eventually.AsyncTrue("the rewrite is done", Generous, async () =>
                (await client.DoAsync("INFO", "persistence")).Text.Contains("aof_rewrite_in_progress:0", StringComparison.Ordinal));
        }
        await SurvivesAsync(deployment, 100_000);
    }

    [Fact]
    public async Task Client_GoneBeforeTheReply_CommitsGoOnAndTheChangeSurvives()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        // Broken, not ended: of a client that only has nothing more to say the reply would be awaited.
        using (var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream, ProtocolType.Tcp) { LingerState = new LingerOption(true, 0) })
        {
            await socket.ConnectAsync(deployment.Endpoint);
            await socket.SendAsync("DEBUG POPULATE 1000000\r\n"u8.ToArray());
            // Redis is at it by now; if not, the request is lost with its connection.
            await Task.Delay(100);
        }
        string keys;
        using (var other = await deployment.ConnectAsync())
        {
            await other.SendAsync("DBSIZE");
            keys = (await other.ReadAsync(Generous)).Compact;
        }
        await SurvivesAsync(deployment, int.Parse(keys.AsSpan(1), CultureInfo.InvariantCulture));
    }

    [Fact]
    public async Task Changes_OneUponTheOther_AllAreHeldBeforeAnythingIsCommitted()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        var clients = new List<RespClient>();
        for (int i = 0; i < 6; i++) { clients.Add(await deployment.ConnectAsync()); }
        await Task.WhenAll(clients.Select(async (client, index) =>
        {
            for (int i = 0; i < 5; i++)
            {
                await client.SendAsync("DEBUG", "POPULATE", "5000", string.Create(CultureInfo.InvariantCulture, $"c{index}r{i}"));
                Assert.Equal("+OK", (await client.ReadAsync(Generous)).Compact);
            }
        }));
        foreach (RespClient client in clients) { client.Dispose(); }
        await SurvivesAsync(deployment, 150_000);
    }

    [Fact]
    public async Task Transaction_CannotHoldOne()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("MULTI");
        Assert.StartsWith("-ERR SLOGGER", (await client.CallAsync("DEBUG", "POPULATE", "10")).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-EXECABORT", (await client.CallAsync("EXEC")).Compact, StringComparison.Ordinal);
        Assert.Equal(":0", (await client.CallAsync("DBSIZE")).Compact);
    }

    private static async Task<ProxyDeployment> AttachedAsync(Workspace workspace)
    {
        var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        return deployment;
    }

    private static async Task SurvivesAsync(ProxyDeployment deployment, int keys)
    {
        using (var client = await deployment.ConnectAsync())
        {
            await client.DoAsync("SET", "after", "1");
            await client.SendAsync("DPR.WAIT", "*", "50000");
            Assert.Equal(1, (await client.ReadAsync(Generous)).Items[2].AsInteger());
        }
        await deployment.KillRedisAsync();
        await deployment.RecoverAsync();
        using var survivor = await deployment.ConnectAsync();
        Assert.Equal($":{keys + 1}", (await survivor.CallAsync("DBSIZE")).Compact);
        Assert.Equal("$1", (await survivor.CallAsync("GET", "after")).Compact);
    }
}
