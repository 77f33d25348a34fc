// Messages: the same requests of several clients to a real Redis and to the engine; what each of them is sent is compared byte for byte.
using System.Globalization;
using System.Net.Sockets;
using System.Text;
using Slogger.Faster.Commands;
using Slogger.Faster.Tests.Commands.Differential;

namespace Slogger.Faster.Tests.Commands;

public sealed class PubSubTests
{
    private const int ClientCount = 4;
    private static readonly string[] s_channels = ["a1", "a2", "b1", ""], s_patterns = ["a*", "b?", "", "zz"], s_shardChannels = ["s", "t"];

    [Theory]
    [InlineData("SUBSCRIBE a b a", "1 PUBLISH a x", "1 PUBLISH b y", "1 PUBLISH c z", "UNSUBSCRIBE a zz", "1 PUBLISH a x", "UNSUBSCRIBE",
        "UNSUBSCRIBE", "UNSUBSCRIBE x")]
    [InlineData("PSUBSCRIBE a*", "SUBSCRIBE ab", "1 PUBLISH ab x", "1 PUBLISH ac x", "PUNSUBSCRIBE a*", "1 PUBLISH ab x", "PUNSUBSCRIBE",
        "UNSUBSCRIBE")]
    [InlineData("SSUBSCRIBE s t", "SUBSCRIBE s", "1 SPUBLISH s x", "1 PUBLISH s y", "1 PUBSUB SHARDNUMSUB s t u", "SUNSUBSCRIBE s",
        "SUNSUBSCRIBE", "SUNSUBSCRIBE", "UNSUBSCRIBE")]
    [InlineData("SUBSCRIBE a", "PING", "PING x", "PING x y", "GET k", "MULTI", "EXEC", "HELLO 3", "PUBLISH a x", "CLIENT ID", "NONSENSE",
        "GET", "CLIENT", "RESET", "GET k", "1 PUBLISH a x")]
    [InlineData("HELLO 3 SETNAME me", "SUBSCRIBE a", "PING", "PING x", "PUBLISH a x", "PSUBSCRIBE a*", "PUBLISH a y", "HELLO 2 SETNAME me",
        "PING", "HELLO 3", "RESET", "1 PUBLISH a z")]
    [InlineData("HELLO 3", "CLIENT REPLY OFF", "SUBSCRIBE a", "1 PUBLISH a x", "PUBLISH a y", "GET k", "CLIENT REPLY ON",
        "CLIENT REPLY SKIP", "SUBSCRIBE b", "PUBLISH b z")]
    [InlineData("MULTI", "SUBSCRIBE a", "PUBLISH a x", "SSUBSCRIBE s", "PSUBSCRIBE a*", "UNSUBSCRIBE a", "PUNSUBSCRIBE", "PING", "EXEC",
        "GET k")]
    [InlineData("MULTI", "SUBSCRIBE a", "GET k", "PING", "EXEC", "GET k", "PING", "UNSUBSCRIBE", "GET k")]
    [InlineData("HELLO 3", "SUBSCRIBE a", "MULTI", "PUBLISH a x", "1 PUBLISH a z", "PUBLISH b x", "EXEC", "MULTI", "PUBLISH a x",
        "DISCARD", "WATCH k", "1 SET k 1", "MULTI", "PUBLISH a y", "EXEC")]
    [InlineData("SUBSCRIBE", "PSUBSCRIBE", "SSUBSCRIBE", "PUBLISH a", "SPUBLISH a", "PUBLISH a b c", "PUBSUB", "PUBSUB nonsense",
        "PUBSUB CHANNELS a b", "PUBSUB SHARDCHANNELS a b", "PUBSUB NUMPAT x", "PUBSUB NUMSUB", "PUBSUB SHARDNUMSUB")]
    [InlineData("SUBSCRIBE a", "1 PUBSUB CHANNELS", "1 PUBSUB CHANNELS a*", "1 PUBSUB CHANNELS b*", "1 PUBSUB NUMSUB a b a",
        "1 PUBSUB NUMPAT", "PSUBSCRIBE x* y*", "2 PSUBSCRIBE x*", "1 PUBSUB NUMPAT", "1 PUBSUB SHARDCHANNELS", "QUIT", "1 PUBSUB CHANNELS",
            "1 PUBSUB NUMPAT")]
    [InlineData("COMMAND GETKEYS PUBLISH a b", "COMMAND GETKEYS SPUBLISH a b", "COMMAND GETKEYS SSUBSCRIBE a b",
        "COMMAND GETKEYS SUBSCRIBE a")]
    public void Scenario_OfMessages_IsSeenAsAtRedis(params string[] requests)
    {
        using var comparison = new PubSubComparison(ClientCount);
        foreach (string request in requests)
        {
            string[] words = request.Split(' ');
            bool isOther = words[0].Length == 1 && char.IsDigit(words[0][0]);
            Assert.Null(comparison.Do(isOther ? words[0][0] - '0' : 0, isOther ? words[1..] : words));
        }

        Assert.Null(comparison.End());
    }

