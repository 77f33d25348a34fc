// Replicas and statistics as clients see them through the proxy: as they would without the proxy's own link and commands.
using System.Globalization;
using Slogger.Integration.Tests.Chaos;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;

namespace Slogger.Integration.Tests.Functional;

public sealed class ReplicaViewTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("log")]
    [InlineData("none")]
    public async Task Replicas_NoneThenOneThenOneThatHangs_AreCountedAsWithoutTheProxy(string commit)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true) { Commit = commit });
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(":0", (await client.CallAsync("WAIT", "1", "300")).Compact);
        Assert.Equal(":0", (await client.CallAsync("WAIT", "0", "0")).Compact);
        Assert.Contains("connected_slaves:0\r\n", await ReplicationAsync(client), StringComparison.Ordinal);
        Assert.DoesNotContain("slave0", await ReplicationAsync(client), StringComparison.Ordinal);
        Assert.Empty((await client.DoAsync("ROLE")).Items[2].Items);

        using var replica = await RedisProcess.StartAsync(workspace.Folder("replica"), "--replicaof",
            string.Create(CultureInfo.InvariantCulture, $"127.0.0.1 {deployment.Redis.Port}"));
        await Eventually.AsyncTrue("the replica is online", Generous, async () =>
            (await ReplicationAsync(client)).Contains("state=online", StringComparison.Ordinal));
        Assert.Contains("connected_slaves:1\r\nslave0:ip=127.0.0.1,", await ReplicationAsync(client), StringComparison.Ordinal);
        RespValue shown = Assert.Single((await client.DoAsync("ROLE")).Items[2].Items);
        Assert.Equal(string.Create(CultureInfo.InvariantCulture, $"{replica.Port}"), shown.Items[1].Text);
        await client.DoAsync("SET", "a", "2");
        await client.SendAsync("WAIT", "1", "0");
        Assert.Equal(":1", (await client.ReadAsync(Generous)).Compact);

        int id;
        using (var direct = await replica.ConnectAsync())
        {
            id = int.Parse(Field((await direct.DoAsync("INFO", "server")).Text, "process_id"), CultureInfo.InvariantCulture);
        }
        ChildProcess.Suspend(id);
        try
        {
            // Written over the connection that all share; WAIT comes over another, on which Redis has seen no write.
            using var writer = await deployment.ConnectAsync();
            await writer.DoAsync("SET", "a", "3");
            Assert.Equal(":0", (await writer.CallAsync("WAIT", "1", "300")).Compact);
        }
        finally
        {
            ChildProcess.Resume(id);
        }
        await client.SendAsync("WAIT", "1", "0");
        Assert.Equal(":1", (await client.ReadAsync(Generous)).Compact);
    }

    [Theory]
    [InlineData("2")]
    [InlineData("3")]
    public async Task LatencyHistogram_ShowsOnlyWhatClientsHaveCalled(string protocol)
    {
        using var workspace = new Workspace();
        await using var deployment = new ProxyDeployment(workspace, new ProxySetup(Attached: true));
        await deployment.StartAsync();
        using var client = await deployment.ConnectAsync();
        await client.DoAsync("HELLO", protocol);
        await client.DoAsync("CONFIG", "RESETSTAT");
        await client.DoAsync("SET", "a", "1");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "20000")).Items[2].AsInteger());
        string histogram = (await client.DoAsync("LATENCY", "HISTOGRAM")).Compact;
        Assert.Contains("$set", histogram, StringComparison.Ordinal);
        Assert.Contains("config|resetstat", histogram, StringComparison.Ordinal);
        Assert.DoesNotContain("spublish", histogram, StringComparison.Ordinal);
        using var direct = await deployment.Redis.ConnectAsync();
        Assert.Contains("spublish", (await direct.DoAsync("LATENCY", "HISTOGRAM")).Compact, StringComparison.Ordinal);
    }

    private static async Task<string> ReplicationAsync(RespClient client) => (await client.DoAsync("INFO", "replication")).Text;

    private static string Field(string info, string name) =>
        info.Split("\r\n").First(line => line.StartsWith(name + ":", StringComparison.Ordinal))[(name.Length + 1)..];
}
