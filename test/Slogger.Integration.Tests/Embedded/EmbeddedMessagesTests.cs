// Messages through a real proxy with an embedded store: each client is sent what a real Redis sends it, byte for byte; a client library
// subscribes; who does not read is closed, and costs nobody else anything; and no version has anything to do with it.
using System.Globalization;
using System.Net;
using System.Net.Sockets;
using System.Text;
using System.Text.RegularExpressions;
using Slogger.Integration.Tests.Cluster;
using Slogger.Integration.Tests.Processes;
using Slogger.Integration.Tests.Wire;
using StackExchange.Redis;

namespace Slogger.Integration.Tests.Embedded;

public sealed class EmbeddedMessagesTests
{
    private static readonly TimeSpan Generous = TimeSpan.FromSeconds(60);

    [Theory]
    [InlineData("0 SUBSCRIBE a b a", "0 PSUBSCRIBE a* c*", "1 SUBSCRIBE a", "2 PUBLISH a x", "2 PUBLISH b y", "2 PUBLISH ab z",
        "2 PUBLISH none z", "0 PING", "0 PING hello", "0 GET k", "0 MULTI", "0 UNSUBSCRIBE a b", "0 PUNSUBSCRIBE c*", "0 GET k",
            "0 PUNSUBSCRIBE a*", "0 GET k", "2 PUBLISH a again", "0 SET k 1", "0 UNSUBSCRIBE", "0 GET k")]
    [InlineData("0 HELLO 3", "0 SUBSCRIBE a", "0 PUBLISH a x", "0 GET k", "0 PING", "1 HELLO 3", "1 PSUBSCRIBE a*", "0 PUBLISH a y",
        "0 MULTI", "0 PUBLISH a z", "0 SET k 1", "0 EXEC", "0 PUNSUBSCRIBE", "0 UNSUBSCRIBE a", "0 PUBLISH a y", "1 RESET", "1 GET k",
            "0 PUBLISH a y", "0 GET k")]
    [InlineData("0 SSUBSCRIBE s", "1 SSUBSCRIBE s t", "2 SPUBLISH s x", "2 SPUBLISH t y", "2 PUBLISH s z", "1 SUNSUBSCRIBE s",
        "2 SPUBLISH s x", "1 GET k", "1 SUNSUBSCRIBE", "1 GET k", "2 PUBSUB SHARDCHANNELS", "2 PUBSUB SHARDNUMSUB s t", "0 RESET",
            "0 GET k", "2 SPUBLISH s x")]
    [InlineData("0 SUBSCRIBE a", "1 PUBSUB CHANNELS", "1 PUBSUB NUMSUB a b", "1 PUBSUB NUMPAT", "0 QUIT", "1 PUBSUB NONSENSE",
        "1 SUBSCRIBE", "1 PUBLISH a", "2 MULTI", "2 PUBLISH a x", "2 PUBLISH a y", "2 EXEC", "2 WATCH k", "1 SET k 2", "2 MULTI",
            "2 PUBLISH a z", "2 EXEC")]
    public async Task Scenario_OfMessages_IsSeenAsAtRedis(params string[] requests)
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RedisProcess redis = await RedisProcess.StartAsync(Directory.CreateDirectory(workspace.File("redis")).FullName);
        string[] expected = await SeenAsync(redis.Endpoint, requests), found = await SeenAsync(shard.Endpoint, requests);
        Assert.Equal(expected, found);
    }

    [Fact]
    public async Task StackExchangeRedis_Subscribes()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using ConnectionMultiplexer multiplexer = await ConnectionMultiplexer.ConnectAsync(shard.Endpoint.ToString()!);
        var seen = new List<string>();
        ISubscriber subscriber = multiplexer.GetSubscriber();
        await subscriber.SubscribeAsync(new RedisChannel("news", RedisChannel.PatternMode.Literal),
            (_, message) => Note($"news {message}"));
        await subscriber.SubscribeAsync(new RedisChannel("ne?er", RedisChannel.PatternMode.Pattern),
            (channel, message) => Note($"{channel} {message}"));
        IDatabase database = multiplexer.GetDatabase();
        for (int i = 0; i < 100; i++)
        {
            await database.StringSetAsync("k", i);
            Assert.Equal(1, await subscriber.PublishAsync(new RedisChannel("news", RedisChannel.PatternMode.Literal), i));
        }

        Assert.Equal(1, await database.PublishAsync(new RedisChannel("never", RedisChannel.PatternMode.Literal), "x"));
        await Eventually.AsyncTrue("all messages have come", Generous, () => Task.FromResult(Seen().Length == 101));
        Assert.Equal([.. Enumerable.Range(0, 100).Select(i => $"news {i}")],
            Seen().Where(m => m != "never x").OrderBy(m => int.Parse(m[5..], CultureInfo.InvariantCulture)));
        Assert.Contains("never x", Seen());
        await subscriber.PingAsync();
        await subscriber.UnsubscribeAllAsync();
        Assert.Equal(0, await subscriber.PublishAsync(new RedisChannel("news", RedisChannel.PatternMode.Literal), "late"));
        Assert.Equal(99, (int)await database.StringGetAsync("k"));

        string[] Seen()
        {
            lock (seen) { return [.. seen]; }
        }

        void Note(string message)
        {
            lock (seen) { seen.Add(message); }
        }
    }

    // 200 MB to one who reads nothing and one who reads all.
    [Fact]
    public async Task Flood_ASubscriberReadsNothing_ItIsClosedAndTheOtherGetsAll()
    {
        const int Messages = 3200;
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options =
            ["--faster-memory", "256mb", "--client-output-limit", "16mb", "--output-memory-limit", "64mb"] };
        await shard.StartAsync();
        using RespClient slow = await shard.ConnectAsync(), reader = await shard.ConnectAsync(), publisher =
            await shard.ConnectAsync(), other = await shard.ConnectAsync();
        await slow.DoAsync("SUBSCRIBE", "news");
        await reader.DoAsync("SUBSCRIBE", "news");
        string text = new('x', 64 << 10);
        Task reading = Task.Run(async () =>
        {
            for (int i = 0; i < Messages; i++) { Assert.Equal(text.Length + 5, (await reader.ReadAsync(Generous)).Items[2].Text.Length); }
        });
        bool wasGivenToOneOnly = false;
        for (int i = 0; i < Messages; i++)
        {
            wasGivenToOneOnly |= (await publisher.DoAsync("PUBLISH", "news", $"{i:D5}{text}")).Number == 1;
            if (i % 100 == 0) { await other.DoAsync("SET", "k", i.ToString(CultureInfo.InvariantCulture)); }
        }

        await reading;
        Assert.True(wasGivenToOneOnly, "the subscriber that reads nothing was never closed");
        Assert.Contains("--client-output-limit", shard.Proxy.Tail(), StringComparison.Ordinal);
        Assert.Equal("[$news,:1]", (await publisher.CallAsync("PUBSUB", "NUMSUB", "news")).Compact);
        Assert.Equal("$3100", (await other.CallAsync("GET", "k")).Compact);
    }

    // What waits for slow subscribers counts for the limit of all, too.
    [Fact]
    public async Task Flood_ManySubscribersReadNothing_AllTogetherAreBounded()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace) { Options =
            ["--faster-memory", "256mb", "--client-output-limit", "16mb", "--output-memory-limit", "32mb"] };
        await shard.StartAsync();
        RespClient[] slow = [.. await Task.WhenAll(Enumerable.Range(0, 12).Select(_ => shard.ConnectAsync()))];
        foreach (RespClient client in slow) { await client.DoAsync("SUBSCRIBE", "news"); }
        using RespClient publisher = await shard.ConnectAsync();
        string text = new('x', 1 << 20);
        long given = 12;
        // Sockets take some of it.
        for (int i = 0; i < 14 && given == 12; i++) { given = (await publisher.DoAsync("PUBLISH", "news", text)).Number; }
        Assert.True(given < 12, "what waits for all of them is not bounded");
        foreach (RespClient client in slow) { client.Dispose(); }
        await Eventually.AsyncTrue("nobody is subscribed", Generous,
            async () => (await publisher.CallAsync("PUBSUB", "NUMSUB", "news")).Compact == "[$news,:0]");
    }

    [Fact]
    public async Task Publishing_MakesNoCommits()
    {
        using var workspace = new Workspace();
        using var shard = new EmbeddedShard(workspace);
        await shard.StartAsync();
        using RespClient client = await shard.ConnectAsync();
        await client.DoAsync("SET", "k", "v");
        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        string directory = Path.Combine(shard.Data, "faster", "commits");
        string[] Commits() => [.. Directory.EnumerateFiles(directory).Order(StringComparer.Ordinal)];
        string[] before = Commits();
        await Eventually.AsyncTrue("no commit is under way", Generous, async () =>
        {
            string[] last = before;
            await Task.Delay(500);
            return last.SequenceEqual(before = Commits());
        });
        long open = await shard.NumberAsync("open_version");
        while (await shard.NumberAsync("open_version") < open + 200)
        {
            for (int i = 0; i < 200; i++) { await client.DoAsync("PUBLISH", "news", "x"); }
        }

        Assert.Equal(1, (await client.DoAsync("DPR.WAIT", "*", "60000")).Items[2].Number);
        Assert.Equal(before, Commits());
    }

    [Theory]
    [InlineData(1)]
    [InlineData(3)]
    public async Task Publish_AmongShards_ReachesSubscribersOfAllOnceAndInOrder(int embedded)
    {
        const int Messages = 300;
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 3, usesPostgres: false) { Embedded = embedded };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        RespClient[] subscribers = [.. await Task.WhenAll(Enumerable.Range(0, 3).Select(cluster.ConnectAsync))];
        RespClient[] publishers = [.. await Task.WhenAll(Enumerable.Range(0, 3).Select(cluster.ConnectAsync))];
        foreach (RespClient client in subscribers) { await client.DoAsync("SUBSCRIBE", "news"); }
        for (int i = 0; i < Messages; i++)
        {
            foreach (RespClient publisher in publishers)
            {
                string text = $"{Array.IndexOf(publishers, publisher)}:{i}";
                if (i % 3 > 0)
                {
                    await publisher.DoAsync("PUBLISH", "news", text);
                    continue;
                }

                await publisher.DoAsync("MULTI");
                await publisher.CallAsync("PUBLISH", "news", text);
                await publisher.DoAsync("EXEC");
            }
        }

        foreach (RespClient client in subscribers)
        {
            int[] next = new int[publishers.Length];
            for (int i = 0; i < Messages * publishers.Length; i++)
            {
                string[] parts = (await client.ReadAsync(Generous)).Items[2].Text.Split(':');
                int publisher = int.Parse(parts[0], CultureInfo.InvariantCulture);
                Assert.Equal(next[publisher]++, int.Parse(parts[1], CultureInfo.InvariantCulture));
            }
        }

        // What goes round would come before this.
        await publishers[0].DoAsync("PUBLISH", "news", "end");
        foreach (RespClient client in subscribers) { Assert.Equal("[$message,$news,$end]", (await client.ReadAsync(Generous)).Compact); }
        foreach (RespClient client in (RespClient[])[.. subscribers, .. publishers]) { client.Dispose(); }
    }

    // A channel of a shard is where its slot is.
    [Fact]
    public async Task ShardChannels_AmongShards_FollowTheirSlots()
    {
        using var workspace = new Workspace();
        await using var cluster = new ClusterDeployment(workspace, shards: 2, usesPostgres: false) { Embedded = 2 };
        await cluster.StartAsync();
        await cluster.ServingAsync();
        using RespClient subscriber = await cluster.ConnectAsync(1), publisher = await cluster.ConnectAsync(1), wrong =
            await cluster.ConnectAsync(0);
        string channel = cluster.Key(1, "channel");
        Assert.StartsWith("-MOVED ", (await wrong.CallAsync("SSUBSCRIBE", channel)).Compact, StringComparison.Ordinal);
        Assert.StartsWith("-MOVED ", (await wrong.CallAsync("SPUBLISH", channel, "x")).Compact, StringComparison.Ordinal);
        Assert.Equal($"[$ssubscribe,${channel},:1]", (await subscriber.CallAsync("SSUBSCRIBE", channel)).Compact);
        Assert.StartsWith("-CROSSSLOT", (await publisher.CallAsync("SSUBSCRIBE", channel, cluster.Key(1, "another"))).Compact,
            StringComparison.Ordinal);
        Assert.Equal(":1", (await publisher.CallAsync("SPUBLISH", channel, "x")).Compact);
        Assert.Equal($"[$smessage,${channel},$x]", (await subscriber.ReadAsync(Generous)).Compact);
    }

    // What each client is sent from the first request to its end.
    private static async Task<string[]> SeenAsync(EndPoint endpoint, string[] requests)
    {
        using var limit = new CancellationTokenSource(Generous);
        var clients = new List<(Socket Socket, StringBuilder Seen)>();
        foreach (string request in requests)
        {
            int number = request[0] - '0';
            while (clients.Count <= number)
            {
                var socket = new Socket(SocketType.Stream, ProtocolType.Tcp);
                await socket.ConnectAsync(endpoint, limit.Token);
                clients.Add((socket, new()));
            }

            string[] words = request[2..].Split(' ');
            int before = WithoutMessages(clients[number].Seen).Length;
            await clients[number].Socket.SendAsync(
                Encoding.ASCII.GetBytes($"*{words.Length}\r\n" + string.Concat(words.Select(w => $"${w.Length}\r\n{w}\r\n"))), limit.Token);
            while (WithoutMessages(clients[number].Seen).Length == before)
            {
                Assert.True(await ReceiveAsync(clients[number]), $"closed after {request}");
            }
        }

        foreach ((Socket Socket, StringBuilder Seen) client in clients)
        {
            try
            {
                await client.Socket.SendAsync("*1\r\n$4\r\nQUIT\r\n"u8.ToArray(), limit.Token);
                while (await ReceiveAsync(client)) { }
            }
            catch (SocketException)
            {
                // It had quit before.
            }

            client.Socket.Dispose();
        }

        return [.. clients.Select(c => Regex.Replace(c.Seen.ToString(), "\\$2\r\nid\r\n:\\d+", "id"))];

        // What answers requests.
        static string WithoutMessages(StringBuilder seen) =>
            Regex.Replace(Regex.Replace(seen.ToString(), "[*>]3\r\n\\$\\d\r\ns?message\r\n(\\$\\d+\r\n[^\r]*\r\n){2}", ""),
                "[*>]4\r\n\\$8\r\npmessage\r\n(\\$\\d+\r\n[^\r]*\r\n){3}", "");

        async Task<bool> ReceiveAsync((Socket Socket, StringBuilder Seen) client)
        {
            byte[] buffer = new byte[1 << 16];
            int received = await client.Socket.ReceiveAsync(buffer, limit.Token);
            client.Seen.Append(Encoding.Latin1.GetString(buffer, 0, received));
            return received > 0;
        }
    }
}
