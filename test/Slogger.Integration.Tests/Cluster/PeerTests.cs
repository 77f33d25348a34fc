// DPR.PEER, by which the proxies of a cluster reach each other: who may, and what becomes of the connection.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;

namespace Slogger.Integration.Tests.Cluster;

public sealed class PeerTests
{
    [Fact]
    public async Task Peer_WithoutTheSecret_IsRefusedAndStaysAClient()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient client = await cluster.ConnectAsync(0);
        foreach (string kind in (string[])["cuts", "keys", "messages", "none"])
        {
            foreach (string[] request in new string[][]
            {
                ["DPR.PEER"], ["DPR.PEER", kind], ["DPR.PEER", kind, "2", "", "0", "1", "1"], ["DPR.PEER", kind, "2", new string('0', 64), "*", "1", "1"],
            })
            {
                Assert.Equal("-ERR SLOGGER DPR.PEER is for proxies of the same cluster", (await client.CallAsync(request)).Compact);
            }
        }

        Assert.Equal("+PONG", (await client.CallAsync("PING")).Compact);
    }

    [Fact]
    public async Task Peer_WithTheSecret_MustFitAndComeFirst()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using IMetadataStore metadata = MetadataStoreFactory.Create(cluster.Metadata);
        await metadata.InitializeAsync();
        string secret = await metadata.PeerSecretAsync("default");
        using RespClient client = await cluster.ConnectAsync(0);
        foreach ((string[] words, string refusal) in new (string[], string)[]
        {
            (["messages", "1", secret, "0", "1", "1"], "another version"), (["none", "2", secret, "0", "1", "1"], "another version"),
            (["messages", "2", secret, "1", "1", "1"], "this is shard 0"), (["messages", "2", secret, "0", "2", "1"], "no such neighbour"),
            (["messages", "2", secret, "0", "-1", "1"], "no such neighbour"), (["messages", "2", secret, "0", "1", "x"], "no such neighbour"),
        })
        {
            Assert.Contains(refusal, (await client.CallAsync(["DPR.PEER", .. words])).Text, StringComparison.Ordinal);
        }

        await client.DoAsync("MULTI");
        Assert.Contains("first request", (await client.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Text, StringComparison.Ordinal);

        // A peer that announces much and sends nothing costs nothing, and one that says nothing is left in peace.
        using RespClient peer = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await peer.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact);
        await peer.WriteAsync((byte[])[(byte)'M', 0x20, 0, 0, 0, 1, 2, 3]);
        Assert.False(await peer.IsClosedWithinAsync(TimeSpan.FromSeconds(1)));
        long memory = long.Parse(File.ReadLines($"/proc/{cluster.ProcessId(0)}/status").First(l => l.StartsWith("VmRSS:", StringComparison.Ordinal))[6..^2], CultureInfo.InvariantCulture) >> 10;
        Assert.InRange(memory, 1, 400);
        // More than a frame may have ends it.
        using RespClient liar = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await liar.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact);
        await liar.WriteAsync((byte[])[(byte)'M', 0x7f, 0, 0, 0]);
        Assert.True(await liar.IsClosedWithinAsync(TimeSpan.FromSeconds(30)));
    }
}
