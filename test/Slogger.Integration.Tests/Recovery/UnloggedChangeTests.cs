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
        using var other = await deployment.ConnectAsync();
        // Broken, not ended: of a client that only has nothing more to say the reply would be awaited.
        using (var socket = new Socket(AddressFamily.InterNetwork, SocketType.Stream,
            ProtocolType.Tcp) { LingerState = new LingerOption(true, 0) })
        {
            await socket.ConnectAsync(deployment.Endpoint);
            await socket.SendAsync("DEBUG POPULATE 1000000\r\n"u8.ToArray());
            // From here on it is on its way to Redis, and no more lost with its client.
            await Eventually.AsyncTrue("the request has a connection of its own", Generous, async () =>
                (await other.DoAsync("DPR.INFO")).Text.Contains("clients_dedicated:1\r\n", StringComparison.Ordinal));
        }
        using RespClient direct = await deployment.Redis.ConnectAsync();
        await Eventually.AsyncTrue("Redis has done it", Generous, async () =>
        {
            await direct.SendAsync("DBSIZE");
            return (await direct.ReadAsync(Generous)).Compact == ":1000000";
        });
        await SurvivesAsync(deployment, 1_000_000);
    }

    // Redis has done it, and the proxy dies while the checkpoint is taken: the next process knows that none holds it.
    [Fact]
    public async Task Proxy_KilledBeforeTheCheckpoint_TheNextOneTakesItBeforeAnythingIsCommitted()
    {
        using var workspace = new Workspace();
        await using var deployment = await AttachedAsync(workspace);
        using (RespClient client = await deployment.ConnectAsync(), direct = await deployment.Redis.ConnectAsync())
        {
            await client.SendAsync("DEBUG", "POPULATE", "300000");
            await Eventually.AsyncTrue("Redis has done it", Generous, async () => (await direct.CallAsync("DBSIZE")).Compact == ":300000");
            deployment.Proxy.KillHard();
        }
        await deployment.StartProxyAsync();
        await SurvivesAsync(deployment, 300_000);
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