    [Theory]
    [InlineData(1)]
    [InlineData(2)]
    [InlineData(3)]
    public void Messages_AtRandom_AreSeenAsAtRedis(int seed)
    {
        var random = new Random(seed);
        using var comparison = new PubSubComparison(ClientCount);
        for (int i = 0; i < 1500; i++)
        {
            string[] request = Request(random);
            if (comparison.Do(random.Next(ClientCount), request) is { } difference) Assert.Fail($"seed {seed}, request {i}: {difference}");
        }

        Assert.Null(comparison.End());
    }

    [Fact]
    public void Subscriber_WhoReadsNothing_IsClosedAtItsBound()
    {
        using var test = new TestEngine();
        using TestClient slow = test.Connect();
        Assert.Equal("*3|$9|subscribe|$1|a|:1|", slow.Send("SUBSCRIBE a"));
        string message = new('x', 1 << 20);
        int told = 0, given = 0;
        slow.Connection.OnPush = () => told++;
        while (!slow.Connection.WantsClose)
        {
            Assert.Equal(":1|", test.Client.Send("PUBLISH", "a", message));
            Assert.True(++given <= (CommandConnection.PushBytesMax >> 20) + 1, "nobody bounds what waits for the subscriber");
        }

        // At the first of them, and at the bound.
        Assert.Equal(2, told);
        Assert.False(slow.Connection.HasPushes);
        Assert.Equal(CommandConnection.PushBytesMax >> 20, given);
        slow.Dispose();
        Assert.Equal(":0|", test.Client.Send("PUBLISH", "a", message));
    }

    [Fact]
    public void Messages_OfManyThreads_ReachEachSubscriberInOrder()
    {
        const int Publishers = 3, Messages = 5_000;
        using var test = new TestEngine();
        using TestClient subscriber = test.Connect();
        subscriber.Send("SUBSCRIBE a");
        Thread[] threads = [.. Enumerable.Range(0, Publishers).Select(p => new Thread(() =>
        {
            using TestClient publisher = test.Connect();
            for (int i = 0; i < Messages; i++) publisher.Send("PUBLISH", "a", $"{p}:{i}");
        }))];
        foreach (Thread thread in threads) thread.Start();
        var taken = new StringBuilder();
        while (threads.Any(static t => t.IsAlive)) taken.Append(subscriber.TakeAll());
        foreach (Thread thread in threads) thread.Join();
        string[] lines = taken.Append(subscriber.TakeAll()).ToString().Split("\r\n");
        int[] next = new int[Publishers];
        for (int at = 0; at + 7 < lines.Length; at += 7)
        {
            Assert.Equal("*3|$7|message|$1|a", string.Join('|', lines[at..(at + 5)]));
            string[] parts = lines[at + 6].Split(':');
            int publisher = int.Parse(parts[0], CultureInfo.InvariantCulture);
            Assert.Equal(next[publisher]++, int.Parse(parts[1], CultureInfo.InvariantCulture));
        }

        // Each message has seven lines, and behind the last one there is nothing.
        Assert.Equal([Messages, Messages, Messages], next);
        Assert.Equal((Publishers * Messages * 7) + 1, lines.Length);
    }

    [Fact]
    public void Publish_OfAClient_IsTold_AndOneForThisStoreIsNot()
    {
        using var test = new TestEngine();
        var told = new List<string>();
        test.Engine.OnPublished = (channel, message) => told.Add(
            $"{Encoding.Latin1.GetString(channel)} {Encoding.Latin1.GetString(message)}");
        using TestClient subscriber = test.Connect();
        subscriber.Send("SUBSCRIBE a");
        Assert.Equal(1, test.Engine.PublishHere("a"u8, "1"u8));
        Assert.Equal(":0|", test.Client.Send("SPUBLISH a 2"));
        test.Client.Send("MULTI");
        test.Client.Send("PUBLISH b 3");
        Assert.Empty(told);
        test.Client.Send("EXEC");
        Assert.Equal(["b 3"], told);
        Assert.Equal("*3\r\n$7\r\nmessage\r\n$1\r\na\r\n$1\r\n1\r\n", subscriber.TakeAll());
        Assert.False(test.Store.IsChanged);
    }

