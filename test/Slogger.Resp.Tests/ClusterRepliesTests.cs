// What is said of a cluster is what the nodes of a real one say, byte for byte, but for ids, addresses and times.
using System.Text.RegularExpressions;
using Slogger.Core.Identities;
using Slogger.Core.Ownership;

namespace Slogger.Resp.Tests;

[Collection(nameof(RedisCluster))]
public sealed partial class ClusterRepliesTests(RedisCluster cluster)
{
    private static readonly ShardId Zero = new(0), One = new(1);

    private static readonly SlotMap Map = SlotMap.FromRows(
        [new(new(new(0), new(100)), Zero), new(new(new(102), new(8000)), Zero), new(new(new(101), new(101)), One),
            new(new(new(8001), HashSlot.Last), One)], out _)!;

    private ClusterReplies Ours(bool alive = true) => new("test", Partitioning.Hash, Map, new(1),
        [new(One, "127.0.0.1", cluster.Second.Port, alive), new(Zero, "127.0.0.1", cluster.First.Port, true)], Zero);

    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public void Slots_OfTheSameMap_AreWhatRedisSays(int protocol) =>
        AssertSame(cluster.First.AskIn(protocol, "CLUSTER", "SLOTS"), Ours().Slots(protocol));

    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public void Shards_OfTheSameMap_AreWhatRedisSays(int protocol) =>
        AssertSame(Sorted(cluster.First.AskIn(protocol, "CLUSTER", "SHARDS")), Bytes.Text(Ours().Shards(protocol)));

    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public void Nodes_OfTheSameMap_AreWhatRedisSays(int protocol) =>
        AssertSame(Sorted(cluster.First.AskIn(protocol, "CLUSTER", "NODES")), Bytes.Text(Ours().Nodes(protocol)));

    [Theory]
    [InlineData(2)]
    [InlineData(3)]
    public void Info_OfTheSameMap_HasTheFieldsThatRedisGives(int protocol)
    {
        // Redis counts the messages of each kind, too.
        string theirs = MessageCount().Replace(Bytes.Text(cluster.First.AskIn(protocol, "CLUSTER", "INFO")), "");
        AssertSame(Number().Replace(theirs, "N"), Number().Replace(Bytes.Text(Ours().Info(protocol)), "N"));
        Assert.Contains("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n", theirs, StringComparison.Ordinal);
        Assert.Contains("cluster_state:ok\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:16384\r\n",
            Bytes.Text(Ours().Info(protocol)), StringComparison.Ordinal);
    }

    [Fact]
    public void MyIdAndNumbers_AreWhatRedisSays()
    {
        AssertSame(cluster.First.AskIn(2, "CLUSTER", "MYID"), Ours().MyId());
        Assert.Equal(cluster.First.Ask("CLUSTER", "COUNTKEYSINSLOT", "7"), Bytes.Text(ClusterReplies.Number(0)));
        Assert.Equal(cluster.First.Ask("CLUSTER", "COUNTKEYSINSLOT", "16384"), Bytes.Text(ClusterReplies.InvalidSlot));
    }

    [Fact]
    public void Moved_IsWhatRedisSays()
    {
        Span<byte> buffer = stackalloc byte[ClusterReplies.RedirectionBytesMax];
        HashSlot moved = HashSlot.Of("a"u8);
        string text = Bytes.Text(buffer[..Ours().WriteMoved(buffer, moved, One)]);
        Assert.Equal(cluster.First.Ask("GET", "a"), text);
        Assert.Equal(cluster.First.Ask("MGET", "a", "b"), Bytes.Text(Ours().CrossSlot));
    }

    [Fact]
    public void Error_NobodyServesTheSlot_IsWhatRedisSays()
    {
        // A node with one slot, which does without the others.
        using var lonely = new ClusterServer();
        lonely.Ask("CLUSTER", "ADDSLOTS", "1");
        for (int i = 0; i < 500 && !lonely.Ask("CLUSTER", "INFO").Contains("cluster_state:ok", StringComparison.Ordinal); i++)
        {
            Thread.Sleep(20);
        }
        Assert.Equal(lonely.Ask("GET", "a"), Bytes.Text(ClusterReplies.NotServed));
    }

    [Fact]
    public void Replies_NodeIsDead_SayThatItHasFailed()
    {
        ClusterReplies ours = Ours(alive: false);
        Assert.Matches(@"\n[0-9a-f]{40} \S+ master,fail - 0 0 1 disconnected 101 8001-16383\n", Bytes.Text(ours.Nodes(2)));
        Assert.Contains("$6\r\nhealth\r\n$4\r\nfail\r\n", Bytes.Text(ours.Shards(2)), StringComparison.Ordinal);
        string info = Bytes.Text(ours.Info(2));
        Assert.Contains("cluster_state:fail\r\ncluster_slots_assigned:16384\r\ncluster_slots_ok:8000\r\n", info, StringComparison.Ordinal);
        Assert.Contains("cluster_slots_fail:8384\r\n", info, StringComparison.Ordinal);
        Assert.Equal(Bytes.Text(Ours().Slots(2)), Bytes.Text(ours.Slots(2)));
    }

