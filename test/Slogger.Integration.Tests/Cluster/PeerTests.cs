// DPR.PEER, by which the proxies of a cluster reach each other: who may, and what becomes of the connection.
using System.Globalization;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using Slogger.Metadata;
using Slogger.Metadata.Sql;

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
                ["DPR.PEER"], ["DPR.PEER", kind], ["DPR.PEER", kind, "2", "", "0", "1", "1"],
                    ["DPR.PEER", kind, "2", new string('0', 64), "*", "1", "1"],
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
            (["messages", "2", secret, "0", "-1", "1"], "no such neighbour"),
                (["messages", "2", secret, "0", "1", "x"], "no such neighbour"),
        })
        {
            Assert.Contains(refusal, (await client.CallAsync(["DPR.PEER", .. words])).Text, StringComparison.Ordinal);
        }

        await client.DoAsync("MULTI");
        Assert.Contains("first request", (await client.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Text,
            StringComparison.Ordinal);

        // A peer that announces much and sends nothing costs nothing, and one that says nothing is left in peace.
        using RespClient peer = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await peer.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact);
        await peer.WriteAsync((byte[])[(byte)'M', 0x20, 0, 0, 0, 1, 2, 3]);
        Assert.False(await peer.IsClosedWithinAsync(TimeSpan.FromSeconds(1)));
        long memory = long.Parse(File.ReadLines($"/proc/{cluster.ProcessId(0)}/status")
            .First(l => l.StartsWith("VmRSS:", StringComparison.Ordinal))[6..^2], CultureInfo.InvariantCulture) >> 10;
        Assert.InRange(memory, 1, 400);
        // More than a frame may have ends it.
        using RespClient liar = await cluster.ConnectAsync(0);
        Assert.Equal("+OK", (await liar.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact);
        await liar.WriteAsync((byte[])[(byte)'M', 0x7f, 0, 0, 0]);
        Assert.True(await liar.IsClosedWithinAsync(TimeSpan.FromSeconds(30)));
    }

    // Of a shard whose proxy is dead only its owner may say what is durable: not one that has lost it, and comes late.
    [Fact]
    public async Task Cuts_SaidByWhoDoesNotOwnTheShard_CountForNothing()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using IMetadataStore metadata = MetadataStoreFactory.Create(cluster.Metadata);
        await metadata.InitializeAsync();
        string secret = await metadata.PeerSecretAsync("default");
        int coordinator = await CoordinatorAsync(cluster), other = 1 - coordinator;
        using (RespClient elsewhere = await cluster.ConnectAsync(other))
        {
            RespValue refused = await elsewhere.CallAsync("DPR.PEER", "cuts", "2", secret, "*", Text(coordinator), "1");
            Assert.Contains("does not coordinate", refused.Text, StringComparison.Ordinal);
        }

        cluster.KillProxy(other);
        using RespClient client = await cluster.ConnectAsync(coordinator);
        await client.DoAsync("SET", cluster.Key(coordinator, "k"), "1");
        long line = (await cluster.CutAsync(coordinator)).WorldLine, epoch = (await metadata.ShardsAsync("default"))[other].Epoch;
        long ahead = await cluster.NumberAsync(coordinator, "open_version") + 1_000_000;
        foreach (long stale in (long[])[epoch - 1, epoch + 1])
        {
            using RespClient peer = await cluster.ConnectAsync(coordinator);
            Assert.Equal("+OK", (await peer.CallAsync("DPR.PEER", "cuts", "2", secret, "*", Text(other), Text(stale))).Compact);
            await peer.WriteAsync(Frame($"R {line} {ahead} 1 1 1"));
            Assert.Equal(0, (await client.DoAsync("DPR.WAIT", "*", "500")).Items[2].Number);
        }

        // What no shard says ends the connection of whoever says it, and nothing else.
        foreach (string odd in (string[])[$"R {line} {ahead} 0 1 1", $"R {line} 5 1 6 5", $"R {line} 5 1 5 6",
            $"R {line} {ahead} 1 1 1 9:1", "X"])
        {
            using RespClient peer = await cluster.ConnectAsync(coordinator);
            Assert.Equal("+OK", (await peer.CallAsync("DPR.PEER", "cuts", "2", secret, "*", Text(other), Text(epoch))).Compact);
            await peer.WriteAsync(Frame(odd));
            Assert.True(await peer.IsClosedWithinAsync(TimeSpan.FromSeconds(30)), odd);
        }

        await cluster.StartProxyAsync(other);
        await cluster.ServingAsync();
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
    }

    [Fact]
    public async Task Peers_MoreThanAClusterHas_AreRefused()
    {
        const int Most = 100;
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false);
        await cluster.StartAsync();
        await cluster.ServingAsync();
        await using IMetadataStore metadata = MetadataStoreFactory.Create(cluster.Metadata);
        await metadata.InitializeAsync();
        string secret = await metadata.PeerSecretAsync("default");
        var peers = new List<RespClient>();
        string answer = "+OK";
        while (answer == "+OK" && peers.Count < Most)
        {
            peers.Add(await cluster.ConnectAsync(0));
            answer = (await peers[^1].CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact;
        }

        foreach (RespClient peer in peers) { peer.Dispose(); }
        Assert.Contains("too many connections of other proxies", answer, StringComparison.Ordinal);
        // Those that have gone make room.
        await Eventually.AsyncTrue("there is room again", TimeSpan.FromSeconds(60), async () =>
        {
            using RespClient peer = await cluster.ConnectAsync(0);
            return (await peer.CallAsync("DPR.PEER", "messages", "2", secret, "0", "1", "1")).Compact == "+OK";
        });
    }

    private static async Task<int> CoordinatorAsync(ClusterDeployment cluster)
    {
        int? found = null;
        await Eventually.AsyncTrue("a proxy coordinates", TimeSpan.FromSeconds(60),
            async () => (found = await cluster.CoordinatorAsync()) is not null);
        return found!.Value;
    }

    private static byte[] Frame(string message)
    {
        byte[] frame = new byte[4 + message.Length];
        frame[0] = (byte)message[0];
        System.Buffers.Binary.BinaryPrimitives.WriteInt32BigEndian(frame.AsSpan(1), message.Length - 1);
        System.Text.Encoding.ASCII.GetBytes(message.AsSpan(1), frame.AsSpan(5));
        return frame;
    }

    private static string Text(long number) => number.ToString(CultureInfo.InvariantCulture);
}