    // No channel fits two patterns: in which order Redis would send is not said.
    private static string[] Request(Random random)
    {
        string One(string[] of) => of[random.Next(of.Length)];
        string[] Some(string[] of) => [.. Enumerable.Range(0, random.Next(1, 4)).Select(_ => One(of))];
        string Case(string name) => random.Next(4) == 0 ? name.ToLowerInvariant() : name;
        return random.Next(40) switch
        {
            < 6 => [Case("SUBSCRIBE"), .. Some(s_channels)],
            < 9 => [Case("PSUBSCRIBE"), .. Some(s_patterns)],
            < 12 => [Case("SSUBSCRIBE"), .. Some(s_shardChannels)],
            < 14 => [Case("UNSUBSCRIBE"), .. random.Next(3) == 0 ? [] : Some(s_channels)],
            < 16 => [Case("PUNSUBSCRIBE"), .. random.Next(3) == 0 ? [] : Some(s_patterns)],
            < 18 => [Case("SUNSUBSCRIBE"), .. random.Next(3) == 0 ? [] : Some(s_shardChannels)],
            < 26 => [Case("PUBLISH"), One(s_channels), new string('m', random.Next(random.Next(20) == 0 ? 70_000 : 20))],
            < 28 => [Case("SPUBLISH"), One(s_shardChannels), "m\r\n\0"],
            28 => ["MULTI"],
            29 or 30 => ["EXEC"],
            31 => ["HELLO", One(["2", "3"]), "SETNAME", "me"],
            32 => ["PING", .. random.Next(2) == 0 ? new string[] { "x" } : []],
            33 => ["GET", "k"],
            34 => ["PUBSUB", One(["CHANNELS", "SHARDCHANNELS"]), .. random.Next(2) == 0 ? new string[] { "*1" } : []],
            35 => ["PUBSUB", "NUMPAT"],
            36 => ["PUBSUB", One(["NUMSUB", "SHARDNUMSUB"]), .. Some(s_channels)],
            37 => ["CLIENT", "REPLY", One(["ON", "ON", "OFF", "SKIP"])],
            38 => random.Next(3) == 0 ? ["RESET"] : ["PING"],
            _ => random.Next(2) == 0 ? ["DISCARD"] : ["NONSENSE"],
        };
    }

    /// <summary>Clients of a Redis and as many of an engine, that do the same.</summary>
    private sealed class PubSubComparison : IDisposable
    {
        private readonly RedisServer _redis = new();
        private readonly TestEngine _engine = new();
        private readonly Socket[] _sockets;
        private readonly TestClient[] _clients;
        private readonly bool[] _hasOrder, _isClosed;

        public PubSubComparison(int clients)
        {
            _sockets = [.. Enumerable.Range(0, clients).Select(_ => _redis.Connect())];
            _clients = [.. Enumerable.Range(0, clients).Select(_ => _engine.Connect())];
            _isClosed = new bool[clients];
            _hasOrder = new bool[clients];
            Array.Fill(_hasOrder, true);
        }

        /// <summary>Null: no client sees a difference.</summary>
        public string? Do(int client, string[] request)
        {
            // In which order Redis names all of something is not said.
            string name = request[0].ToUpperInvariant();
            if ((name.EndsWith("UNSUBSCRIBE", StringComparison.Ordinal) && request.Length == 1)
                || (name == "PUBSUB" && request.Length > 1 && request[1].Contains("CHANNELS", StringComparison.Ordinal)))
                _hasOrder[client] = false;
            string text = TestClient.Request(request);
            string own = _clients[client].Raw(text);
            _sockets[client].Send(Encoding.Latin1.GetBytes(text));
            string? difference = null;
            for (int i = 0; i < _clients.Length; i++)
            {
                string engine = (i == client ? own : "") + (_isClosed[i] ? "" : _clients[i].TakeAll()), redis =
                    Receive(_sockets[i], engine.Length);
                (engine, redis) = (WithoutId(engine), WithoutId(redis));
                if (!_hasOrder[client]) (engine, redis) = (Sorted(engine), Sorted(redis));
                if (engine != redis) difference ??= $"after {string.Join(' ', request)} of client {client} client {i} is sent\nby Redis:  "
                    + $"{Shown(redis)}\nby engine: {Shown(engine)}";
            }

            if (_clients[client].Connection.WantsClose && !_isClosed[client]) Close(client);
            if (name is "EXEC" or "DISCARD" or "RESET" || !own.Contains("QUEUED", StringComparison.Ordinal)) _hasOrder[client] = true;
            return difference;
        }

        /// <summary>Nobody is sent anything more.</summary>
        public string? End()
        {
            for (int i = 0; i < _clients.Length; i++)
            {
                if (!_isClosed[i] && Do(i, ["RESET"]) is { } difference) return difference;
            }

            return null;
        }

        public void Dispose()
        {
            foreach (Socket socket in _sockets) socket.Dispose();
            for (int i = 0; i < _clients.Length; i++) if (!_isClosed[i]) Close(i);
            _redis.Dispose();
            _engine.Dispose();
        }

        private void Close(int client)
        {
            _isClosed[client] = true;
            _clients[client].Dispose();
        }

        // As much as the engine has said: what Redis says besides is found at the next request.
        private static string Receive(Socket socket, int bytes)
        {
            byte[] buffer = new byte[bytes];
            int received = 0;
            try
            {
                while (received < bytes && socket.Receive(buffer, received, bytes - received, SocketFlags.None) is > 0 and int more)
                    received += more;
            }
            catch (SocketException)
            {
                // Redis says less: that is the difference.
            }

            return Encoding.Latin1.GetString(buffer, 0, received);
        }

        private static string WithoutId(string hello) => System.Text.RegularExpressions.Regex.Replace(hello, "\\$2\r\nid\r\n:\\d+", "id");

        private static string Shown(string text) => text.Replace("\r\n", "|", StringComparison.Ordinal).Replace('\0', '0');

        private static string Sorted(string text) => string.Concat(text.Order());
    }
}