    [Fact]
    public void Replies_OwnerIsNoNode_LeaveItsSlotsOut()
    {
        ClusterReplies ours = new("test", Partitioning.Hash, Map, new(1), [new(Zero, "h", 1, true)], Zero);
        Assert.StartsWith("*2\r\n", Bytes.Text(ours.Slots(2)), StringComparison.Ordinal);
        Assert.Contains("cluster_state:fail\r\ncluster_slots_assigned:8000\r\n", Bytes.Text(ours.Info(2)), StringComparison.Ordinal);
        Span<byte> buffer = stackalloc byte[ClusterReplies.RedirectionBytesMax];
        Assert.Equal(Bytes.Text(ClusterReplies.NotServed), Bytes.Text(buffer[..ours.WriteMoved(buffer, new(9000), One)]));
        Assert.Throws<ArgumentException>(
            () => new ClusterReplies("test", Partitioning.Hash, Map, new(1), [new(Zero, "h\r\n", 1, true)], Zero));
        Assert.Throws<ArgumentException>(() => new ClusterReplies("test", Partitioning.Hash, Map, new(1), [new(One, "h", 1, true)], Zero));
    }

    [Fact]
    public void Replies_OfRangePartitions_NameTheirNumbers()
    {
        Assert.True(Partitioning.TryParse("range:b,d,f", out Partitioning ranges, out _));
        ClusterReplies ours = new("test", ranges, SlotMap.Even(2, ranges.Count), new(1), [new(Zero, "h", 1, true), new(One, "h", 2, true)],
            Zero);
        Assert.Matches(@" 0-1\n[^\n]* 2-3\n", Bytes.Text(ours.Nodes(2)));
        Assert.StartsWith("*2\r\n*3\r\n:0\r\n:1\r\n", Bytes.Text(ours.Slots(2)), StringComparison.Ordinal);
        Assert.Contains("cluster_state:ok\r\ncluster_slots_assigned:4\r\ncluster_slots_ok:4\r\n", Bytes.Text(ours.Info(2)),
            StringComparison.Ordinal);
        Assert.Equal([":0\r\n", ":1\r\n", ":1\r\n", ":3\r\n"],
            ((string[])["a", "b", "c{f}", "g"]).Select(k => Bytes.Text(ours.KeySlot(Bytes.Of(k)))));
        Assert.StartsWith("-CROSSSLOT ", Bytes.Text(ours.CrossSlot), StringComparison.Ordinal);
        Span<byte> buffer = stackalloc byte[ClusterReplies.RedirectionBytesMax];
        Assert.Equal("-MOVED 3 h:2\r\n", Bytes.Text(buffer[..ours.WriteMoved(buffer, new(3), One)]));
    }

    [Fact]
    public void NodeId_OfClusterAndShard_IsFixedAndDistinct()
    {
        // Clients and files remember ids: they must not change with a release.
        Assert.Equal("582fa6476ded1ee8e6f6f1339d98e5a1b609666b", ClusterReplies.NodeId("test", Zero));
        Assert.Equal(4, new HashSet<string>(
            [.. ((string[])["a", "b"]).SelectMany(c => new[] { ClusterReplies.NodeId(c, Zero), ClusterReplies.NodeId(c, One) })]).Count);
    }

    // With our ids in place of theirs, and no times.
    private void AssertSame(byte[] theirs, byte[] ours) => AssertSame(Bytes.Text(theirs), Bytes.Text(ours));

    private void AssertSame(string theirs, string ours)
    {
        theirs = theirs.Replace(Id(cluster.First), ClusterReplies.NodeId("test", Zero), StringComparison.Ordinal)
            .Replace(Id(cluster.Second), ClusterReplies.NodeId("test", One), StringComparison.Ordinal);
        Assert.Equal(Times().Replace(theirs, " - 0 0 E "), Times().Replace(ours, " - 0 0 E "));
    }

    // Redis names the nodes in the order of its hash table.
    private string Sorted(byte[] reply)
    {
        string text = Bytes.Text(reply);
        bool secondFirst = text.IndexOf(Id(cluster.Second), StringComparison.Ordinal) < text.IndexOf(
            Id(cluster.First), StringComparison.Ordinal);
        // Of CLUSTER NODES the length changes with the times: it is that of the text without them.
        if (text[0] is '$' or '=')
        {
            string[] lines = [.. Times().Replace(text, " - 0 0 1 ").Split("\r\n")[1].Replace("txt:", "", StringComparison.Ordinal)
                .Split('\n', StringSplitOptions.RemoveEmptyEntries)];
            string body = string.Concat((secondFirst ? lines.Reverse() : lines).Select(l => l + "\n"));
            return text[0] == '$' ? $"${body.Length}\r\n{body}\r\n" : $"={body.Length + 4}\r\ntxt:{body}\r\n";
        }
        if (!secondFirst) { return text; }
        string item = text[4] == '%' ? "%2\r\n$5\r\nslots" : "*4\r\n$5\r\nslots";
        int second = text.LastIndexOf(item, StringComparison.Ordinal);
        return text[..4] + text[second..] + text[4..second];
    }

    private static string Id(ClusterServer node) => node.Ask("CLUSTER", "MYID").Split("\r\n")[1];

    [GeneratedRegex(" - [0-9]+ [0-9]+ [0-9]+ ")]
    private static partial Regex Times();

    [GeneratedRegex("cluster_stats_messages_[a-z]+_(sent|received):[0-9]+\r\n")]
    private static partial Regex MessageCount();

    [GeneratedRegex("[0-9]+")]
    private static partial Regex Number();
}
